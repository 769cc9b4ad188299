"""The README and the guide say only what is true: every command and every output in them is run here."""

import doctest
import inspect
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lanemap

from .capture.test_ptx import ptxas

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "cli" / "web" / "guide"
README = (ROOT / "README.md").read_text()
TEXT = "\n".join([README, *(page.read_text() for page in sorted(GUIDE.glob("*.md")))])


METHODS = {name: method for name, method in vars(lanemap.Database).items() if callable(method) and name[0] != "_"}
#: What the docstrings of ``Database`` show, one after the other.
EXAMPLES = "\n\n".join(inspect.getdoc(owner) for owner in (lanemap.Database, *METHODS.values()))


def blocks(language, text=TEXT):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def write_kernels(folder):
    """The kernels that the guide shows, with what they are launched with, and those that it makes of them.

    The first line of each says its name.
    """
    launches = [block for block in blocks("toml") if block.partition("\n")[0].endswith(".trace.toml")]
    for block in (*blocks("ptx"), *launches):
        (folder / block.partition("\n")[0].lstrip("/# ")).write_text(block)
    for line in "".join(blocks("sh")).splitlines():
        if line.startswith("sed "):
            subprocess.run(line, shell=True, cwd=folder, check=True)


def commands():
    """Each console command with the output that the README shows for it."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.replace("\\\n", "").partition("\n")
            yield command, output


@pytest.mark.few(4)
@pytest.mark.parametrize(("command", "output"), sorted({*commands()}), ids=lambda value: value.split("\n")[0][:60])
def test_every_command_prints_what_the_readme_shows(command, output, run, tmp_path, monkeypatch):
    """Lanemap runs in this process, and a shell does with what it prints as the command says."""
    (folder := tmp_path / "folder").mkdir()
    monkeypatch.chdir(folder)
    if " trace " in command:
        write_kernels(folder)
    program, *arguments = shlex.split(re.split(r" \| | 2>", command)[0])
    assert program == "lanemap"
    result = run(*arguments)
    (tmp_path / "out").write_bytes(result.bytes)
    (tmp_path / "err").write_text(result.err)
    function = f"lanemap() {{ cat ../err >&2; cat ../out; return {result.code}; }}"
    done = subprocess.run(f"{function}\n{command}", shell=True, capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == output


@pytest.mark.parametrize("kernel", blocks("ptx"), ids=lambda kernel: kernel.partition("\n")[0].removeprefix("// "))
def test_every_kernel_assembles(kernel, tmp_path):
    target = re.search(r"^\.target (\w+)", kernel, re.MULTILINE)[1]
    done = ptxas(kernel, target, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_kernel_in_shared_memory_uses_the_printed_descriptor(run, tmp_path, monkeypatch):
    """And needs it: with that of another mode the product is wrong."""
    monkeypatch.chdir(tmp_path)
    page = (GUIDE / "shared-memory.md").read_text()
    (kernel,), word = blocks("ptx", page), re.search(r"descriptor without address: (\w+)", page)[1]
    assert kernel.count(f"or.b64 %a, %a, {word};") == kernel.count(f"or.b64 %b, %b, {word};") == 1
    (command,) = (command for command, _ in commands() if "trace wgmma.ptx" in command)
    for mode, code in (("128B", 0), ("64B", 1)):
        printed = lanemap.Database.descriptor(f"m64n8k16 f16 B {mode}.K", "n8k64")
        (tmp_path / "wgmma.ptx").write_text(kernel.replace(word, f"0x{printed.word:016x}"))
        assert run(*shlex.split(command.split(" | ")[0])[1:]).code == code


@pytest.mark.slow
def test_what_a_kernel_holds_is_a_source(run, tmp_path, monkeypatch, file):
    """The commands of the guide, one after the other."""
    write_kernels(tmp_path)
    monkeypatch.chdir(tmp_path)
    (lines,) = (block.splitlines() for block in blocks("sh") if "--save exchanged" in block)
    said = [run(*shlex.split(line)[1:], db=file) for line in lines]
    assert [each.code for each in said] == [1, 1, 0], said
    assert "saved: exchanged" in said[0].out
    assert "regs 1 and 2 are exchanged" in said[1].out
    assert "128 of 256 elements differ" in (tmp_path / "exchanged.svg").read_text()


@pytest.mark.slow
def test_the_test_of_a_kernel_is_one(tmp_path, monkeypatch, built):
    """It passes, and fails with the findings, at its own line, where registers are exchanged."""
    write_kernels(tmp_path)
    (test,) = (block for block in blocks("py") if block.startswith("# test_gemm.py"))
    monkeypatch.setenv("LANEMAP_DB", str(built))
    for kernel, code in (("gemm", 0), ("exchanged", 1)):
        (tmp_path / "test_gemm.py").write_text(test.replace('"gemm.ptx"', f'"{kernel}.ptx"'))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == code, done.stdout
        assert ("registers 1 and 2 are exchanged" in done.stdout) == bool(code)
        assert "capture/machine" not in done.stdout  # nothing of the inside is shown


@pytest.mark.slow
def test_every_python_line_is_true(whole, tmp_path, monkeypatch):
    monkeypatch.setenv("LANEMAP_DB", str(shutil.copy2(whole, tmp_path)))
    monkeypatch.chdir(tmp_path)
    for text in ("\n".join(blocks("python")), lanemap.__doc__, EXAMPLES):
        test = doctest.DocTestParser().get_doctest(text, {}, "README", None, None)
        assert test.examples
        assert doctest.DocTestRunner().run(test).failed == 0


def test_all_that_database_can_do_is_shown():
    """Every public method and function has an example, or where it takes a GPU or a document, a sentence."""
    shown = set(re.findall(r"db\.(\w+)\(", EXAMPLES))
    assert set(METHODS) - shown == {"close"}
    functions = {name for name in lanemap.__all__ if name[0].islower()}
    words = set(re.findall(r"\w+", lanemap.__doc__))
    assert {*METHODS} | functions <= words | {"close", "source"}


def test_the_two_commands_are_those_that_ci_runs():
    """CI takes them out of the README, installs as they say, and so runs this very test."""
    ask, test, *_ = blocks("sh", README)
    assert ask.count("\n") == test.count("\n") == 1
    assert "README.md" in (ROOT / ".ci" / "run").read_text()
    assert test.strip().endswith(".venv/bin/pytest")
    question = ask.split(" && ")[-1].strip().removeprefix(".venv/bin/")
    assert question in [command.split(" | ")[0] for command, _ in commands()]


def test_the_readme_is_read_in_two_minutes():
    assert README.count("\n") <= 150


def test_its_last_section_names_the_long_mode():
    *_, last = README.split("\n## ")
    *_, command = blocks("sh", (GUIDE / "contributing.md").read_text())[1].splitlines()
    command, _, does = map(str.strip, command.partition("#"))
    assert f"`{command}`" in last
    assert does.startswith("the long mode")
    assert "the long mode" in last


def test_there_is_one_word_for_one_thing():
    """What has a figure and no formula is figure-only, what no evidence can judge is unjudged."""
    faces = [ROOT / "README.md", ROOT / "__init__.py", *GUIDE.parent.glob("templates/*.html"), *GUIDE.glob("*.md")]
    faces += [path for folder in ("capture", "cli", "db", "ingest") for path in (ROOT / folder).rglob("*.py")]
    for path in faces:
        assert not re.search(r"drawn only|only draws?\b|only drawn|not judged|cannot be judged", path.read_text()), path


def test_every_link_leads_somewhere():
    """In the repository; the tests of the pages follow them in a browser."""
    for page in (ROOT / "README.md", *GUIDE.glob("*.md")):
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)]+)\)", text):
            file, _, place = target.partition("#")
            assert (page.parent / file).exists(), (page.name, target)
            headings = re.findall(r"^#+ (.*)$", (page.parent / file if file else page).read_text(), re.MULTILINE)
            assert not place or place in [heading.lower().replace(" ", "-") for heading in headings]


def test_the_picture_is_the_one_that_is_drawn(built, tmp_path):
    drawn = tmp_path / "product.svg"
    with lanemap.open(str(built)) as database:
        database.draw("m16n8k16", "f16", accumulator="f32").save(drawn)
    assert drawn.read_text() == (ROOT / "cli" / "web" / "static" / "product.svg").read_text()


def test_every_command_of_the_program_is_in_the_readme():
    from lanemap.cli import application

    names = [command.name or command.callback.__name__ for command in application().registered_commands]
    lines = "".join(blocks("sh")).replace("\\\n", "").splitlines()
    shown = {shlex.split(line)[1] for line in lines if line.startswith("lanemap")}
    shown |= {shlex.split(command)[1] for command, _ in commands() if command.startswith("lanemap")}
    assert [name for name in names if name not in shown and f"`lanemap {name}" not in TEXT] == []


@pytest.mark.parametrize(
    "module",
    [
        "lanemap.db.layout.fragment",
        "lanemap.db.text",
        "lanemap.db.layout.formula",
    ],
)
def test_examples_in_docstrings_are_true(module):
    import importlib

    assert doctest.testmod(importlib.import_module(module)).failed == 0
