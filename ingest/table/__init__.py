"""A user's table of layouts: one row per element, with at least the eight columns of ``layout``.

The columns are shape, type, role, lane, reg, slot, row and col, in any order, in upper or lower case. A type may have
another name, such as half. The other columns of ``layout`` are optional, with these defaults: instruction is ``mma``,
col_last is col, major is row for A and col for B, computation is 1, or in m8n8k4 with f16 follows from the lane; there
is no selector and there are no qualifiers; source is the name of the file. Others are passed over, with a warning.

For an instruction that Lanemap knows, a table may only have its shapes and types. An unknown instruction may have any,
and types of its own, whose width is in a column ``bits``, 128 at most.

A column ``first_bit`` is the lowest bit of its slot that an element occupies, if it does not fill the slot: one number
for all elements of a fragment. A table without it does not claim it. An unknown instruction has as many slots in a
register as elements fit, or as a column ``slots`` says, or one if there is a ``first_bit`` and no other is used. Its
only register may be as wide as its slots need; its threads are the next power of two of its lanes.

Instead of reg and slot there may be a column ``value``, which counts the slots of a lane's registers. A column
``move``, such as ``ldmatrix.x4``, says that row and col are where the 16 bytes begin whose address the lane passes. A
column ``origin`` says where a row comes from. A column ``thread`` counts the threads of a tile's warps, of which a lane
is then one of a warp.

A dataset that Lanemap exported is read as one table, if all its files are unchanged.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...db.errors import LanemapError
from ...db.isa import instructions
from ...db.isa.instructions import Key
from ...db.isa.spelling import cased, every_candidate
from ...db.isa.types import TYPES, known_type, plain, type_name
from ...db.layout.fragment import UNTOLD_WINDOWS, Citation, Fragment, Source, elements
from ...db.store.files import MANIFEST, sha256_of, written
from ...db.text import naturally
from ..importing import Imported, Skipped
from ..python.layout import Places, loaded
from .columns import Numbers, Text, at_most, read_columns

#: The fragments of every instruction on many devices.
MAX_FRAGMENTS = 10_000
MAX_SOURCES = 100
MAX_PARTS = 1000
MAX_REGISTERS = 256
#: The same of an operand in memory, whose registers are words.
MAX_WORDS = 1 << 15
#: Bits of an element, and slots of a register.
MAX_WIDTH = MAX_SLOTS = 128
MAX_DIMENSION = 1024
#: How many origins of a fragment are named.
MAX_ORIGINS = 4
_MAJORS = {"A": "row", "B": "col"}


def load(path: str | Path) -> list[Imported]:
    """The sources of a CSV, Parquet or Arrow file, named by its column ``source`` or else by the file; or of a dataset.

    The title of a file without a digest ends in ``unsealed``: a changed value would go unnoticed. Nothing is left out
    of a table. A finding says which sparse operands have no ``col_last``: what they claim is unjudged.

    Raises:
        LanemapError: it is not such a table; the message says what is wrong, and in which fragment or row.
    """
    file = Path(path)
    if file.is_dir():
        return list(map(Imported, _dataset(file)))
    return [Imported(source, findings=findings) for source, findings in _file(file, file.stem)]


def _dataset(folder: Path) -> list[Source]:
    """The sources of a dataset. Source and instruction are in the names of its folders."""
    parts = [(name, Path(name).parts) for name in sorted(written(folder, "dataset"))]
    at_most(MAX_PARTS, len(parts), "files", folder)
    sources: dict[str, Source] = {}
    for name, (*folders, _) in parts:
        values = dict(folder_name.partition("=")[::2] for folder_name in folders)
        if set(values) != {"source", "instruction"}:
            raise LanemapError(f"{folder} holds {name}: a dataset has folders for source and instruction")
        for source, _ in _file(folder / name, unquote(values["source"]), unquote(values["instruction"])):
            earlier = sources.get(source.name)
            fragments = [*(earlier.fragments if earlier else ()), *source.fragments]
            sources[source.name] = replace(source, title=f"dataset {folder.name}", fragments=fragments)
    digest = sha256_of(folder / MANIFEST)
    return [replace(source, provenance={"file": folder.name, "sha256": digest}) for source in sources.values()]


def _file(path: Path, source: str, instruction: str = "mma") -> list[tuple[Source, list[Skipped]]]:
    """The sources of a file, with findings; ``source`` and ``instruction`` are defaults for its rows."""
    columns = read_columns(path)
    texts = {name: columns.texts[name].mapped(plain, "") for name in ("shape", "major", "qualifiers")}
    texts["source"] = columns.texts["source"].mapped(str.strip, source)
    spelt = {name: name for name in instructions.INSTRUCTIONS}  # others are spelt as the table first has them
    texts["instruction"] = columns.texts["instruction"].mapped(
        lambda name: spelt.setdefault(plain(name), name.strip().removeprefix(".")), instruction
    )
    texts["type"] = columns.texts["type"].mapped(plain)
    texts["role"] = columns.texts["role"].mapped(str.strip)
    texts["move"] = columns.texts["move"].mapped(plain, "")
    origins = columns.texts["origin"].mapped(str.strip, "")
    at_most(MAX_SOURCES, len(columns.texts["source"].values), "sources", path)
    # The rows of each fragment, fragments in the order in which they begin.
    selector = columns.numbers["selector"]
    group, _ = pd.factorize(selector.filled(0).astype(np.int64) * 2 + np.ma.getmaskarray(selector))
    for text in texts.values():
        group, _ = pd.factorize(group * len(text.values) + text.codes) if len(text.values) > 1 else (group, None)
    groups = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    at_most(MAX_FRAGMENTS, len(groups), "fragments", path)
    sources: dict[str, dict[Key, Fragment]] = {}
    findings: dict[str, list[Skipped]] = {}
    for rows in groups:
        key = {column: text.values[text.codes[rows[0]]] for column, text in texts.items()}
        # The instruction of a tile follows from the register; its columns would be copied for nothing.
        numbers = {name: values[rows] for name, values in columns.numbers.items() if name[:4] not in ("rep_", "warp")}
        if numbers["thread"].count() == len(rows):  # of a tile, in which a lane is that of a warp
            numbers["lane"] = numbers["thread"]
        found_in = list(dict.fromkeys(origins.values[code] for code in np.unique(origins.codes[rows])))
        if key["instruction"] in instructions.INSTRUCTIONS and not columns.sealed:
            try:
                key["type"], _ = known_type(key["type"])
            except LanemapError as error:
                raise LanemapError(f"{path}: row {rows[0] + 1}: {error}") from None
        try:
            fragment = _fragment(key, numbers, "; ".join(filter(None, found_in[:MAX_ORIGINS])), sealed=columns.sealed)
        except LanemapError as error:
            raise LanemapError(f"{path}: {error}") from None
        if sources.setdefault(key["source"], {}).setdefault(fragment.key, fragment) is not fragment:
            raise LanemapError(f"{path}: row {rows[0] + 1}: {fragment} has another spelling of its name in other rows")
        if fragment.status == UNTOLD_WINDOWS:
            count = int(np.ma.getmaskarray(numbers["col_last"]).sum())
            missing = f"{count} of {len(rows)} rows have no col_last: is col exact, or the first of a window?"
            findings.setdefault(key["source"], []).append(Skipped(str(fragment), missing))
    provenance = {"file": path.name, "sha256": sha256_of(path)}
    title = f"table {path.name}" + ("" if columns.sealed else ", unsealed")
    results = []
    for name, by_key in sources.items():
        # All operands of an instruction have its threads, though one may leave out the last ones.
        threads: dict[str, int] = {}
        for part in by_key.values():
            threads[part.instruction] = max(part.threads, threads.get(part.instruction, 0))
        completed = [replace(part, threads=threads[part.instruction]) for part in by_key.values()]
        results.append((Source(name, "import", title, completed, provenance), findings.get(name, [])))
    return results


def _fragment(key: Mapping[str, str], numbers: dict[str, Numbers], origin: str, *, sealed: bool) -> Fragment:
    shape, instruction, type_ = key["shape"], key["instruction"], key["type"]
    roles = instructions.instruction(instruction).axes
    role = next((known_role for known_role in roles if known_role.lower() == key["role"].lower()), key["role"])
    qualifiers = cased(key["qualifiers"]) or None
    if max(instructions.dimensions(shape, role, instruction, qualifiers)) > MAX_DIMENSION:
        raise LanemapError(f"invalid shape {shape!r}: each dimension is 1 to {MAX_DIMENSION}")
    if instruction in instructions.INSTRUCTIONS and not sealed:
        forms = _forms(instruction)
        if shape not in forms:
            raise LanemapError(f"{instruction} has no {shape}: it has {', '.join(sorted(forms, key=naturally))}")
        if type_ not in (types := forms[shape].get(role, ())):
            names = ", ".join(sorted(types)) or "none"
            raise LanemapError(f"{instruction} {shape} has no {role} of {type_}: its types are {names}")
    if key["major"] not in ("", "row", "col"):
        raise LanemapError(f"major {key['major']!r} is neither row nor col")
    selector = numbers["selector"][:1]
    has_majors = bool(instructions.majors(instruction, shape, type_, role))
    major = (key["major"] or (_MAJORS[role] if has_majors else None)) if role in _MAJORS else None
    number = None if selector.mask.all() else int(selector[0])
    named = Key(instruction, shape, type_, role, major, number, qualifiers)
    is_known = instruction in instructions.INSTRUCTIONS
    untold = sealed and type_ not in TYPES and not numbers["bits"].count()  # by an export of an earlier version
    width = 0 if is_known or untold else _width(named, numbers["bits"])
    register = max(instructions.register_bits(instruction, type_), 1 << (width - 1).bit_length())
    fill = instructions.operand(named).slots if is_known and type_ in TYPES else 1
    if width:  # an element may be narrower than its slot, as a register has a power of two of them
        fill = 1 << (register // width).bit_length() - 1
    placed = not (np.ma.getmaskarray(numbers["reg"]) | np.ma.getmaskarray(numbers["slot"])).any()
    if key["move"]:
        numbers = {**numbers, **_loaded(named, key["move"], numbers)}
    elif not placed and np.ma.getmaskarray(numbers["value"]).any():
        raise LanemapError(f"{named}: some rows have neither reg and slot nor a value")
    elif not placed:
        numbers = {**numbers, **_whole(zip(("reg", "slot"), divmod(numbers["value"].filled(), fill), strict=True))}
    columns: dict[str, Any] = {name: numbers[name].filled() for name in ("lane", "reg", "slot", "row", "col")}
    product = instructions.computation(*named[:3], columns["lane"])
    columns["col_last"] = numbers["col_last"].filled(columns["col"])
    columns["computation"] = numbers["computation"].filled(product)
    _check(named, MAX_SLOTS if width else register, columns)
    first_bit, told = (_one(named, numbers, name) for name in ("first_bit", "slots"))
    last, registers = int(numbers["slot"].max()), int(numbers["reg"].max()) + 1
    # A register has the slots of its operand, though a table may use only the first ones, or it has more. It has one
    # where elements that would fill several are said to begin at a bit, and use the first slot alone.
    alone = fill * width == register and first_bit is not None and not last
    slots = 1 if alone else max(1 << last.bit_length(), fill)
    if width:
        slots = slots if told is None else told
        if not last < slots <= MAX_SLOTS:
            raise LanemapError(f"{named}: slots {slots} is outside {last + 1}..{MAX_SLOTS}")
        if registers == 1:  # it may be wider than its vendor's, as a vector of 6-bit elements is
            register = max(register, slots * width)
        room = register // slots - width
        if room < 0:
            raise LanemapError(f"{named}: {register} bits of a register have no {slots} slots of {width}")
        if (first_bit or 0) > room:
            raise LanemapError(f"{named}: first_bit {first_bit} is outside 0..{room}")
        first_bit = first_bit if room else 0
    sizes = {"registers": registers, "slots": slots, "register_bits": register}
    cited = Citation(origin=origin or None)
    windowed = role in instructions.instruction(instruction).windowed
    untold = windowed and bool(np.ma.getmaskarray(numbers["col_last"]).any())
    status = UNTOLD_WINDOWS if untold else "imported"
    return Fragment.of(named, elements(columns), status, cited, first_bit=first_bit, **sizes)


def _loaded(key: Key, move: str, numbers: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """What ``ldmatrix`` loads from the addresses of lanes, or ``stmatrix`` stores there.

    Without ``trans`` the 16 bytes from a cell on run along K of A and B, and along N of C and D.
    """
    if key.instruction not in instructions.INSTRUCTIONS:
        raise LanemapError(f"{key}: {move} moves operands of an instruction that Lanemap knows")
    across = -1 if (key.role == "B") != move.endswith("trans") else 1
    lanes, *cells = (numbers[name].filled().astype(np.int64) for name in ("lane", "row", "col"))
    of = instructions.operand(key)
    if len(np.unique(lanes)) != len(lanes) or not ((lanes >= 0) & (lanes < of.threads)).all():
        raise LanemapError(f"{key}: each lane from 0 to {of.threads - 1} passes at most one address to {move}")
    places = loaded(of, move, Places(lanes, 0 * lanes, np.stack(cells[::across], axis=1)))
    if places.undefined:
        raise LanemapError(f"{key}: {places.undefined[0]}")
    row, col = places.pair.T[::across]
    reg, slot = np.divmod(places.value, of.slots)
    columns = {"lane": places.thread, "reg": reg, "slot": slot, "row": row, "col": col}
    gaps: Numbers = np.ma.MaskedArray(np.zeros(len(reg), np.int32), mask=True)
    return {**_whole(columns.items()), "col_last": gaps, "computation": gaps}


def _whole(columns: Iterable[tuple[str, NDArray[Any]]]) -> dict[str, Numbers]:
    """Columns without missing values."""
    return {name: np.ma.MaskedArray(values.astype(np.int32), mask=False) for name, values in columns}


@lru_cache(1 << 8)
def _forms(instruction: str) -> dict[str, dict[str, set[str]]]:
    """The types of each role, by shape, in all forms of an instruction."""
    types: dict[str, dict[str, set[str]]] = {}
    for form in every_candidate({}):
        for role, type_ in form.types.items() if form.name == instruction else ():
            types.setdefault(form.shape, {}).setdefault(role, set()).add(type_)
    return types


def _one(key: Key, numbers: Mapping[str, Numbers], name: str) -> int | None:
    """The number in a column that has one for all elements of a fragment, if it has one."""
    first, *others = dict.fromkeys(numbers[name].tolist())
    if others:
        raise LanemapError(f"{key}: {name} {first} and {others[0]}: give one number for all elements")
    return None if first is None else int(first)


def _width(key: Key, bits: Numbers) -> int:
    """The width of an element of an unknown instruction: by the column ``bits`` or by the name of its type."""
    widths = np.unique(bits.compressed()).tolist()
    with suppress(LanemapError, KeyError):
        widths = widths or [TYPES[type_name(key.type)[0]].bits]
    if not widths:
        raise LanemapError(f"{key}: Lanemap does not know the type {key.type}: give its width in a column bits")
    if len(widths) > 1 or not 1 <= widths[0] <= MAX_WIDTH:
        raise LanemapError(f"{key}: bits {', '.join(map(str, widths))}: give one width from 1 to {MAX_WIDTH}")
    return int(widths[0])


def _check(key: Key, slots: int, columns: Mapping[str, NDArray[np.int32]]) -> None:
    """Refuse rows that cannot be a layout. Lanes and cells outside the instruction are left to structural checks."""
    registers = MAX_WORDS if instructions.threads(key) == 1 else MAX_REGISTERS
    limits = {"reg": (0, registers - 1), "slot": (0, slots - 1)}
    limits |= dict.fromkeys(("lane", "row", "col", "col_last"), (0, MAX_DIMENSION))
    limits |= {"computation": (1, MAX_DIMENSION), "selector": (0, 3)}
    for name, values in {**columns, "selector": np.asarray([key.selector or 0])}.items():
        least, most = limits[name]
        if (outside := values[(values < least) | (values > most)]).size:
            raise LanemapError(f"{key}: {name} {outside[0]} is outside {least}..{most}")
    if (columns["col_last"] < columns["col"]).any():
        raise LanemapError(f"{key}: a window of columns ends before it begins: col_last is less than col")
    place = (columns["lane"].astype(np.int64) * registers + columns["reg"]) * MAX_SLOTS + columns["slot"]
    distinct, count = np.unique(place, return_counts=True)
    if (count > 1).any():
        first = int(distinct[count > 1][0])
        lane, reg, slot = first // MAX_SLOTS // registers, first // MAX_SLOTS % registers, first % MAX_SLOTS
        raise LanemapError(f"{key}: lane {lane} reg {reg} slot {slot} is in two rows, but may be in only one")
