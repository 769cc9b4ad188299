"""Which operands of CUTLASS are compared with another source, and why the others are not.

    python tests/importers/coverage.py [CUTLASS]

An operand is an array of registers that an operation declares. It is compared where the document or the H200 has rows
for it, read where only the library has, and otherwise named with the reason.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import lanemap
from lanemap.capture import recording
from lanemap.db.layout.fragment import Fragment
from lanemap.ingest import catalogue, cute
from lanemap.ingest.cute import atom
from lanemap.ingest.importing import Skipped

#: The registers of what moves matrices, by the name of the array: what is read, and what is written.
MOVED = {"S": ("r", "p", "A"), "D": ("r", "p", "D")}


def others():
    """The keys of every fragment that the document or the H200 has rows of."""
    recorded = Path(lanemap.__file__).parent / "capture" / "recordings" / "h200-sm_90a.parquet"
    known = [*catalogue.document("ptx-isa-9.4+errata").fragments, *recording.read(recorded).fragments]
    return {fragment.key for fragment in known if fragment.has_rows}


def of_cutlass(path: Path) -> Iterator[tuple[str, str, object, list[Fragment], str]]:
    """Every array of registers: the operation, the role, its struct, the fragments made of it, and why none is."""
    tree = cute.Tree(path)
    library = tree.library
    for struct in (struct for header in tree.headers for struct in header.structs if library.pattern(struct)):
        copied = struct.name.name == "Copy_Traits"
        for name, operation in library.operations(struct):
            made = list(atom(library, name, operation, "op"))
            for array, text in operation.members.items():
                role = array.removesuffix("Registers")
                if role == array or text == "void":
                    continue
                roles = MOVED[role] if copied else ("D",) if "wgmma" in str(operation.strings) and role == "C" else role
                yield str(name), role, operation, *found(made, (roles,) if isinstance(roles, str) else roles)


def found(made: list[Fragment | Skipped], roles: tuple[str, ...]) -> tuple[list[Fragment], str]:
    """What an importer made of an operand, and its reason where that is nothing."""
    fragments = [fragment for fragment in made if isinstance(fragment, Fragment) and fragment.role in roles]
    reasons = [part for part in made if isinstance(part, Skipped)]
    own = [
        reason.reason
        for reason in reasons
        if {*reason.name.replace(",", "").split()[1:]} & {*roles} or reason.name == "op"
    ]
    return fragments, "" if fragments else next(iter(own), "")


def outcome(fragments: list[Fragment], reason: str, known: set) -> str:
    """``compared``, ``read``, the reason, or nothing."""
    if fragments:
        return "compared" if any(fragment.key in known for fragment in fragments) else "read: no other source has rows"
    return reason


def main() -> None:
    """Print how many operands have each outcome."""
    known = others()
    package = find_spec("cutlass_library")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(str(package and package.origin)).parent
    counted = Counter(outcome(made, reason, known) for *_, made, reason in of_cutlass(path))
    total = sum(counted.values())
    print(f"{path.name}: {total} operands")
    for words, count in counted.most_common():
        print(f"{count:6} {100 * count / total:5.1f} %  {words or 'nothing is said of it'}")


if __name__ == "__main__":
    main()
