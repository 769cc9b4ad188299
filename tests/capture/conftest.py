"""Complete layout tables for the simulated warp: the documented one, with what is only drawn filled in plausibly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from lanemap.db.isa.forms import Form
from lanemap.db.isa.instructions import WARP
from lanemap.db.layout.fragment import Fragment, element_type, elements

from ..forms import FORMS
from ..shipped import CORRECTED, documents

Table = dict[Any, Fragment]


@pytest.fixture(scope="session")
def documented() -> Mapping[Any, Fragment]:
    """The fragments of the document with its errata, by key."""
    return _documented()


@pytest.fixture(scope="session")
def complete() -> Mapping[Any, Fragment]:
    """Every fragment of every form, with exact windows for sparse A and with all of E."""
    table: Table = {}
    for instruction in FORMS:
        for role in "ABCD":
            table[instruction.key(role)] = _fragment(instruction, role)
        for selector in instruction.selectors:
            if selector is not None:
                table[instruction.key("E", selector)] = _metadata(instruction, selector)
    return table


@cache
def _documented() -> Mapping[Any, Fragment]:
    return {fragment.key: fragment for fragment in documents()[CORRECTED].fragments}


def _blank(instruction: Form, role: str) -> Any:
    operand = instruction.operand(role)
    table = np.zeros(operand.size, element_type())
    table["lane"], table["reg"], table["slot"] = operand.place(np.arange(operand.size))
    table["computation"] = 1
    return table


def _fragment(instruction: Form, role: str) -> Fragment:
    fragment = _documented().get(instruction.key(role))
    operand = instruction.operand(role)
    if role == "A" and instruction.sparse:
        assert fragment is not None
        assert fragment.elements is not None
        table = fragment.elements.copy()
        rule = instruction.sparsity
        order = np.lexsort((np.arange(len(table)), table["col"], table["row"]))
        stored = rule.fields * rule.group
        place = np.arange(len(table)) % (instruction.dimensions[2] // rule.width * stored)
        within = place % stored
        first = place // stored * rule.width + within
        table["col"][order] = first
        table["col_last"][order] = first + rule.width - stored
        return replace(fragment, elements=table)
    if fragment is not None and fragment.elements is not None:
        return fragment
    table = _blank(instruction, role)
    if role == "B":
        table["col"] = table["lane"] // 4
        table["row"] = (table["lane"] % 4 + 4 * table["reg"]) * operand.slots + table["slot"]
    else:
        table["row"] = table["lane"] // 4 + 8 * ((table["reg"] * operand.slots + table["slot"]) // 2)
        table["col"] = table["lane"] % 4 * 2 + (table["reg"] * operand.slots + table["slot"]) % 2
    table["col_last"] = table["col"]
    return Fragment.of(instruction.key(role), table, "documented")


def _metadata(instruction: Form, selector: int) -> Fragment:
    operand, rule = instruction.operand("E"), instruction.sparsity
    lanes = WARP // len(instruction.selectors)
    lane = np.arange(WARP).reshape(-1, 4)[:, np.arange(4) * len(instruction.selectors) // 4 == selector].ravel()
    assert len(lane) == lanes
    lane, slot = np.repeat(lane, operand.slots), np.tile(np.arange(operand.slots), lanes)
    chunks = instruction.dimensions[2] // rule.width
    row, chunk = np.divmod(np.arange(len(lane)) // rule.fields, chunks)
    col = chunk * rule.width + slot % rule.fields * rule.group
    last = col + rule.width - rule.fields * rule.group + rule.group - 1
    columns = {"lane": lane, "reg": 0 * lane, "slot": slot, "row": row, "col": col, "col_last": last}
    table = elements({**columns, "computation": 0 * lane + 1})
    return Fragment(instruction.name, instruction.shape, operand.type, "E", 1, operand.slots, table, selector=selector)
