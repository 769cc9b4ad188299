"""Whatever a mapping or a library has wrong, one line says which entry and why, and everything else comes in."""

import ast
import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

import lanemap
from lanemap.db.errors import LanemapError
from lanemap.db.layout.structure import check
from lanemap.ingest import importing
from lanemap.ingest import python as mappings
from lanemap.ingest.python import child, mapping
from lanemap.ingest.python.child import Limits

A = '{ shape = "m16n8k16", types = "f16", role = "A" }'
GOOD = f'name = "a_place"\nform = "place"\nclaims = [{A}]'


def entry(name, form="place", claim=A, more=""):
    return f'name = "{name}"\nform = "{form}"\n{more}\nclaims = [{claim}]'


TROUBLES = {
    "no such module": (entry("a_place", more='module = "nothere"'), "nothere: No module named 'nothere'"),
    "no such name": (entry("nothing"), "mylib: module 'mylib' has no attribute 'nothing'"),
    "another signature": (entry("one"), "TypeError: one() takes 1 positional argument but 2 were given"),
    "unknown argument": (entry("a_place", more="with = { warp = 1 }"), "unexpected keyword argument 'warp'"),
    "no number": (entry("half"), "TypeError: returns a float, which is not an integer"),
    "aborts": (entry("dies"), "its process was ended by signal 6"),
    "exits": (entry("leaves_the_process"), "SystemExit: 3"),
    "not bases": (entry("TEXT", "bases"), "its result does not have the form 'bases'"),
    "not strides": (entry("BASES", "strides"), "its result does not have the form 'strides'"),
    "unknown key": (entry("a_place", more="stried = 3"), "unknown key 'stried': did you mean 'stride'?"),
    "unknown key of a claim": (
        entry("a_place", claim='{ shap = "m16n8k16" }'),
        "unknown key 'shap': did you mean 'shape'?",
    ),
    "unknown form": (entry("a_place", "plaice"), "invalid form 'plaice': it is one of place, cell, address"),
    "no claims": ('name = "a_place"\nform = "place"', "it has no claims: write"),
    "no role": (entry("a_place", claim='{ shape = "m16n8k16", types = "f16" }'), "claims[0]: it has no 'role'"),
    "a wrong shape": (entry("a_place", claim=A.replace("m16n8k16", "16x8x16")), "'16x8x16' is not a shape"),
    "a wrong role": (entry("a_place", claim=A.replace('"A"', '"Q"')), "invalid role 'Q'"),
    "wrong axes": (entry("a_place", claim=A.replace(" }", ', axes = "kn" }')), "invalid axes 'kn': A has mk or km"),
    "a wrong instruction": (
        entry("a_place", claim=A.replace(" }", ', instruction = "hmma" }')),
        "choose from mma, mma.sp",
    ),
    "a number for text": (entry("a_place", more="set = 3"), "set: expected text, got a whole number"),
    "text for a number": (entry("a_place", more='stride = "3"'), "stride: expected a whole number, got text"),
    "one number for two": (
        entry("a_place", claim=A.replace(" }", ", origin = [1] }")),
        "claims[0].origin: expected a list of length 2, got 1",
    ),
    "addresses without a move": (entry("address", "address"), 'move = "ldmatrix.x4"'),
    "an unknown move": (
        entry("address", "address", claim=A.replace(" }", ', move = "ldmatrix.x3" }')),
        "invalid move 'ldmatrix.x3': write ldmatrix.x4",
    ),
    "a move that tears": (
        entry(
            "address",
            "address",
            claim='{ shape = "m16n8k8", types = "tf32", role = "A", move = "ldmatrix.x4.trans" }',
        ),
        "moves units of 16 bits, but tf32 has 32",
    ),
}


