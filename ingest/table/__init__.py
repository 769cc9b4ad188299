"""Anyone's table of layouts: one row per element, with at least the eight columns of ``layout``.

The columns are shape, type, role, lane, reg, slot, row and col, in any order, in upper or lower case. A type may have
another name, such as half. The other columns of ``layout`` are optional: instruction is ``mma``, col_last is col,
major is row for A and col for B, computation is 1, or in m8n8k4 with f16 follows from the lane; there is no selector
and there are no qualifiers, and source is the name of the file. Columns that ``layout`` does not have are ignored.

A dataset that Lanemap exported is read as one table, if all its files are as they were written.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from ...db import instructions
from ...db.errors import LanemapError
from ...db.files import MANIFEST, written
from ...db.fragment import Fragment, Source, elements
from ...db.spelling.types import known_type
from ..imported import Imported
from .columns import Columns, Numbers, Text, read_columns

#: As many as an instruction has operands, for every instruction of many devices.
MAX_FRAGMENTS = 10_000
MAX_SOURCES = 100
MAX_PARTS = 1000
MAX_REGISTERS = 256
MAX_DIMENSION = 1024
_MAJORS = {"A": "row", "B": "col"}


def load(path: str | Path) -> list[Imported]:
    """The sources of a CSV, Parquet or Arrow file, named by its column ``source`` or else by the file; or of a dataset.

    The title of a file without a digest ends in ``unsealed``: if a value was changed, nothing would show it. Nothing is
    left out of a table.

    Raises:
        LanemapError: it is not such a table; says what is wrong, and which fragment or row it is in.
    """
    file = Path(path)
    return [Imported(each) for each in (_dataset(file) if file.is_dir() else _file(file, file.stem))]


def _dataset(folder: Path) -> list[Source]:
    """The sources of a dataset. Source and instruction are in the names of its folders."""
    parts = [(name, Path(name).parts) for name in sorted(written(folder, "dataset"))]
    if len(parts) > MAX_PARTS:
        raise LanemapError(f"{folder} holds more than {MAX_PARTS} files: no dataset of layouts has so many")
    sources: dict[str, Source] = {}
    for name, (*folders, _) in parts:
        said = dict(each.partition("=")[::2] for each in folders)
        if set(said) != {"source", "instruction"}:
            raise LanemapError(f"{folder} holds {name}: a dataset has folders for source and instruction")
        for each in _file(folder / name, unquote(said["source"]), unquote(said["instruction"])):
            known = sources.get(each.name)
            fragments = [*(known.fragments if known else ()), *each.fragments]
            sources[each.name] = replace(each, title=f"dataset {folder.name}", fragments=fragments)
    digest = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    return [replace(each, provenance={"file": folder.name, "sha256": digest}) for each in sources.values()]


def _file(path: Path, source: str, instruction: str = "mma") -> list[Source]:
    """The sources of a file; ``source`` and ``instruction`` are those of rows that do not say theirs."""
    columns = read_columns(path)
    texts = {
        "source": columns.texts["source"].mapped(str.strip, source),
        "instruction": columns.texts["instruction"].mapped(_word, instruction),
        "shape": columns.texts["shape"].mapped(_word),
        "type": _types(columns, path),
        "role": columns.texts["role"].mapped(str.strip),
        "major": columns.texts["major"].mapped(_word, ""),
        "qualifiers": columns.texts["qualifiers"].mapped(_qualifiers, ""),
    }
    if len(columns.texts["source"].values) > MAX_SOURCES:
        raise LanemapError(f"{path} holds more than {MAX_SOURCES} sources: no table of layouts has so many")
    sources: dict[str, list[Fragment]] = {}
    groups = _groups([*((text.codes, len(text.values)) for text in texts.values())], columns.numbers["selector"])
    if len(groups) > MAX_FRAGMENTS:
        raise LanemapError(f"{path} has more than {MAX_FRAGMENTS} fragments: no table of layouts has so many")
    for rows in groups:
        key = {column: text.values[text.codes[rows[0]]] for column, text in texts.items()}
        numbers = {column: values[rows] for column, values in columns.numbers.items()}
        try:
            fragment = _fragment(key, numbers)
        except LanemapError as error:
            raise LanemapError(f"{path}: {error}") from None
        sources.setdefault(key["source"], []).append(fragment)
    with path.open("rb") as stream:
        provenance = {"file": path.name, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
    title = f"table {path.name}" + ("" if columns.sealed else ", unsealed")
    return [Source(name, "import", title, found, provenance) for name, found in sources.items()]


def _word(text: str) -> str:
    return text.strip().lower().removeprefix(".")


def _types(columns: Columns, path: Path) -> Text:
    """Types as PTX spells them. What Lanemap wrote stays; a library or a later PTX may have types of its own."""
    column = columns.texts["type"]
    if columns.sealed:
        return column.mapped(_word)
    names = {}
    for place, name in enumerate(column.values):
        try:
            names[name] = _word(name) if _word(name) in instructions.TYPES else known_type(name)[0]
        except LanemapError as error:
            raise LanemapError(f"{path}: row {int((column.codes == place).argmax()) + 1}: {error}") from None
    return column.mapped(names.__getitem__)


def _qualifiers(text: str) -> str:
    """As PTX spells them: of all qualifiers, only numbers of block scales have a capital letter."""
    return re.sub(r"(?<=scale_vec::\d)x", "X", _word(text))


def _groups(codes: list[tuple[NDArray[np.int32], int]], selector: Numbers) -> list[NDArray[np.intp]]:
    """The rows of each fragment, fragments in the order in which they begin."""
    group = np.unique(selector.filled(0).astype(np.int64), return_inverse=True)[1] * 2 + np.ma.getmaskarray(selector)
    for column, count in codes:
        if count > 1:
            group = np.unique(group, return_inverse=True)[1] * count + column
    _, begins, group = np.unique(group, return_index=True, return_inverse=True)
    rows = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    return [rows[index] for index in np.argsort(begins)]


def _fragment(key: Mapping[str, str], numbers: dict[str, Numbers]) -> Fragment:
    shape, instruction = key["shape"], key["instruction"]
    roles = instructions.instruction(instruction).axes
    role = next((each for each in roles if each.lower() == key["role"].lower()), key["role"])
    qualifiers = key["qualifiers"] or None
    if max(instructions.dimensions(shape, role, instruction, qualifiers)) > MAX_DIMENSION:
        raise LanemapError(f"invalid shape {shape!r}: each dimension is 1 to {MAX_DIMENSION}")
    if key["major"] not in ("", "row", "col"):
        raise LanemapError(f"major {key['major']!r} is neither row nor col")
    selector = numbers["selector"][:1]
    has_majors = bool(instructions.majors(instruction, shape, key["type"], role))
    fragment = Fragment(
        instruction=instruction,
        shape=shape,
        type=key["type"],
        role=role,
        registers=int(numbers["reg"].max()) + 1,
        slots=4 if role in ("SFA", "SFB") else _power_of_two(int(numbers["slot"].max()) + 1),
        elements=None,
        major=(key["major"] or (_MAJORS[role] if has_majors else None)) if role in _MAJORS else None,
        selector=None if selector.mask.all() else int(selector[0]),
        qualifiers=qualifiers,
        status="imported",
    )
    lanes = numbers["lane"].filled()
    columns = {name: numbers[name].filled() for name in ("lane", "reg", "slot", "row", "col")} | {
        "col_last": np.where(np.ma.getmaskarray(numbers["col_last"]), numbers["col"], numbers["col_last"]),
        "computation": np.where(
            np.ma.getmaskarray(numbers["computation"]),
            instructions.quad_pair(lanes) if fragment.computations == 4 and not fragment.qualifiers else 1,
            numbers["computation"],
        ),
    }
    _check(fragment, columns)
    return replace(fragment, elements=elements(columns))


def _check(fragment: Fragment, columns: Mapping[str, NDArray[np.int32]]) -> None:
    """Refuse what cannot be a layout. Lanes and cells that the instruction lacks are for the structural checks."""
    _within(fragment, "reg", columns["reg"], 0, MAX_REGISTERS - 1)
    _within(fragment, "slot", columns["slot"], 0, fragment.register_bits - 1)
    for name in ("lane", "row", "col", "col_last", "computation"):
        _within(fragment, name, columns[name], int(name == "computation"), MAX_DIMENSION)
    if fragment.selector is not None:
        _within(fragment, "selector", np.asarray([fragment.selector]), 0, 3)
    if (columns["col_last"] < columns["col"]).any():
        raise LanemapError(f"{fragment}: a window of columns ends before it begins, col_last before col")
    place = (columns["lane"] * MAX_REGISTERS + columns["reg"]) * 64 + columns["slot"]
    distinct, count = np.unique(place, return_counts=True)
    if (count > 1).any():
        first = int(distinct[count > 1][0])
        lane, reg, slot = first // 64 // MAX_REGISTERS, first // 64 % MAX_REGISTERS, first % 64
        raise LanemapError(f"{fragment}: lane {lane} reg {reg} slot {slot} stands in two rows, and may stand in one")


def _within(fragment: Fragment, name: str, values: NDArray[Any], least: int, most: int) -> None:
    outside = values[(values < least) | (values > most)]
    if outside.size:
        raise LanemapError(f"{fragment}: {name} {outside[0]} is outside {least}..{most}")


def _power_of_two(least: int) -> int:
    """A register divides into as many slots as a power of two only."""
    return 1 << max(0, least - 1).bit_length()
