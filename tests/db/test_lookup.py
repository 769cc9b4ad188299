"""Look-ups: what is found where it is not what was asked to the letter, and what is said where nothing is."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanemap
from lanemap import DEFAULT_SOURCE, LanemapError
from lanemap.db import lookup
from lanemap.db.compare.summary import instruction_summary
from lanemap.db.errors import NoRowsError
from lanemap.db.isa.instructions import Key
from lanemap.db.isa.names import Query
from lanemap.db.layout.fragment import IMPOSSIBLE, Fragment, Source
from lanemap.db.render.facts import facts
from lanemap.db.store.connection import connect
from lanemap.db.store.location import locate

from ..forms import FORMS, SPELT
from ..modes import SOME_OR_ALL
from ..shipped import CORRECTED, PRINTED, SHIPPED, recorded

CAPTURE, LIBRARY = "h200-sm_90a", "cutlass-4.2.0"


@pytest.fixture(scope="module")
def everything(reader):
    """Every fragment, by source and key."""
    found: dict[str, dict[Key, Fragment]] = {}
    for fragment in lookup.fragments(reader, Query()):
        found.setdefault(fragment.source, {})[fragment.key] = fragment
    return found


@SOME_OR_ALL
def test_every_operand_that_has_rows_anywhere_is_found_by_default(reader, everything, step):
    """In the document where it has rows, else where they were measured or imported, and then it is said.

    Of wgmma a few widths.
    """
    document = everything[CORRECTED]
    keys = sorted({key for fragments in everything.values() for key in fragments}, key=str)
    for key in [key for key in keys if re.match(r"m64n(8|24|256)k|(?!m64n)", key.shape)][::step]:
        query = Query(**key._asdict(), source=DEFAULT_SOURCE)
        found = lookup.one_operand(reader, query)
        rows = [fragment for fragment in found if fragment.has_rows]
        measured = everything[CAPTURE].get(key)
        if key in document and document[key].has_rows:
            refined = bool(measured and measured.refines(document[key]))
            assert [fragment.source for fragment in found] == [CAPTURE if refined else CORRECTED]
            assert len(found.remarks) == refined
        elif rows:
            assert {fragment.source for fragment in found} == {CAPTURE if measured else LIBRARY}
            *others, last = found.remarks
            header = f"cute/atom/{'mma' if 'mma' in key.instruction else 'copy'}_traits_sm100.hpp"
            whose = CAPTURE if measured else f"{LIBRARY} ({header}), neither documented nor measured"
            assert last == f"{CORRECTED} has no rows for {found[0]}: these are from {whose}"
            assert len(others) == (key.instruction == "wmma")
        else:
            assert not any(key in theirs and theirs[key].has_rows for theirs in everything.values())


def test_the_best_evidence_is_the_same_however_it_is_asked_for(built):
    """By its whole name, before and after it is asked of all sources, and among all operands."""
    with lanemap.open(str(built)) as database:
        every = {one.key: one for one in lookup.fragments(database.reader, Query(source=DEFAULT_SOURCE))}
        keys = [key for key in every if (key[0], key[3], key.qualifiers) == ("wgmma.sp", "B", "32B.K")]
        assert {every[key].source for key in keys} == {CORRECTED, CAPTURE}
        for key in keys:
            query = Query(**key._asdict(), source=DEFAULT_SOURCE)
            found = [lookup.one_operand(database.reader, query)]
            assert lookup.fragments(database.reader, replace(query, source=None))
            found += [lookup.one_operand(database.reader, query), [every[key]]]
            (first, again, among) = ([(one.source, one.digest, one.note) for one in each] for each in found)
            assert first == again == among
            assert bool(first[0][2]) == (first[0][0] == CAPTURE)


@pytest.mark.slow
def test_what_was_measured_goes_before_what_was_imported_whenever_it_was_loaded(own, monkeypatch):
    some = [fragment for fragment in recorded().fragments if fragment.shape == "m16n8k32"]
    monkeypatch.setattr(lanemap, "_shipped", lambda: [replace(recorded(), fragments=some)])
    query = Query("m16n8k32", "f16", "E", source=DEFAULT_SOURCE, selector=0)
    with lanemap.open(own) as database:
        (measured,) = lookup.one_operand(database.reader, query)
        database.add([Source("a", "import", "a", [replace(measured, source=None)], {})])
        for again in (False, True):
            if again:
                database.refresh()
            (found,) = lookup.one_operand(database.reader, query)
            assert (found.source, found.digest) == (CAPTURE, measured.digest)


def test_rows_of_another_count_are_none_of_what_was_asked(file):
    """An import that has one of two that the document only draws is asked for that one, and not for the other."""
    with lanemap.open(str(file)) as database:
        query = Query("m8n8", "b16", "r", "ldmatrix", qualifiers="x1", source=CAPTURE)
        (known,) = lookup.one_operand(database.reader, query)
        drawn = lookup.one_operand(database.reader, Query("m16n16", "b8x16", "r", source=DEFAULT_SOURCE))
        one, other, *_ = (fragment.qualifiers for fragment in drawn)
        named = {"shape": "m16n16", "type": "b8x16", "qualifiers": one, "source": None}
        database.add([Source("mine", "import", "mine", [replace(known, **named)], {})])
        asked = Query("m16n16", "b8x16", "r", source="ptx-isa-9.4")
        with pytest.raises(LanemapError, match="ask the source mine"):
            lookup.operand_with_rows(database.reader, replace(asked, qualifiers=one)).rows()
        with pytest.raises(NoRowsError) as refused:
            lookup.operand_with_rows(database.reader, replace(asked, qualifiers=other)).rows()
        assert refused.value.key == drawn[1].key


def test_another_source_that_is_named_is_not_replaced(reader):
    with pytest.raises(LanemapError, match=f"ptx-isa-9.4 has no rows .* figure-only, .* ask the source {CAPTURE}"):
        lookup.operand_with_rows(reader, Query("m16n8k32", "f16", "E", source="ptx-isa-9.4")).rows(lane=3)


@pytest.mark.parametrize(
    ("query", "remark"),
    [
        (Query("m16n8k32", "f16", "A"), "A of mma.sp m16n8k32 f16: only mma.sp has this operand"),
        (Query("m16n8k32", "e4m3", "C"), "C of mma m16n8k32 e4m3 has the type f32; it may be f16"),
        (Query("m16n8k16", "bf16", "D"), "D of mma m16n8k16 bf16 has the type f32"),
        (Query("m16n8k64", "mxfp4", "SFA"), "SFA of mma m16n8k64 e2m1 has the type ue8m0"),
        (
            Query("SM90_64x128x16_F32F16F16_SS<Major::K, Major::K>", role="A"),
            "the atom takes A from shared memory: A of wgmma m64n128k16 is that of the atom that ends in _RS",
        ),
        (
            Query("SM90::GMMA::SPARSE::GMMA_64x8x32_F32F16F16_SS", role="A"),
            "the atom takes A from shared memory: A of wgmma.sp m64n8k32 is that of the atom that ends in _RS",
        ),
        (Query("m16n8k64 nvfp4", None, "SFB"), "SFB of mma m16n8k64 e2m1 has the type ue8m0 or ue4m3"),
    ],
    ids=str,
)
def test_what_is_not_to_the_letter_what_was_asked_is_said(reader, query, remark):
    assert lookup.one_operand(reader, query).remarks == [remark]


@pytest.mark.parametrize(
    ("words", "scales"),
    [
        (["m16n8k64", "mxfp4", "SFA"], "ue8m0:2"),
        (["m16n8k64", "nvfp4", "SFB"], "ue4m3:4 ue8m0:4"),
        (["mma.sp.m16n8k128", "nvfp4", "SFB"], "ue4m3:4 ue8m0:4"),
        (["m16n8k64", "e2m1", "SFA"], "ue4m3:4 ue8m0:2 ue8m0:4"),
        (["m16n8k64", "ue4m3", "SFA"], "ue4m3:4"),
        (["m16n8k32.e3m2", "SFB"], "ue8m0:1"),
        (["OMMA.SF.16864.F32.E2M1.E2M1.E8", "SFA"], "ue8m0:2"),
        (["OMMA.SF.16864.F32.E2M1.E2M1.UE8", "SFA"], "ue8m0:2"),
        (["OMMA.SF.16864.F32.E2M1.E2M1.E8.4X", "SFA"], "ue8m0:4"),
        (["OMMA.SF.SP.168128.F32.E2M1.E2M1.UE4M3.4X", "SFB"], "ue4m3:4"),
        (["QMMA.SF.16832.F32.E4M3.E2M1.E8", "SFB"], "ue8m0:1"),
        (["SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 16>", "SFA"], "ue8m0:4"),
        (["SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 32>", "SFA"], "ue8m0:2"),
        (["SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, VS>", "SFB"], "ue4m3:4"),
        (["SM120_16x8x32_TN_VS<float_e4m3_t, float_e5m2_t, float, float_ue8m0_t, 32>", "SFB"], "ue8m0:1"),
        (["SM120_SPARSE_16x8x128_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 64>", "SFA"], "ue8m0:2"),
    ],
    ids=str,
)
def test_a_name_of_a_product_finds_its_block_scales(reader, words, scales):
    found = lookup.one_operand(reader, Query.parse(words, source=DEFAULT_SOURCE))
    assert {fragment.role for fragment in found} == {words[-1]}
    assert {f"{fragment.type}:{fragment.qualifiers[len('scale_vec::')]}" for fragment in found} == set(scales.split())


@pytest.mark.parametrize(
    "name", ["m16n8k16 f16", "mma.sp m16n8k16 tf32", "HMMA.16816.F32.BF16", "SM80_16x8x16_F32F16F16F32_TN"]
)
def test_what_was_asked_to_the_letter_goes_without_a_remark(reader, name):
    query = Query(name, role="A", source=DEFAULT_SOURCE)
    assert lookup.one_operand(reader, query).remarks == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (Query("m16n8k12", "f16", "A"), "choose from m16n8k4, m16n8k8, m16n8k16, m16n8k32"),
        (Query("m16n9k16", "f16", "A"), "choose from m16n8k16, m16n16k16$"),
        (Query("m64n129k17", "f16", "A"), "choose from m8n8, m8n8k4, m8n8k16"),
        (Query("m8n8k64", "f16", "A"), "choose from m8n8k4, m8n8k16, m8n8k32, m8n8k128$"),
        (Query("m16n12k16", "f16", "A"), "choose from m16n8k16, m16n16k16$"),
        (
            Query.parse(["ld.matrix"]),
            r"no shape or instruction ld.matrix: did you mean ldmatrix\?$",
        ),
        (
            Query.parse(["mfma", "f16", "A"]),
            r"no shape or instruction mfma: did you mean mma\?$",
        ),
        (Query.parse(["16816"]), r"no shape or instruction 16816: did you mean m16n8k16\?$"),
        (Query.parse(["m8"]), r"no shape or instruction m8: did you mean m8n"),
        (
            Query("m16n16k16", "f16", "A", major="row"),
            "no major row in m16n16k16 f16 A: name it as one of the qualifiers$",
        ),
        *(
            (Query("m16n8k64", "e2m1", "SFA", qualifiers=qualifiers), words)
            for qualifiers, words in (
                ("scale_vec::2X.byteid::0.thread_id::0", "did you mean byte_id::0"),
                ("byteid::0", "did you mean byte_id::0"),
                ("scale_vec::2X.byte_id::0.thread_id::7", "from thread_id::0 to 3"),
                ("scale_vec::2X.thread_idx::1", "did you mean thread_id::1"),
            )
        ),
        (Query.parse(["v_mfma_f32_16x16x16f16"]), "no source has instructions of AMD: import a table"),
        (Query.parse(["v_mfma"]), "^no source has instructions of AMD: import a table"),
        (Query("m16n8", "f16", "A"), "no type f16 in m16n8: choose from b8$"),
        (Query("m16n8k16", "bf17", "A"), "did you mean bf16"),
        (Query("m16n8k16", "f17", "A"), "did you mean f16"),
        (Query("m16n8k16", "x16", "A"), "no type x16 in m16n8k16: choose from "),
        (Query("m16n8k16", "s33", "A"), "did you mean s32"),
    ],
    ids=str,
)
def test_what_is_not_there_is_answered_with_what_is_near(reader, query, words):
    with pytest.raises(LanemapError, match=words):
        lookup.fragments(reader, query)


@pytest.mark.slow
def test_all_shapes_of_wgmma_are_said_in_short(whole):
    with pytest.raises(LanemapError, match="choose from m64nNk16 with N 8, 16, .., 256$"):
        lookup.fragments(connect(locate(str(whole))), Query("m64n129k16", "f16", "A"))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (Query("m64n64k16", "bf16", "C"), "wgmma accumulates in D: ask for D"),
        (Query("m64n64k16", "f16", "E"), "no role E in m64n64k16 f16: choose from A, B, D"),
        (Query("m16n16k16", "f16", "E"), "no role E in m16n16k16 f16: choose from A, B, C, D"),
    ],
    ids=str,
)
def test_an_operand_that_no_register_holds_is_named_as_such(reader, query, why):
    with pytest.raises(LanemapError, match=why):
        lookup.fragments(reader, query)


def test_a_shape_that_has_other_types_names_them(reader):
    with pytest.raises(LanemapError, match="no type s4 in m16n8k8: choose from bf16, f16, f32, f64, tf32$"):
        lookup.fragments(reader, Query("m16n8k8", "s4", "A", source=DEFAULT_SOURCE))
    with pytest.raises(LanemapError, match="there is no m16n8k8 s4: A of m16n8k8 is bf16, f16, f64, tf32$"):
        lookup.fragments(reader, Query.parse(["m16n8k8", "s4"]))


def test_a_summary_has_every_form_every_operand_and_every_source(reader, everything):
    for named in dict.fromkeys((form.name, form.shape, form.a) for form in FORMS):
        summary = instruction_summary(reader, Query.parse(named))
        forms = [form for form in FORMS if (form.name, form.shape, form.a) == named]
        assert summary.forms == tuple(forms)
        operands = {(role, type_) for form in forms for role, type_ in form.types.items()}
        assert {(operand.fragment.role, operand.fragment.type) for operand in summary.operands} == operands
        for operand in summary.operands:
            shown = operand.fragment
            theirs = {source: there[shown.key] for source, there in everything.items() if shown.key in there}
            assert operand.verdicts.keys() == theirs.keys()
            assert shown.has_rows or not any(other.has_rows for other in theirs.values())
            for source, other in theirs.items():
                agrees = {"identical"} if other.digest == shown.digest else _DIFFER
                expected = {"rows"} if source == shown.source else agrees
                assert operand.verdicts[source] in (expected if other.has_rows else {other.status})


_DIFFER = {"refined", "different"}


def test_what_a_summary_says_of_sources_that_differ(reader):
    sparse = instruction_summary(reader, Query.parse(["mma.sp", "m16n8k32", "f16"]))
    said = {(operand.fragment.role, operand.fragment.type): operand for operand in sparse.operands}
    drawn = "figure-only"
    assert said["A", "f16"].verdicts.items() >= {PRINTED: "refined", CORRECTED: "refined", CAPTURE: "rows"}.items()
    assert said["E", "f16"].verdicts.items() >= {PRINTED: drawn, CORRECTED: drawn, CAPTURE: "rows"}.items()
    assert said["E", "f16"].selectors == (0, 1)
    assert {PRINTED, CORRECTED, CAPTURE} < {*sparse.sources}
    wrong = instruction_summary(reader, Query.parse(["m16n8k256", "b1"])).operands[0]
    assert wrong.verdicts.items() >= {PRINTED: "different", CORRECTED: "rows", CAPTURE: "identical"}.items()


def test_every_move_of_the_document_has_a_form_and_every_form_of_a_move_is_in_the_document(everything):
    """But for the addresses of rows, of which the document says nothing for some."""
    forms = [form for form in SPELT if form.role and form.name != "wmma"]
    keys = {form.key(role) for form in forms for role in form.types if role != "p"}
    names = {form.name for form in forms}
    assert keys == {key for key in everything[CORRECTED] if key.instruction in names and key.role != "p"}


def test_a_dense_instruction_goes_before_a_sparse_one(reader):
    assert {form.name for form in instruction_summary(reader, Query.parse(["m16n8k16", "f16"])).forms} == {"mma"}
    assert {form.name for form in instruction_summary(reader, Query.parse(["m16n8k32", "f16"])).forms} == {"mma.sp"}


def test_identical_layouts_are_told_without_numpy(built):
    """As every look-up, so that it starts at once."""
    script = (
        "import sys; from lanemap.db.isa.names import Query; from lanemap.db.store.connection import connect;"
        "from lanemap.db.store.location import locate; from lanemap.db.compare.summary import instruction_summary;"
        f"summary = instruction_summary(connect(locate({str(built)!r})), Query.parse(['HMMA.16816.F32.BF16']));"
        "assert len(summary.operands) == 4; print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert not {"numpy", "pandas", "pyarrow", "sqlalchemy", "lark"} & set(loaded)


@pytest.mark.parametrize(
    "query",
    [
        Query("m16n8k16"),
        Query(type="half", role="a"),
        Query("mma.sp.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16"),
        Query("m16n8k32", "f16", "E", selector=1),
        Query("m8n8k4", "f16", "B", major="col"),
        Query("m8n8", instruction="ldmatrix", qualifiers="X4.trans"),
        Query("m16n8k64", "ue4m3", "SFA", qualifiers="scale_vec::4x.byte_id::0.thread_id::1"),
    ],
    ids=str,
)
def test_a_query_matches_just_the_keys_that_it_finds(reader, everything, query):
    every = {key for there in everything.values() for key in there}
    found = {fragment.key for fragment in lookup.fragments(reader, query)}
    assert found == set(filter(query.matches, every)) != every


def test_of_several_fragments_none_is_chosen(database):
    """What tells them apart is named, with every value."""
    with pytest.raises(LanemapError, match="^E of m16n8k16 f16 has the selectors 0, 1, 2, 3: name one$"):
        database.fragment("m16n8k16", "f16", "E")
    assert database.fragment("m16n8k16", "f16", "E", selector=2).selector == 2


@pytest.mark.parametrize("order", ["row", "col"])
def test_a_word_alone_says_the_order_of_a_matrix_in_memory(reader, order):
    words = ["wmma", "m16n16k16", "f16"]
    written = [*words, "B", order], [*words, order, "b"]
    for request in (Query(*words[1:], "B", "wmma", qualifiers=order), *map(Query.parse, written)):
        assert {fragment.key.qualifiers for fragment in lookup.fragments(reader, request)} == {order}, request
    assert lookup.fragments(reader, Query.parse([*words, "D", order]))


def test_sources_are_asked_in_one_order(reader):
    order = [CORRECTED, PRINTED, "ptx-isa-9.1+errata", "ptx-isa-9.1", CAPTURE, SHIPPED[-2], LIBRARY]
    assert [*lookup.by_trust(reader)] == [*lookup.by_trust(reader, "nobody")] == order
    assert [*lookup.by_trust(reader, LIBRARY.upper())] == [LIBRARY, *order[:-1]]


@given(st.permutations(range(9)))
def test_the_order_of_sources_is_that_of_their_names_and_not_of_their_loading(places):
    """Versions are numbers, a correction goes before what it corrects, and what ships before the user's own."""
    kinds = {
        **dict.fromkeys(["ptx-isa-9.10+errata", "ptx-isa-9.10", "ptx-isa-9.4", "ptx-isa-9"], "document"),
        **dict.fromkeys(["ptx-isa-99+errata", "cdna3-isa-1+errata", "cdna3-isa-1"], "document"),
        **dict.fromkeys([CAPTURE, "a100-sm_80"], "capture"),
    }
    shuffled = [[*kinds][place] for place in places]
    shipped = {*kinds} - {"ptx-isa-99+errata", "cdna3-isa-1+errata", "cdna3-isa-1"}
    ordered = lookup.in_order({name: kinds[name] for name in shuffled}, shipped)
    assert [*ordered.items()] == [*kinds.items()]
    assert lookup.documents(ordered) == {"nvidia": "ptx-isa-9.10+errata"}


