"""A small document about fragments, in words of its own, and the forms that conversions of such documents come in."""

import html
import re
from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True)
class Head:
    number: str
    title: str
    anchor: str


@dataclass(frozen=True)
class Words:
    """A paragraph, or an item of a list at a depth. Inside it ``code`` and ``[words](#anchor)`` as in Markdown."""

    text: str
    depth: int = 0


@dataclass(frozen=True)
class Table:
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    number: int
    anchor: str
    text: str


@dataclass(frozen=True)
class Formula:
    text: str


LANE = "groupID           = %laneid >> 2\nthreadID_in_group = %laneid % 4\n\n"
COLUMNS = ("Fragment", "Elements")


def table(kind, *rows):
    return Table(((kind, *COLUMNS), *rows))


def shown(number, anchor, words="Where each lane has what"):
    return Words(f"{words}: [Figure {number}](#{anchor})."), Figure(number, anchor, "lanes and what they hold")


INTEGER = (
    Head(
        "7.3.1", "Matrix Fragments for `mma.m16n8k16` with integer type", "warp-level-matrix-fragment-mma-16816-i8-f8"
    ),
    Words("What follows is made up for tests; shape `.m16n8k16`."),
    Words("Multiplicand A:", 1),
    table(
        ".atype",
        ("`.u8` / `.s8`", "Two `.b32` registers, each holding four `.u8` / `.s8` elements.", "a0, a1, a2, …, a6, a7"),
        (
            "`.e4m3` / `.e5m2`",
            "Two `.b32` registers, each holding four `.e4m3` / `.e5m2` elements.",
            "a0, a1, …, a6, a7",
        ),
    ),
    *shown(84, "mma-16816-a-i8"),
    Formula(
        LANE + "row =      groupID                            for ai where i < 4\n"
        "         groupID + 8                          for ai where i >= 4\n\n"
        "col =  (threadID_in_group * 4) + (i & 0x3)    for ai where i = {0,..,7}"
    ),
    Words("Multiplicand B:", 1),
    table(
        ".btype",
        ("`.u8` / `.s8`", "A single `.b32` register, holding four `.u8` / `.s8` elements.", "b0, b1, b2, b3"),
        ("`.e4m3` / `.e5m2`", "A single `.b32` register, holding four `.e4m3` / `.e5m2` elements.", "b0, b1, b2, b3"),
    ),
    *shown(85, "mma-16816-b-i8"),
    Formula(LANE + "row =  (threadID_in_group * 4) + i    for bi where i = {0,..,3}\n\ncol = groupID"),
    Words("Accumulators (C or D):", 1),
    table(
        ".ctype / .dtype",
        ("`.s32`", "Four `.s32` registers.", "c0, c1, c2, c3"),
        ("`.f32`", "Four `.f32` registers, holding four `.f32` elements.", "c0, c1, c2, c3"),
        ("`.f16`", "Two `.f16x2` registers, each holding two `.f16` elements.", "c0, c1, c2, c3"),
    ),
    *shown(86, "mma-16816-c-i8"),
    Formula(
        LANE + "row =      groupID        for ci where i <  2\n         groupID + 8      for ci where i >= 2\n\n"
        "col =  (threadID_in_group * 2) + (i & 0x1)    for ci where i = {0,..,3}"
    ),
)

