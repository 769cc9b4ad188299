"""Headers written for these tests: one for each thing that C++ can say and one for each that cannot be read."""

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap import LanemapError
from lanemap.ingest import cute
from lanemap.ingest.atom import named_form
from lanemap.ingest.cute.header import parse_header, parse_type

from ..forms import MIXED
from ..modes import examples

MNEMONIC = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
OPERATION = """
struct Op%(name)s
{
  using DRegisters = float[4];
  using ARegisters = uint32_t[4];
  using BRegisters = uint32_t[2];
  using CRegisters = float[4];

  static void fma(float & d0, uint32_t const& a0) // { an unbalanced brace in a comment
  {
#if defined(SOMETHING)
    asm volatile("%(mnemonic)s" "{%%0, %%1}," : "=f"(d0) : "r"(a0));
#else
    fail("no \\"mma\\" here }");
#endif
  }
};
"""
MEMBERS = """
  using ValTypeA = half_t;
  using Shape_MNK = Shape<_16,_8,_16>;
  using ThrID = Layout<_32>;
  using ALayout = Layout<Shape<Shape<_4,_8>,Shape<_2,_2,_2>>, Stride<Stride<_32,_1>,Stride<_16,_8,_128>>>;
  using BLayout = Layout<Shape<Shape<_4,_8>,Shape<_2,_2>>, Stride<Stride<_16,_1>,Stride<_8,_64>>>;
  using CLayout = Layout<Shape<Shape<_4,_8>,Shape<_2,_2>>, Stride<Stride<_32,_1>,Stride<_16,_8>>>;
"""


def operation(name="", mnemonic=MNEMONIC, **changes):
    text = OPERATION % {"name": name, "mnemonic": mnemonic}
    for old, new in changes.items():
        text = text.replace(f"using {old} =", f"using {old} = {new}; using Old{old} =")
    return text


def traits(name="Op", members=MEMBERS, base="", **changes):
    for old, new in changes.items():
        members = members.replace(f"using {old} =", f"using {old} = {new}; using Old{old} =")
    return f"template <> struct MMA_Traits<{name}>{base} {{ {members} }};\n"


@pytest.fixture
def load(tmp_path):
    """Import a header that holds a text."""

    def load(text):
        file = tmp_path / "atoms.hpp"
        file.write_text(text)
        return cute.load(file)[0]

    return load


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """The fragments of the plainest header, by role."""
    file = tmp_path_factory.mktemp("plain") / "plain.hpp"
    file.write_text(operation() + traits())
    return by_role(cute.load(file)[0])


def by_role(imported):
    return {fragment.role: fragment for fragment in imported.source.fragments}


def reasons(imported):
    return {part.name: part.reason for part in imported.skipped}


def same(imported, plain):
    found = by_role(imported)
    assert {role: fragment.digest for role, fragment in found.items()} == {
        role: fragment.digest for role, fragment in plain.items()
    }
    assert imported.skipped == []


def test_the_plainest_header_is_what_the_document_says(plain, fragments):
    documented = {fragment.key: fragment for fragment in fragments}
    assert sorted(plain) == list("ABCD")
    for fragment in plain.values():
        assert fragment.digest == documented[fragment.key].digest
        assert (fragment.registers, fragment.slots) == (
            documented[fragment.key].registers,
            documented[fragment.key].slots,
        )


A_SHAPE, A_STRIDE = "Shape<Shape<_4,_8>,Shape<_2,_2,_2>>", "Stride<Stride<_32,_1>,Stride<_16,_8,_128>>"


