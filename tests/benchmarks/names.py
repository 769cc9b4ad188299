"""Fragments and elements by name in Python, of names asked before and of new ones, against an earlier Lanemap.

python tests/benchmarks/names.py FOLDER

FOLDER has a checkout of the earlier one, such as 43ccbe5, as its folder ``lanemap``. Both answer in turn, each from a
database of its own. Rates are for a second of processor time.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ratio import processor

import lanemap

#: How many times as fast each must be at least: 43ccbe5 gives 1,304 fragments a second where 20,000 are asked for, and
#: finds elements of a fifth as many where 3,000 are.
LIMITS = {"fragment": 20_000 / 1304, "find": 12, "find another cell": 12, "fragment, new": 1, "find, new": 1}


def rates(file: str) -> dict[str, float]:
    """How many requests of each kind a database answers in a second."""
    with lanemap.open(file) as database:
        listed = database.fragments().query(
            "instruction == 'mma' and role in ['A', 'B', 'C', 'D'] and shape != 'm8n8k4'"
        )
    operands = [*map(tuple, listed[["shape", "type", "role", "instruction"]].drop_duplicates().values.tolist())]
    database = lanemap.open(file)
    time.sleep(1.1)  # the file of a database that was written just now may change without a trace

    def rate(ask: Callable[..., object], requests: Iterable[tuple[object, ...]]) -> float:
        start, count = processor(), 0
        for request in requests:
            ask(*request)
            count += 1
        return count / (processor() - start)

    def find(shape: str, type: str, role: str, instruction: str, row: int = 1, col: int = 1) -> object:
        return database.find(shape, type, role, instruction=instruction, row=row, col=col)

    def fragment(shape: str, type: str, role: str, instruction: str) -> object:
        return database.fragment(shape, type, role, instruction=instruction)

    find(*operands[0])
    found = {"fragment, new": rate(fragment, operands[1:])}
    database = lanemap.open(file)
    found["find, new"] = rate(find, operands)
    again = operands[:1] * 400
    found |= {"fragment": rate(fragment, again), "find": rate(find, again)}
    cells = [(*operands[0], cell % 8, cell // 8 % 8) for cell in range(400)]
    return found | {"find another cell": rate(find, cells)}


def asked(folder: str, file: Path) -> dict[str, float]:
    """The same of the Lanemap in a folder, or of this one."""
    environment = {**os.environ, "PYTHONPATH": folder}
    command = [sys.executable, __file__, "--rates", str(file)]
    said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(said)


if sys.argv[1] == "--rates":
    print(json.dumps(rates(sys.argv[2])))
else:
    files = Path(tempfile.mkdtemp())
    rounds = [(asked("", files / "ours.db"), asked(sys.argv[1], files / "theirs.db")) for _ in range(3)]
    for name, limit in LIMITS.items():
        ours, theirs = (max(rate[name] for rate in taken) for taken in zip(*rounds, strict=True))
        print(f"{name}: {ours / theirs:.1f} times (at least {limit:.1f}), {ours:.0f}/s against {theirs:.0f}/s")
