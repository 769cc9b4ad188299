"""Compilers that are Python packages run in a process of their own: one that aborts ends no other test."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.parametrize(("package", "file"), [("triton", "triton"), ("iree", "mlir"), ("tvm", "tvm")])
def test_it_reads_what_is_written_for_it(package, file):
    """The tests of ``reads_*.py``."""
    if find_spec(package) is None:
        pytest.skip(f"needs lanemap[test-toolchains]: {package}")
    tests = Path(__file__).with_name(f"reads_{file}.py")
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "--timeout", "90", str(tests)]
    # It is no worker of this run, and shares no database with it.
    alone = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, env=alone)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