def test_each_entry_says_why_and_the_others_go_on(imported, right):
    (found,) = imported(*(text for text, _ in TROUBLES.values()), GOOD)
    assert [right(fragment) for fragment in found.source.fragments] == [True]
    assert len(found.skipped) == len(TROUBLES)
    for text, words in TROUBLES.values():
        name = re.search(r'^name = "(.*)"', text, re.MULTILINE)[1]
        assert any(words in skipped.reason and name in skipped.name for skipped in found.skipped), words
    assert not any("\n" in skipped.reason for skipped in found.skipped)


def test_several_that_die_are_each_named(imported, right):
    (found,) = imported(entry("dies"), GOOD, entry("dies"), entry("leaves_the_process"))
    assert [part.name for part in found.skipped] == ["dies", "dies", "leaves_the_process"]
    assert right(found.source.fragments[0])


@pytest.fixture
def limits(monkeypatch):
    """Set limits for the libraries that a test runs."""
    return lambda **given: monkeypatch.setattr(mappings, "LIMITS", Limits(**{"message_seconds": 2.0} | given))


#: What a library does, and what comes of its entry: a reason, or nothing where it does no harm.
DEEDS = {
    "hangs": "its process took longer than 2 s",
    "trickles": "its process took longer than 2 s",
    "floods_stdout": "its process took longer than 2 s",
    "floods_stderr": "its process took longer than 2 s",
    "is_endless": "its process took longer than 2 s|its process used more than 0.25 GB of memory",
    "eats": "its process used more than 0.25 GB of memory",
    "breeds": "its process started more than 30 processes",
    "breeds_sessions": "its process started more than 30 processes",
    "escapes": "",
    "claims_much": "its process answered with more than 64 MB",
    "babbles": "its process sent an invalid answer",
    "falsifies": "its process sent an invalid answer",
    "closes_all": "its process ended with exit code 1: OSError: .*Bad file descriptor",
    "forks_and_dies": "its process was ended by signal 6",
    "is_huge": "its result does not have the form 'place': .*",
    "patches_json": "",
    "forks": "",
    "comes_back_twice": "",
}


#: What another one does likewise, and takes longer.
LONGER = {"trickles", "floods_stdout", "floods_stderr", "is_endless"}


@pytest.mark.slow
@pytest.mark.parametrize("deed", [pytest.param(deed, marks=[pytest.mark.slow] * (deed in LONGER)) for deed in DEEDS])
def test_what_a_library_does_neither_keeps_nor_kills_the_others(imported, right, limits, deed):
    limits(**({"memory_bytes": 1 << 28} if "memory" in DEEDS[deed] else {"processes": 30}))
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    (found,) = imported(entry(deed), GOOD)
    assert time.monotonic() - started < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
    assert [right(fragment) for fragment in found.source.fragments] == [True]
    assert len(found.skipped) == bool(DEEDS[deed])
    for skipped in found.skipped:
        assert re.fullmatch(DEEDS[deed], skipped.reason)
        assert deed in skipped.name


@pytest.mark.slow
@pytest.mark.parametrize(
    "deed", ["forks", "forks_and_dies", "breeds", "comes_back_twice", "escapes", "breeds_sessions"]
)
def test_nothing_that_a_library_started_goes_on(imported, limits, deed, monkeypatch):
    if not Path("/proc/self/environ").exists():
        pytest.skip("the processes of a session are listed in /proc")
    monkeypatch.setenv("STARTED_BY", f"{deed} {os.getpid()}")
    limits(processes=30)
    imported(entry(deed), GOOD)

    def started():
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                if f"STARTED_BY={deed} {os.getpid()}".encode() in (process / "environ").read_bytes():
                    yield process

    until = time.monotonic() + 60  # a process that was killed takes a moment to end
    while (left := list(started())) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []


def test_what_one_list_of_processes_misses_is_killed_by_the_next(monkeypatch):
    """A process that starts another one and ends, while they are listed, is in no list that has the other one."""
    sleeping = subprocess.Popen(["sleep", "60"], start_new_session=True)
    lists = iter([{}, {sleeping.pid: ("S", 0)}])
    with child.Child([sys.executable, "-c", ""], b""):
        monkeypatch.setattr(child, "_session", lambda *_: next(lists, {}))
    assert sleeping.wait(10) == -signal.SIGKILL


