"""Layout tables for a model of a group of threads in which every slot holds a cell at random."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np

from lanemap.capture import run
from lanemap.db.isa.forms import Form
from lanemap.db.isa.instructions import PARTIAL_ROLES, Key, copies, dimensions, element_bits, operand, sparsity
from lanemap.db.layout.fragment import Fragment, Source, elements

Table = dict[Key, Fragment]


def capture(device: Any, documented: Table, *more: Any, **also: Any) -> Source:
    """A capture on a device that is open, by what is documented."""
    return run.capture(lambda: nullcontext(device), lambda: documented, *more, **also)


def at_random(forms: Iterable[Form], seed: int = 0) -> Table:
    """A table with every fragment of forms of wgmma, wmma and matrix moves."""
    table: Table = {}
    for form in forms:
        for key in keys(form):
            # A of wgmma and its metadata are the same for every N.
            same = (
                key.shape.partition("k")[2] if key.instruction.startswith("wgmma") and key.role in "AE" else key.shape
            )
            table.setdefault(
                key, _fragment(key, np.random.default_rng([seed, crc32(repr(key._replace(shape=same)).encode())]))
            )
    loaded, source = (
        Key("ldmatrix", "m8n8", "b16", "r", qualifiers="x1"),
        Key("movmatrix", "m8n8", "b16", "A", qualifiers="trans"),
    )
    if source in table and loaded in table:
        # The kernel of movmatrix gets its source from ldmatrix.
        table[source] = replace(table[source], elements=table[loaded].elements)
    return table


def keys(form: Form) -> list[Key]:
    """The fragments of a form."""
    if form.role:
        return [form.key(role) for role in form.types]
    selectors = [selector for selector in form.selectors if selector is not None]
    held = (role for role in form.instruction.register_roles if role not in PARTIAL_ROLES)
    return [*(form.key(role) for role in held), *(form.key("E", selector) for selector in selectors)]


def _fragment(key: Key, random: np.random.Generator) -> Fragment:
    held = operand(key)
    columns: Any = _metadata(key, random) if key.role == "E" else _cells(key, random)
    lane, reg, slot = (axis.ravel() for axis in np.indices((held.threads, held.registers, held.slots)))
    if key.role == "p":
        lane, reg, slot = (np.arange(len(columns["row"])) * extent for extent in (1, 0, 0))
    if key.role == "E":
        lane, reg, slot = columns.pop("lane"), columns.pop("reg"), columns.pop("slot")
    name, shape, type_, role, major, selector, qualifiers = key
    table = elements({"lane": lane, "reg": reg, "slot": slot, **columns})
    return Fragment(
        name, shape, type_, role, held.registers, held.slots, table, major, selector, qualifiers, status="captured"
    )


def _cells(key: Key, random: np.random.Generator) -> dict[str, np.ndarray]:
    rows, cols = dimensions(key.shape, key.role, key.instruction)
    rule = sparsity(key.instruction, key.shape, key.type)
    stored = rule.fields * rule.group if key.role == "A" else rule.width
    count = int((key.qualifiers or "x1").partition(".")[0].removeprefix("x") if key.role in "rp" else 1)
    computation, row, place = (axis.ravel() for axis in np.indices((count, rows, cols * stored // rule.width)))
    order = np.arange(len(row)) if key.role == "p" else random.permutation(len(row))
    if key.instruction == "wmma" and (together := 8 // element_bits(*key[:3])) > 1:  # no byte of memory is torn
        lines = np.arange(len(row)).reshape(rows, cols)
        order = random.permutation((lines if key.role == "A" else lines.T).reshape(-1, together)).ravel()
    if key.role in "AB":
        order = np.tile(order, copies(key.instruction, key.shape, key.type, key.role))
    computation, row, place = computation[order], row[order], place[order]
    col = place // stored * rule.width + place % stored
    return {"row": row, "col": col, "col_last": col + rule.width - stored, "computation": computation + 1}


def _metadata(key: Key, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Each vector of some threads governs a chunk of some row. A selector takes its share of the threads."""
    rows, cols = dimensions(key.shape, key.role, key.instruction)
    rule, held = sparsity(key.instruction, key.shape, key.type), operand(key)
    chunks = rows * cols // rule.width
    lanes = random.permutation(held.threads)[: chunks // 8]
    row, chunk = np.divmod(random.permutation(chunks), cols // rule.width)
    field = np.tile(np.arange(rule.fields), chunks)
    row, chunk = np.repeat(row, rule.fields), np.repeat(chunk, rule.fields)
    lane, slot = np.divmod(np.arange(chunks * rule.fields), held.slots)
    col = chunk * rule.width + field * rule.group
    stored = rule.fields * rule.group
    return {
        "lane": lanes[lane], "reg": 0 * lane, "slot": slot, "row": row, "col": col,
        "col_last": col + rule.width - stored + rule.group - 1, "computation": 0 * lane + 1,
    }  # fmt: skip