@pytest.mark.slow
def test_the_correction_of_any_document_answers_before_what_is_printed(file):
    """Also of a vendor whose document does not ship, in every way to ask."""
    with lanemap.open(str(file)) as database:
        right = replace(database.fragment("m16n8k16", "f16", "A"), instruction="v_mfma_theirs", source=None, note=None)
        table = right.table.copy()
        table["row"] = 15 - table["row"]
        sources = [("cdna3-isa-1", [replace(right, elements=table)]), ("cdna3-isa-1+errata", [right])]
        database.add([Source(name, "document", name, held) for name, held in sources])
        named = {"shape": "m16n8k16", "type": "f16", "role": "A", "instruction": "v_mfma_theirs"}
        assert database.fragment(**named).digest == right.digest
        assert {*database.find(**named).source} == {"cdna3-isa-1+errata"}
        assert database.survey().best[right.key].digest == right.digest
        assert [row["verdict"] for row in database.diff("cdna3-isa-1").rows().records()] == ["different"]


def test_what_ships_answers_before_the_users_own(file):
    """Whatever it is called, and whenever it was loaded."""
    with lanemap.open(str(file)) as database:
        shown = database.fragment("m16n8k16", "f16", "A"), database.fragment("m16n8k32", "f16", "E", selector=0)
        for name, kind, fragment in zip(("ptx-isa-99", "a"), ("document", "capture"), shown, strict=True):
            table = fragment.table.copy()
            table["row"] = table["row"].max() - table["row"]
            database.add([Source(name, kind, name, [replace(fragment, elements=table, source=None, note=None)])])
        again = database.fragment("m16n8k16", "f16", "A"), database.fragment("m16n8k32", "f16", "E", selector=0)
        assert [fragment.source for fragment in again] == [CORRECTED, CAPTURE]
        assert database.documents == [CORRECTED]


