"""The API answers what ``Database`` answers, in every format, and refuses what the command line refuses."""

import inspect
import io
import json
import re
import shlex
from dataclasses import replace
from html import unescape

import anyio
import httpx
import pandas as pd
import pytest
from hypothesis import Phase, given, settings, strategies

import lanemap
from lanemap.cli.web import work
from lanemap.cli.web.app import keep_answers
from lanemap.cli.web.work import MADE
from lanemap.db.layout.fragment import Source
from lanemap.db.lookup import Query

from .conftest import asking, serving

A = {"shape": "m16n8k16", "type": "f16", "role": "A"}


def frame(client, path, form, **parameters):
    """An answer in a format, as a frame."""
    answer = client.get(path, params=parameters | {"format": form})
    assert answer.status_code == 200, answer.text
    data = io.BytesIO(answer.content)
    read = {
        "csv": lambda: pd.read_csv(data, keep_default_na=False, na_values=[""]),
        "json": lambda: pd.DataFrame(json.load(data)),
        "jsonl": lambda: pd.read_json(data, lines=True, dtype=False),
        "parquet": lambda: pd.read_parquet(data),
        "arrow": lambda: pd.read_feather(data),
    }[form]()
    return read.astype(object).where(read.notna(), None)


@pytest.mark.few(5)
@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("find", A | {"row": 9, "col": 3}),
        ("find", {"shape": "SM80_16x8x16_F32BF16BF16F32_TN", "role": "D", "lane": 5}),
        ("find", {"shape": "m8n8k4", "type": "f16", "role": "B", "computation": 2, "major": "row", "slot": 1}),
        ("find", {"shape": "m16n8k64", "type": "s8", "role": "E", "instruction": "mma.sp"}),
        ("find", A | {"source": "h200-sm_90a"}),
        ("fragments", {"source": "h200-sm_90a"}),
        ("sources", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_rows_are_those_of_database_in_every_format(client, database, path, parameters, form):
    expected = getattr(database, path)(**parameters)
    found = frame(client, f"/api/{path}", form, **parameters)
    assert found.columns.tolist() == expected.columns.tolist()
    if form == "csv":  # which has numbers for whatever looks like one
        found, expected = found.astype(str), expected.astype(object).where(expected.notna(), None).astype(str)
        number = r"\.0$"
        found, expected = (frame.replace(number, "", regex=True) for frame in (found, expected))
        assert len(found) == len(expected)
        found, expected = found[["source"]] if "source" in found else found[["name"]], expected
        expected = expected[found.columns]
    assert found.values.tolist() == expected.astype(object).where(expected.notna(), None).values.tolist()


@pytest.mark.slow
def test_all_sources_are_asked_for_together(client, database):
    assert len(client.get("/api/fragments?source=all").json()) == len(database.fragments(None))


def test_parameters_are_the_arguments_of_database(client):
    described = client.get("/openapi.json").json()["paths"]
    for path, methods in described.items():
        name = path.removeprefix("/api/").partition("/")[0]
        if name in ("captures", "export", "trace"):
            continue
        known = set(inspect.signature(getattr(lanemap.Database, name)).parameters)
        spread = {
            "which": lanemap.Which,
            "where": lanemap.Where,
            "tiles": lanemap.Tiles,
            "how": lanemap.Chaining,
        }
        for word, kind in spread.items():
            known = known - {word} | set(kind.__annotations__) if word in known else known
        if name == "reduce":  # whose operand is one query
            known = known - {"operand"} | set(inspect.signature(Query).parameters)
        for method, operation in methods.items():
            asked = {parameter["name"] for parameter in operation.get("parameters", [])} - {"format"}
            if (name, method) == ("diff", "post"):
                assert asked == known - {"self", "left", "right"} | {"against"}
            elif name == "decode":
                schema = client.get("/openapi.json").json()["components"]["schemas"]["DecodeRequest"]
                assert set(schema["properties"]) == known - {"self"}
            else:
                assert asked == known - {"self"}, path
    fields = {parameter["name"] for parameter in described["/api/export/{format}"]["get"]["parameters"]}
    assert fields - {"format"} == set(inspect.signature(Query).parameters)


@pytest.mark.slow
def test_an_instruction_of_an_import_is_found_by_its_name(acme, refused):
    with lanemap.open(acme) as database, asking(database) as client:
        found = client.get("/api/find", params={"shape": "acme_gemm", "role": "A", "lane": 40, "format": "csv"})
        assert [line.split(",")[3:8] for line in found.text.splitlines()[1:]] == [
            ["40", str(i // 2), str(i % 2), "8", str(4 + i)] for i in range(4)
        ]
        several = client.get("/api/find", params={"shape": "acme_dot", "role": "A"})
        refused(several, 400, "A of acme_dot has the types i8, s8: name one")


@pytest.mark.slow
def test_pages_say_only_of_the_instructions_of_a_document_what_it_draws(acme):
    with lanemap.open(acme) as database, asking(database) as client:
        ours, theirs = (client.get(f"/{path}/f16") for path in ("wgmma/m64n8k16", "acme_gemm/m32n32k8"))
        assert "What is figure-only in the document, or left open there, has rows from h200-sm_90a" in ours.text
        assert (theirs.status_code, "figure-only in the document" in theirs.text) == (200, False)


def test_accept_chooses_a_format(client):
    def media(accept):
        return client.get("/api/sources", headers={"accept": accept}).headers["content-type"].partition(";")[0]

    assert media("*/*") == media("text/html, application/*;q=0.5, */*;q=0.1") == "application/json"
    assert media("application/json;q=0.2, text/csv") == media("text/csv;q=0.9,*/*;q=0.1") == "text/csv"
    assert media("application/vnd.apache.parquet") == "application/vnd.apache.parquet"


def test_an_unknown_media_type_is_refused(client, refused):
    refused(client.get("/api/sources", headers={"accept": "image/png, text/csv;q=0"}), 406, "text/csv")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "command"),
    [
        ("find?shape=m16n8k16&type=f16&role=A&col=300", "find m16n8k16 f16 A --col 300"),
        ("find?shape=m16n8k15&type=f16&role=A&col=3", "find m16n8k15 f16 A --col 3"),
        ("find?shape=m16n8k16&type=f16&role=A&col=3x", "find m16n8k16 f16 A --col 3x"),
        ("find?shape=m16n8k16&type=f16&role=A&col=3&source=nobody", "find m16n8k16 f16 A --col 3 --source nobody"),
        ("find?shape=m16n8k16&type=f16&role=A&lane=5&computation=2", "find m16n8k16 f16 A --lane 5 --computation 2"),
        ("sql?query=DELETE FROM layout", "sql 'DELETE FROM layout'"),
        ("sql?query=SELECT nothing FROM nowhere", "sql 'SELECT nothing FROM nowhere'"),
        ("diff?left=ptx-isa-9.1&right=h200-sm_90a&operand=m16n8k77", "diff ptx-isa-9.1 h200-sm_90a m16n8k77"),
        ("check?against=nobody", "check --against nobody"),
        ("chain?first=m16n8k16 f32 A&second=m16n8k16 f16 A", "chain m16n8k16 f32 A m16n8k16 f16 A"),
        ("export/linear?shape=m16n8k7", "export --format linear --shape m16n8k7"),
    ],
)
def test_a_refusal_says_what_the_command_line_says(client, refused, run, address, command):
    path, _, query = address.partition("?")
    said = refused(client.get(f"/api/{path}", params=query), 400)
    assert said.rpartition("col: ")[2].rstrip(".") in run(*shlex.split(command)).err


def test_names_that_the_route_does_not_have_are_refused(client, refused):
    refused(client.get("/api/find", params=A | {"rwo": 1}), 400, "no parameter rwo", "row, col")
    refused(client.get("/api/find?shape=m16n8k16&type=f16&role=A&row=1&row=2"), 400, "row is given twice")
    refused(client.get("/api/find?type=f16"), 400, "shape")
    refused(client.get("/api/nothing"), 404)
    refused(client.delete("/api/find"), 405, "/api/find accepts only GET")
    refused(client.get("/api/trace"), 405, "/api/trace accepts only POST")


@pytest.mark.slow
def test_what_is_wrong_is_repeated_in_short(client, refused):
    a = {"shape": "m16n8k16", "type": "f16", "role": "A"}
    for asked, right in (
        ({"source": "x" * 3000}, ": choose from "),
        ({"row": "9" * 5000}, "integer"),
        ({"x" * 5000: 1}, "choose from row, "),
        ({"format": "x" * 5000}, "is not one of "),
    ):
        assert len(refused(client.get("/api/find", params=a | asked), 400, right)) < 1000
    page = client.get("/chain", params={"first": "x" * 5000}).text
    assert len(re.search(r'role="alert">([^<]+)', page)[1]) < 1000


@pytest.mark.slow
def test_a_file_of_the_server_is_no_side_of_a_diff(client, refused, built):
    refused(client.get("/api/diff", params={"left": str(built), "right": "ptx-isa-9.1"}), 400, "no source")


@pytest.mark.slow
def test_the_same_question_has_the_same_verdict_by_every_way(run, file, tmp_path):
    """A right A beside a wrong D of wgmma, or beside what nobody else has: command, Python, HTTP and page."""
    with lanemap.open(str(file)) as database:
        right = database.fragment("m16n8k16", "f16", "A")
        wrong = database.fragment("m64n8k16", "f32", "D", instruction="wgmma")
        table = wrong.table.copy()
        table["row"] ^= 1
        sides = {"good": [right], "wrong": [right, replace(wrong, elements=table)]}
        sides["unjudged"] = [right, replace(right, instruction="nobody")]
        for name, held in sides.items():
            its = [replace(fragment, source=None, note=None) for fragment in held]
            database.add([Source(name, "import", name, its)])
            database.export(tmp_path / f"{name}.csv", query=Query(source=name))
        with asking(database) as client:
            for name in sides:
                path, found = tmp_path / f"{name}.csv", database.diff(name)
                code = int(name != "good")
                assert (found.exit_code, bool(found.unjudged)) == (code, name == "unjudged")
                answers = [client.get(f"/api/diff?left={name}{more}").json() for more in ("", "&right=BEST")]
                answers.append(client.post("/api/diff", content=path.read_bytes()).json())
                assert [(answer["exit_code"], answer["agree"]) for answer in answers] == [(code, not code)] * 3
                assert run("diff", str(path), db=file).code == run("diff", name, "best", db=file).code == code
                pages = client.get(f"/compare?left={name}"), client.post("/compare", content=path.read_bytes())
                assert all(f'class="verdict {"dis" * code}agreed"' in page.text for page in pages)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["check", "diff?left=ptx-isa-9.1&right=h200-sm_90a&operand=b1"])