@pytest.mark.parametrize(
    "text",
    [
        f"namespace {{ using Named = Layout<{A_SHAPE},{A_STRIDE}>; }}" + traits(ALayout="Named"),
        f"using Inner = {A_STRIDE}; using Outer = Layout<{A_SHAPE}, Inner>;" + traits(ALayout="some::where::Outer"),
        traits(ALayout=f"cute::Layout<{A_SHAPE.replace('_4', 'Int<4>').replace('_8', 'cute::C<8>')}, {A_STRIDE}>"),
        traits(ALayout=f"/* not {{ this */ Layout<{A_SHAPE}, // nor this }}\n {A_STRIDE}>"),
        traits(Shape_MNK="cute::Shape<Int<16>, _8, Int< 16 >>"),
        "namespace cute { namespace deep {" + traits("outer::Op") + "}}",
        "using Alias = Somewhere::Op;" + traits("Alias"),
        traits("Base") + traits("Op", "", base=" : MMA_Traits<Base>"),
        traits("Base", ALayout="Layout<_1>") + traits("Op", MEMBERS, base=" : public MMA_Traits<Base>"),
        traits("Lowest") + traits("Base", "", ": MMA_Traits<Lowest>") + traits("Op", "", ":\n MMA_Traits<Base>"),
        traits("Other")
        + traits(members="using U = MMA_Traits<Other>;" + MEMBERS, ALayout="typename U::ALayout", ThrID="U::ThrID"),
        traits("Other") + traits(ALayout="typename MMA_Traits<Other>::ALayout"),
        traits("Other") + traits("Op", "", base=" : MMA_Traits<Other>") + traits("Unused"),
        traits(members="static constexpr int K = 256 / bits<A>::value;\n Foo foo_ = {1, 2};" + MEMBERS),
        "template <class A, class... B> void call(A&& a) { if (a < 1) { return; } }\n enum class E { X, Y };"
        + traits(),
        "struct Other { struct Nested { int x; }; };" + traits().replace("template <>", "template<>"),
    ],
    ids=lambda text: text[:50],
)
def test_every_way_to_say_the_same(load, plain, text):
    found = load(operation() + text)
    assert by_role(found)["A"].digest == plain["A"].digest
    assert {role: fragment.digest for role, fragment in by_role(found).items()} == {
        role: fragment.digest for role, fragment in plain.items()
    }
    assert set(reasons(found)) <= {"Base", "Lowest", "Other", "Unused"}


def test_templates_bind_their_parameters(load, plain):
    generic = "template <class a_type, int N> struct MMA_Traits<Gen<a_type, N>> {" + MEMBERS + "};"
    shape = generic.replace("Shape<_16,_8,_16>", "Shape<_16,_8,Int<N>>")
    special = operation().replace("struct Op", "template <> struct Gen<half_t, 16>")
    primary = "template <class a_type, int N> struct Gen { static_assert(no<a_type>); };"
    same(load(primary + special + shape), plain)


@pytest.mark.parametrize(("shape", "exists"), [("m16n8k16", False), ("m8n8k4", True)])
def test_c_has_a_type_of_its_own(load, shape, exists):
    """Whether PTX has such a form or not: D of f32 from C of f16."""
    mnemonic = f"mma.sync.aligned.{shape}.row.col.f32.f16.f16.f16"
    assert (mnemonic in {form.mnemonic for form in MIXED}) == exists
    known = named_form(mnemonic)
    assert [known.key(role).type for role in "ABCD"] == ["f16", "f16", "f16", "f32"]
    if not exists:
        found = load(operation(mnemonic=mnemonic) + traits())
        assert {fragment.role: fragment.type for fragment in found.source.fragments} == {
            "A": "f16",
            "B": "f16",
            "C": "f16",
            "D": "f32",
        }


def test_one_pattern_is_for_many_operations(load):
    many = "".join(
        operation(mnemonic=MNEMONIC.replace(".f16.f16", f".{type_}.{type_}")).replace(
            "struct Op", f"template <int VS> struct Gen<{type_}_t, VS>"
        )
        for type_ in ("f16", "bf16")
    )
    found = load(many + "template <class T, int V> struct MMA_Traits<Gen<T, V>> {" + MEMBERS + "};")
    assert sorted(fragment.type for fragment in found.source.fragments if fragment.role == "A") == ["bf16", "f16"]
    assert len([fragment for fragment in found.source.fragments if fragment.role in "CD"]) == 2


def test_a_specialisation_goes_before_a_pattern(load, plain):
    special = operation().replace("struct Op", "template <> struct Gen<half_t>")
    pattern = "template <class T> struct MMA_Traits<Gen<T>> {" + MEMBERS.replace("_128", "_64") + "};"
    exact = traits("Gen<half_t>")
    found = load(special + pattern + exact)
    assert by_role(found)["A"].digest == plain["A"].digest
    assert reasons(found) == {"Gen<T>": "its operation, a struct of this name, is missing or has other traits"}


