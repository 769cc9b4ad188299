"""Writing: building a database and loading sources into it. Each load is one transaction, all or nothing."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ..errors import AbsentError, LanemapError, validated
from ..isa import forms
from ..isa.instructions import INSTRUCTIONS, Key, dimensions, instruction
from ..isa.not_found import source_names
from ..isa.spelling import atom, opcode_name
from ..layout.fragment import Element, Fragment, Source, check_names
from ..layout.structure import check, expected
from . import schema
from .integrity import SEALED, rows_sum, seal, seals
from .location import MIGRATED, SCHEMA_VERSION, Location
from .transaction import Transaction, begin

Progress = Callable[[Source], object]

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

    Safe while others do the same: one builds, the rest wait and find it done. Other sources in it stay; those of an
    older version of the database, or of the default database, are migrated.

    Args:
        location: the database.
        sources: returns the sources; called only if they must be loaded.
        shipped: the digest of the program that makes ``sources``.
        again: load them even if they are there.
        progress: called with each source before it is loaded.
    """
    taken_over: list[Source] = []
    if file := location.file:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LanemapError(
                f"cannot make the folder {file.parent}: {error.strerror}: name another database"
            ) from None
        older = Location(file.with_name(f"lanemap-{MIGRATED[-1]}.db"))
        if location.default and not file.exists() and older.file and older.file.exists():
            with begin(older) as transaction:
                taken_over = schema.older_sources(transaction) if "meta" in transaction.tables() else []
    with begin(location, "rwc") as transaction:
        tables = transaction.tables()
        if "meta" in tables and _meta_value(transaction, "schema") in MIGRATED:
            taken_over = schema.older_sources(transaction)
            schema.drop(transaction)
            tables = []
        if "meta" not in tables:
            if tables:
                raise LanemapError(f"{location} holds tables that are not Lanemap's: name another database")
            schema.create(transaction)
        elif not again and _meta_value(transaction, "shipped") == shipped:
            return
        new_sources = list(sources())
        _write_forms(transaction)
        names = {new.name.lower() for new in new_sources}
        _load(transaction, [*new_sources, *(old for old in taken_over if old.name.lower() not in names)], progress)
        _write_meta(transaction, {"schema": str(SCHEMA_VERSION), "shipped": shipped})


def load(
    location: Location, sources: Iterable[Source], progress: Progress | None = None, *, replacing: bool = True
) -> list[str]:
    """Load sources into an existing database; returns the names of those that were loaded.

    A source of the same name is replaced, or kept if not ``replacing``.
    """
    with begin(location) as transaction:
        present = transaction.values("SELECT LOWER(name) FROM source")
        loaded = [new for new in sources if replacing or new.name.lower() not in present]
        if loaded:
            _load(transaction, loaded, progress)
    return [new.name for new in loaded]


def remove(location: Location, name: str) -> None:
    """Remove a source from an existing database.

    Raises:
        AbsentError: it has no source of this name.
    """
    with begin(location) as transaction:
        if not transaction.values("SELECT id FROM source WHERE LOWER(name) = LOWER(:name)", name=name):
            names = transaction.values("SELECT name FROM source ORDER BY id")
            raise AbsentError(f"no source {name or repr(name)}: {source_names(name, names)}")
        _delete(transaction, name)
        _finish(transaction)


def _delete(transaction: Transaction, name: str) -> None:
    """Delete a source, whatever the case of its name."""
    transaction.run("DELETE FROM source WHERE LOWER(name) = LOWER(:name)", name=name)


def _meta_value(transaction: Transaction, key: str) -> str | None:
    return next(iter(transaction.values("SELECT value FROM meta WHERE key = :key", key=key)), None)


def _load(transaction: Transaction, sources: Iterable[Source], progress: Progress | None) -> None:
    for source in sources:
        check_names(source)
        if progress:
            progress(source)
        _replace(transaction, source)
    _finish(transaction)
    # Without statistics the planner does not use the index to look up a cell.
    transaction.run("ANALYZE")


def _replace(transaction: Transaction, new: Source) -> None:
    _delete(transaction, new.name)
    values = {"name": new.name, "kind": new.kind, "title": new.title, "provenance": provenance(new)}
    transaction.insert("source", [values])
    (source_id,) = transaction.values("SELECT id FROM source WHERE name = :name", name=new.name)
    mappings = _store_elements(transaction, new.fragments)
    names = transaction.values("SELECT DISTINCT instruction FROM fragment")
    spelt = {name.lower(): name for name in names}  # one instruction is spelt alike in all sources
    rows = []
    for fragment in new.fragments:
        row = {name: getattr(fragment, name) for name in SEALED if name not in ("rows", "cols", "citation")}
        row["rows"], row["cols"] = fragment.dimensions
        citation = {name: value for name, value in fragment.citation._asdict().items() if value is not None}
        row |= {"source": new.name, "citation": json.dumps(citation)}
        row["instruction"] = spelt.setdefault(fragment.instruction.lower(), fragment.instruction)
        row |= {"source_id": source_id, "mapping_id": mappings.get(fragment.digest or ""), "seal": seal(row)}
        rows.append({name: value for name, value in row.items() if name not in ("source", "digest")})
    transaction.insert("fragment", rows)
    # Ids ascend in the order of insertion.
    ids = transaction.values("SELECT id FROM fragment WHERE source_id = :source ORDER BY id", source=source_id)
    checks = [(fragment.digest, expected(fragment)) for fragment in new.fragments]
    found = {key: check(fragment) for key, fragment in dict(zip(checks, new.fragments, strict=True)).items()}
    found_on = ((number, words) for number, key in zip(ids, checks, strict=True) for words in found[key])
    transaction.insert("finding", ({"fragment_id": number, "words": words} for number, words in found_on))


