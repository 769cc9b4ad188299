"""Layouts that Python libraries have as functions, bases or text, claimed by a mapping (``mapping.py``).

``worker.py`` evaluates the library in a process of its own, and on request in another Python, where Lanemap need not be
installed. Whatever the library does, only its own answers can be wrong. Each claim set becomes a source.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Table
from dataclasses import replace
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from ...db.errors import LanemapError, validated
from ...db.isa.instructions import Key
from ...db.layout.fragment import Citation, Fragment, Source
from ...db.layout.sets import claim_sets
from ..importing import MAPPINGS, Imported, Skipped, wrong
from .child import Child, ChildError, Limits
from .layout import Places, domain, fragment, in_tile, named, places
from .mapping import LibraryEntry, Mapping, Traced, read_mapping, shipped

#: The limits of one task, with the import of its library, and of all tasks of a mapping.
LIMITS = Limits()
#: More calls than any tile of an instruction needs.
MAX_CALLS = 1 << 20

_NO_ANSWER = "its process sent an invalid answer"
_LONGEST_REASON = 400
_WORKER = Path(__file__).with_name("worker.py")

_Number = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]
_Version = Annotated[str, msgspec.Meta(max_length=100)] | None
_Pair = tuple[_Number, _Number]
_Vectors = Annotated[list[_Pair], msgspec.Meta(max_length=10)]


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    """The result of a task: an error; or the ``value`` of an object; or ``values``, and where these are undefined."""

    error: str | None = None
    origin: str | None = None
    value: Any = None
    values: list[Any] = []
    undefined: dict[str, list[int]] = {}


class _Bases(msgspec.Struct):
    register: _Vectors
    lane: _Vectors
    warp: _Vectors = []


class LoweredKernel(msgspec.Struct, forbid_unknown_fields=True):
    """A kernel that a library made: its text, the threads of a block, and the bytes of dynamic shared memory."""

    ptx: str
    block: Annotated[int, msgspec.Meta(ge=1, le=1024)]
    shared: Annotated[int, msgspec.Meta(ge=0, le=1 << 18)] = 0


#: What runs a kernel: what the operands of its instructions hold, by execution, and what is wrong with it, in words.
Tracer = Callable[[LoweredKernel, Traced], tuple[Sequence[Sequence[Fragment]], Sequence[str]]]

#: The type of an object in each form. Callables return pairs, or numbers that stand for pairs.
_VALUE = {"kernel": LoweredKernel, "bases": _Bases, "strides": Annotated[str, msgspec.Meta(max_length=300)]}


def load(mapping: str, python: str | None = None, tracer: Tracer | None = None) -> list[Imported]:
    """The claims of a library, one source for each claim set, and the claims that cannot be used.

    A source is named after the library and, if it is installed, its version.

    If a version of the library lacks something that a shipped mapping names, it is left out. A claim of any other
    mapping without a result is a failure.

    Args:
        mapping: the name of a shipped one, or a TOML file. Modules are also searched for in the current folder, before
            all installed ones, and next to the file, after them.
        python: the Python in whose environment the library is installed. Default: this one.
        tracer: what runs kernels. Without one those are left out.

    Raises:
        LanemapError: there is no such mapping, or it has no result.
    """
    path = MAPPINGS / f"{mapping}.toml"
    if not path.is_file():
        path = Path(mapping)
    if not path.is_file():
        names = ", ".join(listed.path.stem for listed in shipped())
        raise LanemapError(f"no mapping {mapping!r}: name a TOML file, or a shipped one: {names}")
    read, ships = read_mapping(path), path.parent == MAPPINGS
    tasks, refused = [], [Skipped(*pair) for pair in read.refused]
    for entry in read.entries:
        try:
            claims = tuple(claim for pattern in entry.claims for claim in in_tile(pattern))
            entry = msgspec.structs.replace(entry, claims=claims)
            tasks.append((entry, _task(entry, read.path)))
        except LanemapError as error:
            refused.append(Skipped(entry.name, str(error)))
    # The adapters of shipped mappings have the names of libraries, and must not be imported in their place.
    folders = [Path.cwd(), *([] if ships else [read.path.parent.resolve()])]
    wanted = [task for _, task in tasks]
    version, answered = answers(wanted, read.package, list(map(str, folders)), python or sys.executable)
    operands: list[_Operand] = []
    wrong_kernels: dict[str, list[str]] = {}
    for (entry, task), answer in zip(tasks, answered, strict=True):
        try:
            checked = validated(answer, _Answer)
        except LanemapError:
            checked = _Answer(_NO_ANSWER)
        if checked.error is not None:
            refused.append(Skipped(called(task), " ".join(checked.error.split())[:_LONGEST_REASON]))
        elif entry.form != "kernel":
            operands += _operands(entry, checked)
        else:
            try:
                held, words = _traced(entry, checked, tracer)
                operands += held
                wrong_kernels.setdefault(entry.set, []).extend(f"{called(task)}: {said}" for said in words)
            except LanemapError as error:
                refused.append(Skipped(called(task), str(error)))
    refused += [remark for operand in operands if operand.fragment is None for remark in operand.remarks]
    by_set = groupby(sorted(operands, key=lambda operand: operand.set), key=lambda operand: operand.set)
    imports = [
        imported
        for name, of_set in by_set
        for imported in _sources(read, version, name, list(of_set), wrong_kernels.get(name, ()))
    ]
    if not imports:
        raise LanemapError(f"{mapping} gives nothing: {refused[0].name}: {refused[0].reason}")
    return [replace(imports[0], skipped=refused, failed=not ships and bool(refused)), *imports[1:]]


def called(task: Table[str, Any]) -> str:
    """What a task is called: the function and the arguments that it is made and called with."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in {**(task["make"] or {}), **task["with"]}.items())
    return f"{task['name']}({arguments})" if arguments else str(task["name"])