FLOAT = (
    Head("7.3.2", "Matrix Fragments for `mma.m16n8k8`", "warp-level-matrix-fragment-mma-1688"),
    Words("Also made up; shape `.m16n8k8`."),
    Words("Multiplicand A:", 1),
    Words("`.f16` and `.bf16` :", 2),
    table(
        ".atype",
        (
            "`.f16` / `.bf16`",
            "Two `.f16x2` registers, each register holding two `.f16` / `.bf16` elements.",
            "a0, a1, a2, a3",
        ),
    ),
    *shown(71, "mma-1688-a-f16"),
    Formula(
        LANE + "row =      groupID            for a0 and a1\n           groupID + 8        for a2 and a3\n\n"
        "col =  threadID_in_group * 2 + (i & 0x1)    for ai     where i = {0,..,3}"
    ),
    Words("`.tf32` :", 2),
    table(".atype", ("`.tf32`", "Four `.b32` registers, holding four `.tf32` elements.", "a0, a1, a2, a3")),
    *shown(72, "mma-1688-a-tf32"),
    Formula(
        LANE + "row =      groupID            for a0 and a2\n           groupID + 8        for a1 and a3\n\n"
        "col =  threadID_in_group       for a0 and a1\n       threadID_in_group + 4   for a2 and a3"
    ),
    Words("Multiplicand B:", 1),
    Words("`.f16` and `.bf16` :", 2),
    table(
        ".btype", ("`.f16` / `.bf16`", "A single `.f16x2` register, holding two `.f16` / `.bf16` elements.", "b0, b1")
    ),
    *shown(74, "mma-1688-b-f16"),
    Formula(LANE + "row = (threadID_in_group * 2) + i       for bi    where i = {0, 1}\n\ncol =  groupID"),
    Words("`.tf32` :", 2),
    table(".btype", ("`.tf32`", "Two `.b32` registers, holding two `.tf32` elements.", "b0, b1")),
    *shown(75, "mma-1688-b-tf32"),
    Formula(
        LANE + "row =    threadID_in_group         for b0\n       threadID_in_group + 4       for b1\n\ncol =  groupID"
    ),
    Words("Accumulators (C or D):", 1),
    table(
        ".ctype / .dtype",
        ("`.f16`", "Two `.f16x2` registers, each holding two `.f16` elements.", "c0, c1, c2, c3"),
        ("`.f32`", "Four `.f32` registers.", ""),
    ),
    *shown(77, "mma-1688-c-f16-f32"),
    Formula(
        LANE + "row =      groupID            for c0 and c1\n         groupID + 8          for c2 and c3\n\n"
        "col =  (threadID_in_group * 2) + (i & 0x1)    for ci   where i = {0,..,3}"
    ),
)

HALF = (
    Head("7.3.3", "Matrix Fragments for `mma.m8n8k4` with `.f16` type", "warp-level-matrix-fragment-mma-884-f16"),
    Words("Here a warp will compute 4 MMA operations at once. Who takes part:"),
    Table(
        (
            ("Product", "Lanes"),
            ("Computation 1", "0-3 and 16-19"),
            ("Computation 2", "4-7 and 20\u201323"),
            ("Computation 3", "8-11 and 24-27"),
            ("Computation 4", "12-15 and 28-31"),
        )
    ),
    Words("Multiplicand A:", 1),
    table(".atype", ("`.f16`", "Two `.f16x2` registers, each holding two `.f16` elements.", "a0, a1, a2, a3")),
    *shown(46, "mma-884-a-row-f16", "Fragment layout of A, Row Major"),
    Formula(
        "row =            %laneid % 4          if %laneid < 16\n                (%laneid % 4) + 4     otherwise\n\n"
        "col =            i                    for ai where i = {0,..,3}"
    ),
    *shown(47, "mma-884-a-col-f16", "Fragment layout of A, Column Major"),
    Formula(
        "row =        i % 4            for ai  where i = {0,..,3}   if %laneid < 16\n"
        "            (i % 4) + 4       for ai  where i = {0,..,3}   otherwise\n\ncol =        %laneid % 4"
    ),
    Words("Multiplicand B:", 1),
    table(".btype", ("`.f16`", "Two `.f16x2` registers, each holding two `.f16` elements.", "b0, b1, b2, b3")),
    *shown(48, "mma-884-b-row-f16", "Fragment layout of B, Row Major"),
    Formula(
        "row =        %laneid % 4\n\ncol =         i      for bi   where i = {0,..,3}   if %laneid < 16\n"
        "             i+4     for bi   where i = {0,..,3}   otherwise"
    ),
    *shown(49, "mma-884-b-col-f16", "Fragment layout of B, Column Major"),
    Formula(
        "row =       i                 for bi   where i = {0,..,3}\n\n"
        "col =      %laneid % 4        if %laneid < 16\n          (%laneid % 4) + 4   otherwise"
    ),
    Words("Accumulators C (or D):", 1),
    table(
        ".ctype / .dtype",
        ("`.f16`", "Four `.f16x2` registers, each holding two `.f16` elements.", "c0, c1, c2, c3, c4, c5, c6, c7"),
        ("`.f32`", "Eight `.f32` registers.", ""),
    ),
    *shown(50, "mma-884-c-f16", "Fragment layout of C when `.ctype` is `.f16`"),
    Formula(
        "row =       %laneid % 4         if %laneid < 16\n           (%laneid % 4) + 4    otherwise\n\n"
        "col =          i                for ci   where i = {0,..,7}"
    ),
    *shown(51, "mma-884-c-f32-1", "Fragment layout of C when `.ctype` is `.f32`"),
    Figure(52, "mma-884-c-f32-2", "the other half, when `.ctype` is `.f32`"),
    Formula(
        "row =     X           if %laneid < 16\n        X + 4         otherwise\n\n"
        "          where X = (%laneid & 0b1) + (i & 0b10)  for ci where i = {0,..,7}\n\n"
        "col = (i & 0b100) + (%laneid & 0b10) + (i & 0b1)  for ci where i = {0,..,7}"
    ),
)

