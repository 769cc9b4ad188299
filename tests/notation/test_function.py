"""Device functions of chains and recipes: compiled without a warning, run on simulated threads, compared with numpy.

What must come out follows from the rows of both operands alone, not from the moves that the function was made of.
"""

import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import lanemap
from lanemap.db.flow.chain import Chains, chain, relabelled
from lanemap.db.isa.forms import forms
from lanemap.db.isa.types import TYPES
from lanemap.db.layout.codes import decode
from lanemap.db.layout.fragment import elements
from lanemap.db.lookup import Query, read_fragments
from lanemap.db.render.notation.conversion import rounds_twice
from lanemap.db.text import grouped

from ..functions import compiled, kernel, of_chain, of_pair, of_recipe, of_through
from ..machine.conftest import run as traced
from ..modes import LONG
from ..test_readme import GUIDE, blocks

#: By target: D, what it becomes, and how. Values stay, or are exchanged in a quad, a warp, or by movmatrix.
CHAINS = {
    "sm_75": [
        ("m16n8k8 f32 D", "m16n8k8 f16 A", {}),
        ("m8n8k4 f32 D", "m8n8k4 f16 A", {"major": "row"}),
        ("m8n8k16 s32 D", "m8n8k16 s8 B", {}),
    ],
    "sm_80": [
        ("m16n8k16 f32 D", "m16n8k16 f16 A", {}),
        ("m16n8k16 f32 D", "m16n8k16 bf16 A", {}),
        ("m16n8k16 f32 D", "m16n8k16 bf16 B", {}),
        ("m16n8k16 f16 D", "m16n8k16 bf16 B", {"transpose": True}),
        ("m16n8k16 f16 D", "m16n8k16 f16 A", {"transpose": True}),
        ("m16n8k16 f16 D", "m16n8k8 tf32 A", {}),
        ("m16n8k8 f32 D", "m16n8k8 tf32 A", {}),
        ("m16n8k8 f32 D", "m16n8k8 tf32 A", {"relabel": True}),
        ("m16n8k8 f32 D", "m16n8k8 tf32 B", {}),
        ("m16n8k32 s32 D", "m16n8k32 s8 A", {}),
        ("m16n8k32 s32 D", "m16n8k32 u8 A", {"relabel": True}),
        ("m16n8k16 f32 D", "m16n8k32 s8 B", {}),
        ("m16n8k16 f16 D", "m16n8k32 s8 A", {}),
        ("m16n8k64 s32 D", "m16n8k64 s4 A", {}),
        ("m16n8k64 s32 D", "m16n8k64 u4 B", {}),
        ("m8n8k4 f64 D", "m8n8k4 f64 A", {}),
        ("m8n8k4 f64 D", "m16n8k16 f16 A", {}),
        ("m16n8k16 f16 D", "m16n8k16 f32 C", {}),
        ("movmatrix D", "m16n8k16 f16 A", {}),
        ("m16n8k16 f32 D", "m16n8k16 f16 A", {"tile": "m64n32k32", "warps": "4x1"}),
        ("m16n8k16 f32 D", "m16n8k16 bf16 B", {"tile": "m32n32k32", "warps": "1x4", "order": "nnm"}),
    ],
    "sm_89": [
        ("m16n8k16 f32 D", "m16n8k32 e4m3 A", {}),
        ("m16n8k16 f32 D", "m16n8k32 e5m2 A", {"relabel": True}),
        ("m16n8k16 f16 D", "m16n8k32 e4m3 A", {}),
        ("m16n8k16 f16 D", "m16n8k32 e5m2 B", {}),
        ("m16n8k32 f32 D", "m16n8k32 e4m3 A", {"tile": "m64n64k64", "warps": "4x1"}),
    ],
    "sm_90a": [
        ("m64n64k16 f32 D", "m64n64k16 f16 A", {}),
        ("m16n8k4 f64 D", "m8n8k4 f64 A", {}),
        ("m64n64k16 f32 D", "m64n64k32 e4m3 A", {}),
        ("m64n64k32 f32 D", "m64n64k32 e4m3 A", {"relabel": True}),
        ("wmma m16n16k16 f16 D", "wmma m16n16k16 f16 B", {}),
    ],
    "sm_120a": [
        ("m16n8k16 f32 D", "m16n8k32 e2m1 A", {}),
        ("m16n8k16 f32 D", "m16n8k32 e2m3 B", {}),
        ("m16n8k16 f32 D", "m16n8k32 e3m2 A", {"relabel": True}),
        ("m16n8k16 f32 D", "m16n8k64 e2m1 A", {}),
    ],
}