def test_reports_are_those_of_database(client, database, path):
    check = database.check() if path == "check" else database.diff("ptx-isa-9.1", "h200-sm_90a", "b1")
    join = "&" if "?" in path else "?"
    for form in ("table", "json") if path == "check" else ("table", "markdown", "junit", "html", "json"):
        assert client.get(f"/api/{path}{join}format={form}").text == check.report(form)
    if path != "check":
        rows = pd.read_parquet(io.BytesIO(client.get(f"/api/{path}{join}format=parquet").content))
        assert rows.verdict.tolist() == check.frame().verdict.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    "operand", ["m16n8k256", "b1", "m16n8k16 B", "mma.sp", "mma.sp A", "HMMA.16816.F32", "nvidia m16n8k8 f16 A"]
)
def test_a_part_is_compared_by_each_of_its_names(client, database, run, operand):
    sides = {"left": "ptx-isa-9.1", "right": "h200-sm_90a"}
    rows = client.get("/api/diff", params={**sides, "operand": operand, "format": "csv"}).text.splitlines()
    found = database.diff(*sides.values(), operand)
    assert len(rows) == 1 + len(found.rows().rows)
    said = run("diff", *sides.values(), *operand.split(), "--format", "json").out
    assert json.loads(said)["comparisons"] == json.loads(found.report("json"))["comparisons"]
    assert len(rows) < len(database.diff(*sides.values()).rows().rows)


