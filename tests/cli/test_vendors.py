"""Room for every vendor: instructions that Lanemap has never heard of, of 64 lanes, from a table to every answer."""

import csv
import io
import json
import re
import shutil

import pytest

import lanemap
from lanemap.db.isa import vendors

from ..modes import LONG, some

COLUMNS = "shape type role lane reg slot row col instruction computation bits"
WIDE, BLOCKS = "v_mfma_f32_32x32x8_f16", "v_mfma_f32_4x4x4_16b_f16"
OWN_TYPES = {"xf32": 32, "i8": 8, "bf8": 8}
NOTATIONS = ("linear", "cute", "affine", "python", "cpp", "ptx-formula")


def wide():
    """Half a wavefront holds four columns of A; each lane has a column of D in groups of four rows."""
    for lane in range(64):
        half, place = divmod(lane, 32)
        for i in range(4):
            k = 4 * half + i
            yield "m32n32k8", "f16", "A", lane, i // 2, i % 2, place, k, WIDE, 1, 16
            yield "m32n32k8", "f16", "B", lane, i // 2, i % 2, k, place, WIDE, 1, 16
        for role in "CD":
            for i in range(16):
                yield "m32n32k8", "f32", role, lane, i, 0, 8 * (i // 4) + 4 * half + i % 4, place, WIDE, 1, 32


def blocks():
    """Sixteen products of 4 x 4 x 4, each of four lanes."""
    for lane in range(64):
        block, place = lane // 4 + 1, lane % 4
        for i in range(4):
            yield "m4n4k4", "f16", "A", lane, i // 2, i % 2, place, i, BLOCKS, block, 16
            yield "m4n4k4", "f16", "B", lane, i // 2, i % 2, i, place, BLOCKS, block, 16
            for role in "CD":
                yield "m4n4k4", "f32", role, lane, i, 0, i, place, BLOCKS, block, 32


def of_own_types():
    """A and B of types that only their table knows, as many to a register as they are narrow."""
    for name, bits in OWN_TYPES.items():
        for lane in range(64):
            half, place = divmod(lane, 32)
            for i in range(32 // bits):
                k = 32 // bits * half + i
                yield f"m32n32k{64 // bits}", name, "A", lane, 0, i, place, k, f"own_dot_{name}", 1, bits
                yield f"m32n32k{64 // bits}", name, "B", lane, 0, i, k, place, f"own_dot_{name}", 1, bits


ROWS = [*wide(), *blocks(), *of_own_types()]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    file = tmp_path_factory.mktemp("vendors") / "cdna.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([COLUMNS.split(), *ROWS])
    return file


@pytest.fixture(scope="module")
def db(table, built):
    """A database that has it, to be read."""
    file = shutil.copy(built, table.with_name("layouts.db"))
    with lanemap.open(file) as database:
        database.import_layouts("table", table)
    return file


def test_it_is_imported_without_a_word_of_complaint(run, table, file):
    made = run("import", "table", table, db=file)
    assert (made.code, made.out, made.err) == (0, f"cdna: 14 fragments, {len(ROWS)} rows; 0 left out\n", "")


def cells(out):
    return [tuple(int(row[name]) for name in ("lane", "reg", "slot", "row", "col")) for row in csv.DictReader(out)]


@pytest.mark.slow
@pytest.mark.parametrize("lane", some([40, 0, 63], 3))
def test_it_is_found_by_its_name_or_its_shape_without_a_word_of_complaint(run, db, lane):
    """In one of the ways to name it, and in the long mode in each."""
    for number, (name, of_type, role) in enumerate(sorted({(row[8], row[1], row[2]) for row in ROWS})):
        expected = [row[3:8] for row in ROWS if (row[8], row[1], row[2], row[3]) == (name, of_type, role, lane)]
        shape = next(row[0] for row in ROWS if row[8] == name)
        ways = [name, role], [name, of_type, role], [f"{name} {shape} {of_type}", role], [shape, of_type, role]
        for words in ways if LONG else [ways[number % 4]]:
            found = run("find", *words, "--lane", str(lane), "--format", "csv", db=db)
            assert (found.code, found.err) == (0, ""), words
            # Two of its instructions have the same shape: a look-up takes the first.
            assert cells(io.StringIO(found.out)) == expected or words[0] == shape


@pytest.mark.slow
def test_python_finds_it_by_its_name(run, acme):
    with lanemap.open(acme) as database:
        found = database.find("acme_gemm", "A", lane=40)
        assert found[["row", "col"]].values.tolist() == [[8, 4], [8, 5], [8, 6], [8, 7]]
        assert found.equals(database.find("acme_gemm", "f16", "A", lane=40))
        assert str(database.fragment("acme_gemm", "A")) == str(database.fragment("acme_gemm", "f16", "A"))
        for look_up in (database.find, database.fragment):
            with pytest.raises(lanemap.LanemapError, match="^A of acme_dot has the types i8, s8: name one$"):
                look_up("acme_dot", "A")


@pytest.mark.slow
def test_its_types_are_not_those_that_others_call_the_same(run, acme):
    for name, cols in ("i8", [0, 1, 2, 3]), ("s8", [3, 2, 1, 0]):
        found = run("find", "acme_dot", name, "A", "--lane", "0", "--format", "csv", db=acme)
        assert [cell[-1] for cell in cells(io.StringIO(found.out))] == cols
        listed = run("list", *f"--instruction acme_dot --type {name} --source acme --format csv".split(), db=acme)
        assert [row["types"] for row in csv.DictReader(io.StringIO(listed.out))] == [name]


def test_a_name_that_is_misspelt_is_not_taken_for_an_instruction_that_ships(run, acme):
    assert "did you mean acme_gemm?" in run("find", "acme_gem", "A", "--row", "0", db=acme).err


@pytest.mark.slow
def test_what_is_exported_as_text_has_the_width_of_its_own_types(run, acme, tmp_path):
    """A type by its name alone is that of instructions that ship."""
    for format in ("csv", "parquet"):
        file = str(tmp_path / f"acme.{format}")
        assert run("export", "--source", "acme", "--format", format, "-o", file, db=acme).err == ""
        compared = run("diff", file, "acme", db=acme)
        assert (compared.code, compared.err) == (0, "")
    lines = run("export", "acme_wide", "A", "--source", "acme", "--format", "jsonl", db=acme).out.splitlines()
    assert {json.loads(line)["bits"] for line in lines} == {32}
    assert "bits" not in run("export", "acme_gemm", "--source", "acme", "--format", "jsonl", db=acme).out


def wide_rows(name="Foo.Bar"):
    """A product of 128 lanes, of a type of its own of 64 bits."""
    for lane in range(128):
        part, place = divmod(lane, 32)
        for i in range(4):
            yield "m32n32k16", "x64", "A", lane, i, 0, place, 4 * part + i, name, 1, 64
            yield "m32n32k16", "x64", "B", lane, i, 0, 4 * part + i, place, name, 1, 64
        for i in range(8):
            yield "m32n32k16", "f64", "D", lane, i, 0, 8 * part + i, place, name, 1, 64


def write(file, rows):
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([COLUMNS.split(), *rows])
    return str(file)


@pytest.fixture(scope="module")
def foo(built, tmp_path_factory):
    """A database with that product."""
    folder = tmp_path_factory.mktemp("foo")
    file = shutil.copy(built, folder)
    with lanemap.open(file) as database:
        database.import_layouts("table", write(folder / "foo.csv", wide_rows()))
    return file


@pytest.mark.slow
def test_a_type_of_its_own_may_be_wider_than_its_vendors_registers(run, foo, tmp_path):
    shown = run("show", "Foo.Bar", "A", db=foo)
    assert "4 registers of 64 bits, 1 slot of 64 bits in each" in shown.out
    found = run("find", "Foo.Bar", "A", "--lane", "100", "--format", "csv", db=foo)
    assert cells(io.StringIO(found.out)) == [(100, i, 0, 4, 12 + i) for i in range(4)]
    assert run("list", "findings", "--source", "foo", db=foo).out == ""
    for form in ("csv", "parquet", "arrow"):
        file = str(tmp_path / f"exported.{form}")
        assert run("export", "--source", "foo", "--format", form, "-o", file, db=foo).err == ""
        (read,) = lanemap.read_file(file).fragments[:1]
        assert (read.register_bits, read.slot_bits, read.threads) == (64, 64, 128), form
    wider = [(*row[:-1], 129 if row[1] == "x64" else 64) for row in wide_rows()]
    refused = run("import", "table", write(tmp_path / "wider.csv", wider), db=foo)
    assert "bits 129: give one width from 1 to 128" in refused.err


def test_registers_are_as_wide_as_its_vendors(monkeypatch, tmp_path):
    """Half as wide as others, they hold one f16, or two i8."""
    narrow = vendors.UNKNOWN._replace(name="half", prefixes=("half_",), register_bits=16)
    monkeypatch.setattr(vendors, "VENDORS", {**vendors.VENDORS, narrow.name: narrow})
    rows = [("m32n8k1", "f16", "A", lane, 0, 0, lane, 0, "half_dot", 1, 16) for lane in range(32)]
    rows += [("m32n8k2", "x8", "A", lane, 0, i, lane, i, "half_dot", 1, 8) for lane in range(32) for i in range(2)]
    one, other = lanemap.read_file(write(tmp_path / "half.csv", rows)).fragments
    assert (one.registers, one.register_bits, one.slots, one.slot_bits) == (1, 16, 1, 16)
    assert (other.registers, other.register_bits, other.slots, other.slot_bits) == (1, 16, 2, 8)


@pytest.mark.slow
def test_a_name_is_spelt_as_its_vendor_does_and_asked_for_in_any_case(run, foo, tmp_path):
    expected = run("find", "Foo.Bar", "A", "--lane", "0", db=foo)
    assert "Foo.Bar" in expected.out
    for words in (["foo.bar", "A"], ["FOO.BAR", "x64", "A"], ["m32n32k16", "x64", "A", "-i", "foo.BAR"]):
        assert run("find", *words, "--lane", "0", db=foo).out == expected.out
    assert run("show", "foo.bar", db=foo).out.startswith("Foo.Bar")
    assert "Foo.Bar" in run("list", "--instruction", "foo.bar", db=foo).out
    with lanemap.open(foo) as database:
        (fragment,) = database.operand("foo.bar x64 A")
        assert lanemap.Query(instruction="foo.bar").matches(fragment.key)


@pytest.mark.slow
def test_slots_that_hold_nothing_are_in_every_export(built, tmp_path):
    rows = [("m8n4k4", "f16", "A", lane, 0, 0, lane // 4, lane % 4, "sparse_op", 1, 16) for lane in range(32)]
    with lanemap.open(shutil.copy(built, tmp_path)) as database:
        database.import_layouts("table", write(tmp_path / "half.csv", rows))
        for form in ("csv", "parquet"):
            file = tmp_path / f"exported.{form}"
            database.export(file, query=lanemap.Query(source="half"))
            assert lanemap.read_file(file).fragments[0].slots == 2, form


@pytest.mark.slow
def test_sources_that_spell_a_name_differently_are_compared(run, foo, tmp_path):
    foo = shutil.copy(foo, tmp_path)
    assert run("import", "table", write(tmp_path / "other.csv", wide_rows("FOO.bar")), db=foo).code == 0
    compared = run("diff", "other", "foo", db=foo)
    assert (compared.code, "3 identical" in compared.out) == (0, True)


@pytest.mark.slow
def test_c_and_d_are_found_by_the_type_of_a(run, acme, foo):
    for words, its in ("acme_gemm f16", "f32"), ("m32n32k8 f16", "f32"), ("acme_gemm m32n32k8 f16", "f32"):
        found = run("find", *words.split(), "D", "--lane", "40", db=acme)
        assert (found.code, found.out) == (0, run("find", "acme_gemm", its, "D", "--lane", "40", db=acme).out), words
    assert run("find", "foo.bar", "x64", "D", "--lane", "0", db=foo).code == 0
    for words in ("acme_gemm bf16 D", "acme_dot i8 D"):
        assert "acme_" in run("find", *words.split(), "--lane", "0", db=acme).err


@pytest.mark.slow
def test_d_is_not_guessed_where_there_are_several(run, built, tmp_path):
    rows = [("m8n4k1", "f16", "A", lane, 0, 0, lane % 8, 0, "odd_dot", 1, 16) for lane in range(32)]
    for type_, bits in ("f32", 32), ("s32", 32):
        rows += [("m8n4k1", type_, "D", lane, 0, 0, lane % 8, lane // 8, "odd_dot", 1, bits) for lane in range(32)]
    file = shutil.copy(built, tmp_path)
    assert run("import", "table", write(tmp_path / "odd.csv", rows), db=file).code == 0
    asked = run("find", "odd_dot", "f16", "D", "--lane", "0", db=file)
    assert (asked.code, asked.out) == (2, "")
    assert "choose from" in asked.err or "name one" in asked.err


@pytest.mark.slow
def test_a_lane_is_spelt_as_its_vendor_does(run, acme):
    for words, spelt in (["acme_gemm", "A"], "lane"), (["m16n8k16", "f16", "A"], "%laneid"):
        made = run("export", *words, "--format", "ptx-formula", db=acme).out
        assert set(re.findall(r"%?lane\w*", made.partition("\nrow =")[2])) <= {spelt}
        assert spelt in made


@pytest.mark.slow
def test_nothing_is_said_of_the_documents_of_others(run, acme):
    listed = run("chain", "acme_gemm", "D", db=acme)
    assert (listed.code, listed.err) == (0, "")
    assert "acme" in listed.out


@pytest.mark.slow
def test_nothing_is_wrong_with_it(run, db):
    assert run("list", "findings", "--source", "cdna", db=db).out == ""
    report = run("report", "cdna", db=db)
    assert (report.code, "Nothing wrong was found" in report.out, "PTX" in report.out) == (0, True, False)
    with lanemap.open(db) as database:
        unjudged = len(database.diff("cdna").unjudged["cdna"])
    assert f"- **Unjudged**: {unjudged} fragments, " in report.out
    for name in (WIDE, BLOCKS, *(f"own_dot_{name}" for name in OWN_TYPES)):
        shown = run("show", name, db=db)
        assert (shown.code, shown.err) == (0, "")
        assert shown.out.splitlines()[0].startswith(name)


@pytest.mark.slow
def test_it_is_drawn(run, db):
    """Each of its lanes has a colour and a label of its own."""
    for words in ([WIDE, "A"], [WIDE], [BLOCKS, "D"], [BLOCKS], ["own_dot_i8", "B"]):
        drawn = run("draw", *words, db=db)
        assert (drawn.code, drawn.err) == (0, "")
        assert {int(lane) for lane in re.findall(r"\blane(\d+)\b", drawn.out)} >= {*range(64)}, words


@pytest.mark.slow
def test_every_notation_that_can_express_it_does(run, db):
    """Each is verified against every row before it is written."""
    with lanemap.open(db) as database:
        for notation in NOTATIONS:
            made = database.export(format=notation, query=[WIDE, BLOCKS])
            assert made.refused == []
            assert min(made.text.count(name) for name in (WIDE, BLOCKS)) >= 4, made.text
    assert "Triton has no encoding of it" in run("export", WIDE, "A", "--format", "triton", db=db).err


@pytest.mark.slow
def test_its_results_are_chained(run, db):
    """Four columns of D follow each other in a lane just as four of B do; as A, they are in other lanes."""
    same = run("chain", WIDE, "D", WIDE, "B", db=db)
    assert (same.code, same.err) == (0, "")
    assert "no data movement between lanes" in " ".join(same.out.split())
    assert "data movement across the wavefront" in " ".join(run("chain", WIDE, "D", WIDE, "A", db=db).out.split())
    assert "no data movement between lanes" in " ".join(run("chain", BLOCKS, "D", BLOCKS, "B", db=db).out.split())


@pytest.mark.slow
def test_it_is_checked_against_another_table_of_it(run, db, table, tmp_path):
    other, db = tmp_path / "other.csv", shutil.copy(db, tmp_path)
    lines = table.read_text().splitlines()
    wrong = next(at for at, line in enumerate(lines) if line.startswith("m32n32k8,f16,A,5,0,1,"))
    lines[wrong] = lines[wrong].replace(",5,1,v_", ",5,2,v_")
    assert lines[wrong] != table.read_text().splitlines()[wrong]
    other.write_text("\n".join([*lines, ""]))
    assert run("import", "table", other, db=db).code == 0
    checked = run("check", "--against", "cdna", db=db)
    assert checked.code == 1
    assert f"A of {WIDE} m32n32k8 f16" in " ".join(checked.out.split())


def rdna():
    """The wave32 products of RDNA3: A and B twice, in both halves of the wave; D of f16 in the low halves of registers.

    Section 7.9 of the RDNA3 ISA.
    """
    name = "v_wmma_f16_16x16x16_f16"
    for lane in range(32):
        for i in range(16):
            yield "m16n16k16", "f16", "A", lane, i // 2, i % 2, lane % 16, i, name, 1, 16, None
            yield "m16n16k16", "f16", "B", lane, i // 2, i % 2, i, lane % 16, name, 1, 16, None
        for i in range(8):
            yield "m16n16k16", "f16", "D", lane, i, 0, 2 * i + lane // 16, lane % 16, name, 1, 16, 0


def narrow():
    """Elements of six bits, of which 32 fill one register of 192 bits."""
    for lane in range(64):
        for i in range(32):
            yield "m16n16k128", "e2m3", "A", lane, 0, i, lane % 16, lane // 16 * 32 + i, "v_own_f8f6f4", 1, 6, None


@pytest.fixture(scope="module")
def waves(built, tmp_path_factory):
    """A database with both."""
    folder = tmp_path_factory.mktemp("waves")
    file = shutil.copy(built, folder)
    with lanemap.open(file) as database:
        for name, rows in {"rdna": rdna(), "narrow": narrow()}.items():
            path = folder / f"{name}.csv"
            with path.open("w", newline="") as stream:
                csv.writer(stream).writerows([[*COLUMNS.split(), "first_bit"], *rows])
            database.import_layouts("table", path)
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "role", "sizes"),
    [
        ("rdna", "A", (32, 8, 2, 32, 16)),
        ("rdna", "B", (32, 8, 2, 32, 16)),
        ("rdna", "D", (32, 8, 1, 32, 32)),
        ("narrow", "A", (64, 1, 32, 192, 6)),
    ],
)
def test_a_table_is_taken_for_what_it_says(run, waves, tmp_path, source, role, sizes):
    """Threads, copies, slots and registers are its own, and survive an export."""
    with lanemap.open(waves) as database:
        (fragment,) = (each for each in database.matching(lanemap.Query(source=source)) if each.role == role)
        for form in ("csv", "parquet"):
            file = tmp_path / f"exported.{form}"
            database.export(file, query=lanemap.Query(source=source, role=role))
            for each in (fragment, *lanemap.read_file(file).fragments):
                found = each.threads, each.registers, each.slots, each.register_bits, each.slot_bits
                assert (found, each.first_bit) == (sizes, 0), form
    assert run("list", "findings", "--source", source, db=waves).out == ""
    for form in ("linear", "cpp"):
        assert run("export", fragment.instruction, role, "--format", form, db=waves).code == 0


@pytest.mark.slow
def test_a_cell_that_is_in_fewer_lanes_than_the_others_is_a_finding(run, built, tmp_path):
    rows = [row for row in rdna() if row[2] == "A" and (row[3], row[4], row[5]) != (20, 3, 1)]
    with lanemap.open(shutil.copy(built, tmp_path)) as database:
        database.import_layouts("table", write(tmp_path / "lacking.csv", [row[:-1] for row in rows]))
        assert database.findings("lacking").finding.tolist() == [
            "1 slot holds nothing, first lane 20 reg 3 slot 1",
            "1 cell is held too rarely: rows 4 cols 7",
        ]


@pytest.mark.slow
def test_its_instruction_is_what_is_compared(run, db, table, file):
    """Also where it is of files alone, and its vendor's role."""

    def compared(*words, db=db):
        return json.loads(run("diff", table, *words, "--format", "json", db=db).out)["compared"]

    for words in ("v_mfma_f32_32x32x8_f16 A", "amd m32n32k8 f16 A", "V_MFMA_F32_32x32x8_f16 f16 A"):
        assert compared("cdna", *words.split()) == compared(table, *words.split(), db=file) == 1
        assert "1 left only" in run("diff", table, *words.split(), db=db).out
        assert "1 fragment, for which no evidence" in run("report", "cdna", *words.split(), db=db).out
    assert compared("cdna", "amd", "A") == len({row[8] for row in ROWS if row[8].startswith("v_mfma")})


def test_a_chain_and_a_comparison_are_of_the_vendor_that_is_named(run):
    chain, diff = ("chain", *"m16n8k16 f32 D m16n8k16 f16 A".split()), ("diff", "ptx-isa-9.4", "ptx-isa-9.1")
    assert run(*chain, "--vendor", "nvidia").out == run(*chain).out
    assert run(*diff, "nvidia", "m16n8k16", "f16").out == run(*diff, "m16n8k16", "f16").out
    assert "no vendor x: choose from nvidia\n" in run(*chain, "--vendor", "x").err