def test_two_that_agree_are_one_and_one_that_disagrees_is_compared_by_itself(tmp_path, plain):
    twin = operation("Twin") + traits("OpTwin")
    other = operation("Other") + traits("OpOther", BLayout="Layout<Shape<_32,_4>,Stride<_1,_32>>")
    (tmp_path / "one.hpp").write_text(operation() + traits() + twin + other)
    first, second = cute.load(tmp_path / "one.hpp")
    assert [first.source.name, second.source.name] == ["cute", "cute:OpOther"]
    assert by_role(first)["B"].digest == plain["B"].digest
    assert by_role(second)["B"].digest != plain["B"].digest
    assert [len(imported.source.fragments) for imported in (first, second)] == [4, 4]
    assert first.skipped == []


def test_an_atom_that_disagrees_is_not_compared_with_the_operands_of_others(tmp_path):
    alone = "template <> struct MMA_Traits<OpOther> {" + MEMBERS.replace("_16,_8,_128", "_8,_16,_128") + "};"
    only_a = operation("Other", CRegisters="none", BRegisters="none", DRegisters="none")
    (tmp_path / "one.hpp").write_text(operation() + traits() + only_a + alone)
    first, second = cute.load(tmp_path / "one.hpp")
    assert [sorted(by_role(imported)) for imported in (first, second)] == [["A", "B", "C", "D"], ["A"]]


def test_an_alias_may_be_a_template_with_a_quotient(load, plain):
    layout = "Layout<Shape<Shape<_4,_8>,Shape<_2,Int<N/8>>>, Stride<Stride<_32,_1>,Stride<_16,_8>>>"
    text = f"namespace x {{ template <int N> using CLayout_N = {layout}; }} using CLayout_16 = CLayout_N< 16>;"
    found = load(text + operation() + traits(CLayout="x::CLayout_16"))
    assert by_role(found)["C"].digest == plain["C"].digest
    assert reasons(load(text.replace("N/8", "N/0") + operation() + traits(CLayout="x::CLayout_16"))).keys() == {
        "Op C",
        "Op D",
    }


def test_an_operation_may_be_a_template(load, plain):
    made = operation().replace("struct Op", "template <Major a, class T = half_t> struct Gen")
    named = "template <Major a, class T> using Name = Gen<a, T>;"
    of_all = "template <Major a, class T> struct MMA_Traits<Name<a, T>> {" + MEMBERS + "};"
    found = load(made + named + of_all)
    assert {role: fragment.digest for role, fragment in by_role(found).items()} == {
        role: fragment.digest for role, fragment in plain.items()
    }
    assert by_role(found)["A"].citation.origin.endswith(".hpp:18 Gen<a, T>")


def test_members_of_what_is_inside_a_struct_are_not_its_own(load, plain):
    inner = "struct Inner { using ALayout = Layout<_1>; }; void f() { using ALayout = Layout<_2>; }"
    found = load(operation() + traits(members=MEMBERS + inner))
    assert by_role(found)["A"].digest == plain["A"].digest


#: ldmatrix, as in SM100_U8x8_LDSM_T of CUTLASS, with what is done to its registers afterwards.
MOVE = """
struct Move
{
  using SRegisters = uint128_t[1];
  using DRegisters = uint32_t[2];

  static void copy(uint128_t const& src, uint32_t& dst0, uint32_t& dst1)
  {
    uint32_t tmp0, tmp1;
    asm volatile("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%%0, %%1}, [%%2];\\n"
        : "=r"(tmp0), "=r"(tmp1) : "r"(src));
    %s
  }
};
template <> struct Copy_Traits<Move>
{
  using ThrID = Layout<_32>;
  using SrcLayout = Layout<Shape<Shape<_2,_2,_4,_2>,_128>, Stride<Stride<_128,_1024,_256,_0>,_1>>;
  using DstLayout = Layout<Shape<Shape<_4,_8>,Shape<_8,_2,_2,_2>>, Stride<Stride<_256,_8>,Stride<_1,_128,_64,_1024>>>;
};
"""
SWAPPED = """
    uchar4& tmp0_ = reinterpret_cast<uchar4&>(tmp0);
    uchar4& tmp1_ = reinterpret_cast<uchar4&>(tmp1);
    uchar4 dst0_{tmp0_.x, tmp0_.y, tmp1_.x, tmp1_.y};
    uchar4 dst1_{tmp0_.z, tmp0_.w, tmp1_.z, tmp1_.w};
    dst0 = reinterpret_cast<uint32_t&>(dst0_);
    dst1 = reinterpret_cast<uint32_t&>(dst1_);
"""