def test_a_chain_is_that_of_database(client, database):
    ends = {"first": "m16n8k16 f32 D", "second": "m16n8k32 e4m3 A"}
    for relabel in (False, True):
        expected = database.chain(*ends.values(), relabel=relabel)
        said = client.get("/api/chain", params=ends | {"relabel": relabel}).json()
        assert said["movement"] == expected.movement
        assert tuple(said["order"] or ()) == (expected.order or ())
        assert [tuple(move.values()) for move in said["rows"]] == list(map(tuple, expected.moves))
    found = frame(client, "/api/chain", "csv", **ends)
    assert found.values.tolist() == database.chain(*ends.values()).frame().values.tolist()
    answer = client.get("/api/chain", params=ends | {"format": "cpp"})
    assert (answer.headers["content-type"], answer.text) == (
        "text/x-c++src; charset=utf-8",
        database.chain(*ends.values()).cpp(),
    )
    refused = client.get("/api/chain", params={"first": "m16n8k16 f32 D", "format": "cpp"})
    assert (refused.status_code, "two operands, or a recipe" in refused.text) == (400, True)
    assert client.get("/api/find", params={"shape": "m16n8k16", "type": "f16", "format": "cpp"}).status_code == 400


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "how", "expected"),
    [
        (("m16n8k16 f32 D", "m16n8k32 e4m3 A"), {}, 1),
        (("m16n8k16 f32 D", "m16n8k16 f16 A"), {}, 0),
        (("m16n8k16 f32 D", None), {}, 0),
        (("ldmatrix", "m16n8k16 f16 A"), {"major": "row"}, 0),
        (("cp.async.bulk.tensor m64n64 b16 128B t", "m64n64k16 f16 A 128B.K"), {"through": "128B"}, 0),
        (("cp.async.bulk.tensor m64n64 b16 128B t", "m64n64k16 f16 A 64B.K"), {"through": "128B"}, 1),
    ],
)
def test_a_chain_in_json_has_the_verdict_and_exit_code_of_the_command(client, database, run, ends, how, expected):
    said = client.get("/api/chain", params={"first": ends[0], "second": ends[1] or "", **how}).json()
    found = database.chain(*ends, **how)
    words = [word for end in ends for word in (end or "").split()]
    exit_code = run("chain", *words, *(f"--{name}={value}" for name, value in how.items())).code
    assert (said["verdict"], said["exit_code"], exit_code) == (found.verdict, expected, expected)
    assert said["rows"] == json.loads(json.dumps(found.rows().records()))


