"""A kernel that somebody sends: the answer of the command, and never more than its limits."""

import json
from concurrent.futures import ThreadPoolExecutor
from html import unescape

import numpy as np
import pytest

from lanemap.cli.web import guide, work

from .conftest import asking
from .elements import Elements

KERNELS = guide.kernels()
GIVEN = {
    "arguments": ["A=f16[16,16]", "B=f16[8,16]", "C=f32[16,8]"],
    "product": "C[m,n] = A[m,k] B[n,k]",
    "block": 64,
}
FORM = {**GIVEN, "arguments": "A=f16[16,16]\r\nB=f16[8,16]\r\n\r\nC=f32[16,8]\r\n", "block": "64", "grid": "1"}
#: Of one step that repeats.
ENDLESS = ".visible .entry endless() { .reg .b32 %x; AGAIN: add.u32 %x, %x, 1; bra AGAIN; }"


def without_time(answer):
    return answer | {"counts": answer["counts"].rpartition(",")[0]}


@pytest.mark.parametrize("name", KERNELS)
def test_the_answer_is_that_of_database(client, database, name):
    expected = database.trace(KERNELS[name], **GIVEN)
    answer = client.post("/api/trace", json={"kernel": KERNELS[name], **GIVEN}).json()
    assert without_time(answer) == json.loads(json.dumps(without_time(expected.records())))
    assert answer["exit_code"] == (name != "gemm")
    text = client.post("/api/trace?format=table", json={"kernel": KERNELS[name], **GIVEN})
    assert text.headers["content-type"].startswith("text/plain")
    assert text.text.rpartition(",")[0] == expected.text().rpartition(",")[0]


def test_arguments_may_have_names(client):
    named = {"arguments": dict(argument.split("=") for argument in GIVEN["arguments"])}
    asked = {"kernel": KERNELS["gemm"], **GIVEN, **named}
    assert client.post("/api/trace", json=asked).json()["ok"]
    junit = client.post("/api/trace", json=asked, headers={"accept": "application/xml"}).text
    assert 'failures="0"' in junit


@pytest.mark.parametrize("name", KERNELS)
def test_the_page_runs_what_is_in_it(client, database, name):
    """The examples at one click: what the form has is sent as a browser sends it."""
    page = client.get(f"/trace?example={name}").text
    form = {field["name"]: field.get("value", "") for tag, field in Elements(page).found if tag == "input"}
    areas = [field["name"] for tag, field in Elements(page).found if tag == "textarea"]
    texts = [unescape(part.partition(">\n")[2].partition("</textarea>")[0]) for part in page.split("<textarea")[1:]]
    form |= {area: text.replace("\n", "\r\n") for area, text in zip(areas, texts, strict=True)}
    form.pop("q")
    answer = client.post("/trace", data=form)
    assert answer.status_code == 200
    found = database.trace(KERNELS[name], **GIVEN)
    assert found.verdict in answer.text
    assert answer.text.count("<img") == (name == "exchanged")
    for finding in found.findings:
        assert finding.words in unescape(answer.text)
    assert unescape(answer.text).count(KERNELS[name]) == 1  # what was sent is still there


