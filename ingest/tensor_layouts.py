"""The atoms of the Python package ``tensor-layouts``, as installed: CuTe's thread-value layouts, transcribed by hand.

An atom has a PTX mnemonic, and layouts of A, B and C like CuTe's, but no registers: they follow from the types. A note
in brackets after the mnemonic says what it is not: ``(sparse)`` is an ``mma.sp``, ``(complex)`` several instructions.
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from ..db.errors import LanemapError
from ..db.fragment import LANES, Fragment, Source
from .atom import Instruction, Operand, fragment, instruction, lanes
from .imported import Imported, Skipped, claim_sets
from .shape_stride import Layout, layout, size

_BITS = {"f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}
_BITS |= {"s4": 4, "u4": 4, "e2m1": 4, "b1": 1}
_FAMILY = re.compile(r"v_[a-z]+|\w+")
_NOTE = re.compile(r"\((.*)\)$")


def load() -> list[Imported]:
    """Every warp-level NVIDIA atom of the installed package: one source, and one more for each that contradicts others.

    Raises:
        LanemapError: the package is not installed, or has no such atom.
    """
    try:
        package = import_module("tensor_layouts")
    except ImportError:
        raise LanemapError("tensor-layouts is not installed: pip install tensor-layouts") from None
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name.startswith("atoms"))
    modules = [import_module(f"tensor_layouts.{name}") for name in names]
    found = {id(value): value for module in modules for value in vars(module).values() if _is_atom(value)}
    skipped: list[Skipped] = []
    units = list(_fragments(list(found.values()), skipped))
    version = metadata.version("tensor-layouts")
    if not any(fragments for _, fragments in units):
        raise LanemapError(f"tensor-layouts {version} has no warp-level NVIDIA atom: a version from 0.3 on has")
    files = {Path(str(module.__file__)).name: _fingerprint(module) for module in modules}
    provenance = {"library": "tensor-layouts", "version": version, "files": files}
    title = f"tensor-layouts {version}"
    first, *others = claim_sets(Source(f"tensor-layouts-{version}", "import", title, (), provenance), units)
    return [Imported(first, skipped), *map(Imported, others)]


def _is_atom(value: object) -> bool:
    return type(value).__name__ in ("MMAAtom", "CopyAtom")


def _fingerprint(module: Any) -> str:
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


def _fragments(atoms: list[Any], skipped: list[Skipped]) -> Iterator[tuple[str, list[Fragment]]]:
    for atom in atoms:
        try:
            known = _instruction(atom)
            threads = layout(LANES) if atom.thr_id is None else _layout(atom.thr_id)
            lanes(threads)
        except LanemapError as error:
            skipped.append(Skipped(atom.name, str(error)))
            continue
        made = []
        for role in "ABCD":
            try:
                made.append(fragment(known, role, _operand(atom, known, role), threads))
            except LanemapError as error:
                skipped.append(Skipped(f"{atom.name} {role}", str(error)))
        yield atom.name, made


def _instruction(atom: Any) -> Instruction:
    known = instruction(atom.ptx)
    if known is None:
        family = _FAMILY.match(atom.ptx)
        raise LanemapError(f"{family[0] if family else atom.ptx!r} is not mma, NVIDIA's warp-level instruction")
    note = _NOTE.search(atom.ptx)
    if note and note[1] != "sparse":
        raise LanemapError(f"it is not one mma: {note[1]}")
    shape = "m{}n{}k{}".format(*atom.shape_mnk)
    if shape != known.shape:
        raise LanemapError(f"its shape_mnk is {shape} and its mma is {known.shape}")
    return replace(known, name="mma.sp") if note else known


def _operand(atom: Any, known: Instruction, role: str) -> Operand:
    if role == "A" and known.name == "mma.sp":
        raise LanemapError("it covers every column of a sparse A, and does not say which of them a register keeps")
    held = _layout({"A": atom.a_layout, "B": atom.b_layout}.get(role, atom.c_layout))
    type_ = known.types[role]
    if type_ not in _BITS:
        raise LanemapError(f"the width of {type_} in a register is not known")
    slots = max(1, 32 // _BITS[type_])
    values = size(held.shape) // size(held.shape[0]) if isinstance(held.shape, tuple) else 0
    if values % slots:
        raise LanemapError(f"{held} gives a lane {values} {type_}, which do not fill registers")
    return Operand(held, values // slots, slots)


def _layout(of: Any) -> Layout:
    return layout(of.shape, of.stride)