def test_a_value_that_is_nested_too_deep_is_not_defined(imported):
    (finding,) = imported(entry("is_deep"))[0].findings
    assert finding.reason.startswith("lane 0 value 0 is not defined: RecursionError: ")


@pytest.mark.parametrize(("name", "form"), [("MANY_BASES", "bases"), ("DEEP_TEXT", "strides")])
def test_an_object_that_would_become_large_is_refused(imported, right, name, form):
    (found,) = imported(entry(name, form), GOOD)
    (skipped,) = found.skipped
    assert skipped.reason.startswith(f"its result does not have the form {form!r}: ")
    assert [right(fragment) for fragment in found.source.fragments] == [True]


@pytest.mark.slow
def test_all_entries_together_have_a_limit_of_time(imported, limits):
    limits(message_seconds=1.5, seconds=2.5)
    with pytest.raises(LanemapError, match="gives nothing: hangs: its process took longer than 1.5 s"):
        imported(*[entry("hangs")] * 20)
    limits(message_seconds=5, seconds=2.5)
    (found,) = imported(GOOD, entry("hangs"), entry("holes"))
    assert [part.reason for part in found.skipped] == [
        "its process was ended after 2.5 s in all",
        "not evaluated: all entries together may take 2.5 s",
    ]


def test_a_module_of_the_current_folder_is_not_taken_for_pythons(imported, library, right):
    for name in ("json", "copy", "numbers"):
        (library / f"{name}.py").write_text("raise SystemExit('this is not the one')\n")
    (library / "mylib.py").write_text("import copy, json, numbers\n" + (library / "mylib.py").read_text())
    (found,) = imported(GOOD)
    assert [right(fragment) for fragment in found.source.fragments] == [True]


PARTIAL = {
    "holes": ("place", "lane 3 value 0 is not defined, and 7 more: ValueError: no lane 3", 8),
    "leaves": ("place", "lane 5 value 1 is at (16, 3), outside the operand's (0, 0) to (15, 15)", 1),
    "doubled": ("cell", "lane 0 value 0 stands for several cells, and 127 more", 128),
}


@pytest.mark.parametrize("name", PARTIAL)
def test_what_is_not_defined_or_outside_is_a_finding_and_the_rest_is_compared(imported, documented, name):
    form, words, lost = PARTIAL[name]
    (found,) = imported(entry(name, form))
    (finding,) = found.findings
    assert finding.reason == words
    assert "mylib.py:" in finding.name
    (said,) = found.source.provenance["wrong"]
    assert said == {"operand": list(finding.operand), "origin": finding.origin, "words": words}
    (fragment,) = found.source.fragments
    said = documented[fragment.key].elements
    assert len(fragment.elements) == len(said) - lost
    if form == "place":
        assert set(fragment.elements.tolist()) < set(said.tolist())
    assert any(re.search("slots? holds? nothing", finding) for finding in check(fragment))


def test_each_claim_set_is_a_source_and_says_where_it_is_from(imported):
    first, second = imported(GOOD + '\nset = "loads"', entry("turned", more='set = "stores"'))
    assert [first.source.name, second.source.name] == ["mine:loads", "mine:stores"]
    assert first.source.fragments[0].citation.origin == "mylib.py:6 a_place"
    assert second.source.provenance["set"] == "stores"


def test_a_name_of_its_own_is_the_first_part_of_those_of_claim_sets(imported):
    imported(GOOD, entry("turned", more='set = "stores"'))
    found = importing.read("python", "mine.toml", "kernels")
    assert [imported.source.name for imported in found] == ["kernels", "kernels:stores"]


def test_a_source_is_named_after_its_library_and_the_version_that_is_installed(imported):
    for library, package, name in (
        ("My kernels", "mine", "my-kernels"),
        ("My kernels", "msgspec", f"my-kernels-{version('msgspec')}"),
        ("llama.cpp", "mine", "llama.cpp"),
        ("(?)", "mine", "mine"),  # the file
    ):
        (found,) = imported(GOOD, head=f'library = "{library}"\npackage = "{package}"\n')
        assert found.source.name == name


