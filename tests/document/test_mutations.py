"""Pages changed at random give a report or a clear refusal: never a traceback, and never a wrong row without a word."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemap.db.errors import LanemapError
from lanemap.ingest.document import Document, read_documents, read_text

from . import pages

NAMES = ("fenced Markdown", "Markdown without links", "HTML", "flattened text", "text in lines")
TEXTS = [pages.FORMS[name] for name in NAMES]
SIGNS = "()[]{}|<>&*_`#-+=.:,;/\\\"'%$~^!? \n\t\x00\x02\x03\x04\r\u00a0\u2013…0123456789abciABCDERowcolfr"


def reading(text: str):
    return read_documents([read_text("page", text.encode("utf-8", "surrogatepass"))], "x")


@pytest.fixture(scope="module")
def whole():
    """What each text says unchanged: digests by the key of the fragment, and remarks."""
    readings = [reading(text) for text in TEXTS]
    return [
        ({fragment.key: fragment.digest for fragment in found.source.fragments}, remarks(found)) for found in readings
    ]


def remarks(found):
    return {(remark.kind, re.sub(r"^page:\d+", "", remark.text), remark.reason) for remark in found.remarks}


def changed(text: str, chance: random.Random) -> str:
    """The text with a few parts dropped, doubled, moved, or signs of it replaced."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text))
        length = chance.choice((1, 1, 2, 5, 30, 300))
        part = text[start : start + length]
        rest = text[start + length :]
        match chance.randrange(5):
            case 0:
                part = ""
            case 1:
                part *= 2
            case 2:
                part = "".join(chance.choice(SIGNS) for _ in part)
            case 3:
                part = part[::-1]
            case 4:
                part += "".join(chance.choice(SIGNS) for _ in range(chance.randint(1, 8)))
        text = text[:start] + part + rest
    return text


@pytest.mark.slow
@settings(max_examples=60)
@given(which=st.sampled_from(range(len(TEXTS))), seed=st.integers(0, 2**32))
def test_a_changed_page_is_reported_or_refused(which, seed, whole):
    text = changed(TEXTS[which], random.Random(seed))
    try:
        found = reading(text)
    except LanemapError as error:
        assert "\n" not in str(error)
        return
    digests, known = whole[which]
    with_rows = [fragment for fragment in found.source.fragments if fragment.elements is not None]
    wrong = [str(fragment) for fragment in with_rows if digests.get(fragment.key) != fragment.digest]
    assert not wrong or remarks(found) - known, wrong


@settings(max_examples=100)
@given(st.binary(max_size=400))
def test_any_bytes_are_a_document_or_none(data):
    try:
        found = read_documents([read_text("page", data)], "x")
    except LanemapError as error:
        assert "\n" not in str(error)
    else:
        assert found.source.fragments == []
        assert isinstance(read_text("page", data), Document)
