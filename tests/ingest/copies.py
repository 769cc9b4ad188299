"""Copies of the package to which a vendor or a version is added, and what they answer."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import lanemap

#: Runs commands, each a list of words, and then asks for pages; prints what came of each.
_ASK = """
import contextlib, io, json, sys
import lanemap
from lanemap.cli import main

answers = []
commands, pages = json.load(sys.stdin)
for words in commands:
    out, err, code = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO(), 0
    sys.argv = ["lanemap", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as exit:
            code = exit.code or 0
    answers.append((code, out.buffer.getvalue().decode(), err.getvalue()))
if pages:
    from fastapi.testclient import TestClient
    from lanemap.cli.web.app import create_app

    with lanemap.open() as database, TestClient(create_app(database), base_url="http://127.0.0.1") as client:
        for page in pages:
            answer = client.get(page)
            answers.append((answer.status_code, str(answer.url), answer.text))
print(json.dumps(answers), file=sys.__stdout__)
"""


def copied(folder: Path) -> Path:
    """A copy of the package without what takes long to build: one of two captures, and wgmma in shared memory."""
    left_out = ("tests", ".*", "__pycache__", "build", "*.egg-info", "h100-*.parquet", "wgmma-shared.toml")
    return shutil.copytree(Path(lanemap.__file__).parent, folder / "lanemap", ignore=shutil.ignore_patterns(*left_out))


def asked(package, *commands, pages=()):
    """Of each command its exit code, what it prints, and its errors; of each page its status, address and text."""
    folder = package.parent
    environment = {"PYTHONPATH": str(folder), "LANEMAP_DB": str(folder / "copy.db"), "COLUMNS": "150"}
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        input=json.dumps([commands, pages]),
        env=os.environ | environment,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [tuple(answer) for answer in json.loads(done.stdout)]
