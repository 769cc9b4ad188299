"""What comes with the operands of a product: metadata that chooses columns of A, and block scales (9.7.16.3)."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from ...db.errors import LanemapError
from ...db.flow.metadata import decode
from ...db.isa.forms import Form
from ...db.layout.algebra import Array
from ...db.layout.fragment import Fragment
from .. import values
from .launch import Unknown
from .ptx import Function, Number, Operand, Vector
from .schedule import Machine
from .values import UNSET, Held, held


class Chosen(NamedTuple):
    """The columns that metadata chooses for the slots of A (groups, slots), and the origins of that metadata.

    ``held`` are the origins of the slots of the metadata itself, of which ``layout`` says the cells.
    """

    columns: Array
    ids: Array
    held: Array
    layout: Held


class Scales(NamedTuple):
    """Block scales (groups, rows of A or columns of B, blocks), the origins of their slots, and the cells of these."""

    numbers: Array
    ids: Array
    layout: Held


def metadata(
    machine: Machine, form: Form, operands: Sequence[Operand], function: Function
) -> Callable[[Array, Fragment], Chosen]:
    """What reads the metadata of groups of threads for an A, from a register and a selector (9.7.16.6.1)."""
    word, selector = operands
    if not isinstance(selector, Number):
        raise Unknown("a sparsity selector is a number")
    register, e = machine.register(word, "b32", function), machine.layouts(form.key("E", selector.number))
    supplies = np.unique(e.table["lane"])
    valid = next(iter(form.sparsity.indices)) * 0x11111111

    def choose(threads: Array, a: Fragment) -> Chosen:
        words, (lane, byte) = register.bits[threads], _governing(a, e)
        ids = register.origins[threads[:, lane], byte]
        held_ids = register.origins[threads[:, e.table["lane"].astype(np.intp)], _byte(e)]
        if (unset := (register.origins[threads[:, supplies]] <= UNSET).any(axis=(1, 2))).any():
            machine.fault("unset", threads[unset, 0], "metadata is uninitialised")
        try:
            return Chosen(decode(words, a, e), ids, held_ids, held(e))
        except LanemapError as error:
            machine.fault("metadata", threads[:, 0], str(error))
            return Chosen(decode(np.full_like(words, valid), a, e), ids, held_ids, held(e))

    return choose


@cache
def _governing(a: Fragment, e: Fragment) -> tuple[Array, Array]:
    """The lane, and the byte of its word, whose metadata chooses the column of each slot of A."""
    rule, fields = a.sparsity, e.table
    chunks = a.dimensions[1] // rule.width
    of_chunk = np.zeros((2, a.dimensions[0] * chunks), np.intp)
    at = fields["row"].astype(np.intp) * chunks + fields["col"] // rule.width
    of_chunk[:, at] = fields["lane"], _byte(e)
    lane, byte = of_chunk[:, a.table["row"].astype(np.intp) * chunks + a.table["col"] // rule.width]
    return lane, byte


def _byte(e: Fragment) -> Array:
    """The byte of its word that each slot of metadata is in."""
    return np.asarray(e.table["slot"] // e.sparsity.fields * 4 // 8)


def scales(
    machine: Machine, form: Form, operands: Sequence[Operand], function: Function
) -> Callable[[Array], dict[str, Scales]]:
    """What reads the block scales of groups of threads: a register, and which byte of which threads, for A and B."""
    assert form.block_scales is not None
    count, type_ = form.block_scales
    registers, chosen = {}, {}
    for role, word, ids in zip(("SFA", "SFB"), operands[::2], operands[1::2], strict=True):
        if not isinstance(ids, Vector):
            raise Unknown("block scales come with {byte, thread}")
        registers[role] = machine.register(word, "b32", function)
        chosen[role] = [machine.register(item, "u16", function) for item in ids.items]

    def read(role: str, threads: Array) -> Scales:
        byte, thread = (int(each.bits[threads[0, 0]]) for each in chosen[role])
        qualifiers = f"scale_vec::{count}X.byte_id::{byte}.thread_id::{thread}"
        layout = machine.layouts(form.key(role)._replace(qualifiers=qualifiers))
        if layout.qualifiers != qualifiers:
            raise LanemapError(f"{role} of {form.mnemonic} is in no byte {byte} of threads {thread}")
        lane, slot = (layout.table[name].astype(np.intp) for name in ("lane", "slot"))
        line, block = (layout.table[name].astype(np.intp) for name in ("row", "col")[:: 1 if role == "SFA" else -1])
        register = registers[role]
        codes = np.ascontiguousarray(register.bits).view("u1").reshape(machine.threads, -1)[threads[:, lane], slot]
        numbers = np.ones((len(threads), max(line) + 1, count), np.float32)
        numbers[:, line, block] = values.decode(type_, 8, codes)
        ids = register.origins[threads[:, lane], slot]
        if (unset := (ids <= UNSET).any(axis=1)).any():
            machine.fault("unset", threads[unset, 0], f"{role} is uninitialised")
        return Scales(numbers, ids, held(layout))

    def every(threads: Array) -> dict[str, Scales]:
        try:
            return {role: read(role, threads) for role in registers}
        except LanemapError as error:
            machine.fault("scale", threads[:, 0], str(error))
            return {}

    return every


def gathered(numbers: Array, layout: Held, chosen: Chosen | None) -> Array:
    """The matrices of A that slots (groups, slots) hold, in the columns that metadata chose."""
    if chosen is None:
        return np.asarray(numbers[:, layout.slot])
    return values.scatter(numbers, layout.fragment, chosen.columns)


def multiply(form: Form, a: Array, b: Array, layout: Held, chosen: Chosen | None) -> Array:
    """A x B, to which what metadata does not choose adds nothing, also where B is not finite."""
    if chosen is None or np.isfinite(b).all():
        return values.multiply(form, a, b)
    taken = gathered(np.ones(chosen.columns.shape), layout, chosen).reshape(a.shape)
    terms = np.where(taken[..., None], a[..., None] * b[..., None, :, :], 0)
    return np.asarray(terms.sum(axis=-2))


def scaled(role: str, matrix: Array, by: Scales) -> Array:
    """A or B (groups, computations, rows, columns), each element times the scale of its block."""
    axis = 2 if role == "A" else 1
    numbers = by.numbers.repeat(matrix.shape[3 if role == "A" else 2] // by.numbers.shape[2], axis=2)
    return np.asarray(matrix * (numbers if axis == 2 else numbers.swapaxes(1, 2))[:, None])