@pytest.mark.slow
def test_a_capture_that_refines_the_document_answers_and_judges(file):
    """Of 8 bits metadata chooses two of four columns, where the document leaves eight open."""
    named = {"shape": "m16n8k64", "type": "e4m3", "role": "A"}
    with lanemap.open(str(file)) as database:
        printed, measured = (database.fragment(**named, source=source) for source in (CORRECTED, CAPTURE))
        assert printed.note is None
        assert measured.note is None
        for card in ("a100-sm_80", "z100-sm_120"):  # they agree: the one of the vendor's row answers
            database.add([Source(card, "capture", card, [replace(measured, source=None)])])
        shown = database.fragment(**named)
        assert (shown.source, shown.digest) == (CAPTURE, measured.digest)
        note = f"{CORRECTED} leaves more columns open for {measured}: these are from {CAPTURE}"
        assert database.operand("m16n8k64 e4m3 A").remarks[-1] == shown.note == note
        assert len(database.find(**named, row=1, col=5)) == 2
        assert len(database.find(**named, row=1, col=5, source=CORRECTED)) == 4
        assert database.survey().shown(measured.key).note == note
        assert facts(shown)["note"] == note
        assert not database.check(["a100-sm_80"]).unexplained
        table = printed.table.copy()
        table["col"] = table["col_last"] = table["col"] + 4  # within the document's windows, and in no chunk
        database.add([Source("mine", "import", "mine", [replace(printed, elements=table, source=None)])])
        assert [str(result.verdict) for result in database.diff("mine").results] == ["different"]
        wide = printed.table.copy()
        wide["col"], wide["col_last"] = measured.table["col"] ^ 4, measured.table["col_last"] ^ 4
        database.add([Source("a100-sm_80", "capture", "another one", [replace(measured, elements=wide, source=None)])])
        assert database.fragment(**named).digest == measured.digest
        assert database.check(["a100-sm_80"]).unexplained


