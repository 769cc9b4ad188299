"""Writing: building a database and loading sources into it. Each load is one transaction, all or nothing."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any
from zlib import compress

import msgspec
import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from ..errors import AbsentError, LanemapError, UnavailableError, validated
from ..heap import uncollected
from ..isa.forms import forms
from ..isa.instructions import INSTRUCTIONS, Key, dimensions, instruction
from ..isa.not_found import choose_from
from ..isa.spelling import atom, opcode
from ..layout.fragment import Citation, Fragment, Source, by_field, check_names
from ..layout.structure import check
from . import schema
from .connection import busy, connected, recover, wait_for_lock
from .integrity import OWN, rows_sum, seal, seals
from .location import SCHEMA_VERSION, Location
from .repetition import Extent, extents, lenders, whole
from .schema import LAYOUT, NAMED, element, finding, mapping, member, meta, metadata

Progress = Callable[[Source], object]

#: The advisory lock of every writer: any number, as long as all versions of Lanemap use the same one.
_LOCK = 0x4C414E45

#: Of a statement; older versions of SQLite allow 999.
_VARIABLES = 512

#: Of ``element`` that are Python's numbers at once: a multiple of the rows of a statement.
_ROWS = 1 << 14

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
        # Those of the schema in which new ones are made, not of other visible schemas of the server.
        inspector = sa.inspect(connection)
        tables = inspector.get_table_names(inspector.default_schema_name)
        if "meta" not in tables:
            if tables:
                raise LanemapError(f"{location} holds tables that are not Lanemap's: name another database")
            metadata.create_all(connection, checkfirst=False)
            for view in (NAMED, LAYOUT):
                connection.execute(sa.text(view))
        elif not again and connection.scalar(sa.select(meta.c.value).where(meta.c.key == "shipped")) == shipped:
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
        present = connection.scalars(sa.select(sa.func.lower(schema.source.c.name))).all()
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
            names = connection.scalars(sa.select(schema.source.c.name).order_by(schema.source.c.id)).all()
            raise AbsentError(f"no source {name or repr(name)}: {choose_from(name, names)}")
        _finish(connection)


def _delete(connection: sa.Connection, name: str) -> int:
    """Delete a source, whatever the case of its name; returns how many there were."""
    named = sa.func.lower(schema.source.c.name) == sa.func.lower(name)
    return connection.execute(sa.delete(schema.source).where(named)).rowcount


@contextmanager
def _transaction(location: Location, mode: str = "rw") -> Iterator[sa.Connection]:
    """A transaction that excludes other writers from its first statement on. Mode ``rwc`` makes the file if need be.

    Raises:
        LanemapError: an error of the database.
    """
    engine = _engine(location, mode)
    try:
        with engine.connect() as connection:
            if location.file is not None:
                connection.exec_driver_sql("PRAGMA foreign_keys = ON")
                # Makes commits durable: otherwise a deleted journal may reappear after a power failure.
                wait_for_lock(lambda: _execute(connection, "PRAGMA synchronous = EXTRA"), location)
                # Otherwise what does not fit into the cache is written early, and readers must wait until the end.
                connection.exec_driver_sql("PRAGMA cache_spill = OFF")
                # What is sorted, and what a statement of many rows would restore, is small: no file is written for it.
                connection.exec_driver_sql("PRAGMA temp_store = MEMORY")
                # ANALYZE need not read all rows of an index: the elements of all layouts are alike.
                connection.exec_driver_sql("PRAGMA analysis_limit = 1000")
                wait_for_lock(lambda: _execute(connection, "BEGIN IMMEDIATE"), location)
            else:
                connection.exec_driver_sql("BEGIN")
                locked = sa.select(sa.func.pg_try_advisory_xact_lock(_LOCK))
                wait_for_lock(lambda: bool(connection.scalar(locked)), location)
            yield connection
            wait_for_lock(lambda: _execute(connection, "COMMIT"), location)
    except DBAPIError as error:
        raise _in_words(error, location) from None
    finally:
        engine.dispose()


def _engine(location: Location, mode: str) -> sa.Engine:
    """An engine that does not begin transactions itself, which Python's sqlite3 would do only after CREATE TABLE."""
    if (file := location.file) is not None:
        recover(file)
        address = f"{file.absolute().as_uri()}?mode={mode}"
        # Not in the engine's address, because the name of a file may contain ? and %.
        open_file = partial(sqlite3.connect, address, uri=True, timeout=0, isolation_level=None)
        return sa.create_engine("sqlite://", poolclass=NullPool, creator=open_file)
    # The address is parsed as it is for readers.
    return sa.create_engine(
        "postgresql+psycopg://", poolclass=NullPool, isolation_level="AUTOCOMMIT", creator=partial(connected, location)
    )


def _execute(connection: sa.Connection, statement: str) -> bool:
    """Whether a statement was executed, not stopped by a lock."""
    try:
        connection.exec_driver_sql(statement)
    except DBAPIError as error:
        if not busy(error.orig):
            raise
        return False
    return True


