"""Which forms are selected."""

from itertools import combinations, product

import pytest

from lanemap.db.errors import LanemapError
from lanemap.db.isa.forms import select

from ..forms import CAPTURED


def type_of(form):
    return form.a


NAMES = sorted({form.name for form in CAPTURED})
SHAPES = sorted({form.shape for form in CAPTURED})
TYPES = sorted({type_of(form) for form in CAPTURED})


@pytest.mark.parametrize("name", [None, *NAMES])
def test_a_form_is_selected_by_its_name_shape_and_types(name):
    of_name = [form for form in CAPTURED if name in (None, form.name)]
    for shape in (None, *SHAPES[::12]):
        of_shape = [form for form in of_name if shape in (None, form.shape)]
        there = {type_of(form) for form in of_shape}
        for types in (None, *product(TYPES[::3]), *combinations(TYPES[::5], 2)):
            if of_shape and there >= set(types or ()):
                expected = [form for form in of_shape if types is None or type_of(form) in types]
                assert select(name, shape, types) == expected
            else:
                with pytest.raises(LanemapError, match="no instruction matches"):
                    select(name, shape, types)


def test_a_pattern_is_of_whole_mnemonics():
    assert {form.mnemonic for form in select("*.b1.*")} == {
        form.mnemonic for form in CAPTURED if ".b1." in form.mnemonic
    }
    with pytest.raises(LanemapError):
        select("ldmatrix.*", "m64n8k16")


def test_another_name_of_a_type_is_that_type():
    assert select(type="half") == select(type=["f16"]) == select(type=("fp16", "f16"))