def test_each_fragment_is_of_the_most_trusted_source_that_has_rows_of_it(file):
    """A capture of one fragment takes nothing away that an import has of the others."""
    with lanemap.open(str(file)) as database:
        before = database.operand("tcgen05.ld 16x64b b32 r")
        one = next(fragment for fragment in before if fragment.qualifiers == "x2")
        database.add([Source("measured", "capture", "one of them", [one])])
        after = database.operand("tcgen05.ld 16x64b b32 r")
        assert [fragment.key for fragment in after] == [fragment.key for fragment in before]
        assert {fragment.qualifiers for fragment in after if fragment.source == "measured"} == {"x2"}
        exported = database.export(format="linear", query="tcgen05.ld 16x64b b32 r").text
        assert all(name in exported for name in ("measured", str(before[0].source)))


def test_a_source_read_as_a_whole_has_all_that_is_listed_of_it(database):
    """Also operands that lie in registers or in memory, of which a name without qualifiers means one."""
    for source in database.sources().itertuples():
        assert len(lookup.read_fragments(database.reader, Query(source=source.name))) == source.fragments, source.name


def test_the_list_has_every_instruction_also_one_that_documents_leave_open(database):
    rows = {name: fragments for name, _, _, _, fragments, _ in database.list("instructions").rows}
    assert rows.keys() == {fragment.instruction for fragment in lookup.fragments(database.reader, Query())} >= {"wmma"}
    for name, fragments in rows.items():
        keys = {fragment.key for fragment in lookup.fragments(database.reader, Query(instruction=name))}
        own = lookup.fragments(database.reader, Query(instruction=name, source=CORRECTED)) if name != "wmma" else keys
        assert fragments == len(own) > 0, name


