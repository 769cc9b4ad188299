"""What the README says of one's own layout functions, done as it says."""

import re
import shlex
from pathlib import Path

import pytest

import lanemap

TEXT = (Path(lanemap.__file__).parent / "README.md").read_text()
SECTION = TEXT.partition("## Check your own layout functions")[2].partition("\n## ")[0]
RIGHT = """
def a_fragment(lane, value):
    return lane // 4 + value // 2 % 2 * 8, lane % 4 * 2 + value % 2 + value // 4 * 8
"""


@pytest.mark.parametrize(("function", "code"), [(RIGHT, 0), (RIGHT.replace("value // 4 * 8", "value // 4 * 4"), 1)])
def test_the_workflow_passes_a_right_function_and_fails_a_wrong_one(run, file, tmp_path, monkeypatch, function, code):
    (mapping,) = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
    (tmp_path / "kernels.toml").write_text(mapping)
    (tmp_path / "kernels.py").write_text(function)
    monkeypatch.chdir(tmp_path)
    (line,) = re.findall(r"- run: (.*)", SECTION)
    _, *commands = (shlex.split(part)[1:] for part in line.split("&&"))
    assert [run(*command, db=file).code for command in commands] == [0, code]
    for command in commands:
        assert f"`lanemap {shlex.join(command)}`" in SECTION


def test_every_mapping_that_ships_is_named():
    from lanemap.ingest.python import shipped

    sentence = " ".join(SECTION.partition("import python --list")[2].partition(".")[0].split())
    assert [each.library for each in shipped() if each.library.split()[0] not in sentence] == []
    assert re.findall(r"python (tests/wild/run.py)", SECTION) == ["tests/wild/run.py"]