def answers(
    tasks: Sequence[Any], package: str, path: Sequence[str], python: str
) -> tuple[str | None, list[dict[str, Any]]]:
    """The version of a package, and an answer to each task: values, or an error in words.

    A task that ends its process, or goes beyond a limit, is answered with an error; the tasks after it go on in a new
    process, until the time of all is over.

    Raises:
        LanemapError: ``python`` cannot be started.
    """
    version: str | None = None
    answered: list[dict[str, Any]] = []
    end = time.monotonic() + LIMITS.seconds
    while len(answered) < len(tasks):
        request = msgspec.json.encode({"path": path, "package": package, "tasks": tasks[len(answered) :]})
        with Child([python, str(_WORKER)], request, LIMITS, end) as child:
            try:
                version = msgspec.json.decode(child.receive(), type=_Version)
            except (ChildError, msgspec.DecodeError) as error:
                if not answered:
                    raise LanemapError(f"{python} is not a Python 3.8 or newer: it {error}") from None
            try:
                while len(answered) < len(tasks):
                    answered.append(msgspec.json.decode(child.receive(), type=dict[str, Any]))
            except ChildError as error:
                answered.append({"error": f"its process {error}"})
            except (msgspec.DecodeError, RecursionError):
                answered.append({"error": _NO_ANSWER})
        if time.monotonic() > end:
            late = {"error": f"not evaluated: all entries together may take {LIMITS.seconds:g} s"}
            answered += [late] * (len(tasks) - len(answered))
    return version, answered


class _Operand(NamedTuple):
    """A claim on one operand: its set and entry, the fragment if there is one, and what is wrong with it."""

    set: str
    entry: LibraryEntry
    key: Key
    fragment: Fragment | None
    remarks: Sequence[Skipped]


def _task(entry: LibraryEntry, path: Path) -> dict[str, Any]:
    """The task of an entry for the other process."""
    extents = domain(entry)
    if extents and prod(extents) > MAX_CALLS:
        raise LanemapError(f"it would be called {prod(extents)} times: no tile of an instruction is so large")
    adapter = str(path.with_suffix(".py").resolve()) if entry.adapter else None
    modules = entry.module or path.stem
    fields = msgspec.to_builtins(entry) | {"modules": [modules] if isinstance(modules, str) else modules}
    return {**fields, "adapter": adapter, "domain": extents, "claims": ()}