STORAGE = (
    Head("7.4.1", "Sparse matrix storage", "warp-level-sparse-matrix-storage"),
    Words("Who supplies metadata, made up for tests."),
    Words("Sparse `mma.sp` with half-precision and `.bf16` type"),
    Words("`m16n8k16`: one of four lanes supplies it, so there are values in {0, 1, 2, 3}.", 1),
    Words("`m16n8k32`: the selector must be either 0 (two lanes) or 1 (the other two).", 1),
    Words("Sparse `mma.sp` with `.tf32` type"),
    Words("`m16n8k8`: the selector has a value in {0, 1, 2, 3}.", 1),
    Words("`m16n8k16`: the selector must be 0 (two lanes) or 1 (the other two).", 1),
    Words("Sparse `mma.sp` with integers: `.u8` / `.s8` and `.u4` / `.s4`"),
    Words("`m16n8k32` with `.u8` / `.s8` type and `m16n8k64` with `.u4` / `.s4` type: it must be either 0 or 1.", 1),
    Words("`m16n8k64` with `.u8` / `.s8` type: it must be 0.", 1),
)

SPARSE = (
    Head(
        "7.4.2",
        "Matrix Fragments for sparse `mma.m16n8k8` with `.tf32` type",
        "warp-level-matrix-fragment-sparse-mma-1688-tf32",
    ),
    Words("Made up like the rest; shape `.m16n8k8`."),
    Words("Multiplicand A:", 1),
    table(
        ".atype",
        ("`.tf32`", "Two `.b32` registers, each holding one non-zero `.tf32` element of a pair.", "By storage."),
    ),
    *shown(126, "sparse-mma-1688-tf32"),
    Formula(
        "groupID = %laneid >> 2\nthreadID_in_group = %laneid % 4\n\n"
        "row =      groupID            for a0\n           groupID + 8        for a1\n\n"
        "col = [firstcol ... lastcol]  // which of them\n                 // is for the metadata to say\n\n"
        "Where\nfirstcol = threadID_in_group * 2\nlastcol  = firstcol + 1"
    ),
    Words(
        "Multiplicand B and accumulators C and D: the same as in "
        "[Matrix Fragments for mma.m16n8k8](#warp-level-matrix-fragment-mma-1688) for `.tf32`.",
        1,
    ),
    Words(
        "Metadata: A `.b32` register containing 8 4-bit vectors, see [Figure 127](#sparse-mma-metadata-1688-tf32).", 1
    ),
    Figure(127, "sparse-mma-metadata-1688-tf32", "lanes and metadata"),
)

