"""Small decisions of the reader that keep a layout from going to the wrong types, figure or section."""

import pytest

from lanemap.ingest.document import html, read, read_text
from lanemap.ingest.document.blocks import CLOSE, OPEN, Heading, Paragraph, Row
from lanemap.ingest.document.statements import operands

from . import pages


def row(type_, elements="a0, a1"):
    return Row(1, (f".{type_}", f"Two .b32 registers, holding two .{type_} elements.", elements))


def test_a_line_of_types_begins_a_group_although_the_formula_before_it_was_lost():
    blocks = [
        Paragraph(1, "Multiplicand A:"),
        *(Paragraph(1, ".f16 :"), row("f16")),
        *(Paragraph(1, ".tf32 :"), row("tf32"), Paragraph(1, "row = %laneid >> 2 col = i")),
    ]
    groups = operands(blocks)[-1].groups
    assert [[row.types for row in group.rows] for group in groups] == [[("f16",)], [("tf32",)]]
    assert [len(group.layouts) for group in groups] == [0, 1]


def test_types_of_other_registers_may_share_a_row_and_a_formula(reading):
    table = ".f32 / .f64 | Two .f64 registers. | c0, c1 |"
    text = f"7.3.1. Matrix Fragments for mma.m8n8k4\nAccumulators (C or D):\n{table}\n"
    found = reading(text + "row = %laneid >> 2 col = (%laneid % 4) * 2 + i for ci where i = {0, 1}")
    held = {
        (fragment.role, fragment.type): (fragment.registers, fragment.register_bits)
        for fragment in found.source.fragments
    }
    assert held == {(role, type_): (2, bits) for role in "CD" for type_, bits in (("f32", 32), ("f64", 64))}


CONTENTS = "1.2.3. Matrix Fragments for mma.m16n8k8"


@pytest.mark.parametrize("headings", [True, False])
def test_a_numbered_line_is_a_heading_only_where_no_other_heading_has_a_number(headings):
    text = f"<html><p>{CONTENTS}</p><p>x</p>" + ("<h1>1.2. Instructions</h1>" if headings else "")
    titles = [block.title for block in read_text("page", text.encode()).blocks if isinstance(block, Heading)]
    assert titles == (["Instructions"] if headings else ["Matrix Fragments for mma.m16n8k8"])


def test_folders_whose_names_begin_with_a_dot_are_passed_over(tmp_path):
    for folder, section in ((".git", pages.INTEGER), ("a.b", pages.FLOAT)):
        (tmp_path / folder / "inner").mkdir(parents=True)
        (tmp_path / folder / "inner" / "page.md").write_text(pages.markdown(section))
    (found,) = read([tmp_path], "x")
    assert {fragment.shape for fragment in found.source.fragments} == {"m16n8k8"}


def anchored(text, anchor):
    return Paragraph(1, f"{text}{OPEN}{anchor}{CLOSE}")


@pytest.mark.parametrize(
    ("mentions", "anchor"),
    [
        ([anchored("Shown in Figure 84", "first"), anchored("Figure 84 Lanes of A", "second")], "first"),
        ([anchored("Figure 84 Lanes of A", "first"), anchored("Shown in Figure 84", "second")], "first"),
        ([Paragraph(1, "Shown in Figure 84"), anchored("Figure 84 Lanes of A", "second")], "second"),
    ],
)
def test_a_figure_has_the_first_anchor_that_is_given_for_it(mentions, anchor):
    (layout,) = operands([Paragraph(1, "Multiplicand A:"), *mentions])[-1].layouts
    assert layout.figures == {"84": anchor}


@pytest.mark.parametrize(("link", "anchor"), [('<a href="#own">¶</a>', "own"), ("", "around")])
def test_a_caption_with_a_link_gets_no_anchor_from_around_it(link, anchor):
    page = f'<html><figure id="around"><figcaption>Figure 84 Lanes{link}</figcaption></figure></html>'
    assert html.blocks(page) == [anchored("Figure 84 Lanes", anchor)]


def test_a_cell_that_spans_rows_stands_before_the_cells_of_the_next_row():
    page = (
        '<html><table><tr><td rowspan="3">all</td><td>a</td><td rowspan="2">b</td></tr>'
        "<tr><td>c</td></tr><tr><td>d</td><td>e</td></tr></table></html>"
    )
    assert [block.cells for block in html.blocks(page)] == [("all", "a", "b"), ("all", "c", "b"), ("all", "d", "e")]