def test_bytes_that_an_operation_puts_in_another_order_are_where_the_instruction_left_them(load):
    """The traits are those of the operation; the document has four bytes of a lane side by side (9.7.16.5.15)."""
    moved = by_role(load(operation() + traits() + MOVE % SWAPPED))["r"]
    assert {(e.slot, e.row) for e in moved.records() if e.lane == 5} == {(slot, 4 + slot) for slot in range(4)}
    assert {(e.reg, e.col) for e in moved.records() if e.lane == 5} == {(0, 1), (1, 9)}
    as_written = by_role(load(operation() + traits() + MOVE % ""))["r"]
    assert {(e.reg, e.slot) for e in as_written.records() if (e.lane, e.col) == (5, 9)} == {
        *((reg, slot) for reg in (0, 1) for slot in (2, 3))
    }


def test_an_order_of_bytes_that_is_not_its_own_inverse_is_undone(load):
    """Byte i of the result is byte i + 1 of what the instruction gave."""
    after = [f"tmp{byte // 4}_.{'xyzw'[byte % 4]}" for byte in (*range(1, 8), 0)]
    change = f"uchar4 dst0_{{{', '.join(after[:4])}}}; uchar4 dst1_{{{', '.join(after[4:])}}};"
    result, given = (by_role(load(operation() + traits() + text))["r"].records() for text in (MOVE % "", MOVE % change))
    expected = {(e.lane, (4 * e.reg + e.slot + 1) % 8): (e.row, e.col) for e in result}
    assert {(e.lane, 4 * e.reg + e.slot): (e.row, e.col) for e in given} == expected