def test_a_mapping_without_a_package_is_told_what_to_write(imported):
    with pytest.raises(LanemapError, match='no .package.: a mapping begins with library = "NAME" and package = "NAME"'):
        imported(GOOD, head='library = "mine"\n')


def test_what_contradicts_its_set_is_compared_by_itself_with_the_rest_of_it(imported, right):
    c = entry("c_place", claim='{ shape = "m16n8k16", types = "f32", role = "C" }')
    first, second = imported(GOOD, entry("turned"), c, GOOD)
    assert [imported.source.name for imported in (first, second)] == ["mine", "mine:turned"]
    assert [right(fragment) for fragment in first.source.fragments] == [True, True]
    assert {fragment.role: right(fragment) for fragment in second.source.fragments} == {"A": False, "C": True}


def test_the_first_of_several_modules_that_has_it(imported, right):
    (found,) = imported(entry("a_place", more='module = ["nothere", "mylib"]'))
    assert right(found.source.fragments[0])


def test_another_process_that_ends_while_all_are_looked_at(imported, right, monkeypatch):
    stat = os.stat

    def ended(path, **more):
        if str(path).startswith(f"/proc/{os.getpid()}"):
            raise ProcessLookupError(path)
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", ended)
    (found,) = imported(GOOD)
    assert right(found.source.fragments[0])


def test_modules_are_found_beside_the_mapping_too(library, right, monkeypatch):
    """After all others, so that the adapter of a mapping does not hide a library of the same name."""
    (library / "string.py").write_text("from mylib import a_place\nimport string\nassert string.digits\n")
    (library / "string.toml").write_text(
        'library = "Mine"\npackage = "mine"\n[[entry]]\nadapter = true\nname = "a_place"\nform = "place"\n'
        'claims = [{ shape = "m16n8k16", types = "f16", role = "A" }]\n'
    )
    (library / "elsewhere").mkdir()
    monkeypatch.chdir(library / "elsewhere")
    (found,) = mappings.load("../string.toml")
    assert [right(fragment) for fragment in found.source.fragments] == [True]


@pytest.mark.parametrize("there", ["module", "package beside it", "not installed"])
def test_an_adapter_with_the_name_of_its_library_does_not_hide_it(library, right, monkeypatch, there):
    """Also in the current folder, whose modules are found before those that are installed."""
    code = (library / "mylib.py").read_text()
    if there == "module":
        (library / "installed").mkdir()
        (library / "installed" / "acme.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", str(library / "installed"))
    elif there == "package beside it":
        (library / "acme").mkdir()
        (library / "acme" / "__init__.py").write_text(code)
    (library / "acme.py").write_text("import acme\n\ndef place(name):\n    return getattr(acme, name)\n")
    (library / "acme.toml").write_text(
        'library = "acme"\npackage = "acme"\n[[entry]]\nadapter = true\nname = "place"\nmake = { name = "a_place" }\n'
        f'form = "place"\nclaims = [{A}]\n'
    )
    if there == "not installed":
        with pytest.raises(LanemapError, match="No module named 'acme'"):
            mappings.load("acme.toml")
    else:
        (found,) = mappings.load("acme.toml")
        assert right(found.source.fragments[0])


