"""Writing: building a database and loading sources into it. Each load is one transaction, all or nothing."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from operator import attrgetter
from typing import Any
from zlib import compress

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..errors import AbsentError, LanemapError, UnavailableError, validated
from ..heap import uncollected
from ..isa.forms import forms
from ..isa.instructions import INSTRUCTIONS, Key, dimensions, instruction
from ..isa.not_found import source_names
from ..isa.spelling import atom, opcode
from ..layout.fragment import Citation, Element, Fragment, Source, check_names
from ..layout.structure import check, expected
from .connection import busy, connected, recover, wait_for_lock
from .integrity import SEALED, rows_sum, seal, seals
from .location import SCHEMA_VERSION, Location
from .repetition import Extent, extents, lenders, whole
from .schema import INDEXES, definitions

Progress = Callable[[Source], object]

#: A connection of ``sqlite3`` or ``psycopg``, on which nothing is committed but by a statement.
Connection = Any

#: The advisory lock of every writer: any number, as long as all versions of Lanemap use the same one.
_LOCK = 0x4C414E45

#: Of a statement; older versions of SQLite allow 999.
_VARIABLES = 512

#: Of ``element`` that are Python's numbers at once: a multiple of the rows of a statement.
_ROWS = 1 << 14

#: The columns of tables that are filled here, but for the number that each row gets.
_MAPPING = "mapping (digest, elements, registers, cols, times, width, rows_of, rows_sum)"
_FRAGMENT = (
    *("source_id", "mapping_id", "citation_id", "instruction", "shape", "type", "role", "major", "selector"),
    *("qualifiers", "rows", "cols", "threads", "registers", "register_bits", "slots", "slot_bits", "first_bit"),
    *("status", "seal"),
)
_ELEMENT = f"element (mapping_id, {', '.join(Element._fields)})"
_INSTRUCTION = "instruction (name, vendor, threads, moves, sparse)"

_LONGEST_PROVENANCE = 1 << 20


def ship(
    location: Location,
    sources: Callable[[], Iterable[Source]],
    shipped: str,
    *,
    again: bool = False,
    progress: Progress | None = None,
) -> None:
    """Make the database if it does not exist, and load ``sources`` unless it was already built from the same ones.

    Safe while others do the same: one builds, the rest wait and find it done. Other sources in it stay.

    Args:
        location: the database.
        sources: returns the sources; called only if they must be loaded.
        shipped: the digest of the program that makes ``sources``.
        again: load them even if they are there.
        progress: called with each source before it is loaded.
    """
    if file := location.file:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LanemapError(
                f"cannot make the folder {file.parent}: {error.strerror}: name another database"
            ) from None
    with uncollected(), _transaction(location, "rwc") as connection:
        tables = _tables(connection)
        if "meta" not in tables:
            if tables:
                raise LanemapError(f"{location} holds tables that are not Lanemap's: name another database")
            for statement in definitions(server=location.file is None):
                _run(connection, statement)
        elif not again and _meta_value(connection, "shipped") == shipped:
            return
        _write_forms(connection)
        _load(connection, sources(), progress)
        _write_meta(connection, {"schema": str(SCHEMA_VERSION), "shipped": shipped})


def load(
    location: Location, sources: Iterable[Source], progress: Progress | None = None, *, replacing: bool = True
) -> list[str]:
    """Load sources into an existing database; returns the names of those that were loaded.

    A source of the same name is replaced, or kept if not ``replacing``.
    """
    with _transaction(location) as connection:
        present = {name for (name,) in _run(connection, "SELECT lower(name) FROM source")}
        loaded = [new for new in sources if replacing or new.name.lower() not in present]
        if loaded:
            _load(connection, loaded, progress)
    return [new.name for new in loaded]


def remove(location: Location, name: str) -> None:
    """Remove a source from an existing database.

    Raises:
        AbsentError: it has no source of this name.
    """
    with _transaction(location) as connection:
        if not _delete(connection, name):
            names = [name for (name,) in _run(connection, "SELECT name FROM source ORDER BY id")]
            raise AbsentError(f"no source {name or repr(name)}: {source_names(name, names)}")
        _finish(connection)


def _delete(connection: Connection, name: str) -> int:
    """Delete a source, whatever the case of its name; returns how many there were."""
    return int(_run(connection, "DELETE FROM source WHERE lower(name) = lower(?)", name).rowcount)


def _meta_value(connection: Connection, key: str) -> str | None:
    found: tuple[str] | None = _run(connection, "SELECT value FROM meta WHERE key = ?", key).fetchone()
    return found and found[0]


@contextmanager
def _transaction(location: Location, mode: str = "rw") -> Iterator[Connection]:
    """A transaction that excludes other writers from its first statement on. Mode ``rwc`` makes the file if need be.

    Raises:
        LanemapError: an error of the database.
    """
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    lost: tuple[type[Exception], ...] = ()
    if location.file is None:
        import psycopg

        errors, lost = (psycopg.Error,), (psycopg.OperationalError,)
    try:
        with closing(_opened(location, mode)) as connection:
            if location.file is not None:
                _run(connection, "PRAGMA foreign_keys = ON")
                # Makes commits durable: otherwise a deleted journal may reappear after a power failure.
                wait_for_lock(lambda: _done(connection, "PRAGMA synchronous = EXTRA"), location)
                # Otherwise what does not fit into the cache is written early, and readers must wait until the end.
                _run(connection, "PRAGMA cache_spill = OFF")
                # What is sorted, and what a statement of many rows would restore, is small: no file is written for it.
                _run(connection, "PRAGMA temp_store = MEMORY")
                # ANALYZE need not read all rows of an index: the elements of all layouts are alike.
                _run(connection, "PRAGMA analysis_limit = 1000")
                wait_for_lock(lambda: _done(connection, "BEGIN IMMEDIATE"), location)
            else:
                _run(connection, "BEGIN")
                locked = f"SELECT pg_try_advisory_xact_lock({_LOCK})"
                wait_for_lock(lambda: bool(_run(connection, locked).fetchone()[0]), location)
            yield connection
            wait_for_lock(lambda: _done(connection, "COMMIT"), location)
    except errors as error:
        kind = UnavailableError if isinstance(error, lost) else LanemapError
        raise kind(_in_words(error, location)) from None


def _opened(location: Location, mode: str) -> Connection:
    """A connection that does not begin transactions itself."""
    if (file := location.file) is not None:
        recover(file)
        address = f"{file.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)
    connection = connected(location)
    connection.autocommit = True
    return connection


def _in_file(connection: Connection) -> bool:
    return isinstance(connection, sqlite3.Connection)


def _run(connection: Connection, statement: str, *values: Any) -> Any:
    """The cursor of a statement, in which each ``?`` stands for a value."""
    return connection.execute(_spelled(connection, statement), values)


def _run_each(connection: Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """Run a statement with the values of each row."""
    connection.cursor().executemany(_spelled(connection, statement), rows)


def _spelled(connection: Connection, statement: str) -> str:
    return statement if _in_file(connection) else statement.replace("?", "%s")


def _done(connection: Connection, statement: str) -> bool:
    """Whether a statement was executed, not stopped by a lock."""
    try:
        _run(connection, statement)
    except sqlite3.Error as error:
        if not busy(error):
            raise
        return False
    return True


def _in_words(error: Exception, location: Location) -> str:
    """A database's error as one line."""
    reason = location.without_secrets(str(error).strip().splitlines()[0])
    if "not a database" in reason:
        return f"{location} is not a Lanemap database: name another file"
    if "unable to open" in reason or "readonly" in reason:
        return f"cannot write {location}: {reason}: name a file that can be written"
    return f"{location}: {reason}"


