"""The atoms of the Python package ``tensor-layouts``, as installed: CuTe's thread-value layouts, transcribed by hand.

An atom has a PTX mnemonic, and layouts of A, B and C like CuTe's, but no registers: they follow from the types. A note
in brackets after the mnemonic qualifies it: ``(sparse)`` is an ``mma.sp``, ``(complex)`` several instructions.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module, metadata
from math import prod
from pathlib import Path
from typing import Any

from ..db.errors import LanemapError
from ..db.isa import instructions as table
from ..db.isa.forms import Form
from ..db.layout.algebra import Sum, strided
from ..db.layout.fragment import Fragment, Source
from .atom import AtomLayout, atom_operand, move_fragments, named_form, named_move, why_none
from .importing import Imported, Skipped, claim_sets

_TYPES = re.compile(r"_([FS]\d+)((?:BF|TF|F|S|U)\d+|E\dM\d)((?:BF|TF|F|S|U)\d+|E\dM\d)_[SR]S")
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
    files = {path.name: path.read_bytes() for path in sorted(Path(package.__path__[0]).glob("atoms*.py"))}
    modules = {file: import_module(f"tensor_layouts.{Path(file).stem}") for file in files}
    every = [(file, value) for file in files for value in vars(modules[file]).values()]
    atoms = {id(value): (file, value) for file, value in every if type(value).__name__ in ("MMAAtom", "CopyAtom")}
    skipped: list[Skipped] = []
    units: list[tuple[str, list[Fragment]]] = []
    for file, atom in atoms.values():
        text = files[file].decode()
        begins = re.search(rf"^\s*{atom.name}\b", text, re.MULTILINE)
        line = f":{text.count(chr(10), 0, begins.end()) + 1}" if begins else ""
        operands = list(_operands(atom, f"tensor_layouts/{file}{line} {atom.name}"))
        skipped += [part for part in operands if isinstance(part, Skipped)]
        units.append((atom.name, [part for part in operands if not isinstance(part, Skipped)]))
    version = metadata.version("tensor-layouts")
    if not any(fragments for _, fragments in units):
        why = "has no NVIDIA atom of a warp or a warpgroup: use version 0.3 or later"
        raise LanemapError(f"tensor-layouts {version} {why}")
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    provenance = {"library": "tensor-layouts", "version": version, "notation": "cute", "files": digests}
    source = Source(f"tensor-layouts-{version}", "import", f"tensor-layouts {version}", (), provenance)
    first, *others = claim_sets(source, units)
    return [Imported(first, skipped), *map(Imported, others)]


def _operands(atom: Any, origin: str) -> Iterator[Fragment | Skipped]:
    try:
        if type(atom).__name__ == "CopyAtom":
            if (key := named_move(atom.ptx)) is None:
                yield Skipped(atom.name, why_none(atom.ptx))
                return
            yield from move_fragments(key, _layout(atom.src_layout_bits), _layout(atom.dst_layout_bits), origin)
            return
        form = _instruction(atom)
        group = table.instruction(form.name).threads
        threads = strided(group) if atom.thr_id is None else _layout(atom.thr_id)
    except LanemapError as error:
        yield Skipped(atom.name, str(error))
        return
    for role in sorted(form.instruction.types):
        try:
            yield atom_operand(form, role, _operand(atom, form, role), threads, origin=origin)
        except LanemapError as error:
            yield Skipped(f"{atom.name} {role}", str(error))


def _instruction(atom: Any) -> Form:
    written = _TYPES.search(atom.name)
    form = named_form(atom.ptx)
    if form is None and written:
        # Some mnemonics end before the types, which the name of the atom has.
        form = named_form(f"{atom.ptx}.{'.'.join(written.groups()).lower()}")
    if form is None:
        raise LanemapError(why_none(atom.ptx))
    note = _NOTE.search(atom.ptx)
    if note and note[1] != "sparse":
        raise LanemapError(f"it is not one mma: {note[1]}")
    shape = "m{}n{}k{}".format(*atom.shape_mnk)
    if shape != form.shape:
        raise LanemapError(f"its shape_mnk is {shape} and its mma is {form.shape}")
    return replace(form, name=f"{form.name}.sp") if note else form


def _operand(atom: Any, form: Form, role: str) -> AtomLayout:
    if role == "A" and form.sparse:
        raise LanemapError("it covers every column of a sparse A, and does not say which of them a register keeps")
    if role in form.instruction.absent or (role == "A" and "_SS" in atom.name):
        raise LanemapError("it is in shared memory, and no thread holds any of it")
    held = _layout({"A": atom.a_layout, "B": atom.b_layout}.get(role, atom.c_layout))
    type_ = form.types[role]
    slots = max(1, 32 // table.element_bits(form.name, form.shape, type_))
    values = prod(held.lengths[1:]) if len(held.axes) > 1 else 0
    if values % slots:
        raise LanemapError(f"{held} gives a lane {values} {type_}, which do not fill registers")
    return AtomLayout(held, values // slots, slots)


def _layout(of: Any) -> Sum:
    return strided(of.shape, of.stride)
