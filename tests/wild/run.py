"""Imports every mapping that ships from the real library, and compares with the recorded answers that the tests use.

    python tests/wild/run.py [--record] [MAPPING ...]

Each library is installed in a virtual environment of its own under ``.wild/``, from the file in ``requirements/`` that
has its mapping's name. An environment that exists is used as it is. ``--record`` writes the recordings anew. The exit
code is 1 where a library answers otherwise than recorded.
"""

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

from lanemap.ingest import python as mappings

HERE = Path(__file__).parent
RECORDINGS = HERE.parent / "importers" / "python" / "recordings"


def environment(name: str) -> str:
    """The Python that has the library of a mapping."""
    folder = HERE.parent.parent / ".wild" / name
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        requirements = HERE / "requirements" / f"{name}.txt"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", str(requirements)], check=True)
    return str(python)


def answered(name: str) -> tuple[dict, float]:
    """What the library of a mapping answers to each of its tasks, and the seconds that it took."""
    started = time.monotonic()
    kept = {}
    real = mappings.answers

    def keep(tasks, package, path, python):
        version, answers = real(tasks, package, path, python)
        kept.update(made=f"python tests/wild/run.py --record {name}", package=package, version=version)
        named = {mappings.called(task): (task, answer) for task, answer in zip(tasks, answers, strict=True)}
        assert len(named) == len(tasks), "two tasks of one name"
        # Kernels name files of the machine that they were compiled on.
        kept["answers"] = {name: answer for name, (task, answer) in named.items() if task["form"] != "kernel"}
        return version, answers

    mappings.answers = keep
    try:
        mappings.load(name, environment(name))
    finally:
        mappings.answers = real
    return kept, time.monotonic() - started


def main() -> int:
    record = "--record" in sys.argv
    names = [name for name in sys.argv[1:] if name != "--record"] or [
        mapping.path.stem for mapping in mappings.shipped()
    ]
    different = 0
    for name in names:
        file = RECORDINGS / f"{name}.json.gz"
        kept, seconds = answered(name)
        if record:
            file.write_bytes(gzip.compress(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode(), mtime=0))
        recorded = json.loads(gzip.decompress(file.read_bytes()))
        changed = [task for task, answer in kept["answers"].items() if recorded["answers"].get(task) != answer]
        different += bool(changed)
        print(f"{name} {kept['version']}: {len(kept['answers'])} entries in {seconds:.1f} s, {len(changed)} differ")
        for task in changed:
            print(f"  {task}")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
