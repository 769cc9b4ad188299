"""Matrices in shared memory against the addresses that PTX says, byte by byte."""

import re
from itertools import product

import numpy as np
import pytest

from lanemap.capture import values
from lanemap.db.isa.instructions import DENSE

from .. import forms

#: Of each type and sparsity of wgmma the widths 24 and 64.
WARPGROUP = [form for form in forms.WARPGROUP if form.dimensions[1] in (24, 64) and form.d != "f16"]
WMMA = [form for form in forms.MOVES if form.name == "wmma"]


def numbers(form, type_, role):
    """Small numbers of a type for each place of a matrix."""
    low, high = values.integers(type_)
    return np.random.default_rng(0).integers(low, high, (3, *values.extents(form, role)), endpoint=True)


def packed(form, type_, lines):
    """The bytes of each line (patterns, lines, bytes), its elements one after the other."""
    width = values.memory_bits(form)
    return values.to_bytes(values.encode(type_, width, lines), width)


@pytest.mark.parametrize("role", "AB")
def test_an_operand_of_a_warpgroup_is_where_its_descriptor_says(role):
    """Without swizzle and with K innermost, 8 rows by 16 bytes follow each other (9.7.15.5.1.2)."""
    for form in WARPGROUP:
        lines = numbers(form, form.a, role)
        data, expected = values.write_memory(form, role, lines), packed(form, form.a, lines)
        offsets = values.descriptor_offsets(form, role)
        along, across = (offsets >> shift & 0x3FFF for shift in (16, 32))
        for line, byte in product(*map(range, expected.shape[1:])):
            address = line // 8 * 16 * across + line % 8 * 16 + byte // 16 * 16 * along + byte % 16
            assert (data[:, address] == expected[:, line, byte]).all()
        assert data.shape[1] == expected[0].size == values.memory_size(form, role)
        assert np.array_equal(values.read_memory(form, role, data), lines)


def test_a_matrix_of_wmma_lies_as_its_layout_and_stride_say():
    for form in WMMA:
        m, n, k = map(int, re.findall(r"\d+", form.shape))
        rows, columns = {"A": (m, k), "B": (k, n)}.get(form.role, (m, n))
        assert values.extents(form, form.role)[1] == (columns if form.layout == "row" else rows)
        lines = numbers(form, form.a, form.role)
        data = values.write_memory(form, form.role, lines)
        matrix = lines if form.layout == "row" else lines.swapaxes(1, 2)
        assert matrix.shape[1:] == (rows, columns)
        codes = values.encode(form.a, values.memory_bits(form), matrix)
        held = values.from_bytes(data, values.memory_bits(form))
        for row, column in product(range(rows), range(columns)):
            line, place = (row, column) if form.layout == "row" else (column, row)
            assert (held[:, line * values.extents(form, form.role)[1] + place] == codes[:, row, column]).all()
        assert np.array_equal(values.read_memory(form, form.role, data), lines)


def test_what_is_stored_of_a_row_has_the_window_that_metadata_chooses_from():
    for form in {form.a: form for form in WARPGROUP if form.sparse}.values():
        rule = form.sparsity
        stored = values.stored_a(form).records()
        assert len(stored) == 64 * form.dimensions[2] // 2
        for element in stored:
            chunk, place = divmod(element.reg, rule.fields * rule.group)
            field, member = divmod(place, rule.group)
            choices = [chunk * rule.width + index[field] * rule.group + member for index in rule.indices.values()]
            least, most = chunk * rule.width, (chunk + 1) * rule.width - 1
            assert least <= element.col <= min(choices) <= max(choices) <= element.col_last <= most
            assert (element.lane, element.slot) == (element.row, 0)


def test_a_dense_a_in_memory_has_no_windows():
    for form in WARPGROUP:
        if not form.sparse:
            assert form.sparsity is DENSE
            assert all(element.col == element.col_last == element.reg for element in values.stored_a(form).records())