@pytest.mark.parametrize("change", [SWAPPED.replace("tmp1_.w", "tmp1_.x"), "dst0 = __byte_perm(tmp0, tmp1, 0x5410);"])
def test_registers_that_change_in_another_way_are_not_believed(load, change):
    found = load(operation() + traits() + MOVE % change)
    assert "changes its registers after its instruction" in reasons(found)["Move"]


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        (traits("Gone"), "Gone", "its operation, a struct of this name, is missing"),
        (operation("Alone"), "OpAlone", "it has no traits"),
        (operation("X", "dp4a.s32 ") + traits("OpX"), "OpX", "dp4a.s32 is not covered: each thread has values"),
        (operation("X", "") + traits("OpX"), "OpX", "no instruction of its own"),
        (operation("X") + traits("OpX", ThrID="Layout<_128>"), "OpX A", "128:1 do not fill a group of 32"),
        (operation("X") + traits("OpX", ThrID="Layout<_1>"), "OpX A", "do not fill a group of 32"),
        (operation("X") + traits("OpX", ThrID="Layout<_8>"), "OpX A", "8:1 do not fill a group of 32"),
        (operation("X") + traits("OpX", ThrID="_32"), "OpX", "its ThrID is 32, not a layout"),
        (operation("X") + traits("OpX", MEMBERS.replace("ThrID", "Thr")), "OpX", "it has no ThrID"),
        (operation("X") + traits("OpX", Shape_MNK="Shape<_16,_8,_8>"), "OpX", "its instruction is m16n8k16"),
        (operation("X") + traits("OpX", ALayout="Layout<_32>"), "OpX A", "registers"),
        (operation("X") + traits("OpX", ALayout="Layout<Shape<_32,_2>,Stride<Stride<_2,_1>>>"), "OpX A", "no layout"),
        (operation("X") + traits("OpX", ALayout="Layout<Shape<_32,T>>"), "OpX A", "T in a layout is not a number"),
        (operation("X") + traits("OpX", ALayout="Swizzle<3,4>"), "OpX A", "Swizzle<3, 4>, not a layout"),
        (operation("X") + traits("OpX", ALayout="ALayout"), "OpX A", "ALayout is defined in terms of itself"),
        (operation("X") + traits("OpX", ALayout="a + b"), "OpX A", "cannot read the type 'a + b'"),
        (
            "namespace { using P = _1; } namespace b { using P = _2; }" + operation("X") + traits("OpX", ALayout="P"),
            "OpX A",
            "P means different types in different places",
        ),
        (traits("Op", MEMBERS.replace("_128", "_64")), "Op", "has other traits"),
        (
            "using P = Q; using Q = P;" + operation("X") + traits("OpX", ALayout="P"),
            "OpX A",
            "defined in terms of itself",
        ),
        (operation("X") + traits("OpX", "", ": MMA_Traits<Gone>"), "OpX", "there is no MMA_Traits<Gone>"),
        (operation("X") + traits("OpX", "", ": MMA_Traits<OpX>"), "OpX", "its own base"),
        (operation("X", ARegisters="uint64_t[1]") + traits("OpX"), "OpX A", "not an array of 32- or 64-bit registers"),
        (operation("X", ARegisters="uint32_t") + traits("OpX"), "OpX A", "not an array"),
        (operation("X", ARegisters="uint32_t[3]") + traits("OpX"), "OpX A", "8 values for 6 slots"),
        (operation("X", ARegisters="double[4]") + traits("OpX"), "OpX A", "its registers have 64 bits"),
        (operation("X") + traits("OpX", "using SFALayout = X;" + MEMBERS), "OpX SFA, SFB", "has no block scales"),
        (
            operation("X", MNEMONIC.replace("aligned", "aligned.sp")) + traits("OpX"),
            "OpX A",
            "which would say which columns it has",
        ),
        (
            operation("X", MNEMONIC.replace("aligned", "aligned.sp")).replace(
                "using C", "using ERegisters = uint32_t[1];using C"
            )
            + traits("OpX"),
            "OpX E",
            "it has no ELayout",
        ),
        (
            operation("X", MNEMONIC.replace("aligned", "aligned.sp")).replace(
                "using C", "using ERegisters = uint32_t[1];using C"
            )
            + traits("OpX", MEMBERS + "using ELayout = Layout<Shape<_32,_16>>;"),
            "OpX E",
            "its mma has no sparsity selector",
        ),
        (
            operation("X").replace("struct OpX", "template <> struct OpX<half_t>")
            + "template <class A, class B> struct MMA_Traits<OpX<A, B>> {"
            + MEMBERS
            + "};",
            "OpX<half_t>",
            "it has no traits",
        ),
        (
            operation("X").replace("struct OpX", "template <> struct OpX<half_t, float>")
            + "template <class A> struct MMA_Traits<OpX<A, A>> {"
            + MEMBERS
            + "};",
            "OpX<half_t, float>",
            "it has no traits",
        ),
    ],
)
def test_what_is_left_out_is_told(load, text, name, reason):
    found = load(operation() + traits() + text)
    assert len(found.source.fragments) >= 4
    assert reason in reasons(found)[name]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no struct MMA_Traits"),
        ("int main() { return 0; }\n", "no struct MMA_Traits"),
        ("struct X { ", "braces or quotes do not balance"),
        ("int a; } }\n", "line 1: cannot parse the C++"),
        ('const char* x = "open;\n', "quotes"),
        (operation(), "it has no traits"),
        (traits(), "Op: its operation"),
        ("struct MMA_Traits<" + "Layout<" * 50 + ">" * 51 + " {};", "no struct MMA_Traits"),
        ("using P = Q; using Q = P; struct MMA_Traits<P> {};", "P is defined in terms of itself"),
        ("{" * 100_000 + "}" * 100_000, "no struct MMA_Traits"),
    ],
    ids=lambda text: text[:30],
)
def test_a_header_that_cute_never_wrote_is_one_line(load, text, words):
    with pytest.raises(LanemapError, match=words.replace("+", "[+]")) as error:
        load(text)
    assert "\n" not in str(error.value)