def _finish(transaction: Transaction) -> None:
    """Delete unused layouts and instructions, add instructions that only fragments have, and seal the tables."""
    named = "SELECT mapping_id FROM fragment WHERE mapping_id IS NOT NULL"
    lent = f"SELECT rows_of FROM mapping WHERE id IN ({named}) AND rows_of IS NOT NULL"  # noqa: S608
    transaction.run(f"DELETE FROM mapping WHERE id NOT IN ({named} UNION {lent})")  # noqa: S608
    for name in {*transaction.values("SELECT name FROM instruction")} - INSTRUCTIONS.keys():
        transaction.run("DELETE FROM instruction WHERE name = :name", name=name)
    threads = transaction.run("SELECT instruction, MAX(threads) FROM fragment GROUP BY instruction").rows
    unknown = sorted((name, most) for name, most in threads if name not in INSTRUCTIONS)
    transaction.insert("instruction", (_instruction_row(name, most) for name, most in unknown))
    _write_meta(transaction, seals(lambda statement: transaction.run(statement).rows, file=transaction.in_file))


def _write_meta(transaction: Transaction, values: Mapping[str, str]) -> None:
    for key in values:
        transaction.run("DELETE FROM meta WHERE key = :key", key=key)
    transaction.insert("meta", ({"key": key, "value": value} for key, value in values.items()))


def _write_forms(transaction: Transaction) -> None:
    """Write the tables of instructions, forms and operands that this version of Lanemap knows."""
    for table in ("operand", "form", "instruction"):
        transaction.run(f"DELETE FROM {table}")  # noqa: S608
    transaction.insert("instruction", map(_instruction_row, INSTRUCTIONS))
    every = {form.mnemonic: form for form in (*forms.every(), *forms.mixed_warpgroup(), *forms.later_moves())}
    rows, operands = [], []
    for mnemonic, form in every.items():
        row = {"mnemonic": mnemonic, "instruction": form.name, "shape": form.shape, "target": form.target}
        spelled = {"opcode": opcode_name(form) or None, "atom": atom(form) or None}
        rows.append({**row, **spelled, "ptx": ".".join(map(str, form.version))})
        for key in (form.key(role) for role in form.types if role in form.instruction.axes):
            named = {"role": key.role, "type": key.type, "major": key.major, "qualifiers": key.qualifiers}
            operands.append({"mnemonic": mnemonic, **named})
    transaction.insert("form", rows)
    transaction.insert("operand", operands)


def _instruction_row(name: str, threads: int | None = None) -> dict[str, Any]:
    row = instruction(name)
    known = {"name": name, "vendor": row.vendor.name, "threads": threads or row.threads}
    return known | {"moves": row.moves, "sparse": int(row.sparse)}


def _store_elements(transaction: Transaction, fragments: Sequence[Fragment]) -> dict[str, int]:
    """Store the layouts that are not there yet; returns the ids of all, by digest."""

    def stored() -> dict[str, int]:
        return dict(transaction.run("SELECT digest, id FROM mapping").rows)

    ids = stored()
    tables = {str(new.digest): new.table for new in fragments if new.has_rows and new.digest not in ids}
    shared = _shared(tables)
    for borrow in (False, True):  # layouts that lend their rows come first
        packed = [
            {
                "digest": digest,
                "elements": table.tobytes(),
                "registers": int(table["reg"].max(initial=0)) + 1,
                "rows_of": ids.get(shared.get(digest, "")),
                "rows_sum": rows_sum(table),
            }
            for digest, table in tables.items()
            if (digest in shared) == borrow
        ]
        transaction.insert("mapping", packed)
        ids = stored()
    rows = [(ids[digest], *row) for digest, table in tables.items() if digest not in shared for row in table.tolist()]
    transaction.copy("element", ("mapping_id", *Element._fields), rows)
    return ids


def _shared(tables: Mapping[str, Any]) -> dict[str, str]:
    """For each table that is the first registers of a larger one, the digest of that, by digest."""
    largest: dict[bytes, list[str]] = {}
    shared = {}
    for digest, table in sorted(tables.items(), key=lambda item: -len(item[1])):
        candidates = largest.setdefault(table[table["reg"] == 0].tobytes(), [])
        registers = table["reg"].max(initial=0)
        for larger in candidates:
            if np.array_equal(tables[larger][tables[larger]["reg"] <= registers], table):
                shared[digest] = larger
                break
        else:
            candidates.append(digest)
    return shared


class _WrongClaim(msgspec.Struct):
    operand: tuple[str, str, str, str, str | None, int | None, str | None]
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
        for wrong_claim in parsed.wrong:
            key = Key(*wrong_claim.operand)
            dimensions(key.shape, key.role, key.instruction, key.qualifiers)
    except LanemapError as error:
        raise LanemapError(f"{source.name}: its provenance is wrong: {error}") from None
    return written
