"""Lanemap: which lane, register and slot of a tensor-core instruction holds which matrix element, as a database.

    >>> import lanemap
    >>> db = lanemap.open()
    >>> db.find("m16n8k16", "f16", "A", row=9, col=3)[["lane", "reg", "slot"]].values.tolist()
    [[5, 1, 1]]

Lanes are 0..31, or 0..127 in a warpgroup. A register has 32 bits, or 64 for f64; ``reg`` counts them in the operand's
register vector. ``slot`` counts the elements inside a register, low bits first. Rows and columns are those of the
matrix that the operand holds: A is M x K, B is K x N, C and D are M x N; E, the sparsity metadata, counts like A. In
sparse A and E an element only has a window of columns, ``col`` to ``col_last``; everywhere else the two are equal.

``Database`` does what the commands of the command line do, by the same names:

    look up     layout, find, fragment, fragments, sources, findings, sql
    draw        draw, and fragment(...).draw(lanes=[13])
    compare     diff, check, report, fleet
    chain       chain, chains, through_movmatrix, recipe
    export      export; decode and encode turn sparse metadata into columns and back
    load        import_layouts, ingest, capture, add, remove, refresh

Rows come as frames; other results have ``frame()`` and show themselves in a notebook. Without a database, ``read_file``
reads a table or a capture, and ``measure`` and ``write_capture`` make a capture. ``help(lanemap.Database)`` begins with
an example of each. What cannot be done raises ``LanemapError``, one line that says what would be right.
"""

from __future__ import annotations

import time
from dataclasses import replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Unpack

from .db import interruption as _interruption  # noqa: F401 - first of all, see there
from .db import lookup
from .db.connection import connect, state
from .db.errors import LanemapError
from .db.fragment import Fragment, Source, check_name, check_names
from .db.location import Location, locate, named_file
from .db.lookup import DEFAULT_SOURCE, Query
from .db.names import Which, of_one_operand, of_operand, one_or_several, text, whole, word
from .db.names import operand as parse
from .db.reader import ROWS, SECONDS, Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pandas as pd

    from .capture.run import Outcome
    from .db.chain import Chain
    from .db.crosscheck import Check
    from .db.defect import Report
    from .db.fleet import Fleet
    from .db.metadata import Metadata
    from .db.movmatrix import Transposed
    from .db.notation.export import Export
    from .db.picture import Picture
    from .db.recipe import Recipe
    from .ingest.document import Reading
    from .ingest.imported import Imported

__all__ = [
    "DEFAULT_SOURCE",
    "Database",
    "LanemapError",
    "Query",
    "measure",
    "open",
    "read_file",
    "send_capture",
    "shipped_capture",
    "write_capture",
]

__version__ = "0.1.0"

_FOLDER = Path(__file__).parent
_NUMBERS = ("lane", "reg", "slot", "row", "col", "col_last", "computation")


