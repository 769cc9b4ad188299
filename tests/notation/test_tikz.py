"""LaTeX takes the pictures, every cell of a matrix is drawn once, and each lane has its colour."""

import re
import shutil
import subprocess
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from lanemap.db.fragment import Fragment, by_rule
from lanemap.db.notation import identifier, tikz
from lanemap.db.notation.export import express

BOX = re.compile(
    r"\\draw\[lane (\d+)\] \((\d+),([\d.]+)\) rectangle \+\((\d+),([\d.]+)\) node\[midway\] \{T(\d+): (.*)\};"
)


@pytest.fixture(scope="module")
def pictures(one_per_width, everything):
    """The fragment and the text of some pictures: of every width of a slot, of windows that overlap, of a slip."""
    named = {
        "a of sparse": ("h200-sm_90a", "A of mma.sp m16n8k32 f16"),
        "four windows": ("h200-sm_90a", "A of mma.sp m16n8k64 s4"),
        "metadata": ("h200-sm_90a", "E of mma.sp m16n8k64 s4 selector 1"),
        "slip": ("ptx-isa-9.1", "A of mma m16n8k256 b1"),
    }
    found = {(source, str(each)): each for source, each in everything}
    fragments = one_per_width | {name: found[key] for name, key in named.items()}
    return {name: (each, tikz.compose(each, identifier(each))) for name, each in fragments.items()}


def test_latex_takes_pictures_of_several_products_and_of_windows(pictures, tmp_path):
    if not shutil.which("pdflatex"):
        pytest.skip("needs pdflatex and TikZ")
    body = "\n\n".join(pictures[name][1] for name in ("mma_m8n8k4_f16_a_col", "metadata"))
    opening = "\\documentclass{article}\n\\usepackage{tikz}\n\\begin{document}\n"
    (tmp_path / "paper.tex").write_text(f"{opening}{tikz.NOTATION.before}{body}\n\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def test_boxes_of_an_operand_with_a_cell_for_each_slot_fill_its_matrices(one_per_width, pictures):
    for name, fragment in one_per_width.items():
        rows, cols = fragment.dimensions
        drawn = Counter()
        for _, x, y, width, height, _, _ in BOX.findall(pictures[name][1]):
            drawn.update((int(x) + right, int(y) + down) for right in range(int(width)) for down in range(int(height)))
        starts = range(0, (cols + 2) * int(fragment.elements["computation"].max()), cols + 2)
        assert drawn == Counter((start + col, row) for start in starts for col in range(cols) for row in range(rows))


def test_no_box_covers_another(pictures):
    for _, text in pictures.values():
        boxes = BOX.findall(text)
        thin = Fraction(1, round(1 / min(float(height) % 1 or 1 for *_, height, _, _ in boxes)))
        drawn = Counter()
        for _, x, y, width, height, _, _ in boxes:
            top, tall = round(float(y) / thin), round(float(height) / thin)
            drawn.update((int(x) + right, top + down) for right in range(int(width)) for down in range(tall))
        assert set(drawn.values()) == {1}


def test_a_box_has_the_colour_of_its_lane_and_names_its_elements(pictures):
    for fragment, text in pictures.values():
        named = []
        for colour, *_, lane, label in BOX.findall(text):
            assert colour == lane
            numbers = [int(number) for number in re.findall(r"\d+", label)]
            named += [(int(lane), element) for element in range(numbers[0], numbers[-1] + 1)]
        held = fragment.elements
        expected = zip(held["lane"].tolist(), (held["reg"] * fragment.slots + held["slot"]).tolist(), strict=True)
        assert sorted(named) == sorted(expected)


def test_a_window_of_as_many_columns_as_elements_is_told_from_as_many_cells():
    lane, i = np.indices((32, 2))
    rows = by_rule(2, lane // 4 + 0 * i, lane % 4 * 2 + 0 * i, lane % 4 * 2 + 1 + 0 * i)
    fragment = Fragment("mma.sp", "m8n8k8", "f16", "A", 1, 2, rows)
    assert express(tikz.NOTATION, fragment).count(r"\draw") == 64
