"""What is written where the power fails: run as a program, a work of its own process."""

import sys
from pathlib import Path

import numpy as np

from lanemap.db.isa.instructions import Key
from lanemap.db.layout.fragment import Fragment, Source, by_rule
from lanemap.db.store import store
from lanemap.db.store.connection import connect, state
from lanemap.db.store.files import atomically, folder_atomically
from lanemap.db.store.location import locate


def version(number: int) -> Source:
    """A source of two fragments that say which version of it they are of."""
    lane, element = np.indices((32, 8))
    row = (lane // 4 + element // 2 % 2 * 8 + number) % 16
    col = lane % 4 * 2 + element % 2 + element // 4 * 8
    keys = (Key("mma", "m16n8k16", type_, "A", None, None, None) for type_ in ("f16", "bf16"))
    fragments = [Fragment.of(key, by_rule(2, (row + at) % 16, col), "imported") for at, key in enumerate(keys)]
    return Source("mine", "import", f"version {number}", fragments)


def read(place: Path) -> int:
    """The version that a database holds, if all of it is of one: 0 where there is no database."""
    location = locate(str(place))
    if state(location) is None:
        return 0
    reader = connect(location)
    try:
        with reader.snapshot():
            reader.verify(rows=True)
            ((title,),) = reader.select("SELECT title FROM source", {}).rows
            digests = [row[0] for row in reader.select("SELECT digest FROM mapping ORDER BY id", {}).rows]
            reader.packed([row[0] for row in reader.select("SELECT id FROM mapping", {}).rows])
    finally:
        reader.close()
    number = int(title.split()[1])
    assert digests == [fragment.digest for fragment in version(number).fragments]
    return number


def build(place: Path) -> None:
    """Make a database of the first version."""
    store.ship(locate(str(place)), lambda: [version(1)], "first")


def load(place: Path) -> None:
    """Load the second version."""
    store.load(locate(str(place)), [version(2)])


def write(place: Path) -> None:
    """Write a file in several pieces."""
    with atomically(place) as stream:
        for _ in range(3):
            stream.write(b"new" * 5000)
            stream.flush()


def fill(place: Path) -> None:
    """Write a folder."""
    with folder_atomically(place, "test") as made:
        for name in ("one", "inner/two"):
            (made / name).parent.mkdir(exist_ok=True)
            (made / name).write_bytes(b"new" * 5000)


if __name__ == "__main__":
    {work.__name__: work for work in (build, load, write, fill)}[sys.argv[1]](Path(sys.argv[2]))
    Path(sys.argv[2]).with_name("done").touch()