ELSEWHERE = (
    Head("7.5.1", "Matrix Fragments for `wgmma.mma_async.m64nNk32`", "wgmma-64n32"),
    Words("Not about mma."),
    *shown(152, "wgmma-64n32-a"),
)

SECTIONS = (INTEGER, FLOAT, HALF, STORAGE, SPARSE, ELSEWHERE)
CORRECTED = tuple(part for section in SECTIONS for part in section)


def markdown(parts=CORRECTED, *, fenced=True, quoted=False, pipes=True, links=True, level=5):
    lines = []
    depth = 0
    for part in parts:
        inside = "  " * depth
        match part:
            case Head():
                depth = inside = 0
                title = f"[{part.title}](https://example.org/isa/#{part.anchor})" if links else part.title
                lines += ["", f"{'#' * level} {part.number}. {title}", ""]
            case Words():
                depth = part.depth or depth
                bullet = "  " * (depth - 1) + "*+"[depth % 2] + " " if part.depth else inside or ""
                lines += ["", bullet + (part.text if links else unlinked(part.text)), ""]
            case Table():
                rows = [list(part.rows[0]), ["---"] * len(part.rows[0]), *map(list, part.rows[1:])]
                front, back = ("| ", " |") if pipes else ("", "")
                lines += ["", *(f"{inside or ''}{front}{' | '.join(row)}{back}" for row in rows), ""]
            case Figure():
                permalink = f'[](https://example.org/isa/#{part.anchor} "link")' if links else ""
                picture = "![_images/x.png](./x.png)"
                lines += [
                    "",
                    f"{inside or ''}{picture}",
                    "",
                    f"{inside or ''}Figure {part.number} {part.text}.{permalink}",
                ]
            case Formula():
                inside = inside or ""
                typed = part.text.split("\n")
                lines.append("")
                if fenced:
                    lines += [inside + line for line in ("```", *typed, "```")]
                else:
                    lines += ["<!-- -->", "", *(inside + "    " + line for line in typed)]
                lines += ["", f"{inside}Copy to clipboard"]
    return "".join(f"{'> ' if quoted else ''}{line}\n" for line in lines)


def site(parts=CORRECTED, title="PTX ISA 7.7 documentation", *, spans=False):
    """A page of HTML with permalinks, captions and highlighted blocks. ``spans``: equal cells are one."""
    body = []
    for part in parts:
        match part:
            case Head():
                number = f'<span class="section-number">{part.number}. </span>'
                permalink = f'<a class="headerlink" href="#{part.anchor}" title="Link">¶</a>'
                body.append(f'</section><section id="{part.anchor}"><h5>{number}{inline(part.title)}{permalink}</h5>')
            case Words():
                body.append(
                    f"<p>{inline(part.text)}</p>" if not part.depth else f"<ul><li><p>{inline(part.text)}</p></li></ul>"
                )
            case Table():
                cells = spanned(part.rows) if spans else [[(cell, 1) for cell in row] for row in part.rows]
                rows = ("".join(f'<td rowspan="{n}"><p>{inline(cell)}</p></td>' for cell, n in row) for row in cells)
                body.append(
                    f'<table class="docutils"><tbody>{"".join(f"<tr>{row}</tr>" for row in rows)}</tbody></table>'
                )
            case Figure():
                caption = f'<span class="caption-number">Figure {part.number} </span>{inline(part.text)}'
                permalink = f'<a class="headerlink" href="#{part.anchor}">#</a>'
                caption = f"<figcaption><p>{caption}{permalink}</p></figcaption>"
                body.append(f'<figure id="{part.anchor}"><img src="x.png"/>{caption}</figure>')
            case Formula():
                body.append(f'<div class="highlight"><pre><span></span>{html.escape(part.text)}</pre></div>')
    head = f'<!DOCTYPE html><html><head><title>Fragments &#8212; {title}</title><script>var a = "<p>";</script></head>'
    nav = "<nav><a href='#x'>7.3.1. Matrix Fragments for mma.m16n8k16</a></nav>"
    return f"{head}<body>{nav}<section>{''.join(body)}</section></body></html>"