def _in_words(error: DBAPIError, location: Location) -> LanemapError:
    """A database's error as one line."""
    reason = location.without_secrets(str(error.orig).strip().splitlines()[0])
    if "not a database" in reason:
        return LanemapError(f"{location} is not a Lanemap database: name another file")
    if "unable to open" in reason or "readonly" in reason:
        return LanemapError(f"cannot write {location}: {reason}: name a file that can be written")
    lost = location.file is None and isinstance(error, OperationalError)
    return (UnavailableError if lost else LanemapError)(f"{location}: {reason}")


def _load(connection: sa.Connection, sources: Iterable[Source], progress: Progress | None) -> None:
    checked: dict[object, list[str]] = {}
    first = connection.scalar(sa.select(mapping.c.id).limit(1)) is None
    late = [*element.indexes, *member.indexes, *schema.fragment.indexes] if first else []
    for index in late:  # which is made faster of all rows than row by row
        index.drop(connection)
    for source in sources:
        check_names(source)
        if progress:
            progress(source)
        _replace(connection, source, checked)
    for index in late:
        index.create(connection)
    _finish(connection)
    # Without statistics the planner does not use the index to look up a cell.
    connection.exec_driver_sql("ANALYZE")


def _replace(connection: sa.Connection, new: Source, checked: dict[object, list[str]]) -> None:
    """Store a source in place of that of its name. ``checked`` has what was found in layouts of the same load."""
    _delete(connection, new.name)
    values = {"name": new.name, "kind": new.kind, "title": new.title, "provenance": provenance(new)}
    source_id = connection.scalar(sa.insert(schema.source).values(values).returning(schema.source.c.id))
    if not new.fragments:
        return
    mappings = _store_elements(connection, new.fragments)
    cited = {citation: _words(citation) for citation in dict.fromkeys(one.citation for one in new.fragments)}
    citations = _store_citations(connection, cited.values())
    names = connection.scalars(sa.select(schema.fragment.c.instruction).distinct())
    spelt = {name.lower(): name for name in names}  # one instruction is spelt alike in all sources
    dimensions = OWN.index("rows")
    named, sized = attrgetter(*OWN[1:dimensions]), attrgetter(*OWN[dimensions + 2 :])
    rows = []
    for fragment in new.fragments:
        name = spelt.setdefault(fragment.instruction.lower(), fragment.instruction)
        own = name, *named(fragment), *fragment.dimensions, *sized(fragment)
        words, digest = cited[fragment.citation], fragment.digest
        sealed = seal((*own, words, new.name, digest))
        rows.append((source_id, digest and mappings[digest], citations[words], *own, sealed))
    _insert(connection, schema.fragment, rows)
    # Ids ascend in the order of insertion. Returning them would take SQLite a statement for every row.
    columns = schema.fragment.c
    ids = connection.scalars(sa.select(columns.id).where(columns.source_id == source_id).order_by(columns.id)).all()
    of_family = [
        (number, shape, cells and mappings[cells.digest])
        for number, fragment in zip(ids, new.fragments, strict=True)
        for shape, cells in fragment.members.items()
    ]
    _insert(connection, member, of_family)
    findings = []
    for number, fragment in zip(ids, new.fragments, strict=True):
        if fragment.has_rows:
            alike = fragment.digest, fragment.expected
            if alike not in checked:
                checked[alike] = check(fragment)
            findings += [(number, words) for words in checked[alike]]
    _insert(connection, finding, findings)


def _finish(connection: sa.Connection) -> None:
    """Delete unused layouts and instructions, add instructions that only fragments have, and seal the tables."""
    columns = schema.fragment.c
    numbers = (columns.mapping_id, member.c.mapping_id)
    named = [sa.select(number).where(number.is_not(None)) for number in numbers]
    lent = sa.select(mapping.c.rows_of).where(mapping.c.id.in_(sa.union(*named)), mapping.c.rows_of.is_not(None))
    unused = mapping.c.id.not_in(sa.union(*named, lent))
    connection.execute(sa.delete(element).where(element.c.mapping_id.in_(sa.select(mapping.c.id).where(unused))))
    connection.execute(sa.delete(mapping).where(unused))
    used = sa.select(columns.citation_id)
    connection.execute(sa.delete(schema.citation).where(schema.citation.c.id.not_in(used)))
    connection.execute(sa.delete(schema.instruction).where(schema.instruction.c.name.not_in(list(INSTRUCTIONS))))
    threads = sa.select(columns.instruction, sa.func.max(columns.threads)).group_by(columns.instruction)
    unknown = sorted((name, most) for name, most in connection.execute(threads) if name not in INSTRUCTIONS)
    _insert(connection, schema.instruction, [_instruction_row(name, most) for name, most in unknown])
    in_file, cursor = connection.dialect.name == "sqlite", connection.connection.cursor()
    # SQLAlchemy would make an object of each row.
    _write_meta(connection, seals(lambda statement: cursor.execute(statement).fetchall(), file=in_file))