def _operands(entry: LibraryEntry, answer: _Answer) -> Iterator[_Operand]:
    invalid = ""
    try:
        if entry.form in _VALUE:
            validated(answer.value, _VALUE[entry.form])
        else:
            validated(answer.values, list[_Number | None] if entry.stride else list[_Pair | None])
    except LanemapError as error:
        invalid = f"its result does not have the form {entry.form!r}: {error}"
    fields = msgspec.structs.asdict(answer)
    lost: set[Key] = set()
    tile: Places | None = None
    for claim in entry.claims:
        for type_ in claim.types.split():
            built: Fragment | None = None
            words = [invalid]
            try:
                if not invalid:
                    if tile is None or entry.form not in ("place", "cell"):  # those have one for all claims
                        tile = places(entry, claim, type_, fields)
                    built, words = fragment(entry, claim, type_, tile, answer.origin)
            except LanemapError as error:
                words = [str(error)]
            key, origin = named(claim, type_), answer.origin or entry.name
            remarks = [Skipped(f"{key}, {origin}", reason, key, origin) for reason in words]
            if built is None and key in lost:  # in another place of its tile
                continue
            if built is None:
                lost.add(key)
            yield _Operand(claim.set or entry.set, entry, key, built, remarks)


def _traced(entry: LibraryEntry, answer: _Answer, tracer: Tracer | None) -> tuple[list[_Operand], Sequence[str]]:
    """What the operands of a kernel hold, and what is wrong with the kernel.

    Raises:
        LanemapError: it is no kernel, or cannot be run.
    """
    if tracer is None or entry.trace is None:
        raise LanemapError("kernels are not traced here: import the mapping into a database")
    held, words = tracer(validated(answer.value, LoweredKernel), entry.trace)
    origin = answer.origin or entry.name
    fragments = [
        replace(fragment, status="imported", source=None, citation=Citation(origin=origin))
        for execution in held
        for fragment in execution
    ]
    if not fragments:
        raise LanemapError("; ".join(words) or "it has no tensor instruction whose operands can be followed")
    return [_Operand(entry.set, entry, fragment.key, fragment, ()) for fragment in fragments], words


def _sources(
    read: Mapping, version: str | None, name: str, operands: Sequence[_Operand], kernels: Sequence[str]
) -> Iterator[Imported]:
    """A source for a claim set, and one for each entry that contradicts another of the set.

    ``kernels`` is what is wrong with kernels of the set.
    """
    library = "-".join([*re.findall(r"[\w.]+", read.library.lower())] or [read.path.stem])
    library = f"{library}-{version}" if version else library
    title = " ".join(part for part in (read.library, version, name) if part)
    provenance = {
        "mapping": read.path.stem if read.path.parent == MAPPINGS else "/".join(read.path.resolve().parts[-2:]),
        "library": read.library,
        "package": read.package,
        "version": version,
        "set": name,
        "notation": {"bases": "linear", "strides": "cute"}.get(operands[0].entry.form, "python"),
    }
    source = Source(f"{library}:{name}" if name else library, "import", title, (), provenance)
    units = [(operand.entry.name.rpartition(".")[2], [operand.fragment]) for operand in operands if operand.fragment]
    lost = [remark for operand in operands if operand.fragment is None for remark in operand.remarks]
    for claim_set in claim_sets(source, units, whole=True) if units else ():
        included = {id(fragment) for fragment in claim_set.fragments}
        findings = [remark for operand in operands if id(operand.fragment) in included for remark in operand.remarks]
        first = claim_set.name == source.name
        about: dict[str, Any] = {**provenance, "wrong": wrong([*(lost if first else []), *findings])}
        about |= {"disagreements": list(kernels)} if first and kernels else {}
        yield Imported(replace(claim_set, provenance=about), findings=findings)
