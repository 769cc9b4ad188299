"""An instruction of another vendor: rows, a catalogue and a spelling are all that it takes."""

import csv
import io
import json
from functools import partial

import pytest

from .copies import asked, copied

pytestmark = pytest.mark.slow  # each command is a process of a copy of the package
MNEMONIC = "v_mfma_f32_16x16x16_f16"
INSTRUCTION = {
    "name": "v_mfma",
    "vendor": "amd",
    "axes": {"A": "mk", "B": "kn", "C": "mn", "D": "mn"},
    "threads": 64,
    "types": "DA",
    "spelling": "v_mfma_{d}_{m}x{n}x{k}_{a}",
}
FORM = {"name": "v_mfma", "shape": "m16n16k16", "a": "f16", "d": "f32", "targets": ["gfx942"]}
DOCUMENT = """
title = "AMD Instinct MI300 Instruction Set Architecture"
version = "CDNA3"
publisher = "AMD"
"""
SECTION = """
section = "7.1.4"
anchor = "matrix-core"
instruction = "v_mfma"
shape = "m16n16k16"

[[fragment]]
roles = ["A"]
types = ["f16"]
formula = '''
row = %laneid % 16
col = 4 * (%laneid / 16) + i
'''

[[fragment]]
roles = ["B"]
types = ["f16"]
formula = '''
row = 4 * (%laneid / 16) + i
col = %laneid % 16
'''

[[fragment]]
roles = ["C", "D"]
types = ["f32"]
formula = '''
row = 4 * (%laneid / 16) + i
col = %laneid % 16
'''
"""


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Commands and pages of a copy of the package that has the instruction."""
    folder = tmp_path_factory.mktemp("vendors")
    package = copied(folder)
    rows = package / "db" / "isa"
    for name, row in {"instructions": INSTRUCTION, "forms": FORM}.items():
        file = rows / f"{name}.json"
        file.write_text(json.dumps([*json.loads(file.read_text()), row]))
    vendors = json.loads((rows / "vendors.json").read_text())
    next(row for row in vendors if row["name"] == "amd")["document"] = "cdna3-isa"
    (rows / "vendors.json").write_text(json.dumps(vendors))
    catalogue = package / "ingest" / "catalogue" / "cdna3-isa"
    catalogue.mkdir()
    (catalogue / "document.toml").write_text(DOCUMENT)
    (catalogue / "v_mfma.toml").write_text(SECTION)
    return partial(asked, package)


def rows(answer):
    assert answer[0] == 0, answer
    return list(csv.DictReader(io.StringIO(answer[1])))


def test_one_instruction_answers_all_commands(ask):
    exports = ("linear", "cute", "affine", "python", "cpp", "ptx-formula", "csv", "jsonl")
    a, d = (MNEMONIC, "A"), ("v_mfma", "m16n16k16", "f16", "D")
    written, tile = ("v_mfma", "m16n16k16", "f32", "D"), ("--tile", "m32n32k16", "--warps", "2x1", "--lane", "3")
    others = [
        ["find", *written, "--lane", "0"],
        ["find", *a, *tile],
        ["reduce", *written],
        ["chain", *written],
        ["report", "cdna3-isa"],
        ["list", "errata", "--vendor", "amd"],
        ["draw", MNEMONIC, "--output", "all.svg"],
        ["site", "pages"],
    ]
    answers = ask(*others, ["decode", MNEMONIC, "0"], ["descriptor", *a])
    assert [code for code, *_ in answers[: len(others)]] == [0] * len(others), answers
    assert [(code, error.count("\n")) for code, _, error in answers[len(others) :]] == [(2, 1)] * 2
    whole, found, held, summary, drawn, sources, checked, diff, forms, chained, *exported = ask(
        ["find", MNEMONIC, "B", "-f", "csv", "--lane", "17"],
        ["find", *a, "--row", "3", "--col", "9", "-f", "csv"],
        ["find", f"{MNEMONIC} v[0:3], v[4:5], v[6:7], v[0:3]", "D", "--row", "14", "--col", "2", "-f", "csv"],
        ["show", MNEMONIC],
        ["draw", *a, "--output", "a.svg"],
        ["list", "sources", "-f", "csv"],
        ["check", "-f", "json"],
        ["diff", "cdna3-isa", "cdna3-isa+errata"],
        ["sql", f"SELECT target FROM form WHERE mnemonic = '{MNEMONIC}'", "-f", "csv"],
        ["chain", *d, MNEMONIC, "B"],
        *(["export", *a, "-f", notation] for notation in exports),
    )
    assert [(row["row"], row["col"]) for row in rows(whole)] == [(str(4 + i), "1") for i in range(4)]
    assert [(row["lane"], row["reg"], row["slot"]) for row in rows(found)] == [("35", "0", "1")]
    assert [(row["lane"], row["reg"], row["source"]) for row in rows(held)] == [("50", "2", "cdna3-isa+errata")]
    assert "gfx942" in summary[1]
    assert drawn[0] == 0
    assert {"cdna3-isa", "cdna3-isa+errata"} <= {row["name"] for row in rows(sources)}
    assert checked[0] == 0
    assert diff[0] == 0
    assert rows(forms) == [{"target": "gfx942"}]
    assert "without data movement" in chained[1] or "no data movement" in chained[1], chained
    assert [answer[0] for answer in exported] == [0] * len(exports), exported


def test_its_spellings_are_one_name(ask):
    """As assemblers of both generations and the compiler write it, in any case, and in code."""
    spellings = (MNEMONIC, MNEMONIC.upper(), "v_mfma_f32_16x16x16f16", "__builtin_amdgcn_mfma_f32_16x16x16f16")
    spellings += ("v_mfma_16x16x16",)  # which names the one form that there is
    code = "d = __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);"
    others = ("v_mfma_f16_16x16x16_f16", "v_mfma_f32_16x16x8_f16", "v_mfma_f32_16x16x16_bf16")
    answers = ask(*(["find", name, "B", "--lane", "17", "-f", "csv"] for name in (*spellings, code, *others)))
    found, refused = answers[:6], answers[6:]
    assert found[0][0] == 0
    assert [answer == found[0] for answer in found] == [True] * 6, found
    assert [(status, out, error.count("\n")) for status, out, error in refused] == [(2, "", 1)] * 3, refused


def test_a_name_of_two_vendors_is_neither_s(ask):
    """Not even where one of them has an operand of the type by itself, as wmma has a D of f16."""
    named = {"A": ("v_mfma m16n16k16 f16 A", "wmma m16n16k16 f16 A")}
    named["D"] = ("v_mfma m16n16k16 f32 D", "wmma m16n16k16 f16 D")
    commands = [["find", "m16n16k16", "f16", role, "--lane", "1"] for role in named]
    commands += [["chain", "m16n16k16", "f32", "D", "m16n16k16", "f16", "A"], ["show", "m16n16k16", "f16"]]
    of_amd = [["find", "m16n16k16", "f16", "D", "--vendor", "AMD"], ["find", "amd", "m16n16k16", "f16", "D"]]
    of_nvidia = ["find", "m16n16k16", "f16", "A", "--vendor", "nvidia"]
    alone = [["find", "m16n8k16", "f16", "A"], ["find", "m16n16k16", "bf16", "A"]]
    wrong = [
        ["find", "m16n8k16", "f16", "A", "--vendor", "amd", "--lane", "1"],
        ["find", "m8n8k4", "f16", "A", "--vendor", "x", "--lane", "1"],
    ]
    asked = [*commands, *([*words, "--lane", "1", "-f", "csv"] for words in (*of_amd, of_nvidia, *alone)), *wrong]
    answers = ask(*asked)
    for (code, _, words), names in zip(answers, named.values(), strict=False):
        assert (code, [name in words for name in names]) == (2, [True, True]), words
    assert [code for code, *_ in answers[:4]] == [2] * 4
    instructions = [{row["instruction"] for row in rows(answer)} for answer in answers[4:9]]
    assert instructions == [{"v_mfma"}, {"v_mfma"}, {"wmma"}, {"mma"}, {"wmma"}]
    assert [code for code, *_ in answers[9:]] == [2, 2]
    assert "no shape m16n8k16 in amd" in answers[9][2]


def test_a_vendor_is_chosen_for_both_ends_of_a_chain_and_in_a_comparison(ask):
    names = "m16n16k16 f32 D m16n16k16 f16 B --vendor amd".split()
    chained, through, compared = ask(
        ["chain", *names, "-f", "json"],
        ["chain", *names, "--through", "none"],
        ["diff", "cdna3-isa", "-f", "json"],
    )
    assert (chained[0], through[0], compared[0]) == (0, 2, 0), (chained, through, compared)
    assert "D of v_mfma m16n16k16 f32 is AMD's, and st.shared moves registers of NVIDIA's warps" in through[2]
    (comparison,) = json.loads(compared[1])["comparisons"]
    assert {each["instruction"] for each in comparison["fragments"]} == {"v_mfma"}
    both = "/api/chain?first=m16n16k16+f32+D&second=m16n16k16+f16+B&vendor="
    amd, nvidia = ask(pages=[f"{both}amd", f"{both}nvidia"])
    ends = [json.loads(answer[2])[end]["instruction"] for answer in (amd, nvidia) for end in ("first", "second")]
    assert ends == ["v_mfma", "v_mfma", "wmma", "wmma"]
    form = "/chain?first=m16n16k16+f32+D&second=m16n16k16+f16+B"
    (refused, *_), (chained, _, page) = ask(pages=[form, f"{form}&vendor=amd"])
    assert (refused, chained, "/v_mfma/" in page, "/wmma/" in page) == (400, 200, True, False)


def test_lists_have_what_one_vendor_has(ask):
    lines, operands, findings, both, none, sources = ask(
        ["list", "--vendor", "AMD"],
        ["list", "--vendor", "amd", "--role", "D", "-f", "csv"],
        ["list", "findings", "--vendor", "amd", "--source", "all", "-f", "csv"],
        ["list", "-f", "csv"],
        ["list", "--vendor", "x"],
        ["list", "sources", "--vendor", "amd"],
    )
    assert [line.split()[:5] for line in lines[1].splitlines()[1:]] == [["v_mfma", "A", "B", "C", "D"]]
    assert {row["instruction"] for row in rows(operands)} == {"v_mfma"}
    assert rows(findings) == []
    assert {"v_mfma", "mma"} < {row["instruction"] for row in rows(both)}
    assert (none[0], "choose from amd, nvidia" in none[2]) == (2, True)
    assert (sources[0], "--vendor is not for sources" in sources[2]) == (2, True)


def test_its_pages_say_nothing_of_others(ask):
    operands = ("f16/A", "f16/B", "f32/C", "f32/D")
    paths = ["/v_mfma/m16n16k16/f16", *(f"/v_mfma/m16n16k16/{operand}" for operand in operands)]
    other = ["/", "/sources", "/check", "/search?q=v_mfma", "/mma/m16n8k16/f16/A"]
    (_, _, listed), (_, _, refused) = ask(pages=["/search?q=amd", "/amd/m16n8k16/f16/A"])
    assert "/v_mfma/" in listed
    assert "no shape m16n8k16 in amd" in refused
    request = "/api/find?shape=m16n16k16&type=f16&role=A&lane=0"
    named = ["/amd/m16n16k16/f16/A", f"/search?q={MNEMONIC}+B", f"{request}&vendor=amd", request]
    answers = ask(pages=[*paths, *other, *named, "/search?q=m16n16k16+f16+A"])
    *pages, short, found, api, both, box = answers
    assert [status for status, *_ in pages] == [200] * len(pages)
    for _, address, text in pages[: len(paths)]:
        assert not [word for word in ("NVIDIA", "PTX leaves", "ldmatrix", "stmatrix") if word in text], address
    assert (short[0], short[1].split("//")[1].split("/", 1)[1]) == (200, "v_mfma/m16n16k16/f16/A")
    assert found[1].endswith("/v_mfma/m16n16k16/f16/B")
    assert (api[0], "v_mfma" in api[2]) == (200, True)
    assert (both[0], "v_mfma m16n16k16 f16 A or wmma" in both[2]) == (400, True), both
    assert "/search" in box[1]
    assert "/v_mfma/" in box[2]
    assert "/wmma/" in box[2]