@pytest.mark.slow
def test_a_source_from_elsewhere_is_not_replaced(run, file, library):
    """Not by a mapping that only calls its library the same; the same mapping takes its own place."""
    text = f'library = "Mine"\npackage = "mine"\n[[entry]]\nmodule = "mylib"\n{GOOD}\n'
    for folder in ("one", "other"):
        (library / folder).mkdir()
        (library / folder / "mine.toml").write_text(text)
    (library / "named.toml").write_text(text)
    kept = "SELECT provenance FROM source WHERE name = 'mine'"
    for _ in range(2):
        assert run("import", "python", "one/mine.toml", db=file).code == 0
    before = run("sql", kept, db=file).out
    for mapping_ in ("other/mine.toml", "named.toml"):
        result = run("import", "python", mapping_, db=file)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith("lanemap: mine is from one/mine.toml already: give this one another name")
        assert "--name" in result.err
        assert run("sql", kept, db=file).out == before
    assert run("import", "python", "named.toml", "--name", "mine too", db=file).code == 0
    assert run("remove", "mine", db=file).code == 0
    with lanemap.open(file) as database:
        database.add([lanemap.Source("mine", "import", "a table", [database.fragment("m16n8k16", "f16", "B")])])
    assert "mine is from another import already" in run("import", "python", "named.toml", db=file).err


def test_an_adapter_is_beside_the_mapping(imported, library, right):
    (library / "mine.py").write_text("import mylib\n\ndef place(name):\n    return getattr(mylib, name)\n")
    text = 'adapter = true\nmodule = []\nname = "place"\nmake = { name = "a_place" }\norigin = "mylib.a_place"'
    (found,) = imported(f'{text}\nform = "place"\nclaims = [{A}]')
    assert right(found.source.fragments[0])
    assert found.source.fragments[0].citation.origin == "mylib.py:6 a_place"


def test_another_python_runs_it(imported, library, right):
    """A stand-in for another environment: it notes that it was called."""
    other = library / "other"
    other.write_text(f'#!/bin/sh\necho called > {library}/called\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    (found,) = imported(GOOD, python=str(other))
    assert right(found.source.fragments[0])
    assert (library / "called").exists()


@pytest.mark.parametrize(
    ("python", "words"),
    [("/nowhere/python", "cannot start /nowhere/python: No such file"), ("/bin/true", "/bin/true is not a Python 3")],
)
def test_what_is_no_python_is_refused(imported, python, words):
    with pytest.raises(LanemapError, match=words):
        imported(GOOD, python=python)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[entry", "mine.toml is not TOML"),
        ('library = "Mine"\npackage = "mine"\n', "has no entry: write"),
        ('library = "Mine"\n[[entry]]\nname = "x"\n', "it has no 'package'"),
        ('library = "Mine"\npackage = "mine"\nversion = 3\n[[entry]]\nname = "x"\n', "unknown key 'version'"),
    ],
)
def test_a_file_that_is_no_mapping(library, text, words):
    (library / "mine.toml").write_text(text)
    with pytest.raises(LanemapError, match=words):
        mappings.load("mine.toml")
    with pytest.raises(LanemapError, match="no mapping 'yours': name a TOML file, or a shipped one: "):
        mappings.load("yours")


def test_nothing_usable_is_an_error_that_says_why(imported):
    with pytest.raises(
        LanemapError, match="gives nothing: nothing: LookupError: mylib: module 'mylib' has no attribute"
    ):
        imported(entry("nothing"))


def test_the_worker_needs_no_lanemap_and_keeps_the_output_clean(imported, capfd):
    """The library prints while it is imported; none of it reaches the user."""
    imported(GOOD)
    assert capfd.readouterr() == ("", "")
    assert "lanemap" not in (mappings._WORKER.read_text().replace("lanemap_adapter", "").lower())


def test_the_worker_is_written_for_older_pythons():
    """It is run by the Python of a library, from 3.8 on, which does not evaluate annotations such as list[int]."""
    tree = ast.parse(mappings._WORKER.read_text(), feature_version=(3, 8))
    late = [
        node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.names[0].name == "annotations"
    ]
    assert late == ["__future__"]


