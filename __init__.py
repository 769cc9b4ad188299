"""Lanemap: which lane, register and slot of a tensor-core instruction holds which matrix element, as a database.

    >>> import lanemap
    >>> db = lanemap.open()
    >>> db.find("m16n8k16", "f16", "A", row=9, col=3)[["lane", "reg", "slot"]].values.tolist()
    [[5, 1, 1]]

Lanes are 0..31, or 0..127 in a warpgroup. A register has 32 bits, or 64 for f64; ``reg`` counts them in the operand's
register vector. ``slot`` counts the elements inside a register, low bits first. Rows and columns are those of the
matrix that the operand holds: A is M x K, B is K x N, C and D are M x N; E, the sparsity metadata, counts like A. In
sparse A and E an element only has a window of columns, ``col`` to ``col_last``; everywhere else the two are equal.

``Database`` has methods for what the commands of the command line do:

    look up     find, show, terms, fragment, operand, matching, prefer_dense, sql, select
    list        list, fragments, sources, findings, names, following, digest
    draw        draw, and fragment(...).draw(lanes=[13])
    compare     diff, check, report, fleet, survey
    chain       chain, also with ldmatrix and stmatrix, whose cpp() is device code; move; reduce; descriptor
    trace       trace, which runs a kernel on simulated threads, and blame, which needs no kernel
    export      export; decode and encode turn sparse metadata into columns and back
    load        import_layouts, ingest, capture, add, add_capture, remove, refresh

Rows come as frames; other results have ``frame()`` and show themselves in a notebook. Without a database, ``read_file``
reads a table or a capture, and ``measure`` and ``write_capture`` make a capture; ``forms`` are what it measures, and
``write_kernels`` writes how. ``shipped_captures`` are those that ship, ``shipped_names`` what all that ships is called,
and ``shipped_mappings`` what ``import_layouts`` knows of libraries. What cannot be done raises ``LanemapError``, one
line that says what would be right; ``AbsentError`` where something is not there, ``NoRowsError`` where it is
figure-only, ``UnavailableError`` where the database cannot be read.
"""

from __future__ import annotations

import sys

from .db import interruption

if interruption.BY_MODULE and not sys.flags.safe_path:
    # As for the command, modules do not come from the current folder: a copy.py there is not Python's.
    del sys.path[0]

# isort: split
import os
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from io import BytesIO, FileIO, StringIO
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Unpack
from warnings import warn

from .db import lookup
from .db.errors import AbsentError, LanemapError, NoRowsError, UnavailableError, refusal
from .db.isa import arguments
from .db.isa.arguments import bit_word, expect_names, one_or_several, text, whole, word
from .db.isa.forms import select as forms
from .db.isa.instructions import Key
from .db.isa.names import DEFAULT_SOURCE, EVERY_SOURCE, Chaining, Query, Tiles, Which
from .db.isa.tiling import Tiling
from .db.layout.fragment import Element, Fragment, Source, check_name, check_names
from .db.layout.tile import tiled
from .db.lookup import Fragments, Place, Where
from .db.rows import Rows, Told
from .db.store.connection import connect, state
from .db.store.location import Location, locate, named_file
from .db.store.reader import ROWS, SECONDS, STATE, Reader
from .db.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import ArrayLike

    from .capture.kernels import write_kernels
    from .capture.machine.report import Trace
    from .capture.module import Outcome
    from .db.compare.crosscheck import Check, diff, failures
    from .db.compare.defect import Report
    from .db.compare.summary import Summary
    from .db.compare.survey import Fleet, Known, Product, Survey
    from .db.flow.blame import Blame
    from .db.flow.box import Written
    from .db.flow.chain import Chain, Chains
    from .db.flow.descriptor import Decoded, Descriptor
    from .db.flow.instruction_descriptor import InstructionDescriptor
    from .db.flow.metadata import Metadata
    from .db.flow.recipe import Recipe, Recipes
    from .db.flow.reduction import Reduction
    from .db.flow.terms import Terms
    from .db.flow.through import Through
    from .db.isa.forms import Form
    from .db.isa.instructions import ROLES
    from .db.render.notation import NOTATIONS, Export
    from .db.render.picture.formats import Picture
    from .db.render.picture.runs import Run, span_words
    from .ingest.document import Reading
    from .ingest.importing import IMPORTERS, Imported, adding

__all__ = [
    *("DEFAULT_SOURCE", "NOTATIONS", "ROLES", "__version__"),
    *("AbsentError", "LanemapError", "NoRowsError", "UnavailableError"),
    *("Chaining", "Place", "Query", "Tiles", "Tiling", "Where", "Which"),
    *("Database", "Form", "Fragment", "Fragments", "Key", "Location", "Product", "Rows", "Source"),
    *("Blame", "Chain", "Chains", "Check", "Decoded", "Descriptor", "Export", "Fleet", "InstructionDescriptor"),
    *("Known", "Metadata", "Picture", "Recipe", "Recipes", "Reduction", "Report", "Summary", "Survey", "Terms"),
    *("Through", "Trace", "Written"),
    *("forms", "measure", "open", "read_file", "trace", "write_capture", "write_kernels"),
    *("shipped_captures", "shipped_mappings", "shipped_names"),
]

__version__ = "0.1.0"

_FOLDER = Path(__file__).parent
_PARTS = ("capture", "cli", "db", "ingest")


#: Where everything is that is imported above for type checkers: it is loaded when it is first asked for.
_OFFERED = {
    ".capture.kernels": ("write_kernels",),
    ".capture.machine.report": ("Trace",),
    ".capture.module": ("Outcome",),
    ".db.compare.crosscheck": ("Check", "diff", "failures"),
    ".db.compare.defect": ("Report",),
    ".db.compare.summary": ("Summary",),
    ".db.compare.survey": ("Fleet", "Known", "Product", "Survey"),
    ".db.flow.blame": ("Blame",),
    ".db.flow.box": ("Written",),
    ".db.flow.chain": ("Chain", "Chains"),
    ".db.flow.descriptor": ("Decoded", "Descriptor"),
    ".db.flow.metadata": ("Metadata",),
    ".db.flow.instruction_descriptor": ("InstructionDescriptor",),
    ".db.flow.recipe": ("Recipe", "Recipes"),
    ".db.flow.reduction": ("Reduction",),
    ".db.flow.terms": ("Terms",),
    ".db.flow.through": ("Through",),
    ".db.isa.forms": ("Form",),
    ".db.isa.instructions": ("ROLES",),
    ".db.render.notation": ("NOTATIONS", "Export"),
    ".db.render.picture.formats": ("Picture",),
    ".db.render.picture.runs": ("Run", "span_words"),
    ".ingest.document": ("Reading",),
    ".ingest.importing": ("IMPORTERS", "Imported", "adding"),
}
_MODULES = {name: module for module, names in _OFFERED.items() for name in names}