def _write_meta(connection: sa.Connection, values: Mapping[str, str]) -> None:
    connection.execute(sa.delete(meta).where(meta.c.key.in_(list(values))))
    _insert(connection, meta, [*values.items()])


def _write_forms(connection: sa.Connection) -> None:
    """Write the tables of instructions, forms and operands that this version of Lanemap knows."""
    for table in (schema.operand, schema.form, schema.instruction):
        connection.execute(sa.delete(table))
    _insert(connection, schema.instruction, [*map(_instruction_row, INSTRUCTIONS)])
    rows: list[tuple[Any, ...]] = []
    operands: list[tuple[Any, ...]] = []
    for form in forms():
        spelled = opcode(form) or None, atom(form) or None
        version = ".".join(map(str, form.version)) or None
        rows.append((form.mnemonic, form.name, form.shape, *spelled, form.listed, version))
        in_registers = form.instruction.register_roles
        keys = [form.key(role) for role in form.types if role in in_registers]
        operands += [(form.mnemonic, key.role, key.type, key.major, key.qualifiers) for key in keys]
    _insert(connection, schema.form, rows)
    _insert(connection, schema.operand, operands)


def _instruction_row(name: str, threads: int | None = None) -> tuple[Any, ...]:
    row = instruction(name)
    return name, row.vendor.name, threads or row.threads, row.moves, int(row.sparse)


def _insert(connection: sa.Connection, table: sa.Table, rows: Sequence[Sequence[Any]] | NDArray[Any]) -> None:
    """Insert rows with their values in the order of the last columns: a number before them is given by the database."""
    values = rows.ravel().tolist() if isinstance(rows, np.ndarray) else [*chain.from_iterable(rows)]
    if not values:
        return
    in_file = connection.dialect.name == "sqlite"
    width = len(values) // len(rows)
    marks = f"({', '.join(['?' if in_file else '%s'] * width)})"
    names = ", ".join(f'"{name}"' for name in table.c.keys()[-width:])
    # SQLAlchemy would take each row apart again, and SQLite takes many at once in a third of the time.
    for group in (_VARIABLES // width if in_file else 1, 1):
        size = group * width
        whole = len(values) // size * size
        if whole:
            statement = f'INSERT INTO "{table.name}" ({names}) VALUES {", ".join([marks] * group)}'  # noqa: S608
            connection.exec_driver_sql(statement, [tuple(values[at : at + size]) for at in range(0, whole, size)])
        values = values[whole:]


def _words(citation: Citation) -> str:
    return json.dumps({name: value for name, value in citation._asdict().items() if value is not None})


def _store_citations(connection: sa.Connection, cited: Iterable[str]) -> dict[str, int]:
    """Store the citations that are not there yet; returns the numbers of all, by their words."""
    columns = schema.citation.c
    every = sa.select(columns.words, columns.id)
    present = {row.words for row in connection.execute(every)}
    _insert(connection, schema.citation, [(words,) for words in dict.fromkeys(cited) if words not in present])
    return {row.words: row.id for row in connection.execute(every)}


def _store_elements(connection: sa.Connection, fragments: Sequence[Fragment]) -> dict[str, int]:
    """Store the layouts that are not there yet; returns the ids of all, by digest."""
    every = sa.select(mapping.c.digest, mapping.c.id)
    ids = dict(connection.execute(every).all())
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
        (digest, compress(by_field(tables[digest]).data, 1), *extent[digest], None, rows_sum(rows))
        for digest, rows in stored.items()
    ]
    _insert(connection, mapping, lending)
    ids = dict(connection.execute(every).all())
    _insert(connection, mapping, [(at, b"", *extent[at], ids[shared[at]], 0) for at in tables if at in shared])
    ids = dict(connection.execute(every).all())
    _store_repetitions(connection, extent.values())
    if not stored:
        return ids
    number = np.repeat(np.array([ids[digest] for digest in stored], "i4"), [*map(len, stored.values())])
    rows = np.column_stack([number, np.concatenate([*stored.values()]).view("<i2").reshape(len(number), -1)])
    if connection.dialect.name == "postgresql":
        columns = ", ".join(element.c.keys())
        with connection.connection.cursor().copy(f"COPY element ({columns}) FROM STDIN") as copy:
            copy.write("".join("\t".join(map(str, row)) + "\n" for row in rows.tolist()))
    else:
        for at in range(0, len(rows), _ROWS):
            _insert(connection, element, rows[at : at + _ROWS])
    return ids


def _store_repetitions(connection: sa.Connection, needed: Iterable[Extent]) -> None:
    """Store those of the widths that are not there yet."""
    columns = schema.repetition.c
    present = dict(
        connection.execute(sa.select(columns.width, sa.func.max(columns.number)).group_by(columns.width)).all()
    )
    most = {of.width: of.times for of in sorted(needed, key=attrgetter("times"))}
    rows = [
        (width, number * width + first, first, number)
        for width, times in most.items()
        for number in range(present.get(width, -1) + 1, times)
        for first in range(min(width, 0), abs(width))
    ]
    _insert(connection, schema.repetition, rows)


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