def _tables(connection: Connection) -> list[str]:
    """The tables of the schema in which new ones are made, not of other visible schemas of the server."""
    return [name for (name,) in _run(connection, _NAMES[_in_file(connection)])]


_NAMES = {
    True: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'",
    False: "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()",
}


def _load(connection: Connection, sources: Iterable[Source], progress: Progress | None) -> None:
    checked: dict[object, list[str]] = {}
    for source in sources:
        check_names(source)
        if progress:
            progress(source)
        _replace(connection, source, checked)
    for index in INDEXES:
        _run(connection, index)
    _finish(connection)
    # Without statistics the planner does not use the index to look up a cell.
    _run(connection, "ANALYZE")


def _replace(connection: Connection, new: Source, checked: dict[object, list[str]]) -> None:
    """Store a source in place of that of its name. ``checked`` has what was found in layouts of the same load."""
    _delete(connection, new.name)
    values = new.name, new.kind, new.title, provenance(new)
    stored = "INSERT INTO source (name, kind, title, provenance) VALUES (?, ?, ?, ?) RETURNING id"
    ((source_id,),) = _run(connection, stored, *values).fetchall()
    if not new.fragments:
        return
    mappings = _store_elements(connection, new.fragments)
    cited = {citation: _words(citation) for citation in dict.fromkeys(one.citation for one in new.fragments)}
    citations = _store_citations(connection, cited.values())
    names = _run(connection, "SELECT DISTINCT instruction FROM fragment")
    spelt = {name.lower(): name for (name,) in names}  # one instruction is spelt alike in all sources
    own = [name for name in SEALED if name not in ("rows", "cols", "citation")]
    values_of, rows = attrgetter(*own), []
    for fragment in new.fragments:
        row = dict(zip(own, values_of(fragment), strict=True))
        row["rows"], row["cols"] = fragment.dimensions
        row |= {"source": new.name, "citation": cited[fragment.citation]}
        row["instruction"] = spelt.setdefault(fragment.instruction.lower(), fragment.instruction)
        row |= {"source_id": source_id, "mapping_id": mappings.get(fragment.digest or ""), "seal": seal(row)}
        row["citation_id"] = citations[row["citation"]]
        rows.append([row[name] for name in _FRAGMENT])
    _insert(connection, f"fragment ({', '.join(_FRAGMENT)})", rows)
    # Ids ascend in the order of insertion. Returning them would take SQLite a statement for every row.
    numbers = _run(connection, "SELECT id FROM fragment WHERE source_id = ? ORDER BY id", source_id)
    stored_as = {number: fragment for (number,), fragment in zip(numbers, new.fragments, strict=True)}
    of_family = [
        (number, shape, cells and mappings[cells.digest])
        for number, fragment in stored_as.items()
        for shape, cells in fragment.members.items()
    ]
    _insert(connection, "member (fragment_id, shape, mapping_id)", of_family)
    findings = []
    for number, fragment in stored_as.items():
        if fragment.has_rows:
            alike = fragment.digest, expected(fragment)
            if alike not in checked:
                checked[alike] = check(fragment)
            findings += [(number, words) for words in checked[alike]]
    _insert(connection, "finding (fragment_id, words)", findings)