def __getattr__(name: str) -> Any:
    """What ``_OFFERED`` has of this name."""
    if (module := _MODULES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package = import_module(module, __name__)
    return globals().setdefault(name, getattr(package, name))


class Database:
    """A Lanemap database, open for reading. Close it, or use it in a ``with`` statement.

            >>> import lanemap
            >>> db = lanemap.open()

    The names of operands are case-insensitive. ``shape`` is as in ``m16n8k16``, or a whole instruction, such as a PTX
    mnemonic, an opcode of SASS or an atom of CuTe; then only the role follows. ``type`` is the operand's own, for E
    and for a whole instruction that of A; C and D can also be looked up by A's type, which gives the widest
    accumulator. ``role`` is A, B, C, D or E, SFA or SFB, or r or p of a matrix move. For the other names that tell
    operands apart, and for tiles of many instructions and warps, see ``Which``. Every method raises
    ``LanemapError`` where it cannot do what it is asked for.
    """

    #: Limits of a query, unless others are given.
    SECONDS, ROWS = SECONDS, ROWS

    def __init__(self, location: Location, *, stale: bool = False) -> None:
        """Open a database that is there. It is ``stale`` where its shipped sources are not those of this Lanemap."""
        self.location = location
        self.stale = stale
        self.reader: Reader = connect(location, shipped_names)

    def find(
        self, shape: str, type: str | None = None, role: str | None = None, **where: Unpack[Where]
    ) -> pd.DataFrame:
        """The elements of one operand: of a cell, of a place, of any part of these, or all; by lane, reg and slot.

            >>> db.find("HMMA.16816.F32.BF16", "D", row=5, col=3)[["lane", "reg"]].values.tolist()
            [[21, 1]]
            >>> tile = db.find("m16n8k16", "f16", "D", tile="m64n64", warps="2x2", row=37, col=21)
            >>> tile[["thread", "warp", "lane", "reg", "rep_m", "rep_n"]].values.tolist()
            [[22, 0, 22, 6, 1, 1]]

        A column finds every element that can stand for it, also those of a sparse window around it. The columns are
        those of the table ``layout``. See ``Where`` for what may be named.
        """
        expect_names(where, Where.__annotations__)
        which: dict[str, Any] = {**where}
        place = {name: which.pop(name) for name in Place.__annotations__ if name in which}

        def read() -> Fragments:
            found = lookup.operand_with_rows(self.reader, Query.of(shape, type, role, **which), "shape", "type")
            for fragment in found:
                _ = fragment.elements  # of this state of the database
            return found

        return self.reader.kept(("find", repr((shape, type, role, which))), read).frame(**place)

    def fragment(
        self, shape: str, type: str | None = None, role: str | None = None, **which: Unpack[Which]
    ) -> Fragment:
        """One operand, with its elements as an array and what its source says of it. In a notebook it shows itself.

        >>> fragment = db.fragment("m16n8k16", "f16", "A", source="h200-sm_90a")
        >>> fragment.draw(lanes=[13], values="T0:{a0,a1}").save("lanes.svg")
        """

        def read() -> Fragment:
            matching = lookup.one_operand(self.reader, Query.of(shape, type, role, **which))
            return matching.expect_one("shape", "type", "source", "major", "selector", "qualifiers")[0]

        return self.reader.kept(("fragment", repr((shape, type, role, which))), read)

    def operand(self, query: Query | str, *, rows: bool = True, **which: Unpack[Which]) -> Fragments:
        """The fragments of one operand: several where a major, a selector or qualifiers tell them apart.

            >>> [each.major for each in db.operand("m8n8k4 f16 A")]
            ['row', 'col']

        They have elements, unless ``rows`` is false: then figure-only ones will do. ``rows(row=9, col=3)``
        are their elements in a place, and ``remarks`` say how they differ from what was asked for.

        Here and elsewhere what the words do not say may follow them, as in ``tile="m64n64", warps="2x2"``: see
        ``Which``.
        """
        look_up = lookup.operand_with_rows if rows else lookup.one_operand
        with self.reader.snapshot():
            return look_up(self.reader, _query(query, **which))

    def matching(self, *queries: Query) -> Sequence[Fragment]:
        """The fragments that match any of the queries, each of which must match some.

        >>> sorted({each.source for each in db.matching(lanemap.Query("m16n8k256", role="A"))})[:3]
        ['h100-sm_90a', 'h200-sm_90a', 'ptx-isa-9.1']
        """
        return lookup.fragments(self.reader, *queries)

    def prefer_dense(self, query: Query | str, **which: Unpack[Which]) -> Query:
        """The same query of the one instruction that it means: of a dense and a sparse one, the dense one.

        >>> db.prefer_dense("m16n8k16 bf16").instruction
        'mma'
        """
        query = _query(query, **which)
        matching = lookup.prefer_dense(query, lookup.fragments(self.reader, query))
        return replace(query, instruction=matching[0].instruction)

    def list(self, what: str = "fragments", *queries: Query | str) -> Rows:
        """What there is of a kind, a row each, of the fragments that match any of the queries.

            >>> db.list("operands", "m16n8k16 f16").records()[0]["roles"]
            'A'

        The kinds are ``sources``, ``fragments``, ``errata``, ``findings``, ``operands``, which are fragments, those
        together that a section treats alike, and ``instructions``, all fragments of one together. Without a source in
        a query, sources and findings are all there are, and of the rest the best evidence is listed.
        """
        from .db.overview import LISTINGS

        if what not in LISTINGS:
            raise LanemapError(f"cannot list {what!r}: choose from {', '.join(LISTINGS)}")
        of_best = what not in ("sources", "findings")
        named = [_query(query) if of_best or isinstance(query, str) else query for query in queries or [Query()]]
        return LISTINGS[what](self.reader, *named)

    def fragments(self, source: str | None = DEFAULT_SOURCE) -> pd.DataFrame:
        """One row per fragment of a source, by default the best evidence, with its formula and where it stands.

        With None it is of every source.

        >>> db.fragments().query("shape == 'm16n8k256'").status.tolist()
        ['documented', 'documented', 'documented', 'documented']
        """
        return _with_selector(self.list("fragments", Query(source=EVERY_SOURCE if source is None else source)).frame())

    def sources(self) -> pd.DataFrame:
        """Every source: name, kind, title, provenance (JSON), and how many fragments and findings it has.

        >>> db.sources().query("kind != 'document'").name.tolist()
        ['cutlass-4.2.0', 'h100-sm_90a', 'h200-sm_90a']
        """
        return self.list("sources").frame()

    def findings(self, source: str | None = None) -> pd.DataFrame:
        """What the structural checks found, one row each; of one source, or of all.

        >>> sorted(set(db.findings()["shape"]))
        ['m16n8k256']
        """
        return _with_selector(self.list("findings", Query(source=source)).frame())

    def select(self, query: str, *, seconds: float = SECONDS, rows: int = ROWS) -> Rows:
        """The same as ``sql``, as tuples.

        >>> db.select("SELECT COUNT(*) FROM source").rows
        [(7,)]
        """
        return self.reader.sql(query, seconds=seconds, rows=rows)

    def sql(self, query: str, *, seconds: float = SECONDS, rows: int = ROWS) -> pd.DataFrame:
        """The result of one SELECT, usually on the view ``layout``, which has the rows of every source.

            >>> db.sql("SELECT COUNT(*) AS n FROM layout WHERE shape = 'm16n8k8' AND source = 'ptx-isa-9.4'").n.tolist()
            [1920]

        It cannot write, nor call functions of PostgreSQL that do more than read tables. It reads what the role in the
        database's address may read, and ends with an error after so many seconds or rows.
        """
        return self.select(query, seconds=seconds, rows=rows).frame()

    def show(self, query: Query | str, **which: Unpack[Which]) -> Summary | Fragments:
        """What ``lanemap show`` says: of an instruction its forms and operands, of an operand its layout, drawn.

            >>> db.show("HMMA.16816.F32.BF16").title
            'mma m16n8k16'
            >>> print(db.show("m16n8k16 f16 A").text(80).splitlines()[1])
            per lane: 4 registers of 32 bits, 2 slots of 16 bits in each

        An operand is there also where its source is figure-only; ``text(by="lane")`` draws its register file.
        """
        query = _query(query, **which)
        if query.parameters()["role"] is not None:
            return self.operand(query, rows=False)
        from .db.compare.summary import instruction_summary

        return instruction_summary(self.reader, query)

    def digest(self) -> bytes:
        """What the database holds, as a digest that is the same for everyone who reads it.

        >>> db.digest() == db.digest()
        True
        """
        return sha256(repr(self.reader.select(STATE, {}).rows).encode()).digest()

    def survey(self) -> Survey:
        """What is known of every operand, and by whom.

        >>> len(db.survey().sources)
        7
        """
        from .db.compare.survey import survey

        return survey(self.reader)

    def fleet(self) -> Fleet:
        """All captures side by side: what became of each form on each card, and where two captures differ.

        >>> [each.device for each in db.fleet().captures]
        ['NVIDIA H100 80GB HBM3', 'NVIDIA H200']
        """
        from .db.compare.survey import fleet

        return fleet(self.reader)

    def diff(
        self,
        left: str | PathLike[str] | Source,
        right: str | PathLike[str] | Source | None = None,
        operand: Query | str | None = None,
        **tiles: Unpack[Tiles],
    ) -> Check:
        """Compare two sources fragment by fragment, or one with the best evidence there is of each of its fragments.

            >>> found = db.diff("ptx-isa-9.4", "h200-sm_90a", "m16n8k256 b1")
            >>> found.frame().query("verdict == 'different'")[["shape", "role", "words"]].values.tolist()
            [['m16n8k256', 'A', 'reg 1: col is 32 too high']]

        A side is a Source, its name, a library such as ``tilelang-0.1.15``, which is all that was imported of it, or a
        file: a capture, an export, or a table with the first eight columns of ``layout``. The best evidence, ``best``,
        is the corrected document, or what was measured where that refines it or it has no rows; what neither has is in
        ``unjudged``. ``operand`` is the only one that is compared, or the instruction, and ``tile`` that of many
        instructions which the left side, a file or a Source, claims: its lanes then count the threads of all warps.
        It has a verdict on each fragment, and reports with ``report(format)``.
        """
        from .db.compare import crosscheck
        from .db.render import report

        expect_names(tiles, Tiles.__annotations__)
        query = Query() if operand is None else _compared(operand)
        best = right is None or (isinstance(right, str) and right.lower() == DEFAULT_SOURCE)
        with self.reader.snapshot(), self._explained(query):
            lefts = self._side(left)
            rights = crosscheck.read_sources(self.reader) if right is None or best else self._side(right)
            if tiling := Tiling.of(**tiles):
                if lefts[0].name in self.names("source"):
                    words = f"tiles of {lefts[0].name} are made of its own fragments: name a file that claims some"
                    raise LanemapError(words)
                lefts, rights = crosscheck.in_tiles(lefts, rights, tiling)
            if not best:
                return crosscheck.diff(lefts, rights, query)
            return crosscheck.judge(lefts, rights, query, shipped=self.reader.shipped())

    def check(self, against: Sequence[str] = ()) -> Check:
        """Check the structure of every source, and compare documents, imports and captures with each other.

            >>> check = db.check()
            >>> check.known, check.unexplained
            (14, 0)

        ``against``: compare only with these sources or libraries, as in ``diff``.
        """
        from .db.compare import crosscheck
        from .db.render import report

        return crosscheck.checked(self.reader, [text("source", name) for name in one_or_several(against)])

    def report(self, *sources: str, operand: Query | str | None = None) -> Report:
        """What is wrong in sources, with proof, effect and correction, for those who maintain them.

            >>> db.report("h200-sm_90a").defects
            []

        They are sources or libraries, and ``operand`` is the only one that is looked at, as in ``diff``. Reports as
        text come with ``report(format)``.
        """
        import shlex

        from .db.compare import crosscheck, defect
        from .db.render import report

        with self.reader.snapshot():
            every, findings = crosscheck.read_sources(self.reader), crosscheck.read_findings(self.reader)
        query = None if operand is None else _compared(operand)
        every = crosscheck.apart(every)
        sources = tuple(text("source", source) for source in sources)
        judged = crosscheck.named(every, sources)
        head = {"Sources": ", ".join(sources), "Made by": f"lanemap report, version {__version__}"}
        shipped = self.reader.shipped()
        with self._explained(query or Query()):
            found = crosscheck.judge(judged, every, query, shipped=shipped)
        if unjudged := [result.key for results in found.unjudged.values() for result in results]:
            head["Unjudged"] = f"{counted(len(unjudged), 'fragment')}, for which no evidence has elements"
            own = {source.name for source in judged}
            others = (other.name for other in found.others if {part.key for part in other.with_rows} & {*unjudged})
            if holder := next((name for name in others if name not in own), None):
                command = shlex.join(("lanemap", "diff", sources[0], holder))
                head["Unjudged"] += f"; {holder} has some of them, and cannot judge them: {command}"
        return defect.Report(defect.defects(judged, every, findings, query, shipped=shipped), head)

    @contextmanager
    def _explained(self, query: Query) -> Iterator[None]:
        """Where nothing is compared, say also which word of the query no fragment has: it may be misspelt.

        Raises:
            AbsentError: that of the block, with the word added.
        """
        try:
            yield
        except AbsentError as error:
            try:
                self.matching(query)
            except AbsentError as why:
                raise AbsentError(f"{error}: {why}") from None
            raise

    def _side(self, side: str | PathLike[str] | Source) -> Sequence[Source]:
        """The sources that a side of a comparison is: one, or those of a library."""
        from .db.compare.crosscheck import read_sources, with_name

        if isinstance(side, Source):
            return [side]
        available = self.names("source")
        if isinstance(side, str) and (matching := with_name(available, side)):
            return read_sources(self.reader, *matching)
        if side == "-":
            raise LanemapError("stdin is no side of a comparison: write the table to a file, and name that")
        if str(side).lower().endswith(".toml"):
            words = f"{side} is a mapping: load it with lanemap import python {side}"
            raise LanemapError(f"{words}, and compare the source that it makes")
        if not named_file(side, "a source or a file").exists():
            from .db.isa.not_found import choose_from

            libraries = list(dict.fromkeys(name.partition(":")[0] for name in available))
            raise LanemapError(f"{side} is neither a source nor a file: {choose_from(str(side), libraries)}")
        return [replace(read_file(side), name=str(side))]

    def source(self, name: str) -> Source:
        """A source with all its fragments; ``every`` of one are its members and itself.

        >>> db.source("h200-sm_90a").kind
        'capture'
        """
        from .db.compare.crosscheck import read_sources

        with self.reader.snapshot():
            return read_sources(self.reader, self._source_name(name))[0]

    def _source_name(self, name: str) -> str:
        """What a source is called. Raises LanemapError where there is none."""
        name = text("source", name)
        available = self.names("source")
        for known in available:
            if known.lower() == name.lower():
                return known
        from .db.isa.not_found import choose_from

        raise LanemapError(f"no source {name or repr(name)}: {choose_from(name, available)}")

    def chain(
        self,
        first: Query | str,
        second: Query | str | None = None,
        *,
        transpose: bool = False,
        relabel: bool = False,
        major: str | None = None,
        count: int | None = None,
        pitch: int | None = None,
        swizzle: str | None = None,
        through: str | None = None,
        vendor: str | None = None,
        **tiles: Unpack[Tiles],
    ) -> Chain | Chains | Recipes | Through:
        """What follows what, as ``lanemap chain`` says it: how D of one instruction becomes A, B or C of the next.

            >>> db.chain("m16n8k16 f32 D", "m16n8k16 f16 A").verdict
            'no data movement between lanes'
            >>> print(db.chain("ldmatrix", "m16n8k16 f16 A", major="row").verdict)
            A of mma m16n8k16 f16 from a row-major tile of 16 rows of 32 bytes
            >>> [db.chain("ldmatrix", "m16n8k16 f16 A", pitch=128, swizzle=mode)[0].degree for mode in ("none", "128B")]
            [8, 1]
            >>> db.chain("m16n8k16 f32 D", "m16n8k16 f16 A").cpp().splitlines()[-2]
            '  a[3] = pack(d[1][2], d[1][3]);'

        Two operands give a ``Chain``, whose ``moves`` are every move. A single operand gives the ``Chains`` that move
        nothing between lanes: of a D all that it can feed, of an A, B or C every D that feeds it. With ldmatrix or
        ld.shared first, or stmatrix or st.shared second, the answer is ``Recipes``, one for each major of the tile in
        shared memory, with the ``addresses`` that lanes pass and the ``degree`` of the worst bank conflict. With
        ``through`` it is ``Through``: whether the second reads what the first writes to a tile in shared memory.
        ``cpp()`` of a chain or a recipe is a device function that does it, and through memory those of both ends.

            >>> db.chain("m64n128k16 f32 D", "m64n128k16 f16 A 64B.K", through="128B").verdict
            'm 0 k 32 is read where m 4 k 32 is written: both agree in 64B'

        Args:
            first: a D, or ``ldmatrix``.
            second: an A, B or C, or ``stmatrix``; or of all that one operand can be chained with, which, as a Query.
            transpose: take D transposed. By default, a single operand is chained with both.
            relabel: renumber K where that avoids movement between lanes.
            major: ``row`` or ``col``, of an operand that comes in both, or of the tile in memory. Default: both tiles.
            count: how many neighbours ldmatrix or stmatrix moves together, by default 1: of A along M, else along N.
                Their registers follow each other, so that one ``ldmatrix.x4`` loads two B of two registers.
            pitch: bytes from a line of the tile to the next. Default: as many as it has.
            swizzle: how the tile is swizzled: ``none``, ``32B``, ``64B`` or ``128B``.
            through: the same of a tile between both operands. Either may be a box of cp.async.bulk.tensor, and the
                second what a descriptor reads.
            vendor: that of both, where several have what is named.
            tiles: a ``tile`` of many instructions and its warps, of which each operand takes its own letters.
        """
        from .db.flow.chain import Chains, chain, operand, relabelled
        from .db.flow.recipe import MAJORS, recipes
        from .db.flow.through import matrix_move

        expect_names(tiles, Tiles.__annotations__)
        transpose, relabel, count = bool(transpose), bool(relabel), 1 if count is None else count
        moving = {"count": count != 1, "pitch": pitch is not None, "swizzle": swizzle is not None}
        if through is not None:
            no = {"relabel": relabel, "major": major, **moving, **tiles}
            if others := [name for name, given in no.items() if given]:
                raise LanemapError(f"{others[0]} is not for a chain through shared memory: leave it out", others[0])
            start, goal = (_query(named or Query(), vendor=vendor) for named in (first, second))
            if not (start.title and goal.title):
                raise LanemapError("name two operands, as in m64n64k16 f32 D m64n64k16 f16 A 128B.K")
            return self._through(start, goal, word("through", through) or "", transpose)
        start = _query(first, vendor=vendor).of_registers()
        goal = Query(vendor=vendor) if second is None else _query(second, vendor=vendor).of_registers()
        alone = goal.shape is None
        if not alone and (moved := matrix_move(start, goal)):
            if transpose or relabel:
                words = "transpose and relabel are for a D and an A or B: say of what major the tile in memory is"
                raise LanemapError(words, "major")
            majors = [word("major", major) or ""] if major else MAJORS
            number, width, mode = whole("count", count) or 0, whole("pitch", pitch), word("swizzle", swizzle)
            with self.reader.snapshot():
                return recipes(self.reader, moved[0], replace(moved[1], **tiles), majors, number, width, mode)
        if name := next((name for name, given in moving.items() if given), None):
            words = f"{name} is for what is loaded or stored: write ldmatrix before the operand, or stmatrix behind it"
            raise LanemapError(words, name)
        if any(tiles.values()):
            if alone:
                raise LanemapError("of a tile name both operands, as in m16n8k16 f32 D m16n8k16 f16 A", "tile")
            start, goal = replace(start, **tiles), replace(goal, **tiles)
        if alone and start.parameters()["role"] != "D":
            start = replace(start, major=major or start.major)
        else:
            goal = replace(goal, major=major or goal.major)
        with self.reader.snapshot():
            end = operand(self.reader, start)
            remarks = lookup.Fragments(start, [end]).remarks
            if alone:
                partners = lookup.every_operand(self.reader, replace(goal, source=start.source))
                if str(start.source).lower() != DEFAULT_SOURCE:
                    partners = [fragment for fragment in partners if fragment.source == end.source]
                listed = Chains.of(end, partners, (True,) if transpose else (False, True))
                listed.remarks = remarks if listed else []
                return listed.still(relabel=relabel)
            taken = operand(self.reader, goal)
            movable, moves = (self.operand(f"movmatrix m8n8 b16 {role}")[0] for role in "AD")
        remarks = [*dict.fromkeys([*remarks, *lookup.Fragments(goal, [taken]).remarks])]
        plain = replace(chain(end, taken, transposed=transpose), movmatrix=(movable, moves), remarks=remarks)
        return (relabelled(plain) if relabel else None) or plain

    def move(self, fragment: Fragment, major: str) -> Recipe:
        """How ldmatrix loads a fragment in hand from a tile in shared memory of this major, or stmatrix stores a D.

            >>> db.move(db.fragment("m16n8k16", "f16", "A"), "row").degree
            2

        By its name, of several and with a pitch see ``chain``.
        """
        from .db.flow.recipe import pairs, recipe

        name = "stmatrix" if fragment.role == "D" else "ldmatrix"
        query = Query(role="r", instruction=name, source=DEFAULT_SOURCE)
        return recipe(pairs(self.reader, query), fragment, major)

    def _through(self, first: Query, second: Query, mode: str, transposed: bool) -> Through:
        from .db.flow.recipe import pairs
        from .db.flow.through import end, through

        with self.reader.snapshot():
            ends = end(self.reader, first), end(self.reader, second)
            return through(*ends, mode, lambda name: pairs(self.reader, _query(name)), transposed=transposed)

    @staticmethod
    def descriptor(
        operand: Query | str, tile: str | None = None, *, decode: int | str | None = None
    ) -> Descriptor | Decoded | Written | InstructionDescriptor:
        """The matrix descriptor of an operand in shared memory, or what such a word reads, or what a tensor map writes.

            >>> hex(db.descriptor("m64n128k16 f16 B 128B.K", "n128k64").word)
            '0x4000004000400000'
            >>> db.descriptor("m64n128k16 f16 B 128B.K", "n128k64", decode=0x4000000800000000).verdict
            'columns 8 to 15 read what lies in columns 1 to 8: the stride byte offset is 128, it must be 1024'
            >>> db.descriptor("cp.async.bulk.tensor b16 128B", "m100n24").box.size
            12800
            >>> hex(db.descriptor("tcgen05.mma kind::f16 m128n256 f32 bf16 bf16").word)
            '0x8400490'
            >>> hex(db.descriptor("tcgen05.mma m128n256k16 bf16 B 128B.K", "n256k64").word)
            '0x4000404000400000'

        Args:
            operand: an A or B with its layout in shared memory: the swizzling mode, and along what its lines run. Or
                ``cp.async.bulk.tensor`` with a type and a swizzling mode. Or ``tcgen05.mma`` with a kind, a shape and
                the types of D, A and B, for the 32-bit instruction descriptor.
            tile: the tile that lies there: M or N, and K. Default: the smallest one. Or the box, rows M of elements N.
            decode: a descriptor, of which to say what it addresses; also as text, as in "0x4000004000400000".
        """
        from .db.flow import box, descriptor, instruction_descriptor

        query, number = _query(operand), None if decode is None else bit_word(decode, "a descriptor", 64)
        tile = None if tile is None else text("tile", tile)
        if query.role is None and instruction_descriptor.described(words := str(query.shape)):
            return instruction_descriptor.describe(words, number)
        if box.writes(query):
            if number is not None:
                raise LanemapError("no matrix descriptor writes a box: decode what wgmma reads")
            return box.describe(query, tile)
        if number is None:
            return descriptor.describe(query, tile)
        return descriptor.decode(number, query, tile)

    def terms(self, operand: Query | str, row: int, col: int) -> Terms:
        """What meets in an element of D: by k the slots of A and B, with metadata and scales, as lane:reg.slot.

            >>> db.terms("m16n8k16 f16", row=3, col=5).rows().records()[9]
            {'k': 9, 'A': '12:2.1', 'B': '20:1.1'}

        ``operand`` names the instruction by any name, with or without D.
        """
        from .db.flow.terms import terms

        with self.reader.snapshot():
            return terms(self.reader, _query(operand), whole("row", row) or 0, whole("col", col) or 0)

    def reduce(self, operand: Query | str, along: str = "row", **which: Unpack[Which]) -> Reduction:
        """Which lanes and registers share a row, or with ``along="col"`` a column, and how they reduce it.

            >>> found = db.reduce("m16n8k16 f32 D")
            >>> found.values, found.masks
            (((0, 1), (2, 3)), (1, 2))
            >>> db.reduce("m16n8k16 f32 D", tile="m64n64", warps="2x2").verdict
            '2 shuffles of each of 4 rows, then shared memory between warps'

        Each lane combines its elements of each of ``values``, and then each value with that of the lane that differs by
        each of ``masks``. ``warps`` are those that share a row, which only shared memory brings together. Where no
        masks do it, ``reason`` says why; ``rows()`` and ``frame()`` say who holds what in any case.
        """
        fragments = self.operand(operand, **which)
        fragment = fragments.expect_one("shape", "type", "source", "major", "selector", "qualifiers")[0]
        found: Reduction = fragment.reduced(along)
        return replace(found, remarks=fragments.remarks)

    def blame(
        self,
        operand: Query | str,
        actual: ArrayLike,
        *,
        a: ArrayLike | None = None,
        b: ArrayLike | None = None,
        c: ArrayLike | None = None,
        e: ArrayLike | None = None,
        sfa: ArrayLike | None = None,
        sfb: ArrayLike | None = None,
        expected: ArrayLike | None = None,
        accumulator: str | None = None,
        **which: Unpack[Which],
    ) -> Blame:
        """Which single exchange of registers, lanes, slots, rows and so on, transposition or offset explains a wrong D.

            >>> import numpy as np
            >>> a, b = np.arange(256).reshape(16, 16) % 11, np.arange(128).reshape(16, 8) % 7
            >>> held = np.block([[a[:8, :8], a[8:, :8]], [a[:8, 8:], a[8:, 8:]]])
            >>> db.blame("m16n8k16 f16", held @ b, a=a, b=b).causes[0].words
            'registers 1 and 2 of A were exchanged'
            >>> both, swapped = np.concatenate([a, held]), np.concatenate([held, a])
            >>> db.blame("m16n8k16 f16", swapped @ b, a=both, b=b, tile="m32n8", warps="2x1").causes[0].words
            'warps 0 and 1 of A were exchanged'

        ``operand`` names the instruction, as for ``terms``. ``actual`` is the D that came out, and ``expected`` what it
        should be, where that is not A x B + C. Arrays have the rows and columns of their operands, after the
        computations where there are several. Integers stand for themselves; unsigned ones of an operand of a
        floating-point type are its bits, as uint16 for bf16. A sparse A has what is stored of it, and ``e`` the index
        of each stored element in its chunk, 0 to 3 of four columns. ``accumulator`` is the type of C and D, by default
        that of ``actual``, or the widest. Integers are compared exactly, other numbers as exactly as their types allow.
        """
        from .db.flow.blame import blame

        given = {"A": a, "B": b, "C": c, "E": e, "SFA": sfa, "SFB": sfb}
        with self.reader.snapshot():
            return blame(self.reader, _query(operand, **which), given, actual, expected, accumulator)

    def draw(
        self,
        shape: str,
        type: str | None = None,
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

            >>> db.draw("m16n8k16", "f16", accumulator="f32").save("product.svg")

        The picture has ``svg()``, ``png()``, ``pdf()`` and ``save(path)``, and shows itself in a notebook.

        ``accumulator`` is the type of C and D of a whole instruction, by default the widest. ``diff`` names two sources
        to mark where they differ. Only ``lanes`` and ``values``, as in ``T0:{a0,a1}``, are coloured, and ``ptx`` labels
        cells in that style. ``whole`` is all of a large operand, not only what repeats, as a tile always is: thick
        lines are between its warps.
        """
        from .db.render.picture.compose import draw
        from .db.render.picture.grid import View

        query = Query.of(shape, type, role, **which)
        coloured = tuple(arguments.whole("lane", lane) or 0 for lane in one_or_several(lanes))
        view = View(coloured, values and text("values", values), ptx, whole or query.tile is not None, title)
        sides = None if diff is None else [text("source", name) for name in one_or_several(diff)]
        return draw(self.reader, query, view, f"Drawn by lanemap {__version__}", accumulator, sides)

    def export(
        self,
        output: str | PathLike[str] | IO[bytes] | None = None,
        *,
        format: str | None = None,
        query: Query | str | Sequence[Query | str] = (),
        **which: Unpack[Which],
    ) -> Export:
        """Write layouts as a table, or in another toolchain's notation.

            >>> db.export(format="cute", query="m16n8k16 bf16 B").text.splitlines()[-4]
            'using mma_m16n8k16_bf16_b = Layout<Shape <Shape <_4,_8>,Shape <_2,_2>>,'
            >>> _ = db.export("b.parquet", query=lanemap.Query("m16n8k16", "bf16", "B", "mma"))

        What comes back has the text of a notation, and why each fragment that is not in it was refused.

        Args:
            output: a file that appears whole or not at all, a binary stream, or for ``dataset`` a folder. A notation
                needs none.
            format: ``parquet``, ``csv``, ``arrow``, ``jsonl`` or ``dataset``, or one of ``lanemap.NOTATIONS``. Default:
                by the ending of ``output``.
            query: one or several. Default: all. Unless it names a source, or ``all``, it is what look-ups answer.
                Words, such as ``"m16n8k16 bf16 B"``, mean the dense instruction where there is one.
            which: what they do not say, as in ``tile="m64n64"``.
        """
        from .db.render.notation import NOTATIONS, Export, export
        from .db.store.files import opened

        form = str(format)
        if form not in NOTATIONS:
            from .db.store.export import WRITERS, layout_table, table_format, write_dataset

            form = table_format(output, format, NOTATIONS)
        requests = one_or_several(query) or [Query()]
        if isinstance(output, str) and len(words := output.split()) > 1 and all(map(Query.begins, words)):
            raise LanemapError(f"{output!r} is an operand, and no file to write: query={output!r} exports it", "output")
        # What may not be written is refused before anything is read.
        with opened(BytesIO() if output is None or form == "dataset" else output) as file, self.reader.snapshot():
            queries = [(self.prefer_dense if isinstance(item, str) else _query)(item, **which) for item in requests]
            every = lookup.read_fragments(self.reader, *queries)
            selected = lookup.with_rows(self.reader, every)
            if form in NOTATIONS:
                exported = export(every, form, __version__)
                exported.write(file)
                return exported
            if form == "dataset" and isinstance(output, str | PathLike):
                write_dataset(self.reader, selected, Path(output), __version__)
            else:
                WRITERS[form](layout_table(self.reader, selected, __version__), file)
            return Export("", [])

    def trace(
        self,
        kernel: Any,
        arguments: Mapping[str, Any] | Sequence[str] = (),
        product: str | None = None,
        *,
        args: str | PathLike[str] | None = None,
        block: int | str | Sequence[int] | None = None,
        grid: int | str | Sequence[int] | None = None,
        shared: int | None = None,
        entry: str | None = None,
        source: str | None = None,
        seed: int | None = None,
        save: str | None = None,
        files: bool = True,
        progress: Callable[[int, int], object] | None = None,
    ) -> Trace:
        """Run a kernel on simulated threads, and say which elements its registers hold that they must not.

            >>> db.trace(".visible .entry idle() { ret; }", block=32).ok
            True

        Args:
            kernel: PTX as text or in a file, or what Triton compiles, which says the block and the shared memory.
            arguments: in the order of the parameters, as in ``["A=f16[32,64]", "n=64"]``; or by name, where values may
                also be arrays and numbers.
            product: what the last array must be, in index notation: ``"C[m,n] = A[m,k] B[n,k]"``.
            args: a TOML file that has the arguments in a table ``args``, and the rest, each by its name. What is also
                given here takes the place of what it says.
            block: threads of a block, one number or up to three, also as in ``"32,4"``; ``grid`` are the blocks.
            shared: bytes of dynamic shared memory.
            entry: the kernel, where the text has several.
            source: whose layouts tensor instructions have; by default ``best``.
            seed: where the random integers begin that arrays without values hold.
            save: what to call the source that is stored of it: what the operands of every ``mma`` hold. Where
                executions contradict each other there are several, as in ``gemm:mma 3 warp 0``. It judges nothing.
            files: whether the kernel and its arguments may name files.
            progress: called with how many blocks have ended, of how many.
        """
        from .capture.machine import arguments as given
        from .capture.machine import settings, trace

        if save is not None:
            self._expect_trace(save)
        beside = None if args is None else named_file(args, "a file such as gemm.trace.toml")
        written = settings.Settings() if beside is None else settings.read(beside)
        parsed = {name: given.parse(text, beside and beside.parent) for name, text in written.arguments.items()}
        made = trace.compiled(kernel, files=files)

        def chosen(*values: Any) -> Any:
            return next((value for value in values if value is not None), None)

        if (threads := chosen(block, written.block, made.threads)) is None:
            raise LanemapError("say how many threads a block has, as in 128", "block")

        whose = chosen(source, written.source, DEFAULT_SOURCE)
        if str(whose).lower() != DEFAULT_SOURCE:
            whose = self._source_name(whose)

        x, y, z = _extents("grid", chosen(grid, written.grid, 1))

        @cache
        def layouts(key: Key) -> Fragment:
            which = {name: value for name, value in key._asdict().items() if name not in ("shape", "type", "role")}
            return self.operand(Query.of(key.shape, key.type, key.role, source=whose, **which))[0]

        found = trace.trace(
            made.text,
            layouts,
            given.named(arguments, made.types, parsed, Path() if files else None),
            block=_extents("block", threads),
            grid=(x * made.cluster, y, z),
            shared=_number("shared", chosen(shared, written.shared, made.shared, 0)),
            entry=chosen(entry, written.entry),
            formula=chosen(product, written.product),
            seed=_number("seed", chosen(seed, written.seed, 0)),
            file=made.file,
            progress=progress,
        )
        if save is None:
            return found
        if sources := found.sources(save):
            for earlier in self._expect_trace(save):
                self.remove(earlier)
            self.add(sources)
        names = ", ".join(source.name for source in sources)
        said = f"saved: {names}" if names else "saved: nothing, as no operand could be followed"
        return replace(found, notes=(*found.notes, said))

    def _expect_trace(self, name: str) -> Sequence[str]:
        """The sources that were stored of a kernel. Raises LanemapError where one is no trace, or ships."""
        check_name(name)
        if _ships(name):
            raise LanemapError(f"{name} is the name of a source that Lanemap ships: choose another name", "save")
        kinds = dict(self.select("SELECT name, kind FROM source").rows)
        earlier = [known for known in kinds if known.lower().partition(":")[0] == name.lower()]
        if any(kinds[known] != "trace" for known in earlier):
            raise LanemapError(f"{name} is no trace: choose another name, or remove it first", "save")
        return earlier

    def decode(
        self,
        operand: Query | str,
        words: Sequence[int | str],
        *,
        selector: int | None = None,
        source: str | None = None,
    ) -> Metadata:
        """The columns of a sparse A that metadata chooses.

            >>> metadata = db.decode("m16n8k16 f16", [0xE4E4E4E4], selector=0).frame()
            >>> metadata.head(2).values.tolist()
            [[0, 0, 0, 0, 0], [0, 0, 1, 0, 1]]

        ``operand`` names the instruction, as for ``show``; ``words`` are 32 bits of metadata of each thread, or of all.
        The source is by default the most trustworthy one that has the elements of both A and E.
        """
        from .db.flow.metadata import from_words, operands

        given = [*map(bit_word, one_or_several(words))]
        return from_words(given, *operands(self.reader, _sparse(operand, selector, source)))

    def encode(
        self,
        operand: Query | str,
        columns: Mapping[tuple[int, int, int], int],
        *,
        selector: int | None = None,
        source: str | None = None,
    ) -> Metadata:
        """The metadata that chooses a column for each (lane, reg, slot) of a sparse A. See ``decode``.

        >>> columns = metadata.set_index(["lane", "reg", "slot"]).col.to_dict()
        >>> hex(db.encode("m16n8k16 f16", columns, selector=0).words[0])
        '0xe4e4e4e4'
        """
        from .db.flow.metadata import from_columns, operands

        if not isinstance(columns, dict):
            words = "write it like {(0, 0, 0): 1}, by lane, reg and slot"
            raise LanemapError(f"columns {columns!r} is no dictionary: {words}")
        return from_columns(columns, *operands(self.reader, _sparse(operand, selector, source)))

    def add(
        self, sources: Sequence[Source], *, progress: Callable[[Source], object] | None = None, replacing: bool = True
    ) -> Sequence[str]:
        """Load captures or imports; the names of those that were loaded.

        Earlier ones of the same names are replaced, or left where not ``replacing``. Those that ship are not replaced.

        >>> from dataclasses import replace
        >>> db.add([replace(lanemap.read_file("b.parquet"), name="mine too")])
        ['mine too']
        """
        from .db.store.store import load

        added = one_or_several(sources)
        for source in added:
            check_names(source)
            if _ships(source.name):
                words = f"{source.name} is the name of a source that Lanemap ships: choose another name"
                raise LanemapError(words, "name")
        return load(self.location, added, progress, replacing=replacing)

    def add_capture(self, source: Source, *, own_name: bool = False) -> Source:
        """Load a capture, with ``-own`` after a name that Lanemap ships, unless ``own_name`` says it was chosen.

        >>> db.add_capture(replace(lanemap.read_file("b.parquet"), name="h200-sm_90a")).name
        'h200-sm_90a-own'
        """
        if not own_name and _ships(source.name):
            # The run that ships is there to be compared with this one.
            source = replace(source, name=f"{source.name}-own")
        self.add([source])
        return source

    def import_layouts(
        self,
        kind: str,
        path: str | PathLike[str] | None = None,
        *,
        name: str | None = None,
        python: str | None = None,
        progress: Callable[[Source], object] | None = None,
    ) -> Sequence[Imported]:
        """Load a capture file, or another toolchain's layouts. A source of the same name is replaced.

            >>> [(each.source.name, each.rows) for each in db.import_layouts("table", "b.parquet", name="mine")]
            [('mine', 128)]

        What was left out of a source comes back with the reason.

        ``kind`` is ``capture``, ``cute``, ``python`` or ``table``, and ``path`` a capture file, a
        CUTLASS source tree or header, a mapping, or a CSV, Parquet or Arrow file. The source gets a ``name`` of its own
        unless one is given. ``python`` is the Python that has the library of a mapping, by default this one.
        ``progress`` is called with each source before it is loaded.

        A mapping names its sources after a library. Where a source from elsewhere has such a name, the mapping is
        refused without a ``name`` of its own.
        """
        from .capture import recording
        from .ingest.importing import Imported, read

        if name is not None:
            check_name(name)
        if kind == "capture":
            if path is None:
                raise LanemapError("name a capture file", "path")
            if python is not None:
                raise LanemapError("capture takes no python: leave it out")
            imports: Sequence[Imported] = [Imported(recording.read(named_file(path, "a capture file"), name))]
        else:
            file = None if path is None else str(named_file(path, "what is to be imported"))
            imports = read(kind, file, name, None if python is None else text("python", python), self._run_kernel)
            if kind == "python" and name is None:
                self._expect_no_other([imported.source for imported in imports])
        self.add([imported.source for imported in imports], progress=progress)
        return imports

    def _run_kernel(self, kernel: Any, how: Any) -> tuple[Sequence[Sequence[Fragment]], Sequence[str]]:
        """What the operands of a library's kernel hold, by execution, and what is wrong with it. See ``trace``."""
        args = {name: str(value) for name, value in how.args.items()}
        found = self.trace(
            kernel.ptx, args, how.product, block=kernel.block, shared=kernel.shared, grid=how.grid, files=False
        )
        words = [finding.words for finding in found.findings]
        return [held for *_, held in found.judge.held()], words if found.checked else [*words, *found.notes]

    def _expect_no_other(self, sources: Sequence[Source]) -> None:
        """Refuse sources of a mapping whose names are those of sources from elsewhere."""
        import json

        rows = self.select("SELECT name, provenance FROM source").rows
        known = {name: json.loads(said or "{}") for name, said in rows}
        for source in sources:
            mapping, its = source.provenance["mapping"], known.get(source.name, source.provenance)
            # Older versions did not note which mapping it was.
            other = its.get("mapping", mapping if "set" in its else "another import")
            if source.name in known and other != mapping:
                words = f"{source.name} is from {other} already: give this one another name, or remove that one first"
                raise LanemapError(words, "name")

    def ingest(
        self,
        *documents: str | PathLike[str],
        name: str | None = None,
        progress: Callable[[Source], object] | None = None,
    ) -> Sequence[Reading]:
        """Read PTX documentation, as in ``db.ingest("ptx-isa.html")``, and load it as sources.

        It is HTML, Markdown or plain text, in files or folders. ``name`` is by default after the version that it says
        it is of. What comes back has remarks on what could not be read; a source without fragments is not loaded.
        """
        from .ingest.document import read

        if name is not None:
            check_name(name)
        if not documents:
            raise LanemapError("name the documents: HTML, Markdown or plain text files, or folders of them")
        pages = [named_file(document, "a page of the PTX documentation, or a folder of them") for document in documents]
        readings = read(pages, name)
        if sources := [reading.source for reading in readings if reading.source.fragments]:
            self.add(sources, progress=progress)
        return readings

    def refresh(self, *, progress: Callable[[Source], object] | None = None) -> None:
        """Load the sources that Lanemap ships again, ``db.refresh()``; other sources stay."""
        from .db.store.store import ship

        ship(self.location, _shipped, program_digest(), again=True, progress=progress)
        self.stale = False

    def remove(self, source: str) -> None:
        """Remove a source that was added; those that ship stay.

        >>> db.remove("mine")
        """
        from .db.store.store import remove

        source = text("source", source)
        if _ships(source):
            raise LanemapError(f"{source} ships with Lanemap: only what was added can be removed")
        remove(self.location, source)

    def capture(
        self,
        instruction: str | None = None,
        shape: str | None = None,
        type: str | Sequence[str] | None = None,
        *,
        device: int = 0,
        name: str | None = None,
        progress: Callable[[Outcome], object] | None = None,
    ) -> Source:
        """Measure layouts on a GPU of this machine, ``db.capture("mma.sp")``, and load them. See ``measure``."""
        source = measure(instruction, shape, type, device=device, name=name, progress=progress)
        return self.add_capture(source, own_name=name is not None)

    def names(self, column: str, shape: str | None = None) -> Sequence[str]:
        """The values of ``shape``, ``type``, ``role`` or ``instruction`` that fragments have, or each ``source``.

        >>> db.names("role", "m16n8k64")
        ['A', 'B', 'C', 'D', 'E', 'SFA', 'SFB']
        """
        return lookup.names(self.reader, column, shape)

    @property
    def documents(self) -> Sequence[str]:
        """The document of each vendor that answers first: its highest version, corrected.

        >>> db.documents
        ['ptx-isa-9.4+errata']
        """
        return [*lookup.documents(lookup.by_trust(self.reader)).values()]

    def following(self, words: Sequence[str]) -> Sequence[str]:
        """The words that may follow those of a request.

        >>> db.following(["m16n8k8", "bf16"])
        ['A', 'B', 'C', 'D']
        """
        return lookup.following(self.reader, words)

    def close(self) -> None:
        """Release the connection. A closed database answers nothing more."""
        self.reader.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(url: str | PathLike[str] | None = None, *, progress: Callable[[Source], object] | None = None) -> Database:
    """Open a database; build it first, with all that Lanemap ships, where there is none yet.

    ``url`` is a SQLite file, ``sqlite:///FILE`` or ``postgresql://...``; by default the variable LANEMAP_DB, or else a
    file in the user's data directory, which is also brought up to date when Lanemap is. ``progress`` is
    called with each source before it is loaded, if the database has to be built.
    """
    location = locate(url)
    built = state(location)
    shipped = program_digest()
    if built is None or (location.default and built != shipped):
        from .db.store.store import ship

        ship(location, _shipped, shipped, progress=progress)
        if built is None and location.earlier:
            files = " and ".join(map(str, location.earlier))
            warn(f"what was added to {files}, of another version of Lanemap, is not here: add it again", stacklevel=2)
        built = shipped
    return Database(location, stale=built != shipped)


def existing() -> Database | None:
    """The database that commands use by default, where there is one already."""
    location = locate()
    return None if state(location) is None else Database(location)


def read_file(path: str | PathLike[str]) -> Source:
    """The layouts in a capture file, or in a CSV, Parquet or Arrow table of one source."""
    from .capture import recording
    from .ingest.table import load

    file = named_file(path, "a capture, or a CSV, Parquet or Arrow file")
    if recording.is_capture(file):
        return recording.read(file)
    sources = [imported.source for imported in load(file)]
    if len(sources) > 1:
        names = ", ".join(source.name for source in sources)
        raise LanemapError(f"{path} holds the sources {names}: export one of them with --source, or import the file")
    return sources[0]


def _draw(fragment: Fragment, **how: Any) -> Picture:
    """Its picture. See ``View`` for how it can be drawn, as in ``draw(lanes=[13])``."""
    from .db.render.picture.compose import operand
    from .db.render.picture.grid import View

    fragment.expect_rows()
    return operand([fragment], View(**{"whole": fragment.tiling is not None, **how}))


def _text(fragments: Fragments, room: int = 80, *, by: str = "element", whole: bool = False) -> str:
    """Each fragment as ``lanemap show`` draws it, ``by`` element or lane, in lines no longer than ``room``."""
    from .db.render import terminal

    written = StringIO()
    terminal.show(fragments, by, room, whole=whole, file=written)
    return written.getvalue()


def _reduced(fragment: Fragment, along: str = "row") -> Reduction:
    """How each row, or each ``col``, of it becomes one value. See ``Database.reduce``."""
    from .db.flow.reduction import LINES, reduction

    if along not in LINES:
        raise LanemapError(f"{along!r} is neither row nor col: say which becomes one value", "along")
    return reduction(fragment, along)


def _tiled(
    fragment: Fragment,
    tile: str | None,
    warps: str | None = None,
    order: str | None = None,
    contiguous: bool | None = None,
) -> Fragment:
    """The operand of a tile of many such instructions over several warps, as ``Tiling`` describes one.

    Without a tile it is this one.

    Raises:
        LanemapError: see ``tile.tiled``.
    """
    tiling = Tiling.of(tile, warps, order, contiguous)
    return tiled(fragment, tiling) if tiling else fragment


Fragment.draw = _draw
Fragment.reduced = _reduced
Fragment.tiled = _tiled
# A notebook shows the name of a figure-only one.
Fragment._repr_html_ = lambda fragment: _draw(fragment)._repr_html_() if fragment.has_rows else None
Fragments.text = _text
Fragments._repr_html_ = lambda fragments: "".join(filter(None, (each._repr_html_() for each in fragments))) or None


def _cpp(answer: Told) -> str:
    """A chain or a recipe as a C++ device function."""
    from .db.render.notation.function import code

    return code(answer)


Told.cpp = _cpp


def _query(operand: Query | str, **which: Unpack[Which]) -> Query:
    query = _parsed(operand, **which)
    return query if query.source is not None else replace(query, source=DEFAULT_SOURCE)


def _compared(operand: Query | str) -> Query:
    return Query.compared(operand) if isinstance(operand, str) else _parsed(operand)


def _sparse(operand: Query | str, selector: int | None, source: str | None) -> Query:
    """An instruction whose metadata is asked for, by default in any source."""
    return replace(_parsed(operand, selector=selector, source=source), role=None)


def _parsed(operand: Query | str, **which: Unpack[Which]) -> Query:
    expect_names(which, Which.__annotations__)
    if isinstance(operand, str):
        return Query.parse(operand, **which)
    if not isinstance(operand, Query):
        raise LanemapError(f"{operand!r} names no operand: write it like 'm16n8k16 f32 D'")
    more: dict[str, Any] = {name: value for name, value in which.items() if value is not None}
    return replace(operand, **more)


def _extents(name: str, given: Any) -> tuple[int, int, int]:
    """Three extents, of which those that are not named are 1; as text they have commas between them."""
    given = given.tolist() if hasattr(given, "tolist") else given
    several = given.split(",") if isinstance(given, str) else given
    named = several if isinstance(several, list | tuple | range) else [several]
    numbers = [_number(name, each) for each in named]
    if not 1 <= len(numbers) <= 3:
        raise LanemapError(f"{name} {numbers}: give one to three numbers", name)
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


def _number(name: str, given: Any) -> int:
    """A whole number, which may also be a float or text."""
    written = isinstance(given, str) and len(given) < 20 and given.strip().isdecimal()
    if written or (isinstance(given, float) and given.is_integer()):
        given = int(given)
    return whole(name, given) or 0


def trace(
    kernel: Any, arguments: Mapping[str, Any] | Sequence[str] = (), product: str | None = None, **how: Any
) -> Trace:
    """Run a kernel on simulated threads with the layouts of the default database. See ``Database.trace``."""
    with open() as database:
        return database.trace(kernel, arguments, product, **how)


#: Most processes that measure, and how many instructions are too few for them.
_PROCESSES, _FEW = 12, 100


def measure(
    instruction: str | None = None,
    shape: str | None = None,
    type: str | Sequence[str] | None = None,
    *,
    device: int = 0,
    name: str | None = None,
    progress: Callable[[Outcome], object] | None = None,
    processes: int | None = None,
    ptxas: str | None = None,
) -> Source:
    """Measure layouts on a GPU of this machine: a source whose provenance says what became of each instruction.

    ``instruction`` is a name or a pattern of whole mnemonics such as ``*.b1.*``, ``type`` that of A, one or several; by
    default all are measured. The source is called after the GPU of the number ``device``, unless it gets a ``name``.
    ``progress`` is called with the result of each instruction. ``processes`` is how many measure for this one on the
    same GPU; by default one for each core, twelve at most, and none for a few instructions.
    ``ptxas`` is a program that assembles what the driver's compiler does not take.
    """
    from .capture.context import open_gpu
    from .capture.run import capture

    def documented() -> Mapping[Key, Fragment]:
        """What names rows and columns, which no product can tell."""
        from .ingest.catalogue import documented

        return documented()

    if name is not None:
        check_name(name)
    selected = forms(instruction, shape, type)
    if processes is None:
        processes = min(_PROCESSES, os.cpu_count() or 1) if len(selected) >= _FEW else 0
    open_device = partial(open_gpu, device, ptxas, os.getpid())
    return capture(open_device, documented, selected, progress, name, __version__, processes)


def shipped_mappings() -> Rows:
    """The mappings of Python libraries that ship, by the names that ``import_layouts`` takes, a row each."""
    from .ingest.python.mapping import shipped

    rows = [(mapping.path.stem, mapping.library, mapping.package, " ".join(mapping.seen)) for mapping in shipped()]
    return Rows(("mapping", "library", "package", "seen"), rows)


def shipped_captures() -> Mapping[str, Source]:
    """The capture that ships of each architecture, such as ``sm_90a``; of several that which answers."""
    from .capture.recording import read
    from .db.isa.vendors import VENDORS

    first = {vendor.capture for vendor in VENDORS.values()}
    files = {file.stem.rpartition("-")[2]: file for file in sorted(_recordings(), key=lambda file: file.stem in first)}
    return {target: read(file) for target, file in files.items()}


def write_capture(source: Source, path: str | PathLike[str]) -> None:
    """Write a capture to a file that stands alone, whole or not at all. ``read_file`` reads it."""
    from .capture.recording import write

    write(source, named_file(path, "a capture file"))


def shipped_names() -> set[str]:
    """The names of the sources that Lanemap ships, which can neither be replaced nor removed."""
    from .ingest import names

    return {*names(), *(file.stem for file in _recordings())}


def _ships(name: str) -> bool:
    """Whether a source of this name ships, in any case."""
    return name.lower() in {source.lower() for source in shipped_names()}


def _shipped() -> Iterator[Source]:
    """Every document of the catalogue twice, as printed and with its errata, every library, and every recording."""
    from .capture.recording import read
    from .ingest import names
    from .ingest.catalogue import document

    yield from map(document, names())
    yield from map(read, _recordings())


def _recordings() -> list[Path]:
    return sorted((_FOLDER / "capture" / "recordings").glob("*.parquet"))


@cache
def program_digest() -> str:
    """A digest of every file of the package: what it ships, and the code that evaluates, stores and shows it."""
    digest, root = sha256(__version__.encode()), str(_FOLDER)
    for folder, folders, files in os.walk(root):
        folders[:] = sorted({*folders} & {*_PARTS} if folder == root else {*folders} - {"__pycache__"})
        for name in sorted(name for name in files if folder != root or name.endswith(".py")):
            path = f"{folder}/{name}"
            with FileIO(path) as stream:  # there are hundreds, and each look-up waits for them
                digest.update(f"\0{path.removeprefix(root)}\0".encode() + stream.read())
    return digest.hexdigest()


def _with_selector(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame whose selectors are whole numbers, or missing."""
    return frame.astype({"selector": "Int64"})