#: By target: what is loaded or stored, and how the tile lies.
RECIPES = {
    "sm_75": [
        ("ldmatrix", "m16n8k8 f16 A", {}),
        ("ldmatrix", "m16n8k8 f16 B", {"count": 4}),
        ("ld.shared", "m16n8k8 f16 A", {"pitch": 64, "swizzle": "64B", "major": "row"}),
        ("m16n8k8 f32 D", "st.shared", {"pitch": 64, "swizzle": "64B"}),
    ],
    "sm_80": [
        ("ldmatrix", "m16n8k16 f16 A", {}),
        ("ldmatrix", "m16n8k16 bf16 A", {"pitch": 144, "count": 2}),
        ("ldmatrix", "m16n8k16 f16 B", {"pitch": 128, "swizzle": "128B", "count": 8}),
        ("ldmatrix", "m16n8k32 s8 A", {"pitch": 64, "swizzle": "64B", "major": "row"}),
        ("ldmatrix", "m16n8k8 tf32 A", {"count": 4}),
        ("ldmatrix", "m16n8k16 f16 A", {"tile": "m64k64", "warps": "2x2", "swizzle": "128B"}),
        ("ldmatrix", "m16n8k16 f16 B", {"tile": "n64k32", "warps": "2x2", "order": "n", "contiguous": True}),
    ],
    "sm_90a": [
        ("m16n8k16 f16 D", "stmatrix", {}),
        ("m16n8k16 f32 D", "stmatrix", {"count": 4, "pitch": 64, "swizzle": "64B"}),
        ("m64n64k16 f32 D", "stmatrix", {"pitch": 128, "swizzle": "128B"}),
        ("m16n8k16 f32 D", "stmatrix", {"tile": "m64n64", "warps": "2x2", "swizzle": "128B"}),
        ("ldmatrix", "m64n64k16 f16 A", {}),
    ],
}


def some(targets, quick):
    """The targets, of which one is tried quickly: compilers take seconds for each."""
    return [target if target == quick else pytest.param(target, marks=pytest.mark.slow) for target in targets]


def answers(database, requests):
    """The chain of each request, or the recipe for each major."""
    for first, second, how in requests:
        answer = database.chain(first, second, **how)
        yield from answer if isinstance(answer, lanemap.Recipes) else [answer]


@pytest.fixture
def expect(tmp_path):
    """A function that compiles kernels for a target, runs each and compares what it leaves."""

    def expect(cases, target):
        texts = [text for case in cases for text in (case.function, case.text)]
        out = compiled(texts, target, tmp_path)
        ptx = out.with_suffix(".ptx").read_text()
        for case in cases:
            right = np.ascontiguousarray(case.right).view("u4")
            given = {"given": np.ascontiguousarray(case.given).view("u4").ravel(), "made": f"u32[{right.size}]=0"}
            found = traced(ptx, given, block=case.threads, entry=case.name)
            assert found.ok, (case.function, found)
            assert np.array_equal(found.outputs["made"].reshape(right.shape), right), case.function

    return expect


@pytest.mark.parametrize("target", some(CHAINS, "sm_89"))
def test_functions_of_chains_make_the_operand(database, expect, target):
    expect(list(map(of_chain, answers(database, CHAINS[target]))), target)


@pytest.mark.parametrize("target", some(RECIPES, "sm_75"))
def test_functions_of_recipes_load_and_store(database, expect, target):
    found = [*answers(database, RECIPES[target])]
    cases = [of_recipe(recipe) for recipe in found]
    cases += [of_recipe(replace(recipe, pitch=256, mode="none"), "bf16") for recipe in found if recipe.packed]
    expect([*{case.name + case.text: case for case in cases}.values()], target)


