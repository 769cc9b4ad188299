"""The atoms of the Python package ``tensor-layouts``, as installed: CuTe's thread-value layouts, transcribed by hand.

An atom has a PTX mnemonic, and layouts of A, B and C like CuTe's, but no registers: they follow from the types. A note
in brackets after the mnemonic says what it is not: ``(sparse)`` is an ``mma.sp``, ``(complex)`` several instructions.
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from ..db import instructions as table
from ..db.errors import LanemapError
from ..db.fragment import Fragment, Source
from ..db.instructions import Key
from .atom import AtomLayout, fragment
from .imported import Imported, Skipped, claim_sets
from .mnemonic import Mnemonic, instruction, move
from .move import fragments
from .shape_stride import Layout, layout, size

_TYPES = re.compile(r"_([FS]\d+)((?:BF|TF|F|S|U)\d+|E\dM\d)((?:BF|TF|F|S|U)\d+|E\dM\d)_[SR]S")
_FAMILY = re.compile(r"v_[a-z]+|\w+")
_NOTE = re.compile(r"\((.*)\)$")


def load() -> list[Imported]:
    """Every NVIDIA atom of the installed package: one source, and one more for each that contradicts others.

    Raises:
        LanemapError: the package is not installed, or has no such atom.
    """
    try:
        package = import_module("tensor_layouts")
    except ImportError:
        raise LanemapError("tensor-layouts is not installed: pip install tensor-layouts") from None
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name.startswith("atoms"))
    modules = [import_module(f"tensor_layouts.{name}") for name in names]
    found = {id(value): (module, value) for module in modules for value in vars(module).values() if _is_atom(value)}
    skipped: list[Skipped] = []
    units = list(_fragments(list(found.values()), skipped))
    version = metadata.version("tensor-layouts")
    if not any(fragments for _, fragments in units):
        raise LanemapError(
            f"tensor-layouts {version} has no NVIDIA atom of a warp or a warpgroup: a version from 0.3 on has"
        )
    files = {Path(str(module.__file__)).name: _fingerprint(module) for module in modules}
    provenance = {"library": "tensor-layouts", "version": version, "notation": "cute", "files": files}
    title = f"tensor-layouts {version}"
    first, *others = claim_sets(Source(f"tensor-layouts-{version}", "import", title, (), provenance), units)
    return [Imported(first, skipped), *map(Imported, others)]


def _is_atom(value: object) -> bool:
    return type(value).__name__ in ("MMAAtom", "CopyAtom")


def _fingerprint(module: Any) -> str:
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


def _where(module: Any, atom: Any) -> str:
    """The file, the line where there is one with the atom's name, and the name."""
    lines = Path(module.__file__).read_text("utf-8").splitlines()
    line = next((f":{number}" for number, text in enumerate(lines, 1) if re.match(rf"\s*{atom.name}\b", text)), "")
    return f"tensor_layouts/{Path(module.__file__).name}{line} {atom.name}"


def _fragments(atoms: Iterable[tuple[Any, Any]], skipped: list[Skipped]) -> Iterator[tuple[str, list[Fragment]]]:
    for module, atom in atoms:
        made = list(_operands(atom, _where(module, atom)))
        skipped += [each for each in made if isinstance(each, Skipped)]
        yield atom.name, [each for each in made if not isinstance(each, Skipped)]


def _operands(atom: Any, origin: str) -> Iterator[Fragment | Skipped]:
    try:
        if type(atom).__name__ == "CopyAtom":
            yield from fragments(_move(atom), _layout(atom.src_layout_bits), _layout(atom.dst_layout_bits), origin)
            return
        known = _instruction(atom)
        group = table.instruction(known.name).threads
        threads = layout(group) if atom.thr_id is None else _layout(atom.thr_id)
    except LanemapError as error:
        yield Skipped(atom.name, str(error))
        return
    for role in sorted(known.types):
        try:
            yield fragment(known, role, _operand(atom, known, role), threads, origin=origin)
        except LanemapError as error:
            yield Skipped(f"{atom.name} {role}", str(error))


def _move(atom: Any) -> Key:
    key = move(atom.ptx)
    if key is None:
        raise LanemapError(f"{_family(atom)!r} is not a move of matrices between memory and the registers of a warp")
    return key


def _family(atom: Any) -> str:
    found = _FAMILY.match(atom.ptx)
    return found[0] if found else str(atom.ptx)


def _instruction(atom: Any) -> Mnemonic:
    written = _TYPES.search(atom.name)
    known = instruction(atom.ptx)
    if known is None and written and atom.ptx.startswith("wgmma"):
        # Some mnemonics end before the types, which the name of the atom has.
        known = instruction(f"{atom.ptx}.{'.'.join(written.groups()).lower()}")
    if known is None and atom.ptx.startswith("tcgen05.mma"):
        raise LanemapError("'tcgen05' keeps its operands in Tensor Memory and shared memory: no thread holds any")
    if known is None:
        raise LanemapError(
            f"{_family(atom)!r} is not an instruction of NVIDIA's tensor cores that threads hold parts of"
        )
    note = _NOTE.search(atom.ptx)
    if note and note[1] != "sparse":
        raise LanemapError(f"it is not one mma: {note[1]}")
    shape = "m{}n{}k{}".format(*atom.shape_mnk)
    if shape != known.shape:
        raise LanemapError(f"its shape_mnk is {shape} and its mma is {known.shape}")
    return replace(known, name="mma.sp") if note else known


def _operand(atom: Any, known: Mnemonic, role: str) -> AtomLayout:
    if role == "A" and known.name == "mma.sp":
        raise LanemapError("it covers every column of a sparse A, and does not say which of them a register keeps")
    if known.name.startswith("wgmma") and (role == "B" or (role == "A" and "_SS" in atom.name)):
        raise LanemapError("it is in shared memory, and no thread holds any of it")
    held = _layout({"A": atom.a_layout, "B": atom.b_layout}.get(role, atom.c_layout))
    type_ = known.types[role]
    slots = max(1, 32 // table.element_bits(known.name, known.shape, type_))
    values = size(held.shape) // size(held.shape[0]) if isinstance(held.shape, tuple) else 0
    if values % slots:
        raise LanemapError(f"{held} gives a lane {values} {type_}, which do not fill registers")
    return AtomLayout(held, values // slots, slots)


def _layout(of: Any) -> Layout:
    return layout(of.shape, of.stride)
