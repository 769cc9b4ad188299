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

INSIDE = tuple(
    str(Path(lanemap.__file__).parent / name) for name in ("ingest", "capture", "db/layout", "db/store/export.py")
)
SLOW = 10.0
#: Larger inputs reach nothing that smaller ones do not, and take seconds each.
LARGEST = 20_000


def reached(read, data, folder, missing):
    """Read, and take away of the lines of each code of the readers those that run: how many were there still."""
    new = 0

    def follow(frame, event, _):
        nonlocal new
        code = frame.f_code
        if code not in missing:
            inside = code.co_filename.startswith(INSIDE)
            missing[code] = {line for _, _, line in code.co_lines() if line and inside}
        if frame.f_lineno in missing[code]:
            missing[code].remove(frame.f_lineno)
            new += 1
        return follow if missing[code] else None  # what has run as a whole is followed no longer

    sys.settrace(follow)
    try:
        read(data, folder)
    except LanemapError as error:
        assert "\n" not in str(error)
    finally:
        sys.settrace(None)
    return new


def main(reader, seconds):
    """Fuzz one reader; how many inputs were tried, kept and broke it."""
    pool = [file.read_bytes() for file in sorted((CORPUS / reader).iterdir())]
    missing, chance, tried, broken = {}, random.Random(time.time_ns()), 0, {}
    with tempfile.TemporaryDirectory() as folder:
        first = lines = sum(reached(READERS[reader], data, Path(folder), missing) for data in pool)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            data = changed(reader, chance.choice(pool), chance.getrandbits(64))
            if not 0 < len(data) <= LARGEST:
                continue
            tried, began = tried + 1, time.process_time()
            try:
                if new := reached(READERS[reader], data, Path(folder), missing):
                    lines += new
                    pool.append(data)
                assert time.process_time() - began < SLOW, "it takes too long"
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                if (type(error), where.filename, where.lineno) not in broken:
                    broken[type(error), where.filename, where.lineno] = error
                    (CORPUS / reader / f"{sha256(data).hexdigest()[:12]}.found").write_bytes(data)
                    traceback.print_exception(error)
    print(f"{reader}: {tried} tried, {len(pool)} kept, lines {first} to {lines}, {len(broken)} broke it")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