class Database:
    """A Lanemap database, open for reading. Close it, or use it in a ``with`` statement.

        >>> import lanemap
        >>> db = lanemap.open()
        >>> db.layout("m16n8k16", "f16", "A").groupby("reg").col.max().tolist()
        [7, 7, 15, 15]
        >>> db.find("HMMA.16816.F32.BF16", "D", row=5, col=3)[["lane", "reg"]].values.tolist()
        [[21, 1]]
        >>> fragment = db.fragment("m16n8k16", "f16", "A", source="h200-sm_90a")  # its elements are an array
        >>> int(fragment.elements["row"].max()), fragment.registers, fragment.slots
        (15, 4, 2)
        >>> fragment.draw(lanes=[13], values="T0:{a0,a1}").save("lanes.svg")
        >>> db.draw("m16n8k16", "f16", accumulator="f32").save("product.svg")
        >>> db.sql("SELECT COUNT(*) AS n FROM layout WHERE shape = 'm16n8k8' AND source = 'ptx-isa-9.1'").n.tolist()
        [1920]
        >>> db.sources().name.tolist()
        ['ptx-isa-9.1', 'ptx-isa-9.1+errata', 'h200-sm_90a']
        >>> db.fragments().query("shape == 'm16n8k256'").status.tolist()
        ['documented', 'documented', 'documented', 'documented']
        >>> sorted(set(db.findings()["shape"]))
        ['m16n8k256']

    Comparisons, with reports as text:

        >>> found = db.diff("ptx-isa-9.1", "h200-sm_90a", type=["b1", "s8"])
        >>> found.frame().query("verdict == 'different'")[["shape", "role", "words"]].values.tolist()
        [['m16n8k256', 'A', 'reg 1: col is 32 too high']]
        >>> found.report("markdown").splitlines()[0]
        '# Cross-check'
        >>> check = db.check()
        >>> check.known, check.unexplained
        (4, 0)
        >>> db.report("h200-sm_90a").defects
        []
        >>> [each.device for each in db.fleet().captures]
        ['NVIDIA H200']

    From one instruction to the next, and from memory to registers:

        >>> db.chain("m16n8k16 f32 D", "m16n8k16 f16 A").movement.value
        'no data movement between lanes'
        >>> {each.second.role for each in db.chains("m16n8k16 f32 D")} == {"A", "B"}
        True
        >>> len(db.through_movmatrix(db.chain("m16n8k16 f32 D", "m16n8k16 f16 B")))  # movmatrix makes each register
        2
        >>> db.recipe("ldmatrix m8n8 b16 r", "m16n8k16 f16 A").moves[0].qualifiers
        'x4'

    Out and in again, and sparse metadata both ways:

        >>> db.export(format="cute", query="m16n8k16 bf16 B").text.splitlines()[-4]
        'using mma_m16n8k16_bf16_b = Layout<Shape <Shape <_4,_8>,Shape <_2,_2>>,'
        >>> _ = db.export("b.parquet", query=lanemap.Query("m16n8k16", "bf16", "B", "mma"))
        >>> [(each.source.name, each.rows) for each in db.import_layouts("table", "b.parquet", name="mine")]
        [('mine', 128)]
        >>> db.diff("mine", "ptx-isa-9.1+errata").unexplained
        0
        >>> db.remove("mine")
        >>> from dataclasses import replace
        >>> db.add([replace(lanemap.read_file("b.parquet"), name="mine too")])
        >>> metadata = db.decode("m16n8k16", "f16", [0xE4E4E4E4], selector=0).frame()
        >>> metadata.head(2).values.tolist()
        [[0, 0, 0, 0, 0], [0, 0, 1, 0, 1]]
        >>> columns = metadata.set_index(["lane", "reg", "slot"]).col.to_dict()
        >>> hex(db.encode("m16n8k16", "f16", columns, selector=0).words[0])
        '0xe4e4e4e4'

    ``db.ingest("ptx-isa.html")`` reads a document, and ``db.refresh()`` loads again what ships. ``db.capture()``
    measures on a GPU; ``lanemap.measure()``, ``lanemap.write_capture()`` and ``db.add_capture()`` are its steps,
    ``lanemap.send_capture()`` takes a run to a server, and ``lanemap.shipped_capture("sm_90a")`` is the one that ships.
    """

    def __init__(self, location: Location, *, stale: bool = False) -> None:
        """Open the database at a location where there is one; use ``lanemap.open`` to build it if need be.

        ``stale``: its shipped sources are not those of this version of Lanemap.
        """
        self.location = location
        self.stale = stale
        self.reader: Reader = connect(location)

    def layout(
        self,
        shape: str,
        type: str | None = None,  # noqa: A002 - PTX's word
        role: str | None = None,
        **which: Unpack[Which],
    ) -> pd.DataFrame:
        """All elements of one operand, one row each, by lane, reg and slot.

        Args:
            shape: as in ``m16n8k16``: M rows, N columns, depth K. Or a whole instruction, such as a PTX mnemonic,
                an opcode of SASS or an atom of CuTe; then only the role follows.
            type: the operand's own PTX type, as in ``bf16``, or another name of it, as in ``half``; for E the type of
                the A that it belongs to. C and D are found by the type of A, too: the most exact there is.
            role: A, B, C, D, or E for sparsity metadata.
            which: what tells such operands apart: ``instruction``, as in ``mma.sp``; ``major``, ``row`` or ``col``; the
                sparsity ``selector`` of E; ``qualifiers``, as in ``x4.trans``. By default the dense instruction, and
                every major, selector and qualifier. And ``source``, one of ``sources()``, or ``all``; by default the
                corrected document, and where that has no rows, the first other source that has.

        Returns:
            A frame with the columns shape, type, role, lane, reg, slot, row, col, col_last, instruction, major,
            computation, selector, qualifiers, source. Names are case-insensitive in the request; numbers are 64-bit.

        Raises:
            LanemapError: there is no such fragment, its source names it without giving its elements, or an argument
                cannot be used, whatever its type.
        """
        return self.find(shape, type, role, **which)

    def find(
        self,
        shape: str,
        type: str | None = None,  # noqa: A002 - PTX's word
        role: str | None = None,
        *,
        row: int | None = None,
        col: int | None = None,
        lane: int | None = None,
        reg: int | None = None,
        slot: int | None = None,
        computation: int | None = None,
        **which: Unpack[Which],
    ) -> pd.DataFrame:
        """The elements of a cell (``row``, ``col``), of a place (``lane``, ``reg``, ``slot``), or of any part of these.

        A column finds every element that can stand for it, also those of a sparse window around it. ``computation``
        is 1 to 4 in m8n8k4 with f16, where a warp does four products. For the rest see ``layout``.

        Raises:
            LanemapError: also for a coordinate outside the fragment.
        """
        query = of_one_operand(shape, type, role, **which)
        where = {"row": row, "col": col, "lane": lane, "reg": reg, "slot": slot, "computation": computation}
        frame = _with_selector(lookup.find(self.reader, query, **where).frame())
        # Without a row there is nothing for pandas to see that these are numbers.
        return frame if len(frame) else frame.astype(dict.fromkeys(_NUMBERS, "int64"))

    def sql(self, query: str, *, seconds: float = SECONDS, rows: int = ROWS) -> pd.DataFrame:
        """The result of one SELECT, usually on the view ``layout``, which has the rows of every source.

        It cannot write, nor call functions of PostgreSQL that do more than read tables. It reads what the role in the
        database's address may read.

        Args:
            query: the SELECT.
            seconds: how long it may take.
            rows: how many rows it may give.

        Raises:
            LanemapError: the database refuses the query, or it goes beyond a limit; says why.
        """
        return self.reader.sql(query, seconds=seconds, rows=rows).frame()

    def fragments(self, source: str | None = DEFAULT_SOURCE) -> pd.DataFrame:
        """One row per fragment of a source (with None, of every source), with its formula and where it stands."""
        return _with_selector(lookup.listed(self.reader, Query(source=source)).frame())

    def fragment(
        self,
        shape: str,
        type: str | None = None,  # noqa: A002 - PTX's word
        role: str | None = None,
        **which: Unpack[Which],
    ) -> Fragment:
        """One operand, with its elements as an array and what its source says of it. In a notebook it shows itself.

        The arguments are those of ``layout``.

        Raises:
            LanemapError: there is no such fragment, or more than one; says what tells them apart.
        """
        return lookup.one_fragment(self.reader, of_one_operand(shape, type, role, **which))

    def sources(self) -> pd.DataFrame:
        """Every source: name, kind, title, provenance (JSON), and how many fragments and findings it has."""
        return lookup.sources(self.reader).frame()

    def findings(self, source: str | None = None) -> pd.DataFrame:
        """What the structural checks found, one row each; of one source, or of all."""
        return _with_selector(lookup.findings(self.reader, Query(source=source)).frame())

    def fleet(self) -> Fleet:
        """All captures side by side: what became of each form on each card, and where two captures differ."""
        from .db.fleet import fleet

        return fleet(self.reader)

    def diff(
        self,
        left: str | PathLike[str] | Source,
        right: str | PathLike[str] | Source,
        *,
        shape: str | None = None,
        type: str | Sequence[str] | None = None,  # noqa: A002 - PTX's word
        role: str | None = None,
        instruction: str | None = None,
    ) -> Check:
        """Compare two sources fragment by fragment.

        Args:
            left: the name of a source, or a file: a capture, an export, or a table with the first eight columns of
                ``layout``. Or a Source.
            right: the other one.
            shape: compare only fragments of this shape, and likewise for the rest.
            type: of the operand, one or several.
            role: of the operand.
            instruction: as PTX spells it.

        Returns:
            A verdict on each fragment, as ``comparisons`` and ``frame()``, and reports with ``report(format)``.

        Raises:
            LanemapError: a side is neither a source nor a file, or the two have nothing in common.
        """
        from .db import crosscheck

        queries = [Query(shape, each, role, instruction) for each in one_or_several(type)]
        return crosscheck.diff(self._side(left), self._side(right), *queries)

    def check(self, against: Sequence[str] = ()) -> Check:
        """Check the structure of every source, and compare documents, imports and captures with each other.

        Args:
            against: compare only with these sources. Default: all.

        Raises:
            LanemapError: there is no such source.
        """
        from .db import crosscheck

        with self.reader.snapshot():
            sources, findings = crosscheck.read_sources(self.reader), crosscheck.read_findings(self.reader)
        return crosscheck.check(sources, findings, [text("source", each) for each in _listed(against)])

    def report(self, *sources: str, fragment: str | None = None) -> Report:
        """What is wrong in sources, for those who maintain them.

        Args:
            sources: names of sources; ``tilelang-0.1.15`` is all that was imported of that library.
            fragment: only this operand, as in ``"m16n8k16 f16 A"``.

        Returns:
            The defects with their proof, effect and correction, and reports with ``report(format)``.

        Raises:
            LanemapError: there is no such source.
        """
        from .db import crosscheck, defect

        with self.reader.snapshot():
            every, findings = crosscheck.read_sources(self.reader), crosscheck.read_findings(self.reader)
        query = None if fragment is None else replace(_query(fragment), source=None)
        sources = tuple(text("source", each) for each in sources)
        made = {"Sources": ", ".join(sources), "Made by": f"lanemap report, version {__version__}"}
        return defect.Report(defect.defects(crosscheck.named(every, sources), every, findings, query), made)

    def _name(self, source: str) -> str | None:
        """A source as the database spells it, None where there is none."""
        return next((name for name in self._names() if name.lower() == source.lower()), None)

    def _names(self) -> list[str]:
        return [record["name"] for record in lookup.sources(self.reader).records()]

    def _side(self, side: str | PathLike[str] | Source) -> Source:
        if isinstance(side, Source):
            return side
        if isinstance(side, str) and self._name(side):
            return self.source(side)
        if not named_file(side, "a source or a file").exists():
            raise LanemapError(f"{side} is neither a source nor a file: choose from {', '.join(self._names())}")
        return replace(read_file(side), name=str(side))

    def source(self, name: str) -> Source:
        """A source with all its fragments.

        Raises:
            LanemapError: there is no source of this name.
        """
        from .db.crosscheck import read_sources

        name = text("source", name)
        with self.reader.snapshot():
            if known := self._name(name):
                return read_sources(self.reader, known)[0]
        raise LanemapError(f"no source {name or repr(name)}: choose from {', '.join(self._names())}")

    def chain(
        self, first: Query | str, second: Query | str, *, transposed: bool = False, relabel: bool = False
    ) -> Chain:
        """How the D of one instruction becomes the A or B of the next.

        Args:
            first: the D, as in ``"m16n8k16 f32 D"``, or a Query.
            second: the A or B, as in ``"m16n8k16 f16 A"``.
            transposed: take D transposed.
            relabel: renumber K where that avoids movement between lanes.

        Returns:
            Every move, as ``moves`` and ``frame()``, and how far values move, as ``movement``.

        Raises:
            LanemapError: an operand is not there, or cannot give or take values.
        """
        from .db.chain import chain, operand, relabelled

        with self.reader.snapshot():
            ends = [operand(self.reader, _query(end)) for end in (first, second)]
        plain = chain(*ends, transposed=transposed)
        return (relabelled(plain) if relabel else None) or plain

    def through_movmatrix(self, chain: Chain) -> list[Transposed] | None:
        """How movmatrix makes each register that a chain takes of one register of D; None where it cannot.

        A D of 32 bits is first packed to 16 bits, registers 2 i and 2 i + 1 into register i.
        """
        from .db.movmatrix import through_movmatrix

        given, taken = (
            lookup.operand_with_rows(self.reader, Query("m8n8", "b16", role, "movmatrix", source=DEFAULT_SOURCE))
            for role in "AD"
        )
        return through_movmatrix(chain, given[0], taken[0])

    def chains(self, end: Query | str, others: Query | None = None) -> list[Chain]:
        """The chains from a D to every A and B that its tiles can make, or to an A or B from every D.

        ``others`` says which; their rows are of other sources where the document only draws them.
        """
        from .db.chain import chains, every_operand, operand

        with self.reader.snapshot():
            asked = _query(end)
            known = operand(self.reader, asked)
            found = every_operand(
                self.reader, replace(Query() if others is None else _query(others), source=known.source)
            )
        if str(asked.source).lower() != DEFAULT_SOURCE:
            found = [each for each in found if each.source == known.source]
        return chains(known, found)

    def recipe(self, move: Query | str, operand: Query | str, *, major: str = "row", count: int = 1) -> Recipe:
        """How ldmatrix loads an operand from a tile in shared memory, or how stmatrix stores it there.

        Args:
            move: the registers of the move, as in ``"ldmatrix m8n8 b16 r"``, or a Query.
            operand: what is loaded or stored, as in ``"m16n8k16 f16 A"``.
            major: ``row`` or ``col``, how the tile lies in memory.
            count: how many neighbours are moved together: of A along M, else along N. Their registers follow each
                other, so that one ``ldmatrix.x4`` loads two B of two registers.

        Returns:
            The address that each lane passes to each move, as ``addresses`` and ``frame()``, and in words by ``print``.

        Raises:
            LanemapError: there is no such move or operand, or the move cannot do it; says why.
        """
        from .db.chain import of_both
        from .db.recipe import pairs, recipe

        asked, major = _query(operand), word("major", major) or ""
        with self.reader.snapshot():
            found = lookup.operand_with_rows(self.reader, asked)
            lookup.expect_one(asked, found, "source", "shape", "type")
            # Where two majors have layouts of their own, it is that of the tile.
            alike = of_both(found) or next((each for each in found if major in (each.major, each.qualifiers)), found[0])
            return recipe(pairs(self.reader, _query(move)), alike, major, whole("count", count) or 0)

    def draw(  # over 40 lines: most of them say what its arguments are
        self,
        shape: str,
        type: str | None = None,  # noqa: A002 - PTX's word
        role: str | None = None,
        *,
        accumulator: str | None = None,
        diff: tuple[str, str] | None = None,
        lanes: Sequence[int] = (),
        values: str | None = None,
        ptx: bool = False,
        whole: bool = False,
        title: bool = True,
        **which: Unpack[Which],
    ) -> Picture:
        """Draw an operand, or a whole instruction where no role is named.

        Args:
            shape: as in ``m16n8k16``, or an instruction by any of its names; then only the role follows.
            type: of the operand; for a whole instruction that of A.
            role: as in ``A``. Default: all that the instruction has, as in a product.
            accumulator: the type of C and D, for a whole instruction. Default: the most exact.
            diff: two sources; mark where they differ.
            lanes: colour only these lanes.
            values: colour only these, in PTX's style, as in ``T0:{a0,a1}``.
            ptx: label cells in that style.
            whole: all of a large operand, not only what repeats.
            title: say above the picture what it shows.
            which: as for ``layout``.

        Returns:
            A picture with ``svg()``, ``png()``, ``pdf()`` and ``save(path)``. In a notebook it shows itself.

        Raises:
            LanemapError: there is no such operand, or several instructions have the name; says which.
        """
        from .db.picture.compose import draw
        from .db.picture.view import View

        query = of_operand(shape, type, role, **which)
        view = View(_lanes(lanes), values and text("values", values), ptx, whole, title)
        sides = None if diff is None else [text("source", each) for each in _listed(diff)]
        return draw(self.reader, query, view, f"Drawn by lanemap {__version__}", accumulator, sides)

    def export(
        self,
        output: str | PathLike[str] | IO[bytes] | None = None,
        *,
        format: str | None = None,  # noqa: A002
        query: Query | str | Sequence[Query | str] = (),
    ) -> Export:
        """Write layouts as a table, or in another toolchain's notation.

        Args:
            output: a file that appears whole or not at all, a binary stream, or for ``dataset`` a folder. A notation
                needs none.
            format: ``parquet``, ``csv``, ``arrow``, ``jsonl`` or ``dataset``, or a notation, one of
                ``lanemap.db.notation.NOTATIONS``. Default: by the ending of ``output``.
            query: which fragments; of several queries those that match any. Default: all. Unless a query names a
                source, they are those of the source that look-ups read; ``all`` names every source. Words, such as
                ``"m16n8k16 bf16 B"``, mean what they mean in a look-up: the dense instruction where there is one.

        Returns:
            The text of a notation, and why each fragment that is not in it was refused.

        Raises:
            LanemapError: nothing matches or has rows, the notation can express none of it, or it cannot be written.
        """
        from .db.export import write
        from .db.notation import NOTATIONS
        from .db.notation.export import Export, export

        given = _listed(query) or [Query()]
        with self.reader.snapshot():
            queries = [lookup.of_dense(self.reader, _query(q)) if isinstance(q, str) else _query(q) for q in given]
            found = lookup.with_rows(self.reader, lookup.read_fragments(self.reader, *queries))
            if format not in NOTATIONS:
                write(self.reader, found, output, format, __version__)
                return Export("", [])
        made = export(found, str(format), __version__)
        if output is not None:
            made.write(output)
        return made

    def decode(
        self,
        shape: str,
        type: str,  # noqa: A002 - PTX's word
        words: Sequence[int],
        *,
        selector: int | None = None,
        source: str | None = None,
    ) -> Metadata:
        """The columns of a sparse A that metadata chooses.

        Args:
            shape: of the sparse instruction.
            type: of its A.
            words: a 32-bit word of metadata for each thread, or one for all.
            selector: the sparsity selector, where there are several.
            source: default: the most trustworthy one that has the elements of both A and E.

        Raises:
            LanemapError: no source has both operands, or the metadata is invalid.
        """
        from .capture.recording import shipped
        from .db.metadata import from_words, operands

        query = Query(shape, type, selector=selector, source=source)
        return from_words(_listed(words), *operands(self.reader, query, shipped()))

    def encode(
        self,
        shape: str,
        type: str,  # noqa: A002 - PTX's word
        columns: Mapping[tuple[int, int, int], int],
        *,
        selector: int | None = None,
        source: str | None = None,
    ) -> Metadata:
        """The metadata that chooses a column for each (lane, reg, slot) of a sparse A. See ``decode``."""
        from .capture.recording import shipped
        from .db.metadata import from_columns, operands

        if not isinstance(columns, dict):
            raise LanemapError(
                f"columns {columns!r} is no dictionary: write it like {{(0, 0, 0): 1}}, by lane, reg and slot"
            )
        query = Query(shape, type, selector=selector, source=source)
        return from_columns(columns, *operands(self.reader, query, shipped()))

    def add(self, sources: Sequence[Source], *, progress: Callable[[Source], object] | None = None) -> None:
        """Load captures or imports. Earlier ones of the same names are replaced.

        Raises:
            LanemapError: one has the name of a source that Lanemap ships, or a name that cannot be asked for.
        """
        from .db.store import load

        added = _listed(sources)
        for each in added:
            check_names(each)
            if each.name.lower() in {name.lower() for name in shipped_names()}:
                raise LanemapError(
                    f"{each.name} is the name of a source that Lanemap ships: choose another name", "name"
                )
        load(self.location, added, progress)

    def add_capture(self, source: Source, *, own_name: bool = False) -> Source:
        """Load a capture, with ``-own`` after a name that Lanemap ships, unless ``own_name`` says it was chosen."""
        if not own_name and source.name in shipped_names():
            # The run that ships is there to be compared with this one.
            source = replace(source, name=f"{source.name}-own")
        self.add([source])
        return source

    def import_layouts(  # over 40 lines: most of them say what its arguments are
        self,
        kind: str,
        path: str | PathLike[str] | None = None,
        *,
        name: str | None = None,
        python: str | None = None,
        progress: Callable[[Source], object] | None = None,
    ) -> Sequence[Imported]:
        """Load a capture file, or another toolchain's layouts. A source of the same name is replaced.

        Args:
            kind: ``capture``, ``cute``, ``tensor-layouts``, ``python`` or ``table``.
            path: a capture file, a CUTLASS source tree or header, a mapping, or a CSV, Parquet or Arrow file.
            name: what to call the source. Default: the library with its version, or what the table says.
            python: the Python that has the library of a mapping. Default: this one.
            progress: called with each source before it is loaded.

        Returns:
            Each source that came in, and what was left out of it with the reason.

        Raises:
            LanemapError: it cannot be read, or has the name of a source that Lanemap ships.
        """
        from .capture import recording
        from .ingest.imported import Imported
        from .ingest.importing import read

        if name is not None:
            check_name(name)
        if kind == "capture":
            if path is None:
                raise LanemapError("name a capture file", "path")
            if python is not None:
                raise LanemapError("capture takes no python: leave it out")
            found: Sequence[Imported] = [Imported(recording.read(named_file(path, "a capture file"), name))]
        else:
            file = None if path is None else str(named_file(path, "what is to be imported"))
            found = read(kind, file, name, python=None if python is None else text("python", python))
        self.add([each.source for each in found], progress=progress)
        return found

    def ingest(
        self,
        *documents: str | PathLike[str],
        name: str | None = None,
        progress: Callable[[Source], object] | None = None,
    ) -> list[Reading]:
        """Read PTX documentation and load it as sources.

        Args:
            documents: HTML, Markdown or plain text files, or folders of them.
            name: of the source. Default: after the version that the documents say they are of.
            progress: called with each source before it is loaded.

        Returns:
            Each source with remarks on what of it could not be read; one without fragments is not loaded.

        Raises:
            LanemapError: a file cannot be read, or there is neither a name nor a version to call the source by.
        """
        from .ingest.document import read

        if name is not None:
            check_name(name)
        if not documents:
            raise LanemapError("name the documents: HTML, Markdown or plain text files, or folders of them")
        pages = [named_file(each, "a page of the PTX documentation, or a folder of them") for each in documents]
        readings = read(pages, name)
        if sources := [reading.source for reading in readings if reading.source.fragments]:
            self.add(sources, progress=progress)
        return readings

    def refresh(self, *, progress: Callable[[Source], object] | None = None) -> None:
        """Load the sources that Lanemap ships again; other sources stay."""
        from .db.store import ship

        ship(self.location, _shipped, _fingerprint(), again=True, progress=progress)
        self.stale = False

    def remove(self, source: str) -> None:
        """Remove a source that was added.

        Raises:
            LanemapError: there is no such source, or it is one that Lanemap ships.
        """
        from .db.store import remove

        source = text("source", source)
        if source.lower() in {name.lower() for name in shipped_names()}:
            raise LanemapError(f"{source} ships with Lanemap: only what was added can be removed")
        remove(self.location, source)

    def capture(
        self,
        instruction: str | None = None,
        shape: str | None = None,
        type: str | Sequence[str] | None = None,  # noqa: A002 - PTX's word
        *,
        device: int = 0,
        name: str | None = None,
        progress: Callable[[Outcome], object] | None = None,
    ) -> Source:
        """Measure layouts on a GPU of this machine, and load them. See ``measure``."""
        source = measure(instruction, shape, type, device=device, name=name, progress=progress)
        return self.add_capture(source, own_name=name is not None)

    def close(self) -> None:
        """Release the connection. A closed database answers nothing more."""
        self.reader.close()

    def __enter__(self) -> Database:
        """Use the database in a ``with`` statement."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def open(url: str | PathLike[str] | None = None, *, progress: Callable[[Source], object] | None = None) -> Database:  # noqa: A001
    """Open a database; build it first, with all that Lanemap ships, where there is none yet.

    Args:
        url: a SQLite file, ``sqlite:///FILE`` or ``postgresql://...``. Default: the environment variable LANEMAP_DB,
            or else a file in the user's data directory, which is also brought up to date when Lanemap is.
        progress: called with each source before it is loaded, if the database has to be built.

    Raises:
        LanemapError: the place cannot be read or written, or holds something else or another version's database.
    """
    location = locate(url)
    there = state(location)
    shipped = _fingerprint()
    if there is None or (location.default and there != shipped):
        from .db.store import ship

        ship(location, _shipped, shipped, progress=progress)
        there = shipped
    return Database(location, stale=there != shipped)


def read_file(path: str | PathLike[str]) -> Source:
    """The layouts in a capture file, or in a CSV, Parquet or Arrow table of one source.

    Raises:
        LanemapError: it cannot be read, or holds several sources.
    """
    from .capture import recording
    from .ingest.table import load

    file = named_file(path, "a capture, or a CSV, Parquet or Arrow file")
    if recording.is_capture(file):
        return recording.read(file)
    found = [each.source for each in load(file)]
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise LanemapError(f"{path} holds the sources {names}: export one of them with --source, or import the file")
    return found[0]


def _listed(given: Any) -> list[Any]:
    """One or several as a list; none where nothing is given."""
    return [each for each in one_or_several(given) if each is not None]


def _lanes(given: Any) -> tuple[int, ...]:
    return tuple(whole("lane", each) or 0 for each in _listed(given))


def _query(operand: Query | str) -> Query:
    query = parse(operand.split()) if isinstance(operand, str) else operand
    if not isinstance(query, Query):
        raise LanemapError(f"{operand!r} names no operand: write it like 'm16n8k16 f32 D'")
    return query if query.source else replace(query, source=DEFAULT_SOURCE)


def measure(
    instruction: str | None = None,
    shape: str | None = None,
    type: str | Sequence[str] | None = None,  # noqa: A002 - PTX's word
    *,
    device: int = 0,
    name: str | None = None,
    progress: Callable[[Outcome], object] | None = None,
) -> Source:
    """Measure layouts on a GPU of this machine: a source whose provenance says what became of each instruction.

    Args:
        instruction: ``mma``, ``mma.sp``, or a pattern of whole mnemonics such as ``*.b1.*``. Default: all.
        shape: only this shape.
        type: only this type of A, or these.
        device: number of the GPU.
        name: what to call the source. Default: after the GPU.
        progress: called with the result of each instruction.

    Raises:
        LanemapError: there is no GPU or no PyCUDA, or no instruction matches.
    """
    from .capture.cuda import Gpu
    from .capture.run import capture
    from .db.forms import select
    from .ingest.catalogue import document

    if name is not None:
        check_name(name)
    forms = select(instruction, shape, type)
    started = time.perf_counter()
    # The documented fragments name rows and columns, which no product can tell.
    anchor = {each.key: each for each in document(DEFAULT_SOURCE).fragments}
    with Gpu(device) as gpu:
        source = capture(gpu, anchor, forms, progress, name, __version__)
    provenance = {**source.provenance, "seconds": round(time.perf_counter() - started, 6)}
    return replace(source, provenance=provenance)


def shipped_capture(target: str) -> Source | None:
    """The capture that ships of an architecture such as ``sm_90a``, if there is one."""
    from .capture.recording import read

    return next((read(file) for file in _recordings() if file.stem.endswith(f"-{target}")), None)


def write_capture(source: Source, path: str | PathLike[str]) -> None:
    """Write a capture to a file that stands alone, whole or not at all. ``read_file`` reads it.

    Raises:
        LanemapError: the file cannot be written.
    """
    from .capture.recording import write

    write(source, named_file(path, "a capture file"))


def send_capture(path: str | PathLike[str], url: str, token: str) -> str:
    """Send a capture file to a server that ``lanemap serve --token-file`` runs; the name that it was stored under.

    Raises:
        LanemapError: the server cannot be reached, or does not take it.
    """
    from .capture.send import send

    return send(named_file(path, "a capture file"), url, token)


def shipped_names() -> set[str]:
    """The names of the sources that Lanemap ships, which can neither be replaced nor removed."""
    from .ingest.catalogue import names

    return {*names(), *(file.stem for file in _recordings())}


def _shipped() -> Iterable[Source]:
    from .capture.recording import read
    from .ingest.catalogue import load

    return [*load(), *map(read, _recordings())]


def _recordings() -> list[Path]:
    return sorted((_FOLDER / "capture" / "recordings").glob("*.parquet"))


def _fingerprint() -> str:
    """Changes when the shipped data does, or the code that evaluates and checks it."""
    digest = sha256(__version__.encode())
    folders = ("ingest/*.*", "ingest/catalogue/**/*.*", "db/formula/*.*")
    modules = ("db/fragment.py", "db/instructions.py", "db/integrity.py", "db/store.py", "db/structure.py")
    evaluated = [file for pattern in (*folders, *modules) for file in _FOLDER.glob(pattern)]
    for file in [*sorted(each for each in evaluated if each.suffix in (".py", ".lark", ".toml")), *_recordings()]:
        digest.update(b"\0" + file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _with_selector(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame whose selectors are whole numbers, or missing."""
    return frame.astype({"selector": "Int64"})