#: By target what warps exchange through memory: D, what it becomes, whether that is transposed, and the tile of both.
PAIRS = {
    "sm_90": [
        ("m16n8k16 f32 D", "m16n8k16 f16 A", False, {"tile": "m64n64k64", "warps": "2x2", "swizzle": "128B"}),
        ("m16n8k16 f32 D", "m16n8k16 bf16 B", False, {"tile": "m32n64k32", "warps": "2x2", "swizzle": "128B"}),
        ("m16n8k16 f16 D", "m16n8k16 f16 A", True, {"tile": "m32n32k32", "warps": "2x1", "pitch": 80}),
        ("m16n8k16 f32 D", "m16n8k16 f16 B", True, {"tile": "m32n32k32", "warps": "1x2", "order": "n"}),
        ("m16n8k16 f16 D", "m16n8k16 f16 A", False, {"tile": "m32n64k64", "warps": "1x4", "contiguous": True}),
    ],
    "sm_90a": [
        ("wgmma m64n64k16 f32 D", "wgmma m64n64k16 f16 A", True, {"tile": "m64n64k64", "swizzle": "128B"}),
        ("wgmma m64n64k16 f32 D", "wgmma m64n64k16 f16 A", False, {"tile": "m128n64k64", "warps": "2x1", "order": "n"}),
    ],
    "sm_120a": [
        ("m16n8k32 f32 D", "m16n8k16 f16 A", False, {"tile": "m64n32k32", "warps": "2x2", "swizzle": "64B"}),
    ],
}


def pair(database, first, second, transposed, how):
    """The recipes that a chain between warps says to take."""
    (store,) = database.chain(first, "stmatrix", **how, major="row")
    (load,) = database.chain("ldmatrix", second, **how, major="col" if transposed else "row")
    return store, load


@pytest.mark.parametrize("target", some(PAIRS, "sm_120a"))
def test_what_warps_exchange_is_stored_and_loaded(database, expect, target):
    expect([of_pair(*pair(database, *each)) for each in PAIRS[target]], target)


#: D, through which mode, what reads it, and whether D is taken transposed.
THROUGH = [
    ("wgmma m64n64k16 f32 D", "128B", "wgmma m64n64k16 f16 A 128B.K", False),
    ("wgmma m64n128k16 f32 D", "64B", "wgmma m64n64k16 f16 A 64B.K", False),
    ("wgmma m64n64k16 f16 D", "128B", "wgmma m64n64k16 f16 A 128B.MN", False),
    ("wgmma m64n64k16 f32 D", "none", "wgmma m64n64k16 f16 B none.K", False),
    ("wgmma m64n64k16 f32 D", "64B", "wgmma m64n64k16 f16 B 64B.K", True),
    ("wgmma m64n64k8 f32 D", "none", "wgmma m64n64k8 tf32 A none.K", False),
    ("wgmma m64n64k16 f32 D", "128B", "wgmma m64n64k16 f16 A", False),
    ("wgmma m64n64k16 f32 D", "32B", "wgmma m64n64k16 bf16 A", False),
    ("mma m16n8k16 f32 D", "32B", "mma m16n8k16 f16 A", False),
    ("mma m16n8k16 f32 D", "none", "mma m16n8k16 f16 A", True),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("first", "mode", "second", "transposed"), THROUGH)
def test_functions_through_memory_store_and_load(database, expect, first, mode, second, transposed):
    """Where it is written and read is what the answer says of each element."""
    answer = database.chain(first, second, through=mode, transpose=transposed)
    text = answer.cpp()
    cases = [*of_through(answer)]
    assert cases
    if answer.descriptor:
        assert f"0x{answer.descriptor.word:016x}ull" in text
        found = [int(number) for number in re.findall(r"\d+", text[text.index("_advance[] = {") :])]
        assert found == [row[-1] for row in answer.descriptor.steps.rows]
    expect(cases, "sm_90a")


def test_no_function_is_made_of_what_is_wrong(database):
    answer = database.chain("wgmma m64n64k16 f32 D", "wgmma m64n64k16 f16 A 64B.K", through="128B")
    with pytest.raises(lanemap.LanemapError, match="no function makes it right: m 0 k 32 is read where"):
        answer.cpp()


