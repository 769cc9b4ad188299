"""What the guide says of one's own layout functions, done as it says."""

import re
from pathlib import Path

import pytest

import lanemap

GUIDE = Path(lanemap.__file__).parent / "cli" / "web" / "guide"
TEXT = (GUIDE / "check.md").read_text()
RIGHT = """
def a_fragment(lane, value):
    return lane // 4 + value // 2 % 2 * 8, lane % 4 * 2 + value % 2 + value // 4 * 8
"""


@pytest.mark.slow
@pytest.mark.parametrize(("function", "code"), [(RIGHT, 0), (RIGHT.replace("value // 4 * 8", "value // 4 * 4"), 1)])
def test_a_right_function_passes_and_a_wrong_one_fails(run, file, tmp_path, monkeypatch, function, code):
    mapping, _ = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "kernels.toml").write_text(mapping)
    (tmp_path / "kernels.py").write_text(function)
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"`lanemap ((?:import python kernels\.toml|diff my-kernels))`", TEXT)
    assert [run(*command.split(), db=file).code for command in commands] == [0, code]


def test_every_mapping_that_ships_is_named():
    from lanemap.ingest.python import shipped

    sentence = " ".join(TEXT.partition("import python --list")[2].partition(".")[0].split())
    assert [mapping.library for mapping in shipped() if mapping.library.split()[0] not in sentence] == []
    assert "`python tests/wild/run.py`" in TEXT


def test_the_mapping_of_an_offset_is_whole(tmp_path):
    """That of the guide on shared memory."""
    from lanemap.ingest.python.mapping import read_mapping

    (mapping,) = re.findall(r"```toml\n(.*?)```", (GUIDE / "shared-memory.md").read_text(), re.DOTALL)
    (tmp_path / "kernels.toml").write_text(mapping)
    assert read_mapping(tmp_path / "kernels.toml").library == "my kernels"