@pytest.mark.slow
def test_a_recipe_is_that_of_database(client, database, refused):
    known = [("ldmatrix", "m16n8k16 f16 A", "row"), ("ldmatrix.x4 r", "m16n8k16 f16 A", "row")]
    for first, second, major in [*known, ("ldmatrix", "m16n8k16 f16 B", "col"), ("m16n8k16 f16 D", "stmatrix", "col")]:
        expected = database.chain(first, second, major=major, count=2)
        asked = {"first": first, "second": second, "major": major, "count": 2}
        assert frame(client, "/api/chain", "parquet", **asked).values.tolist() == expected.frame().values.tolist()
    asked = {"first": "ldmatrix", "second": "m16n8k8 f64 A"}
    refused(client.get("/api/chain", params=asked), 400)
    refused(client.get("/api/chain", params=asked | {"second": "m16n8k16 f16 A", "major": "x"}), 400, "row")


@pytest.mark.slow
def test_sql_is_that_of_database(client, database):
    query = "SELECT role, COUNT(*) AS n FROM layout WHERE source = 'ptx-isa-9.1' GROUP BY role"
    assert frame(client, "/api/sql", "arrow", query=query).values.tolist() == database.sql(query).values.tolist()


def test_metadata_is_decoded(client, database, refused):
    asked = {"operand": "m16n8k16 f16", "words": ["0xE4E4E4E4"], "selector": 1}
    expected = database.decode("m16n8k16 f16", [0xE4E4E4E4], selector=1).frame()
    assert pd.DataFrame(client.post("/api/decode", json=asked).json()).equals(expected)
    assert pd.DataFrame(client.post("/api/decode", json=asked | {"words": [0xE4E4E4E4]}).json()).equals(expected)
    refused(client.post("/api/decode", json=asked | {"words": [1 << 32]}), 400, "not a word of metadata")
    refused(client.post("/api/decode", json=asked | {"words": []}), 400, "0 words of metadata")
    refused(client.post("/api/decode", json=asked | {"word": []}), 400, "no 'word': there is operand, words, selector")
    refused(client.post("/api/trace", json={"kernel": "", "block": 32, "args": []}), 400, "there is kernel, arguments")
    refused(client.post("/api/decode", json=asked | {"word": 1}), 400, "word")
    refused(client.post("/api/decode", content=b"{", headers={"content-type": "application/json"}), 400)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "csv", "arrow", "jsonl", "cute", "linear"])
