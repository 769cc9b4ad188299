"""Seconds of a capture of everything on the card of this machine, with an empty and with a filled cache of the driver.

Prints for several numbers of processes, with all threads of BLAS and with one, and for the command: the seconds of the
whole process from an empty cache, and of two after it; then what the last one says of itself.

python tests/benchmarks/capture.py [PROCESSES ...]
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEASURE = """
import sys, lanemap
source = lanemap.measure(processes=int(sys.argv[1]))
told = [outcome["status"] for outcome in source.provenance["instructions"]]
seconds = (f"{name} {source.provenance[name]:.2f}" for name in ("seconds", "load_seconds", "gpu_seconds"))
print(told.count("captured"), "captured,", told.count("failed"), "failed,", *seconds)
"""


def seconds(cache: Path, threads: str, *command: str) -> tuple[float, str]:
    """How long a Python takes, and what it prints."""
    environment = os.environ | {"CUDA_CACHE_PATH": str(cache), "CUDA_CACHE_MAXSIZE": str(1 << 30)}
    environment |= {"OPENBLAS_NUM_THREADS": threads} if threads else {}
    started = time.perf_counter()
    done = subprocess.run([sys.executable, *command], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - started, " ".join(done.stdout.split())


print(f"{os.cpu_count()} cores\nprocesses BLAS  empty filled  again")
for number in [*(sys.argv[1:] or ("0", "4", "8", "12", "16")), "command"]:
    for threads in ("", "1"):
        with tempfile.TemporaryDirectory() as folder:
            command = ["-c", MEASURE, number]
            if number == "command":
                command = ["-m", "lanemap", "capture", "--output", str(Path(folder, "all.parquet"))]
            found = [seconds(Path(folder, "cache"), threads, *command) for _ in range(3)]
        print(
            f"{number:>7} {threads or 'all':>4}", *(f"{result:6.2f}" for result, _ in found), found[-1][1], flush=True
        )
