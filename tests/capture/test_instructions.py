import re
from itertools import chain, product

import pytest

from ..forms import DENSE_FORMS, FORMS, MIXED, NARROW_FORMS, SPARSE_FORMS

#: Table 36 of 9.7.14.3: kind, types of A and B, type of the scales, and how many of them a row of A has.
SCALED = [
    ("mxf8f6f4", ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), "ue8m0", "1"),
    ("mxf4", ("e2m1",), "ue8m0", "2"),
    ("mxf4nvf4", ("e2m1",), "ue8m0", "2"),
    ("mxf4nvf4", ("e2m1",), "ue8m0", "4"),
    ("mxf4nvf4", ("e2m1",), "ue4m3", "4"),
]


def test_every_form_of_the_document_is_a_row():
    assert (len(DENSE_FORMS), len(SPARSE_FORMS), len(NARROW_FORMS)) == (46, 18, 38)
    assert len({form.mnemonic for form in FORMS}) == len(FORMS)


@pytest.mark.parametrize("name", ["mma", "mma.sp"])
def test_every_combination_of_block_scales_is_a_row(name):
    words = re.compile(r".*[.]kind::(\w+)[.]block_scale[.]scale_vec::(\d)X[.]f32[.](\w+)[.](\w+)[.]f32[.](\w+)")
    forms = [form for form in (*FORMS, *MIXED) if form.name == name and "block_scale" in form.mnemonic]
    found = [words.fullmatch(form.mnemonic).groups() for form in forms]
    assert sorted(found) == sorted(
        (kind, count, a, b, scale) for kind, types, scale, count in SCALED for a, b in product(types, types)
    )
    for form in forms:
        assert form.types["SFA"] == form.types["SFB"] == words.fullmatch(form.mnemonic)[5]


def test_registers_and_slots_are_those_of_the_document(documented):
    for instruction in FORMS:
        for role in "ABCDE" if instruction.sparse else "ABCD":
            for selector in instruction.selectors if role == "E" else (None,):
                fragment = documented.get(instruction.key(role, selector))
                if fragment is not None:
                    operand = instruction.operand(role)
                    assert (operand.registers, operand.slots) == (fragment.registers, fragment.slots), (
                        instruction,
                        role,
                    )


def test_every_documented_fragment_belongs_to_a_form(documented):
    keys = chain.from_iterable(
        (form.key(role, selector) for role in form.types for selector in form.selectors) for form in FORMS
    )
    products = (key for key in documented if key.instruction in ("mma", "mma.sp"))
    assert {key._replace(qualifiers=None) for key in products} <= set(keys)


@pytest.mark.parametrize(
    ("shape", "of_type", "count"),
    [
        ("m16n8k16", "f16", 4),
        ("m16n8k32", "f16", 2),
        ("m16n8k8", "tf32", 4),
        ("m16n8k64", "s8", 1),
        ("m16n8k64", "s4", 2),
    ],
)
def test_selectors_are_as_many_as_fit(shape, of_type, count):
    instruction = next(form for form in SPARSE_FORMS if (form.shape, form.a) == (shape, of_type))
    assert instruction.selectors == tuple(range(count))


@pytest.mark.parametrize(
    ("least", "target", "supported"),
    [
        ("sm_80", "sm_75", False),
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_90a", True),
        ("sm_90", "sm_89", False),
        ("sm_80", "sm_100a", True),
        ("sm_120a", "sm_120a", True),
        ("sm_120a", "sm_121a", True),
        ("sm_120a", "sm_90a", False),
        ("sm_120a", "sm_120", False),
    ],
)
def test_a_target_supports_what_ptx_says(least, target, supported):
    instruction = next(form for form in FORMS if form.target == least)
    assert instruction.supports(target) is supported