def test_a_deeply_nested_type_is_refused_and_not_tried(load):
    deep = "Shape<" * 50 + "_1" + ">" * 50
    found = load(operation() + traits(ALayout=f"Layout<{deep}>"))
    assert "longer than any of CuTe's" in reasons(found)["Op A"]


def test_a_long_chain_of_aliases_is_refused_and_not_tried(load):
    chain = "".join(f"using T{index} = T{index + 1};" for index in range(1000))
    found = load(chain + operation() + traits(ALayout="T0"))
    assert "too many" in reasons(found)["Op A"]


@pytest.mark.slow
def test_traits_that_are_repeated_take_no_longer_each(load):
    def took(times):
        began = time.process_time()
        assert load(operation() + traits() * times).source.fragments
        return time.process_time() - began

    took(1)  # the grammar is made
    assert took(4000) < 8 * took(1000)


def test_no_path_and_no_headers(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(LanemapError, match="name a CUTLASS source tree"):
            cute.load(path)


def test_bytes_that_are_no_text(tmp_path):
    file = tmp_path / "a.hpp"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LanemapError, match="not text"):
        cute.load(file)
    with file.open("wb") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(LanemapError, match="32 MiB"):
        cute.load(file)


def test_a_tree_is_read_by_architecture_and_its_includes_followed(tmp_path, plain):
    root = tmp_path / "cutlass" / "include"
    for folder in ("cute/atom", "cute/arch", "cutlass"):
        (root / folder).mkdir(parents=True)
    include = "#include <cute/arch/mma_sm80.hpp>\n#include <cute/atom/mma_traits_sm80.hpp>\n#include <gone.hpp>\n"
    (root / "cutlass/version.h").write_text(
        "#define CUTLASS_MAJOR 9\n#define CUTLASS_MINOR 8\n#define CUTLASS_PATCH 7 \n"
    )
    (root / "cute/arch/mma_sm80.hpp").write_text(operation() + operation("Late"))
    (root / "cute/atom/mma_traits_sm80.hpp").write_text(include + traits())
    (root / "cute/atom/mma_traits_sm100.hpp").write_text(include + traits("OpLate", "", ": MMA_Traits<Op>"))
    (root / "cute/atom/mma_traits_sm90.hpp").write_text("{")
    for path in (tmp_path / "cutlass", root):
        found = cute.load(path)[0]
        assert found.source.name == "cute-9.8.7"
        assert list(reasons(found)) == ["cute/atom/mma_traits_sm90.hpp"]
        assert {role: fragment.digest for role, fragment in by_role(found).items()} == {
            role: fragment.digest for role, fragment in plain.items()
        }
        assert list(found.source.provenance["files"]) == [
            "cute/atom/mma_traits_sm80.hpp",
            "cute/atom/mma_traits_sm90.hpp",
            "cute/atom/mma_traits_sm100.hpp",
            "cute/arch/mma_sm80.hpp",
        ]
    one = cute.load(root / "cute/atom/mma_traits_sm100.hpp")[0]
    assert len(one.source.fragments) == 4
    assert one.source.fragments[0].digest == plain["A"].digest


@given(st.text(alphabet='{};"<>:=usingtemplate struct\n/*#\\', max_size=200))
@examples(300)
def test_any_text_is_a_header_or_an_error_in_words(text):
    try:
        parse_header(text)
    except LanemapError as error:
        assert "line" in str(error)


@given(st.text(alphabet="_148Intype<>,:[] ", max_size=60))
@examples(300)
def test_any_text_is_a_type_or_an_error_in_words(text):
    try:
        assert parse_type(str(parse_type(text))) == parse_type(text)
    except LanemapError as error:
        assert "cannot read" in str(error) or "longer" in str(error)


def test_a_pipe_in_a_tree_is_refused_and_not_waited_for(tmp_path):
    folder = tmp_path / "cute" / "atom"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "mma_traits_sm80.hpp")
    with pytest.raises(LanemapError, match="mma_traits_sm80.hpp is not a file"):
        cute.load(tmp_path)


def test_a_number_of_thousands_of_digits_is_no_constant(load):
    """Nor a traceback: Python refuses to read one."""
    digits = "9" * 5000
    found = load(operation().replace("{", f"{{ static constexpr int bidA = {digits};", 1) + traits())
    assert len(found.source.fragments) == 4