def test_a_layout_that_cannot_be_is_said_to_be_so(database):
    impossible = replace(database.fragment("m16n8k16", "f16", "A"), elements=None, status=IMPOSSIBLE)
    with pytest.raises(LanemapError, match="impossible.*, as it puts two elements in one place: ask"):
        lookup.with_rows(database.reader, [impossible])


def test_elements_are_in_memory_once_whatever_is_written_meanwhile(built, tmp_path):
    """And those that were not read are read from where they are by then, not from where they were."""
    (first, *_) = (one for one in recorded().fragments if one.key[1:4] == ("m8n8k128", "b1", "A"))

    def turned(name, axis):
        elements = first.elements.copy()
        elements[axis] = elements[axis][::-1]
        return Source(name, "import", name, [replace(first, elements=elements)])

    def stored(name):
        found = database.operand(Query(*first.key[1:4], source=name))[0]
        return vars(found)["_stored"]

    other = shutil.copy2(built, tmp_path / "other.db")
    with lanemap.open(other) as database:
        database.add([turned("theirs", "col")])
        database.add([turned("mine", "row")])
    with lanemap.open(shutil.copy2(built, tmp_path / "own.db")) as database:
        held = stored(CAPTURE).data
        database.add([turned("mine", "row")])
        assert stored(CAPTURE).data is held
        unread = stored("mine")
        other.replace(tmp_path / "own.db")
        assert stored("mine").mapping != unread.mapping
        assert (stored("mine").array == turned("mine", "row").fragments[0].elements).all()


@pytest.mark.parametrize("column", ["zz", ""])
def test_says_which_columns_have_names(database, column):
    with pytest.raises(LanemapError, match="choose from shape, type, role, instruction, source"):
        database.names(column)