def test_an_example_that_there_is_not_is_refused(client):
    answer = client.get("/trace?example=nothing")
    assert answer.status_code == 400
    assert "gemm, exchanged, race" in answer.text


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kernel": ""}, "this is no PTX"),
        ({"kernel": "{"}, ""),
        ({"kernel": "/etc/passwd"}, "this is no PTX"),
        ({"arguments": ["A=@/etc/passwd"]}, "no file can be read here"),
        ({"arguments": ["A=bytes:@/etc/passwd"]}, "no file can be read here"),
        ({"arguments": ["A=f16[16,16]"]}, "gemm takes 3, A: u64, B: u64, C: u64"),
        ({"arguments": ["A=f16[256]", *GIVEN["arguments"][1:]]}, "A has 1 dimensions"),
        ({"product": "C[m,n]"}, "is no product"),
        ({"block": 2048}, "1 to 1024 threads"),
        ({"block": [1, 1, 1, 1]}, "give one to three numbers"),
        ({"seed": -1}, "seed -1: write a whole number from 0 on"),
        ({"source": "nothing"}, "nothing"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(client, refused, changed, words):
    asked = {"kernel": KERNELS["gemm"], **GIVEN, **changed}
    said = refused(client.post("/api/trace", json=asked), 400, words)
    if {"source", "seed"} & changed.keys():
        return
    form = FORM | {
        name: value if isinstance(value, str) else "\n".join(value) if name == "arguments" else str(value).strip("[]")
        for name, value in changed.items()
    }
    answer = client.post("/trace", data=form | {"kernel": asked["kernel"]})
    assert answer.status_code == 400
    assert said in unescape(answer.text)


def test_a_field_that_is_no_number_is_refused(client):
    answer = client.post("/trace", data=FORM | {"kernel": KERNELS["gemm"], "block": "many"})
    assert (answer.status_code, "is not a whole number" in answer.text) == (400, True)
    assert client.post("/trace", content="&".join("x=1" for _ in range(99))).status_code == 400
    assert client.post("/trace", content=b"\xff\x00").status_code == 400


def test_a_kernel_that_is_too_large_is_refused(client, refused):
    fits = KERNELS["gemm"] + " " * (work.LARGEST_KERNEL - len(KERNELS["gemm"]))
    assert client.post("/api/trace", json={"kernel": fits, **GIVEN}).json()["ok"]
    refused(client.post("/api/trace", json={"kernel": fits + " ", **GIVEN}), 413, "more than 256 kB")
    refused(client.post("/api/trace", json={"kernel": "é" * (work.LARGEST_KERNEL // 2 + 1), **GIVEN}), 413, "256 kB")
    answer = client.post("/trace", data=FORM | {"kernel": fits + " "})
    assert (answer.status_code, "more than 256 kB" in answer.text) == (400, True)
    refused(client.post("/api/trace", json={"kernel": fits * 5, **GIVEN}), 413, "more than 1 MB")


@pytest.mark.slow
def test_a_kernel_without_an_end_ends_and_keeps_nobody_out(database, refused, monkeypatch):
    monkeypatch.setattr(work, "KERNEL_SECONDS", 2.0)
    with asking(database) as client, ThreadPoolExecutor(4) as many:
        asked = {"kernel": ENDLESS, "block": 32}
        answers = [many.submit(client.post, "/api/trace", json=asked) for _ in range(4)]
        assert client.get("/api/find?shape=m16n8k16&type=f16&role=A&lane=3").status_code == 200
        for answer in answers:
            refused(answer.result(), 400, "without an end")


@pytest.mark.slow
def test_a_kernel_has_a_limit_of_memory(client, refused):
    """Which holds of it alone: a query after it has its own."""
    for _ in range(3):
        text = ".visible .entry large(.param .u64 A) { ret; }"
        asked = {"kernel": text, "block": 32, "arguments": ["A=f32[200000000]"]}
        refused(client.post("/api/trace", json=asked), 400, "more memory than a request may have")
        query = "SELECT LENGTH(CAST(ZEROBLOB(700000000) AS TEXT)) AS bytes"
        assert client.get("/api/sql", params={"query": query}).status_code in (200, 400)
        assert client.post("/api/trace", json={"kernel": KERNELS["gemm"], **GIVEN}).json()["ok"]


def test_what_is_sent_is_text(client):
    """In names, in lines of the source and in what could not be read."""
    hostile = "<script>alert(1)</script>"
    kernel = KERNELS["exchanged"].replace("gemm.ptx", hostile) + f'\n.file 1 "{hostile}.cu"\n'
    kernel = kernel.replace("    mma.sync", "    .loc 1 7 0\n    mma.sync")
    for changed in ({"kernel": kernel}, {"arguments": hostile}, {"product": hostile}, {"block": hostile}):
        answer = client.post("/trace", data=FORM | {"kernel": KERNELS["gemm"]} | changed)
        assert "&lt;script&gt;" in answer.text
        assert not [field for tag, field in Elements(answer.text).found if tag == "script" and "src" not in field]


def test_the_same_is_computed_in_a_process_of_its_own(client, database):
    values = np.arange(6).reshape(2, 3)
    assert database.trace(".visible .entry idle(.param .u64 A) { ret; }", {"A": values}, block=32).ok
    asked = {"kernel": ".visible .entry idle(.param .u64 A) { ret; }", "arguments": ["A=s64[2,3]"], "block": 32}
    assert client.post("/api/trace", json=asked).json()["ok"]