def test_an_export_is_that_of_database(client, database, form):
    query = Query("m16n8k16", "bf16", instruction="mma", source="ptx-isa-9.1")
    expected = io.BytesIO()
    database.export(expected, format=form, query=query)
    parameters = {"shape": query.shape, "type": query.type, "instruction": "mma", "source": query.source}
    answer = client.get(f"/api/export/{form}", params=parameters)
    assert answer.content == expected.getvalue()
    assert ("attachment" in answer.headers.get("content-disposition", "")) == (
        form in ("parquet", "csv", "arrow", "jsonl")
    )


def test_what_a_notation_cannot_express_is_said(client):
    answer = client.get("/api/export/linear", params={"shape": "m16n8k16", "type": "f16", "source": "ptx-isa-9.1"})
    assert "A of mma.sp m16n8k16 f16" in answer.headers["lanemap-refused"]
    assert "A of mma m16n8k16 f16" in answer.text


def test_a_file_is_compared_and_not_kept(client, database, refused):
    sent = client.get("/api/export/parquet?source=ptx-isa-9.1&type=b1&role=A").content
    answer = client.post("/api/diff?against=h200-sm_90a&operand=mma+b1+A", content=sent)
    expected = database.diff("ptx-isa-9.1", "h200-sm_90a", "mma b1 A")
    assert answer.headers["cache-control"] == "no-store"
    assert sorted(fragment["verdict"] for fragment in answer.json()["comparisons"][0]["fragments"]) == sorted(
        str(result.verdict) for result in expected.results
    )
    assert answer.json()["comparisons"][0]["left"] == "upload"
    assert client.get("/api/sources").json() == json.loads(database.sources().to_json(orient="records"))


@pytest.mark.parametrize(
    ("operand", "tile", "decode"),
    [
        ("m64n128k16 f16 B 128B.K", "n128k64", None),
        ("m64n128k16 f16 B 128B.K", None, "0x4000000800000000"),
        ("cp.async.bulk.tensor b16 128B", "m100n24", None),
        ("tcgen05.mma kind::f16 m128n256 f32 bf16 bf16", None, None),
    ],
)
def test_a_descriptor_is_that_of_database_and_its_page(client, operand, tile, decode):
    asked = {"operand": operand, "tile": tile, "decode": decode}
    asked = {name: value for name, value in asked.items() if value}
    expected = lanemap.Database.descriptor(operand, tile, decode=decode)
    if decode:
        assert expected.text() == lanemap.Database.descriptor(operand, tile, decode=int(decode, 0)).text()
    answer = client.get("/api/descriptor", params=asked).json()
    assert answer["text"] == expected.text()
    assert answer["rows"] == json.loads(json.dumps(expected.rows().records()))
    assert answer["verdict"] == getattr(expected, "verdict", None)
    assert answer["exit_code"] == expected.exit_code == int(decode is not None)
    assert answer["word"] == (hex(expected.word) if hasattr(expected, "word") else None)
    assert len(frame(client, "/api/descriptor", "csv", **asked)) == len(answer["rows"])
    page = unescape(client.get("/descriptor", params=asked).text)
    assert expected.text() in page
    assert (answer["verdict"] or "") in page


def test_what_is_no_descriptor_is_refused(client, refused):
    for wrong, words in (
        ({"operand": "m64n128k16 f16 D"}, ""),
        ({"operand": "m64n128k16 f16 B 128B.K", "decode": "much"}, "write 64 bits"),
        ({"operand": "m64n128k16 f16 B 128B.K", "tile": "n9999999k64"}, ""),
    ):
        said = refused(client.get("/api/descriptor", params=wrong), 400, words)
        page = client.get("/descriptor", params=wrong)
        assert page.status_code == 400
        assert said in unescape(page.text)


