"""The README says only what is true: every command and every output in it is run here."""

import doctest
import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest

import lanemap

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def commands():
    """Each console command with the output that the README shows for it."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


@pytest.mark.parametrize(("command", "output"), list(commands()), ids=lambda value: value.split("\n")[0][:60])
def test_every_command_prints_what_the_readme_shows(command, output, built, tmp_path):
    environment = os.environ | {"LANEMAP_DB": str(built), "COLUMNS": "80"}
    environment["PATH"] = sysconfig.get_path("scripts") + os.pathsep + environment["PATH"]
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == output


def test_every_python_line_is_true(file, tmp_path, monkeypatch):
    monkeypatch.setenv("LANEMAP_DB", str(file))
    monkeypatch.chdir(tmp_path)
    for text in ("\n".join(blocks("python")), lanemap.__doc__, lanemap.Database.__doc__):
        test = doctest.DocTestParser().get_doctest(text, {}, "README", None, None)
        assert test.examples
        assert doctest.DocTestRunner().run(test).failed == 0


def test_all_that_database_can_do_is_shown():
    """Every public method and function has an example, or where it takes a GPU or a document, a sentence."""
    methods = {name for name in vars(lanemap.Database) if not name.startswith("_")} - {"close", "source"}
    functions = {name for name in lanemap.__all__ if name[0].islower()}
    shown = set(re.findall(r"(?:db|lanemap)\.(\w+)\(", lanemap.Database.__doc__))
    assert methods | functions <= shown
    assert methods - {"add_capture"} <= set(re.findall(r"\w+", lanemap.__doc__))


def test_the_two_commands_are_those_that_ci_runs():
    """CI takes them out of the README, installs as they say, and so runs this very test."""
    ask, test, *_ = blocks("sh")
    assert ask.count("\n") == test.count("\n") == 1
    assert "README.md" in (ROOT / ".ci" / "run").read_text()
    assert test.strip().endswith(".venv/bin/pytest")
    question = ask.split(" && ")[-1].strip().removeprefix(".venv/bin/")
    assert question in [command.split(" | ")[0] for command, _ in commands()]


def test_every_command_of_the_program_is_in_the_readme():
    from lanemap.cli import application

    names = [command.name or command.callback.__name__ for command in application().registered_commands]
    shown = {
        shlex.split(line)[1] for block in blocks("sh") for line in block.splitlines() if line.startswith("lanemap")
    }
    shown |= {shlex.split(command)[1] for command, _ in commands() if command.startswith("lanemap")}
    assert [name for name in names if name not in shown and f"`lanemap {name}" not in TEXT] == []


@pytest.mark.parametrize(
    "module", ["lanemap.db.fragment", "lanemap.db.grouped", "lanemap.db.spans", "lanemap.db.formula.evaluation"]
)
def test_examples_in_docstrings_are_true(module):
    import importlib

    assert doctest.testmod(importlib.import_module(module)).failed == 0