def _finish(connection: Connection) -> None:
    """Delete unused layouts and instructions, add instructions that only fragments have, and seal the tables."""
    unused = _run(connection, _UNUSED).fetchall()
    _run_each(connection, "DELETE FROM element WHERE mapping_id = ?", unused)
    _run_each(connection, "DELETE FROM mapping WHERE id = ?", unused)
    _run(connection, "DELETE FROM citation WHERE id NOT IN (SELECT citation_id FROM fragment)")
    others = [row for row in _run(connection, "SELECT name FROM instruction") if row[0] not in INSTRUCTIONS]
    _run_each(connection, "DELETE FROM instruction WHERE name = ?", others)
    threads = _run(connection, "SELECT instruction, MAX(threads) FROM fragment GROUP BY instruction")
    unknown = sorted((name, most) for name, most in threads if name not in INSTRUCTIONS)
    _insert(connection, _INSTRUCTION, [_instruction_row(name, most) for name, most in unknown])
    _write_meta(connection, seals(lambda statement: _run(connection, statement).fetchall(), file=_in_file(connection)))


#: Neither a fragment nor a member has them, nor what is a part of them, which comes first.
_UNUSED = """
SELECT id FROM mapping WHERE id NOT IN (
    SELECT mapping_id FROM named WHERE mapping_id IS NOT NULL
    UNION SELECT rows_of FROM mapping WHERE rows_of IS NOT NULL AND id IN (SELECT mapping_id FROM named)
) ORDER BY id DESC
"""