@pytest.mark.slow
def test_a_report_may_be_larger_than_an_answer(small, monkeypatch, refused, tmp_path):
    async def here(function, *args, **_):
        return await anyio.to_thread.run_sync(function, *args)

    monkeypatch.setattr(work.to_process, "run_sync", here)
    monkeypatch.setattr(work, "_limit_memory", lambda: None)
    monkeypatch.setattr(work, "LARGEST_ANSWER", 100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with lanemap.open(small) as database, asking(database) as client:
        for path in ("/api/check", "/api/diff?left=ours", "/api/check?format=csv"):
            answer = client.get(path)
            assert (answer.status_code, len(answer.content) > 100) == (200, True), answer.text[:200]
            assert int(answer.headers["content-length"]) == len(answer.content)
        assert client.get("/api/check").json() == json.loads(database.check().report("json"))
        assert client.post("/api/diff", content=client.get("/api/export/csv?source=ours").content).json()["agree"]
        refused(client.get("/api/sql?query=SELECT+*+FROM+layout"), 400, "the answer has more than")
        refused(client.get("/api/diff?left=nothing"), 400, "no source")
    assert not [*tmp_path.iterdir()]


def test_a_file_that_claims_a_tile_is_compared_with_it(client, refused):
    tile = {"tile": "m64n64", "warps": "2x2"}
    operand = {"shape": "m16n8k16", "type": "f16", "role": "D", "instruction": "mma"}
    sent = client.get("/api/find", params={**operand, **tile, "format": "csv"}).text
    answers = [client.post("/api/diff", params={**tile, **more}, content=sent).json() for more in ({}, {"order": "n"})]
    assert [answer["exit_code"] for answer in answers] == [0, 1]
    assert "lanes are exchanged" in answers[1]["comparisons"][0]["fragments"][0]["words"]
    refused(client.post("/api/diff?warps=2x2", content=sent), 400, "name it, as in m64n64k32")
    refused(client.get("/api/diff", params={"left": "ptx-isa-9.4", **tile}), 400, "name a file that claims some")
    assert "Only a file claims tiles" in client.get("/compare", params=tile).text
    assert "Only a file claims tiles" not in client.get("/compare").text


@pytest.mark.parametrize("along", ["row", "col"])
@pytest.mark.parametrize(
    "which", [{}, {"tile": "m64n64", "warps": "2x2"}, {"shape": "m16n8k8", "type": "f64", "role": "B"}], ids=str
)
def test_a_reduction_is_that_of_python(client, database, refused, along, which):
    asked = {"shape": "m16n8k16", "type": "f32", "role": "D", **which}
    found, answer = database.reduce(Query(**asked), along), client.get("/api/reduce", params={**asked, "along": along})
    told = json.loads(json.dumps([found.values, found.masks, found.reason, found.verdict]))
    assert [answer.json()[name] for name in ("values", "masks", "reason", "verdict")] == told
    assert [(*map(tuple, its["parts"]),) for its in answer.json()["warps"]] == [*found.warps]
    assert [*answer.json()["rows"][0].values()] == [*found.rows().rows[0]]
    rows = client.get("/api/reduce", params={**asked, "along": along, "format": "csv"}).text.splitlines()
    assert len(rows) == 1 + len(found.fragment.table)
    refused(client.get("/api/reduce", params={**asked, "along": "k"}), 400, "say which becomes one value")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "status"),
    [("/search?q=m16n8k16+f16+A", 303), ("/MMA/m16n8k16/f16", 307), ("/mma/m16n8k17/f16", 404), ("/sql?query=x", 400)],
)
def test_what_is_no_answer_is_not_kept(client, path, status):
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.headers["cache-control"] == "no-store"
    assert "etag" not in answer.headers


