"""Reading documentation: the time per size of the page, and against what the parsers alone take on the same pages.

python tests/benchmarks/document.py [FOLDER]

FOLDER holds the pages of one document as Markdown; without it a made-up document stands in for them.
"""

import gc
import shutil
import sys
import tempfile
from pathlib import Path

from markdown_it import MarkdownIt
from ratio import compare, processor

import lanemap
from lanemap.db.layout import formula as notation
from lanemap.db.store.location import locate
from lanemap.db.store.store import load
from lanemap.ingest import catalogue
from lanemap.ingest.document import read, read_text

sys.path.insert(0, str(Path(__file__).parent.parent / "document"))
import pages

folder = Path(tempfile.mkdtemp())
given = Path(sys.argv[1]) if len(sys.argv) > 1 else folder / "pages"
if len(sys.argv) == 1:
    given.mkdir()
    (given / "page.md").write_text(pages.markdown())
texts = [path.read_text() for path in sorted(given.rglob("*.md"))]
built, used = folder / "built.db", folder / "used.db"
lanemap.open(str(built)).close()
shutil.copy(built, used)
(reading,) = read([given], "benchmark")
printed = [entry["formula"] for sheet in reading.sheets.values() for entry in sheet["fragment"] if "formula" in entry]


def whole() -> None:
    """From the files to the rows in a database of the shipped sources."""
    notation.parse.cache_clear()
    catalogue._elements.cache_clear()
    load(locate(str(used)), [imported.source for imported in read([given], "benchmark")])


def parsers() -> None:
    """Markdown and the notation of the formulas, each text once."""
    parser = MarkdownIt("commonmark").enable("table")
    for text in texts:
        parser.parse(text)
    for formula in printed:
        notation._parser().parse(formula)


def seconds(data: bytes) -> float:
    taken = []
    for _ in range(5):
        gc.collect()
        start = processor()
        read_text("page", data)
        taken.append(processor() - start)
    return min(taken)


print(f"{len(texts)} pages, {sum(map(len, texts))} characters")
compare("read, evaluate and store against the parsers alone", whole, parsers, 4.0)
for name in ("fenced Markdown", "HTML", "flattened text"):
    page = pages.FORMS[name] * 20
    once, twice = seconds(page.encode()), seconds(2 * page.encode())
    print(f"twice the {name}: {twice / once:.2f} times (limit 2.5), {twice * 1000:.1f} ms against {once * 1000:.1f} ms")
