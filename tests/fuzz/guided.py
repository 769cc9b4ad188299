"""Fuzzing that follows what is reached: inputs that run a line that none ran before are changed further.

    python -m tests.fuzz.guided READER SECONDS

What breaks a reader is written to ``corpus``, where it stays as a test.
"""

import random
import sys
import tempfile
import time
import traceback
from hashlib import sha256
from pathlib import Path

import lanemap
from lanemap import LanemapError

from .readers import CORPUS, READERS, changed

INSIDE = tuple(str(Path(lanemap.__file__).parent / name) for name in ("ingest", "capture"))
SLOW = 10.0


def reached(read, data, folder, lines):
    """Read with a note of every line of the readers that runs: how many are new."""
    before = len(lines)

    def follow(frame, event, _):
        if not frame.f_code.co_filename.startswith(INSIDE):
            return None
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return follow

    sys.settrace(follow)
    try:
        read(data, folder)
    except LanemapError as error:
        assert "\n" not in str(error)
    finally:
        sys.settrace(None)
    return len(lines) - before


def main(reader, seconds):
    """Fuzz one reader; how many inputs were tried, kept and broke it."""
    pool = [file.read_bytes() for file in sorted((CORPUS / reader).iterdir())]
    lines, chance, tried, broken = set(), random.Random(time.time_ns()), 0, {}
    with tempfile.TemporaryDirectory() as folder:
        for data in pool:
            reached(READERS[reader], data, Path(folder), lines)
        first, until = len(lines), time.monotonic() + seconds
        while time.monotonic() < until:
            data = changed(reader, chance.choice(pool), chance.getrandbits(64))
            tried, began = tried + 1, time.process_time()
            try:
                if reached(READERS[reader], data, Path(folder), lines) and data:
                    pool.append(data)
                assert time.process_time() - began < SLOW, "it takes too long"
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                if (type(error), where.filename, where.lineno) not in broken:
                    broken[type(error), where.filename, where.lineno] = error
                    (CORPUS / reader / f"{sha256(data).hexdigest()[:12]}.found").write_bytes(data)
                    traceback.print_exception(error)
    print(f"{reader}: {tried} tried, {len(pool)} kept, lines {first} to {len(lines)}, {len(broken)} broke it")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