@pytest.mark.slow
def test_an_answer_is_asked_for_again_only_when_it_is_another(client):
    answers = [client.get("/api/find", params=A | {"row": 9}) for _ in range(3)]
    same = [sorted(header for header in answer.headers.multi_items() if header[0] != "date") for answer in answers]
    assert same[0] == same[1] == same[2]
    assert answers[0].content == answers[1].content
    tag = {"if-none-match": answers[0].headers["etag"]}
    again = client.get("/api/find", params=A | {"row": 9}, headers=tag)
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/api/find", params=A | {"row": 8}, headers=tag).status_code == 200
    assert client.get("/api/find", params=A | {"row": 9}, headers=tag | {"accept": "text/csv"}).status_code == 200
    assert client.head("/api/find", params=A | {"row": 9}).headers["etag"] == answers[0].headers["etag"]
    assert "etag" not in client.get("/api/sql?query=SELECT 1").headers
    assert "etag" not in client.get("/api/find?shape=nothing").headers


@pytest.mark.slow
def test_what_another_server_writes_is_noticed(own, own_client, fragments):
    one = next(fragment for fragment in fragments if fragment.key[:4] == ("mma", "m16n8k16", "f16", "A"))

    def mine(rows):
        changed = replace(one, elements=one.elements.copy())
        changed.elements["row"] = (changed.elements["row"] + rows) % changed.dimensions[0]
        return Source("mine", "import", "mine", [changed])

    address = "/api/find?shape=m16n8k16&type=f16&role=A&lane=0&reg=0&slot=0&source=mine"
    rows, tags = [], []
    with lanemap.open(own) as other:
        for number in range(3):
            other.add([mine(number)])
            for _ in range(2):
                answer = own_client.get(address)
                rows.append(answer.json()[0]["row"])
                tags.append(answer.headers["etag"])
    first = int(one.elements["row"][0])
    assert rows == [(first + number) % one.dimensions[0] for number in (0, 0, 1, 1, 2, 2)]
    assert len(set(tags)) == 3
    with lanemap.open(own) as third, serving(third) as elsewhere:
        host = {"host": own_client.base_url.netloc}
        asked = httpx.get(elsewhere + address, headers={"if-none-match": tags[-1]} | host, timeout=100)
        assert asked.status_code == 304


@pytest.mark.parametrize("written", [False, True])
def test_an_answer_is_not_kept_if_somebody_wrote_while_it_was_made(written):
    made, sent, state = [], [], [b"before"]
    MADE.forget()

    class Held:
        async def digest(self):
            return state[-1]

    async def answer(scope, receive, send):
        made.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(len(made)).encode()})
        state.extend([b"after"] * written)

    async def send(message):
        sent.append(message.get("body"))

    async def ask():
        app = keep_answers(answer, Held())
        for _ in range(2):
            state[:] = [b"before"]
            await app({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}, None, send)

    anyio.run(ask)
    assert sent[1::2] == ([b"1", b"2"] if written else [b"1", b"1"])


@pytest.fixture(scope="module")
def described(client):
    """Every operation of the description, and a function that sends a request and judges the answer."""
    schemathesis = pytest.importorskip("schemathesis", reason="needs lanemap[test-server]")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    judged = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.response_headers_conformance,
    ]
    schema = schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")
    # Whatever is made for an export may match everything, and take long.
    operations = [operation.ok() for operation in schema.exclude(path="/api/export/{format}").get_all_operations()]
    return operations, lambda case: case.call_and_validate(checks=judged, timeout=300)


@settings(max_examples=20, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
@given(data=strategies.data())
def test_the_description_is_true(described, data):
    """Requests made from the description, right and wrong ones: the server never fails, and answers as described."""
    from schemathesis import GenerationMode

    operations, judge = described
    operation = data.draw(strategies.sampled_from(operations))
    mode = data.draw(strategies.sampled_from(GenerationMode))
    judge(data.draw(operation.as_strategy(generation_mode=mode)))


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "address", ["/api/find?role=A&shape=", "/m16n8k16/", "/chain?first=", "/api/find?shape=m16n8k16&type=f16&role="]
)
def test_a_name_has_a_length(client, address):
    answer = client.get(address + "x" * 4001)
    assert answer.status_code in (400, 404)
    assert "has 4001 characters: a name has at most 4000" in answer.text
