"""Blocks become sections: which headings begin one, and which belong to the one that is open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.ingest.document.blocks import Heading, Paragraph
from lanemap.ingest.document.sections import Subject, is_part, sections, subject

FRAGMENTS = Heading(1, "Matrix Fragments for mma.m16n8k8", "7.3.2", None, 5)
OTHER = Heading(1, "Introduction", "1.1", None, 5)


@pytest.mark.parametrize(
    ("outer", "title", "number", "level", "expected"),
    [
        (FRAGMENTS, "Row and column", None, 6, True),
        (FRAGMENTS, "Row and column", None, 5, False),
        (FRAGMENTS, "Row and column", None, 4, False),
        (FRAGMENTS, "Row and column", "7.3.2.1", 6, False),
        (FRAGMENTS, "Multiplicand A:", None, 5, True),
        (FRAGMENTS, "Accumulators (C or D)", None, 3, True),
        (FRAGMENTS, "Metadata", None, 5, True),
        (FRAGMENTS, ".f16 and .bf16:", None, 5, True),
        (FRAGMENTS, "Multiplicand A:", "7.3.3", 5, False),
        (FRAGMENTS, "Matrix Fragments for mma.m16n8k4", None, 6, False),
        (FRAGMENTS, "Loads with ldmatrix", None, 6, False),
        (OTHER, "Multiplicand A:", None, 6, False),
    ],
)
def test_a_heading_belongs_to_the_section_or_begins_another(outer, title, number, level, expected):
    assert is_part(Heading(2, title, number, None, level), outer) is expected


TITLES = [
    "Introduction",
    "Matrix Fragments for mma.m8n8k4",
    "Multiplicand A:",
    ".f16 :",
    "Notes",
]
BLOCKS = st.lists(
    st.one_of(
        st.builds(
            Heading, st.just(1), st.sampled_from(TITLES), st.sampled_from([None, "1.2"]), level=st.integers(1, 6)
        ),
        st.builds(Paragraph, st.just(1), st.sampled_from(["x", "y"])),
    )
)


@given(BLOCKS)
def test_every_block_is_in_one_section_and_in_order(blocks):
    found = sections("page", blocks)
    said = [
        text for section in found for text in (section.heading.title, *(block.text for block in section.blocks)) if text
    ]
    assert [text.rstrip(": ") for text in said] == [block.text.rstrip(": ") for block in blocks]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Matrix Fragments for mma.m16n8k8", Subject("mma", "m16n8k8")),
        ("Matrix Fragment for `mma.sync.m16n8k8` with .f16", Subject("mma", "m16n8k8")),
        ("Matrix Fragments for sparse mma.m16n8k32 with .f16 and .bf16 types", Subject("mma.sp", "m16n8k32")),
        ("Matrix fragments of mma.sp::ordered_metadata.M16N8K32", Subject("mma.sp", "m16n8k32")),
        ("Matrix Fragments for wgmma.mma_async.m64nNk16", None),
        ("Matrix Fragments for wmma.m16n16k16", None),
        ("The instruction mma.m16n8k8", None),
    ],
)
def test_what_a_section_is_about_stands_in_its_title(title, expected):
    assert subject(title) == expected
