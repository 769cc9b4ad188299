"""Every row of DEFECTS.md is what Lanemap finds, here and now, in the released package that is installed."""

import os
import re
import subprocess
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "DEFECTS.md").read_text()
HEADINGS = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)


def commands(heading):
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    for block in re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            yield part.partition("\n")[::2]


@pytest.fixture
def cutlass():
    found = find_spec("cutlass_library")
    if found is None or found.origin is None:
        pytest.skip("nvidia-cutlass is not installed")
    return Path(found.origin).parent / "source"


@pytest.mark.parametrize("heading", HEADINGS)
def test_every_defect_shows_as_the_page_says(heading, cutlass, file, tmp_path):
    environment = os.environ | {"LANEMAP_DB": str(file), "COLUMNS": "80", "CUTLASS": str(cutlass)}
    environment["PATH"] = sysconfig.get_path("scripts") + os.pathsep + environment["PATH"]
    shown = list(commands(heading))
    assert shown
    for command, output in shown:
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.stdout == output, done.stderr


def test_the_table_names_every_defect_and_nothing_else():
    rows = re.findall(r"^\| \[.*?\]\(#(.*?)\) \|", PAGE, re.MULTILINE)
    assert rows == [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in HEADINGS]
