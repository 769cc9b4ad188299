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

KINDS = {f"kind::{kind}" for kind in ("f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4")}
VECTORS = {f"scale_vec::{count}X" for count in (1, 2, 4)}
SCALES = {"ue8m0", "ue4m3"}

#: What may stand in the place of a token.
CHOICES = [
    {f"m{m}n{n}k{k}" for m in (8, 16, 32, 64) for n in (8, 16, 24, 32) for k in (4, 8, 16, 32, 64, 128, 256, 512)},
    {"m8n8", "m8n16", "m16n8", "m16n16"},
    {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"},
    {"f64", "f32", "tf32", "f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s32", "s8", "u8", "s4", "u4", "b1"},
    {"b8", "b16", "b32", "b8x16"},
    {"f32", "u32", "s32", "b32"},
    {"b6x16_p32", "b4x16_p64"},
    SCALES,
    {"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"},
    {"row", "col"},
    KINDS,
    VECTORS,
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

#: What may stand in the place of a token, by the token, and what may be left out.
OTHERS = {token: [sorted(choices) for choices in CHOICES if token in choices] for token in set().union(*CHOICES)}
LEFT_OUT = {"trans", "pack::16b", "unpack::16b", "sp::2:4", "b2", "b4", "red", "spcompress"}
#: Words that some forms have and others do not.
QUALIFIERS = sorted(LEFT_OUT | KINDS | VECTORS | SCALES)
QUALIFIERS += ["abs", "NaN", "block_scale", "popc", "and", "xor", "sp", "sp::ordered_metadata", "shared", "row", "col"]


def neighbours(mnemonic):
    """What differs from a mnemonic in one token, that is another or left out."""
    tokens = mnemonic.split(".")
    for place, token in enumerate(tokens):
        for other in sorted({other for choices in OTHERS.get(token, ()) for other in choices} - {token}):
            yield ".".join([*tokens[:place], other, *tokens[place + 1 :]])
        if place and token in LEFT_OUT:
            yield ".".join([*tokens[:place], *tokens[place + 1 :]])


#: The assembler takes moves of C and D that no product of the shape has, and products of which it makes nothing.
NO_PRODUCT = re.compile(
    r"wmma\.(load\.c|store\.d)\.sync\.aligned\.(row|col)\.m8n8k(32|128)\.shared\.f32"
    r"|wmma\.mma\.sync\.aligned\.(row|col)\.(row|col)\.m16n16k(8|16)\.f64\.f64\.f64\.f64"
    r"|mma\.sync\.aligned\.m8n8k4\.(row|col)\.(row|col)\.f32\.bf16\.bf16\.f32"
)


def looked_at(mnemonic):
    """What the assembler looks at: types, and layouts where products ask for them, in order; other words in any.

    It does not look at the kind of a product of two types of 8 bits without block scales, at the size of an index
    where nothing is compressed, at the format of memory where nothing is read, nor at an operation on bits where none
    are counted.
    """
    head, *words = mnemonic.split(".")
    product, compressed = head in ("mma", "wmma"), "compress" in mnemonic
    ordered = [word for word in words if re.fullmatch(r"[fsub]+\d+|tf32|e\dm\d", word) or (product and word in LAYOUTS)]
    rest = {*words} - {*ordered} - LAYOUTS
    if head == "mma" and "sp" in rest:  # the order of metadata may be left open
        rest = rest - {"sp"} | {"sp::ordered_metadata"}
    rest -= ({"b8x16"} if compressed else set()) | ({"and", "xor"} if "popc" not in words else set())
    if not compressed:
        ordered = [word for word in ordered if word not in ("b2", "b4")]
    if "block_scale" not in rest and BYTES >= {word for word in ordered if word.startswith("e")} > set():
        rest = {word for word in rest if not word.startswith("kind::")}
    return head, *ordered, frozenset(rest)


LAYOUTS, BYTES = {"row", "col"}, {"e4m3", "e5m2"}
LOOKED_AT = {looked_at(mnemonic) for mnemonic in FORMS}


def loose(mnemonic):
    """Whether the assembler takes what is no form: for another, or without making anything of it."""
    return mnemonic not in FORMS and (looked_at(mnemonic) in LOOKED_AT or bool(NO_PRODUCT.fullmatch(mnemonic)))


def wrong(candidates, targets, folder):
    """What the assembler takes and the table lacks, or the other way round, with the target."""
    candidates = iter(candidates)
    while some := [*islice(candidates, 1000)]:
        lines = {instruction(mnemonic): mnemonic for mnemonic in some}
        for target in targets:
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


#: Shapes of products, most of which stand in no form.
SHAPES = [f"m{m}n{n}k{k}" for m in (8, 16, 32, 64, 128) for n in range(8, 265, 8) for k in (4, 8, 16, 32, 64, 128, 256)]


def far(mnemonic, chosen):
    """What differs from a mnemonic in any number of tokens: others in their places, words left out, and added."""
    tokens = mnemonic.split(".")
    often = chosen.choice([0.1, 0.3, 0.6])
    for place, token in enumerate(tokens):
        if chosen.random() < often:
            choices = [SHAPES] if re.fullmatch(r"m\d+n\d+k\d+", token) else OTHERS.get(token, [[token]])
            tokens[place] = chosen.choice(chosen.choice(choices))
    for place in range(len(tokens) - 1, 0, -1):
        if tokens[place] in LEFT_OUT and chosen.random() < often:
            del tokens[place]
    if chosen.random() < often:
        tokens.insert(chosen.randint(1, len(tokens)), chosen.choice(QUALIFIERS))
    return ".".join(tokens)


@pytest.mark.slow
@pytest.mark.timeout(0 if LONG else 300)
@pytest.mark.parametrize("part", range(20 if LONG else 1))
def test_the_assembler_refuses_names_that_the_table_lacks(part, tmp_path):
    """Half differ from forms in up to three tokens, half in any number; a million of them in the long mode.

    Each of its parts takes some two minutes, can be repeated by itself, and runs beside the others.
    """
    names = random.Random(2 + part)

    def near(name):
        for _ in range(names.randint(1, 3)):
            name = names.choice([*neighbours(name)] or [name])
        return name

    def candidates():
        known, seen = [*FORMS], {*FORMS}
        while True:
            name = names.choice(known)
            name = near(name) if names.random() < 0.5 else far(name, names)
            if name not in seen:
                seen.add(name)
                yield name

    assert not [*wrong(islice(candidates(), 50_000 if LONG else 5000), NEWEST, tmp_path)]


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