def _write_meta(connection: Connection, values: Mapping[str, str]) -> None:
    _run_each(connection, "DELETE FROM meta WHERE key = ?", [(key,) for key in values])
    _insert(connection, "meta (key, value)", [*values.items()])


def _write_forms(connection: Connection) -> None:
    """Write the tables of instructions, forms and operands that this version of Lanemap knows."""
    for statement in ("DELETE FROM operand", "DELETE FROM form", "DELETE FROM instruction"):
        _run(connection, statement)
    _insert(connection, _INSTRUCTION, [*map(_instruction_row, INSTRUCTIONS)])
    rows: list[tuple[Any, ...]] = []
    operands: list[tuple[Any, ...]] = []
    for form in forms():
        spelled = opcode(form) or None, atom(form) or None
        version = ".".join(map(str, form.version)) or None
        rows.append((form.mnemonic, form.name, form.shape, *spelled, form.listed, version))
        keys = [form.key(role) for role in form.types if role in form.instruction.register_roles]
        operands += [(form.mnemonic, key.role, key.type, key.major, key.qualifiers) for key in keys]
    _insert(connection, "form (mnemonic, instruction, shape, opcode, atom, target, ptx)", rows)
    _insert(connection, "operand (mnemonic, role, type, major, qualifiers)", operands)


def _instruction_row(name: str, threads: int | None = None) -> tuple[Any, ...]:
    row = instruction(name)
    return name, row.vendor.name, threads or row.threads, row.moves, int(row.sparse)