def spanned(rows):
    """The cells of each row with how many rows they reach down over, without those that are reached from above."""
    for index, row in enumerate(rows):
        above = rows[index - 1] if index else [None] * len(row)
        below = [[row[column] for row in rows[index:]] for column in range(len(row))]
        yield [
            (cell, next((n for n, other in enumerate(column) if other != cell), len(column)))
            for cell, column, upper in zip(row, below, above, strict=True)
            if cell != upper
        ]


def flat(parts=CORRECTED, *, glue=True):
    """Text whose lines are all that is left: cells on lines of their own, formulas run into what follows them."""
    text = ""
    for part in parts:
        match part:
            case Head():
                text += f"{part.number}. {bare(part.title)}\n"
            case Words():
                text += f"{bare(part.text)}\n"
            case Table():
                first, *rows = part.rows
                text += f"{first[0]} |\n{' | '.join(first[1:])} |\n{'|---' * len(first)}|\n"
                text += "".join(f"{bare(' |' + chr(10)).join(map(bare, row))} |\n" for row in rows)
            case Figure():
                text += f"Figure {part.number} {bare(part.text)}.\n"
            case Formula():
                text += "\n".join(" ".join(line.split()) for line in part.text.split("\n") if line.strip())
                text += "" if glue else "\n"
    return text


def unlinked(text):
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def bare(text):
    return unlinked(text).replace("`", "")


