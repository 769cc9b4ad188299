"""MLIR reads the affine maps and nested layouts: the parser and the simplifier in the package iree-base-compiler."""

import re
from contextlib import suppress
from itertools import product

import pytest

from lanemap.db.render.notation import express
from lanemap.db.render.notation.table import RefusedError

pytest.importorskip("iree.compiler.dialects.iree_gpu", reason="needs the package iree-base-compiler")
from iree.compiler import ir


@pytest.fixture(scope="module")
def parsed():
    """A function that gives the attributes of a text of aliases by their names."""

    def parse(text):
        names = re.findall(r"^#(\w+) =", text, re.MULTILINE)
        holder = f"module attributes {{{', '.join(f'test.{name} = #{name}' for name in names)}}} {{}}"
        attributes = ir.Module.parse(text + holder).operation.attributes
        return {name: attributes[f"test.{name}"] for name in names}

    with ir.Context(), ir.Location.unknown():
        yield parse


def at(attribute, *point):
    """The value of a map, as MLIR simplifies it."""
    constants = ir.AffineMap.get(0, 0, [ir.AffineExpr.get_constant(number) for number in point])
    results = ir.AffineMapAttr(attribute).value.results
    return [ir.AffineConstantExpr(result.compose(constants)).value for result in results]


def test_mlir_parses_every_map_and_iree_every_nested_layout(exported, corrected, parsed):
    attributes = parsed(exported("affine"))
    fragments = corrected.keys() & attributes.keys()
    nested = {name.removesuffix("_nested") for name in attributes if name.endswith("_nested")}
    assert len(fragments) > 100
    assert all("nested_layout" in str(attributes[f"{name}_nested"]) for name in nested)
    # Of mma only the four products of a warp cut a dimension among more lanes than a nested layout can.
    plain = {name for name in fragments - nested if corrected[name].threads == 32 and corrected[name].computations == 1}
    assert plain == set()


def test_mlir_places_every_element_of_every_layout_as_the_rows_do(everything, parsed, cells, places):
    """Of nested layouts, the map from their tiles gives each value once."""
    checked = {}
    for _, fragment in everything:
        with suppress(RefusedError):
            checked[express("affine", fragment, "layout"), fragment.digest] = fragment
    assert len(checked) > 60
    for (text, _), fragment in checked.items():
        attributes = parsed(text)
        assert [at(attributes["layout"], *place) for place in places(fragment)] == cells(fragment)
        if "layout_nested" in attributes:
            tiles = re.findall(r"(?:outer|element)_tile = \[([\d, ]+)\]", text)
            every = product(*(range(int(count)) for tile in tiles for count in tile.split(", ")))
            values = sorted(at(attributes["layout_nested_value"], *place)[0] for place in every)
            assert values == [*range(fragment.registers * fragment.slots)]