def _insert(connection: Connection, into: str, rows: Sequence[Sequence[Any]] | NDArray[Any]) -> None:
    """Insert rows into the columns of a table."""
    if not len(rows):
        return
    rows = rows if isinstance(rows, np.ndarray) else np.array(rows, object)
    width = rows.shape[1]
    marks = f"({', '.join('?' * width)})"
    # SQLite takes many at once in a third of the time.
    for group in (_VARIABLES // width if _in_file(connection) else 1, 1):
        whole = len(rows) // group * group
        if whole:
            together = rows[:whole].reshape(-1, group * width).tolist()
            statement = f"INSERT INTO {into} VALUES {', '.join([marks] * group)}"  # noqa: S608 - names of columns
            _run_each(connection, statement, together)
        rows = rows[whole:]


def _words(citation: Citation) -> str:
    return json.dumps({name: value for name, value in citation._asdict().items() if value is not None})


def _store_citations(connection: Connection, cited: Iterable[str]) -> dict[str, int]:
    """Store the citations that are not there yet; returns the numbers of all, by their words."""
    present = dict(_run(connection, _CITATIONS))
    _insert(connection, "citation (words)", [(words,) for words in dict.fromkeys(cited) if words not in present])
    return dict(_run(connection, _CITATIONS))


_CITATIONS = "SELECT words, id FROM citation"


def _store_elements(connection: Connection, fragments: Sequence[Fragment]) -> dict[str, int]:
    """Store the layouts that are not there yet; returns the ids of all, by digest."""
    every = "SELECT digest, id FROM mapping"
    ids: dict[str, int] = dict(_run(connection, every))
    tables = {str(new.digest): new.table for new in fragments if new.has_rows and new.digest not in ids}
    families = {part.digest: str(new.digest) for new in fragments for part in new.members.values() if part}
    for new in fragments:
        tables |= {part.digest: part.array for part in new.members.values() if part and part.digest not in ids}
    if not tables:
        return ids
    wholes = {digest: whole(table) for digest, table in tables.items()}
    shared = lenders(tables, families, wholes)
    extent = extents(tables, shared, wholes)
    stored = {digest: extent[digest].within(table) for digest, table in tables.items() if digest not in shared}
    lending = [
        (digest, compress(tables[digest].data, 1), *extent[digest], None, rows_sum(rows))
        for digest, rows in stored.items()
    ]
    _insert(connection, _MAPPING, lending)
    ids = dict(_run(connection, every))
    _insert(connection, _MAPPING, [(at, b"", *extent[at], ids[shared[at]], 0) for at in tables if at in shared])
    ids = dict(_run(connection, every))
    _store_repetitions(connection, extent.values())
    if not stored:
        return ids
    number = np.repeat(np.array([ids[digest] for digest in stored], "i4"), [*map(len, stored.values())])
    rows = np.column_stack([number, np.concatenate([*stored.values()]).view("<i2").reshape(len(number), -1)])
    if _in_file(connection):
        for at in range(0, len(rows), _ROWS):
            _insert(connection, _ELEMENT, rows[at : at + _ROWS])
    else:
        with connection.cursor().copy(f"COPY {_ELEMENT} FROM STDIN") as copy:
            copy.write("".join("\t".join(map(str, row)) + "\n" for row in rows.tolist()))
    return ids


def _store_repetitions(connection: Connection, needed: Iterable[Extent]) -> None:
    """Store those of the widths that are not there yet."""
    present = dict(_run(connection, "SELECT width, MAX(number) FROM repetition GROUP BY width"))
    most = {of.width: of.times for of in sorted(needed, key=attrgetter("times"))}
    rows = [
        (width, number * width + first, first, number)
        for width, times in most.items()
        for number in range(present.get(width, -1) + 1, times)
        for first in range(min(width, 0), abs(width))
    ]
    _insert(connection, "repetition (width, col, first, number)", rows)


class _WrongClaim(msgspec.Struct):
    operand: Key
    origin: str
    words: str


class _Documented(msgspec.Struct):
    verdict: str
    detail: str


class _Outcome(msgspec.Struct):
    instruction: str
    status: str
    message: str
    documented: _Documented | None = None


class _Provenance(msgspec.Struct):
    """The parts of a provenance that Lanemap reads. All are optional, and there may be others."""

    disagreements: list[str] = []
    wrong: list[_WrongClaim] = []


class _CaptureProvenance(_Provenance):
    instructions: list[_Outcome] = []


def provenance(source: Source) -> str:
    """The provenance of a source as JSON, if it is valid.

    A capture has a list ``instructions`` with the outcome of each form. Any source may have a list ``disagreements`` of
    texts that say what is wrong in it, and a list ``wrong`` of wrong claims about operands, which are keys.

    Raises:
        LanemapError: it is invalid; the message says where.
    """
    try:
        written = json.dumps(dict(source.provenance), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise LanemapError(f"{source.name}: its provenance is not a JSON object: {error}") from None
    if len(written) > _LONGEST_PROVENANCE:
        raise LanemapError(f"{source.name}: its provenance has more than {_LONGEST_PROVENANCE} characters")
    try:
        parsed = validated(json.loads(written), _CaptureProvenance if source.kind == "capture" else _Provenance)
        for key in (claim.operand for claim in parsed.wrong):
            dimensions(key.shape, key.role, key.instruction, key.qualifiers)
    except LanemapError as error:
        raise LanemapError(f"{source.name}: its provenance is wrong: {error}") from None
    return written