@pytest.mark.slow
def test_the_command(run, file, library):
    (library / "mine.toml").write_text(
        f'library = "Mine"\npackage = "mine"\n[[entry]]\nmodule = "mylib"\n{entry("holes")}\n'
    )
    result = run("import", "PYTHON", "mine.toml", db=file)
    assert result.code == 0
    assert result.out.splitlines()[0] == "mine: 1 fragment, 248 rows; 0 left out, 1 finding"
    assert "ValueError: no lane 3" in " ".join(result.out.split())
    found = run("check", "--format", "json", db=file)
    assert found.code == 1
    assert "lane 3 value 0 is not defined, and 7 more: ValueError: no lane 3" in found.out
    (library / "mine.toml").write_text(f'library = "Mine"\npackage = "mine"\n[[entry]]\nmodule = "mylib"\n{GOOD}\n')
    assert run("import", "python", "mine.toml", "--name", "ours", db=file).code == 0
    result = run("diff", "ours", "ptx-isa-9.4", "m16n8k16", "f16", "A", db=file)
    assert "identical" in result.out.split("\n")[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "form"),
    [
        ("no such name", "table"),
        ("another signature", "csv"),
        ("unknown key", "json"),
        ("not bases", "csv"),
        ("aborts", "csv"),
    ],
)
def test_what_ones_own_mapping_claims_and_nothing_comes_of_is_a_failure(run, file, library, trouble, form):
    """Else a check of every pull request would go on without a function that was renamed."""
    text, words = TROUBLES[trouble]
    entries = "".join(f'[[entry]]\nmodule = "mylib"\n{written}\n' for written in (text, GOOD))
    (library / "mine.toml").write_text(f'library = "Mine"\npackage = "mine"\n{entries}')
    result = run("import", "python", "mine.toml", "--format", form, db=file)
    assert result.code == 1
    assert words[:40] in " ".join(result.out.split()).replace('""', '"')
    assert "mine: 1 fragment, 256 rows; 1 failed" in result.out + result.err


@pytest.mark.slow
def test_what_a_version_of_a_library_lacks_is_no_failure_of_a_mapping_that_ships(run, file, library, monkeypatch):
    (library / "shipped.toml").write_text(
        f'library = "Mine"\npackage = "mine"\n[[entry]]\nmodule = "mylib"\n{entry("nothing")}\n'
        f'[[entry]]\nmodule = "mylib"\n{GOOD}\n'
    )
    monkeypatch.setattr(mapping, "MAPPINGS", library)
    monkeypatch.setattr(mappings, "MAPPINGS", library)
    result = run("import", "python", "shipped", db=file)
    assert (result.code, result.out.splitlines()[0]) == (0, "mine: 1 fragment, 256 rows; 1 left out")


def test_bad_usage_of_the_command(refused):
    refused("import", "python", words=("lanemap import python --list names: lanemap import python PATH",))
    refused("import", "table", "x.csv", "--python", "python3", words=("table takes no python: leave it out",))
    refused("import", "table", "--list", words=("table has no mappings",))


@pytest.mark.slow
def test_check_groups_findings_by_library_and_claim_set(run, file, library):
    """What is wrong alike in several types is said once."""
    claim = A.replace('"f16"', '"f16 bf16"')
    entries = [entry("holes", claim=claim, more='set = "loads"'), entry("leaves", more='set = "stores"')]
    tables = "".join(f'[[entry]]\nmodule = "mylib"\n{written}\n' for written in [*entries, GOOD])
    (library / "mine.toml").write_text(f'library = "Mine"\npackage = "mine"\n{tables}')
    run("import", "python", "mine.toml", db=file)
    lines = run("check", "--against", "ptx-isa-9.4", db=file).out.splitlines()
    row = next(line for line in lines if line.startswith("mine"))
    assert row.startswith("mine (3 sets) ")
    assert row.split()[3:] == ["4", "1", "0", "3", "9", "0"]  # fragments, agree, known, different, findings, known ones
    assert any(line.startswith("mine:loads, A of mma m16n8k16 f16 bf16, ") for line in lines)
    assert any(line.startswith("mine:stores, ") for line in lines)
    said = " ".join(" ".join(lines).split())
    assert said.count("lane 3 value 0 is not defined") == 1
    assert said.count("lane 5 value 1 is at (16, 3)") == 1
