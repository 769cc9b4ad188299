"""The table of forms against what NVIDIA's assembler takes."""

import random
import re
from itertools import islice

import pytest

from lanemap import LanemapError
from lanemap.db import lookup
from lanemap.db.isa.forms import forms
from lanemap.db.isa.names import Query
from lanemap.db.isa.vendors import NVIDIA

from ..assembler import assembled, instruction, refused
from ..modes import LONG

#: Mnemonics of copies of tensors name no box, which their forms do.
FORMS = {
    form.mnemonic: form
    for form in forms()
    if form.instruction.vendor is NVIDIA and not form.mnemonic.startswith("cp.async.")
}

#: The assembler has dropped the first two.
TARGETS = NVIDIA.targets[2:]

#: With each other, these targets have all forms.
NEWEST = ["sm_90a", "sm_107a", "sm_120a"]

#: What may stand in the place of a token.
CHOICES = [
    {f"m{m}n{n}k{k}" for m in (8, 16, 32, 64) for n in (8, 16, 24, 32) for k in (4, 8, 16, 32, 64, 128, 256, 512)},
    {"m8n8", "m8n16", "m16n8", "m16n16"},
    {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"},
    {"f64", "f32", "tf32", "f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s32", "s8", "u8", "s4", "u4", "b1"},
    {"b8", "b16", "b32", "b8x16"},
    {"f32", "u32", "s32", "b32"},
    {"b6x16_p32", "b4x16_p64"},
    {"ue8m0", "ue4m3"},
    {"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"},
    {"row", "col"},
    {f"kind::{kind}" for kind in ("f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4")},
    {f"scale_vec::{count}X" for count in (1, 2, 4)},
    {"xor", "and"},
    {"pack::16b", "unpack::16b", "trans"},
    {"load", "store"},
    {"min", "max"},
    {"ld", "st"},
    {"a", "b", "c", "d"},
    {"b8", "b16", "b32", "b4"},
    {"b2", "b4"},
    {"spcompress", "spdecompress"},
    {f"sp::{kept}:{of}" for kept in (1, 2, 4, 8) for of in (2, 4, 8, 16)},
]


def neighbours(mnemonic):
    """What differs from a mnemonic in one token, that is another or left out."""
    tokens = mnemonic.split(".")
    for place, token in enumerate(tokens):
        others = {other for choices in CHOICES if token in choices for other in choices}
        for other in sorted(others - {token}):
            yield ".".join([*tokens[:place], other, *tokens[place + 1 :]])
        if place and token in ("trans", "pack::16b", "unpack::16b", "sp::2:4", "b2", "b4", "red", "spcompress"):
            yield ".".join([*tokens[:place], *tokens[place + 1 :]])


#: Of two types of 8 bits without block scales the assembler takes any kind, and does not look at it.
KIND = re.compile(r"\.kind::\w+(?=\.f\d\d\.e\dm[23]\.e\dm[23]\.f\d\d$)")
BARE = {KIND.sub("", mnemonic) for mnemonic in FORMS}

#: The assembler takes moves of C and D that no product of the shape has, and products of which it makes nothing.
NO_PRODUCT = re.compile(
    r"wmma\.(load\.c|store\.d)\.sync\.aligned\.(row|col)\.m8n8k(32|128)\.shared\.f32"
    r"|wmma\.mma\.sync\.aligned\.(row|col)\.(row|col)\.m16n16k(8|16)\.f64\.f64\.f64\.f64"
    r"|mma\.sync\.aligned\.m8n8k4\.(row|col)\.(row|col)\.f32\.bf16\.bf16\.f32"
)


def loose(mnemonic):
    """Whether the assembler takes what is no form: for another, or without making anything of it.

    It does not look at the size of an index where nothing is compressed.
    """
    indexed = mnemonic.startswith("tcgen05.ld.red.") and mnemonic.removesuffix(".b2") in FORMS
    taken = indexed or KIND.sub("", mnemonic) in BARE or NO_PRODUCT.fullmatch(mnemonic)
    return mnemonic not in FORMS and bool(taken)


def wrong(candidates, targets, folder):
    """What the assembler takes and the table lacks, or the other way round, with the target."""
    candidates = iter(candidates)
    while some := [*islice(candidates, 1000)]:
        for target in targets:
            lines = {instruction(mnemonic): mnemonic for mnemonic in some}
            not_taken = {lines[line]: why for line, why in refused([*lines], target, folder).items()}
            for mnemonic in some:
                listed = mnemonic in FORMS and FORMS[mnemonic].supports(target)
                if not loose(mnemonic) and listed == (mnemonic in not_taken):
                    yield mnemonic, target, not_taken.get(mnemonic, "it is taken")


@pytest.mark.parametrize("target", TARGETS)
def test_the_assembler_takes_the_forms_that_the_table_has_for_a_target(target, tmp_path):
    assert not [*wrong([*FORMS], [target], tmp_path)]


def test_the_assembler_refuses_the_neighbours_of_forms(tmp_path):
    found = sorted({near for form in FORMS for near in neighbours(form)} - FORMS.keys())
    some = random.Random(1).sample(found, 3000)
    assert not [*wrong(some, NEWEST, tmp_path)]


@pytest.mark.slow
@pytest.mark.timeout(0 if LONG else 300)
def test_the_assembler_refuses_names_that_the_table_lacks(tmp_path):
    """Those that differ from forms in up to three tokens, a million of them in the long mode."""
    names = random.Random(2)

    def candidates():
        known, seen = [*FORMS], {*FORMS}
        while True:
            near = names.choice(known)
            for _ in range(names.randint(1, 3)):
                near = names.choice([*neighbours(near)] or [near])
            if near not in seen:
                seen.add(near)
                yield near

    assert not [*wrong(islice(candidates(), 1_000_000 if LONG else 5000), NEWEST, tmp_path)]


SPARSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.{}.f16.f16.{}"


@pytest.mark.parametrize(("type_", "taken"), [("f16", {0, 1}), ("f32", {0, 1, 2, 3})])
def test_selectors_of_which_no_document_says_anything_have_no_rows(type_, taken, tmp_path, reader):
    """Only D of f32 takes them."""
    line = instruction(SPARSE.format(type_, type_))
    lines = [line.replace("%r0, 0;", f"%r0, {selector};") for selector in range(5)]
    assert {*range(5)} - {lines.index(line) for line in refused(lines, "sm_90", tmp_path)} == taken
    for selector in taken - {0, 1}:
        with pytest.raises(LanemapError, match="no document says what they select"):
            lookup.fragments(reader, Query.parse("mma.sp m16n8k32 f16 E", selector=selector))


def test_of_a_product_that_the_table_lacks_the_assembler_makes_nothing(tmp_path, reader):
    """What it makes of bf16 is what it makes of no product at all; of f16 it makes one."""
    vectors = [f"{{{', '.join(f'%f{at + place}' for place in range(4))}}}" for at in (0, 4)]
    loads = [f"ld.global.v4.f32 {vector}, [%at+{16 * at}];" for at, vector in enumerate(vectors)]
    stores = [f"st.global.v4.f32 [%at+{16 * at}], {vector};" for at, vector in enumerate(vectors)]

    def made(*lines):
        return assembled([*loads, *lines, *stores], "sm_80", tmp_path)

    every = ", ".join(f"%f{place}" for place in range(8))
    operands = f"{{{every}}}, {{%r0, %r1}}, {{%r2, %r3}}, {{{every}}}"
    product = "mma.sync.aligned.m8n8k4.row.col.f32.{0}.{0}.f32 {1};"
    assert made(product.format("bf16", operands)) == made() != made(product.format("f16", operands))
    for asked in ("m8n8k4 bf16 A", "mma m8n8k4 bf16", product.format("bf16", operands)):
        with pytest.raises(LanemapError, match="assemblers take it, and make no product of it"):
            lookup.fragments(reader, Query.parse(asked))