@pytest.mark.slow
def test_without_a_barrier_between_them_warps_race(database, tmp_path):
    """Where values cross warps, the chain has no function, and says which two have one."""
    first, second, transposed, how = PAIRS["sm_90"][0]
    with pytest.raises(lanemap.LanemapError, match="chain D stmatrix, then __syncthreads\\(\\), then ldmatrix A"):
        database.chain(first, second, tile=how["tile"], warps=how["warps"]).cpp()
    case = of_pair(*pair(database, first, second, transposed, how), barrier="")
    ptx = compiled([case.function, case.text], "sm_90", tmp_path).with_suffix(".ptx").read_text()
    given = {"given": case.given.view("u4").ravel(), "made": f"u32[{case.right.size}]=0"}
    assert "race" in str(traced(ptx, given, block=case.threads, entry=case.name))


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("m16n8k16 f32 D", None, "C\\+\\+ is for a chain of two operands, or a recipe: write m16n8k16 f32 D"),
        ("m8n8k128 s32 D", "m8n8k128 b1 A", "no conversion makes b1 of s32: chain types of numbers"),
        ("m16n8k16 f32 D", "movmatrix A", "no conversion makes b16 of f32"),
        ("wgmma m64n64k16 f16 D", "wgmma m64n64k16 f16 A", "values move between warps, which no shuffle does"),
    ],
)
def test_what_no_function_does_is_refused(database, first, second, words):
    with pytest.raises(lanemap.LanemapError, match=words):
        database.chain(first, second, transpose=first.startswith("wgmma")).cpp()


def test_what_is_no_chain_has_no_function(database):
    with pytest.raises(lanemap.LanemapError, match="is for a chain of two operands, or a recipe"):
        database.show("m16n8k16 f16").cpp()


@pytest.mark.slow
def test_the_functions_of_the_guide_compile(run, tmp_path):
    """As the page says which command writes each file that its kernel includes."""
    (kernel,) = blocks("cpp", (GUIDE / "chain-code.md").read_text())
    for name, command in re.findall(r'#include "(.*)" +// lanemap (.*)', kernel):
        (tmp_path / name).write_text(run(*command.split()).out)
    compiled([kernel], "sm_90", tmp_path, f"-I{tmp_path}")


def target_of(chain):
    """The oldest target that has both instructions, of those that this compiler knows."""
    alike = (
        [form.target for form in forms(*end.key[:2]) if form.types.get(end.role) == end.type] for end in chain.ends
    )
    oldest = (min(targets, key=lambda target: (len(target), target)) for targets in alike if targets)
    return max("sm_75", *oldest, key=lambda target: int(re.search(r"\d+", target)[0]))


@pytest.mark.slow
@pytest.mark.timeout(3600 if LONG else 300)
def test_the_function_of_every_chain_compiles_for_the_oldest_target(database, tmp_path):
    """Of each D with each A and B: one function for all that have the same text, and in the long mode all of them."""
    every = read_fragments(database.reader, Query())
    known = [fragment for fragment in every if fragment.digest and not fragment.windowed and not fragment.memory]
    layouts = {
        (end.instruction, end.role, end.type, end.digest, end.dimensions): end
        for end in known
        if end.role in "ABD" and max(end.dimensions) <= (256 if LONG else 64)
    }
    ends = [*layouts.values()]
    functions = {}
    seconds = [end for end in ends if end.role != "D"]
    for number, first in enumerate(end for end in ends if end.role == "D"):
        for plain in Chains.of(first, seconds if LONG else seconds[number % 16 :: 16]):
            for either in {id(found): found for found in (plain, relabelled(plain)) if found}.values():
                with suppress(lanemap.LanemapError):
                    text = either.cpp()
                    body = re.sub(r"void \w+", "void", text[text.index("__device__") :])
                    functions.setdefault((target_of(either), body), (text, first))
    kinds = grouped(functions.items(), lambda entry: (entry[0][0], entry[1][1].instruction))
    assert {name for _, name in kinds} >= {"mma", "mma.sp", "wmma", "wgmma", "wgmma.sp"}
    chosen = [entry for same in kinds.values() for entry in (same if LONG else same[:4])]
    for target, same in grouped(chosen, lambda entry: entry[0][0]).items():
        texts = []
        for number, (_, (text, first)) in enumerate(same):
            text = re.sub(r"void (\w+)", rf"void f{number}_\1", text, count=1)
            texts += [text, kernel(text, first.threads)[1]]
        compiled(texts, target, tmp_path)