def inline(text):
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]*)`", r'<code class="docutils"><span class="pre">\1</span></code>', text)
    return re.sub(r"\[([^\]]*)\]\(([^)]*)\)", r'<a class="reference internal" href="\2">\1</a>', text)


def typed(parts=CORRECTED, *, deeper=1, apart=False):
    """Markdown as people type it: operands are headings of their own, pictures say what a figure says.

    ``apart``: every cell of a table is a paragraph.
    """
    lines = []
    for part in parts:
        match part:
            case Head():
                lines += [f"## {part.number}. {part.title}", ""]
            case Words() if part.depth and part.text.endswith(":") and "m16" not in part.text:
                lines += ["#" * (2 + deeper * part.depth) + f" {unlinked(part.text)}", ""]
            case Words():
                lines += [("- " if part.depth and "m16" in part.text else "") + unlinked(part.text), ""]
            case Table() if apart:
                lines += [line for row in part.rows for cell in row if cell for line in (cell, "")]
            case Table():
                first, *rows = part.rows
                lines += [f"| `{first[0]}` | {' | '.join(first[1:])} |", "|---" * len(first) + "|"]
                lines += [*(f"| {' | '.join(row)} |" for row in rows), ""]
            case Figure():
                lines += [
                    f"![{bare(part.text)}](https://example.org/x.png)",
                    "",
                    f"**Figure {part.number}** {part.text}.",
                    "",
                ]
            case Formula():
                lines += ["```", *part.text.split("\n"), "```", ""]
    return "\n".join(lines)


def pandoc(parts=CORRECTED, *, grid=False):
    """Markdown as pandoc writes it: attributes in braces, tables drawn with dashes, lines cut at 72 columns."""
    lines = []
    for part in parts:
        match part:
            case Head():
                lines += [f"##### [{part.number}. ]{{.section-number}}{unlinked(part.title)} {{#{part.anchor}}}", ""]
            case Words():
                bullet = "  " * (part.depth - 1) + "-   " if part.depth else ""
                text = re.sub(r"`([^`]*)`", r"[`\1`{.docutils}]{.pre}", part.text)
                lines += [bullet + text, ""]
            case Table():
                lines += [*(gridded(part.rows) if grid else ruled(part.rows)), ""]
            case Figure():
                lines += ["![](x.png){.image}", "", f"Figure {part.number} {part.text}.[](#{part.anchor})", ""]
            case Formula():
                lines += ["``` {.highlight}", *part.text.split("\n"), "```", ""]
    return "\n".join(lines)


def cut(cell, width):
    """A cell in lines of at most a width."""
    lines = [""]
    for word in cell.split(" "):
        lines = [*lines[:-1], f"{lines[-1]} {word}".strip()] if len(lines[-1]) + len(word) < width else [*lines, word]
    return lines


WIDTHS = (24, 30, 20)


def padded(row):
    """The lines of a row, each with its cells as wide as their columns."""
    cells = [cut(cell, width) for cell, width in zip(row, WIDTHS, strict=False)]
    for line in zip_longest(*cells, fillvalue=""):
        yield [f"{part:<{width}}" for part, width in zip(line, WIDTHS, strict=False)]


def gridded(rows):
    rule = "+" + "+".join("-" * (width + 2) for width in WIDTHS[: len(rows[0])]) + "+"
    lines = [rule]
    for row in rows:
        lines += [f"| {' | '.join(line)} |" for line in padded(row)] + [rule]
    return lines


def ruled(rows):
    full = "  " + "-" * (sum(WIDTHS[: len(rows[0])]) + len(rows[0]) - 1)
    lines = [full]
    for index, row in enumerate(rows):
        lines += [f"  {' '.join(line).rstrip()}" for line in padded(row)]
        lines.append("  " + " ".join("-" * width for width in WIDTHS[: len(row)]) if index == 0 else "")
    return [*lines[:-1], full]


def with_contents(text):
    """The text behind a table of contents, as flattened pages begin."""
    titles = [f"{part.number}. {bare(part.title)}" for part in CORRECTED if isinstance(part, Head)]
    return "Contents\n\n" + "\nUp to the next page\n".join(titles) + "\n\nThat was the table of contents.\n\n" + text


def with_front(text):
    """The text behind what converters put in front of a page, with anchors and pictures on lines of their own."""
    text = re.sub(r"(?m)^##### (\S+) \[(.*)\]\(.*#(.*)\)$", r'<a id="\3"></a>\n\n<a id="id7"></a>\n\n##### \1 \2', text)
    text = re.sub(r'(?m)^( *)(!.*)\n\n *(Figure.*)\[\]\(.*#(.*) "link"\)$', r'<a id="\4"></a>\n\n\2\n\n\3', text)
    return f'---\ntitle: "All of them"\nsection: "7.3"\nversion: "7.7"\nurl: https://example.org/#x\n---\n\n{text}'


def half_quoted(text):
    """The text in quotations whose code has lost the signs of it behind the first line of its fence."""
    lines, inside = [], False
    for line in text.split("\n"):
        lines.append(line if inside or not line or line.startswith("#") else f"> {line.lstrip()}")
        inside ^= line.strip() == "```"
    return "\n".join(lines)


def with_tables(text, *, apart=False):
    """Markdown whose tables are written in HTML, with the signs of Markdown left in the cells.

    ``apart``: every cell and every tag has lines of its own, indented and with blank ones between them.
    """

    def written(table):
        first, _, *rows = table[0].strip("\n").split("\n")
        margin = first[: len(first) - len(first.lstrip())]
        lines = ["<table>"]
        for row in (first, *rows):
            cells = [part for cell in row.strip(" |").split("|") for part in ("<td>", f"    {cell.strip()}", "</td>")]
            lines += ["    <tr>", *(f"        {part}" for part in cells), "    </tr>"]
        lines += ["</table>"]
        lines = [part for line in lines for part in (line, "")] if apart else [line.strip() for line in lines]
        return "".join(f"{margin}{line}".rstrip() + "\n" for line in lines)

    return re.sub(r"(?m)^ *\|.*\n *\|[ |\-]+\n(?: *\|.*\n)+", written, text)


FORMS = {
    "fenced Markdown": markdown(),
    "Markdown with tables as tags": with_tables(markdown()),
    "Markdown with tables as tags, each on a line": with_tables(markdown(), apart=True),
    "indented Markdown": markdown(fenced=False),
    "quoted Markdown": markdown(quoted=True),
    "Markdown without outer pipes": markdown(pipes=False),
    "Markdown without links": markdown(links=False),
    "Markdown with Windows line ends": markdown().replace("\n", "\r\n"),
    "Markdown with unbroken spaces": re.sub(r"(?<=\w) (?=\w)", "\u00a0", markdown(links=False)).replace(
        "#\u00a0", "# "
    ),
    "HTML": site(),
    "HTML with Windows line ends": site().replace("\n", "\r\n"),
    "HTML with entities": site()
    .replace("\u2013", "&ndash;")
    .replace("…", "&hellip;")
    .replace(" for ai", "&nbsp;for ai"),
    "flattened text": flat(),
    "text in lines": flat(glue=False),
    "text on one line": " ".join(flat(glue=False).split()),
    "text with entities": html.escape(flat(glue=False)),
    "text with formulas cut at cases": re.sub(r"\n(groupID \+ 8)", r"\n\n\1", flat(glue=False)),
    "text with formulas cut at operators": re.sub(r"(?<=[\w)]) ([*+]) (?=\d)", r" \1\n\n", flat(glue=False)),
    "text behind a table of contents": with_contents(flat(glue=False)),
    "Markdown with headings given twice": re.sub(r"(?m)^##### .*$", r"\g<0>\n\n\g<0>", markdown()),
    "Markdown with headings of chapters": "#### 7.3. Matrix Fragments for mma.m16n8k8\n\nAll of them.\n\n" + markdown(),
    "text with cells apart": bare(typed(apart=True)).replace("#", "").replace("**", "").replace("\n ", "\n"),
    "Markdown with headings for operands without links": typed(),
    "Markdown with operands at the level of sections without links": typed(deeper=0),
    "Markdown with cells apart without links": typed(apart=True),
    "Markdown with named anchors": re.sub(
        r"(?m)^##### (\S+) \[(.*)\]\(.*#(.*)\)$", r'##### <a id="\3"></a>\1 \2', markdown()
    ).replace("registers, each", "registers,<br>each"),
    "Markdown with headings cut by line ends without links": re.sub(
        r"(?m)^(##### .* for) (`.*)", r"\1\n\2", markdown(links=False)
    ),
    "text with headings cut by line ends": re.sub(r"(?m)^([\d.]+ Matrix .* for) (.*)", r"\1\n\2", flat(glue=False)),
    "text with directives": re.sub(r"(?m)^Figure", ".. figure:: x.png\n\nFigure", flat(glue=False)),
    "HTML with cells that span rows": site(spans=True).replace("registers, each", "registers,<br/>each"),
    "Markdown with front matter": with_front(markdown()),
    "Markdown with lists that code has interrupted": with_front(re.sub(r"(?m)^ +(?![*+ ])(?=\S)", "", markdown())),
    "Markdown with quotations that code has lost": half_quoted(markdown(level=2)),
    "Markdown by pandoc": pandoc(),
    "Markdown by pandoc with grids": pandoc(grid=True),
}
FORMS["HTML with entities"] = (
    site().replace("20\u201323", "20&ndash;23").replace("…", "&hellip;").replace(" for ai", "&nbsp;for ai")
)
#: Forms in which nothing says where links lead.
WITHOUT_ANCHORS = {name for name in FORMS if "text" in name or "links" in name or "unbroken" in name}