@pytest.mark.parametrize("of", ["f64", "f32", "s32", "f16"])
@pytest.mark.parametrize("to", ["f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8"])
def test_what_is_rounded_twice_is_what_has_a_number_beside_a_tie_that_f32_lacks(of, to):
    codes = np.arange(1 << TYPES[to].bits).astype(f"u{max(TYPES[to].bits // 8, 1)}")
    with np.errstate(all="ignore"):
        every = decode(to, TYPES[to].bits, codes).astype("f8")
        ends = np.unique(every[np.isfinite(every)])
        ties = (ends[1:] + ends[:-1]) / 2
        if of == "s32":
            ties = ties[(ties == np.rint(ties)) & (abs(ties) < (1 << 31) - 1)]
            near = ties + 1
        else:
            held = ties.astype({"f64": "f8", "f32": "f4", "f16": "f2"}[of])
            near = np.nextafter(held, held.dtype.type(np.inf))
        twice = bool(((near.astype("f4") == ties) & (near != ties)).any())
    # Others than these go straight to f16, and to integers by one rounding.
    assert rounds_twice(of, to) == (twice and to not in ("f16", "s8"))


@pytest.mark.parametrize(
    ("first", "rounded"), [("m8n8k4 f64 D", True), ("m16n8k16 s32 D", True), ("m16n8k16 f32 D", False)]
)
def test_a_function_says_what_it_rounds_twice(database, first, rounded):
    text = database.chain(first, "m16n8k16 bf16 A").cpp()
    assert ("// rounds: to f32, then to bf16\n" in text) == rounded


@pytest.mark.slow
def test_whatever_lanes_exchange_the_function_is_right(database, expect, seed):
    """Operands whose lanes are in random order, for which there is no short sequence, and a comment says the cost."""
    random, cases = np.random.default_rng(seed), []
    ends = [("m16n8k16 f32 D", "m16n8k16 f16 A"), ("m16n8k8 f32 D", "m16n8k8 tf32 B"), ("m8n8k4 f64 D", "m8n8k4 f64 A")]
    ends += [
        ("m16n8k32 s32 D", "m16n8k32 s8 B"),
        ("m16n8k64 s32 D", "m16n8k64 s4 A"),
        ("m64n8k16 f32 D", "m64n8k8 tf32 A"),
    ]
    for first, second in ends:
        plain = database.chain(first, second)
        lanes = np.concatenate([warp + random.permutation(32) for warp in range(0, plain.second.threads, 32)])
        columns = {name: plain.second.elements[name] for name in plain.second.elements.dtype.names}
        shuffled = replace(plain.second, elements=elements(columns | {"lane": lanes[columns["lane"]]}))
        found = chain(plain.first, shuffled)
        shuffles = found.cpp().count("__shfl_sync")
        assert shuffles > 0
        assert f"\n// cost:   {shuffles} shuffle" in found.cpp()
        cases.append(of_chain(found))
    expect(cases, "sm_90a")


@pytest.mark.slow
def test_what_is_widened_is_shifted(database, tmp_path):
    """No machine here runs ldmatrix of b8x16: the test of recipes proves the shift, and this one that it is written."""
    (recipe,) = database.chain("ldmatrix m8n16", "m16n8k32 e2m1 A", major="row")
    text = recipe.cpp()
    assert re.findall(r"(a\[\d\]) <<= 2;", text) == [f"a[{reg}]" for reg in range(4)]
    (name, called) = kernel(text, 32, 512)
    assert name.endswith("e2m1_a_row")
    compiled([text, called], "sm_120a", tmp_path)
    (plain,) = database.chain("ldmatrix m8n16", "m16n8k32 e2m3 A", major="row")
    assert "<<=" not in plain.cpp()
