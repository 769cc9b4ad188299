"""Two sources compared fragment by fragment, in the database: only what is told of them leaves it.

Fragments with equal layouts share a mapping, so most of the answer is a join of a few hundred fragments. The elements
of two mappings are joined once, however many fragments have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, case, func, literal, select, union_all
from sqlalchemy.sql import ColumnElement

from .errors import LanemapError
from .fragment import dimensions, element_type
from .instructions import Key
from .lookup import Query
from .permutation import Permutation, Span, find, is_identity, keeps
from .reader import Value
from .schema import element, fragment, mapping, source

Sizes = Mapping[int | None, int]

_LEFT, _RIGHT = element.alias("l"), element.alias("r")
_CELL = ("row", "col", "col_last", "computation")


class Verdict(StrEnum):
    """What is told of one fragment in two sources."""

    IDENTICAL = "identical"
    REFINED = "refined"
    RELABELLED = "relabelled"
    DIFFERENT = "different"
    LEFT_ONLY = "left only"
    RIGHT_ONLY = "right only"


@dataclass(frozen=True)
class Pair:
    """One fragment in two sources, with as many registers and slots in each as the left one has, if it is there.

    ``status`` is why a side has no rows, for ``left only`` and ``right only``; ``narrower`` is the side that says more,
    for ``refined``; ``permutations`` takes rows, columns or depth (``m``, ``n``, ``k``) of the left to the right, for
    ``relabelled``; ``count`` is how many elements do not match, for ``different``.
    """

    key: Key
    verdict: Verdict
    left_mapping: int | None
    right_mapping: int | None
    registers: int = 1
    slots: int = 1
    status: str | None = None
    narrower: str | None = None
    permutations: dict[str, Permutation] = field(default_factory=dict)
    count: int = 0

    @property
    def instruction(self) -> str:
        """``mma`` or ``mma.sp``."""
        return self.key[0]

    @property
    def shape(self) -> str:
        """As in m16n8k16."""
        return self.key[1]

    @property
    def type(self) -> str:
        """The operand's PTX type."""
        return self.key[2]

    @property
    def role(self) -> str:
        """A, B, C, D or E."""
        return self.key[3]


def compare(connection: Connection, left: str, right: str, query: Query | None = None) -> list[Pair]:
    """A verdict on every fragment that either source has, in the order of the left one, then of the right one.

    Raises:
        LanemapError: a source is not in the database, or nothing in it matches ``query``.
    """
    known = connection.scalars(select(source.c.name).order_by(source.c.id)).all()
    if unknown := [name for name in (left, right) if name not in known]:
        raise LanemapError(f"no source {unknown[0]}: there is {', '.join(known)}, or give a file")
    asked = {name: value for name, value in (query or Query()).parameters().items() if value is not None}
    # The other operands of an instruction have a say in its verdicts, whether they are asked for or not.
    statement = _side_by_side(tuple((name, asked[name]) for name in ("instruction", "shape") if name in asked))
    pairs = [_without_rows(row) for row in connection.execute(statement, {"left": left, "right": right})]
    size = _sizes(connection)
    pairs = _look_for_labels(connection, _look_at_elements(connection, pairs, size), size)
    chosen = [
        pair for pair in pairs if all(asked.get(name, own) == own for name, own in zip(_KEY, pair.key, strict=True))
    ]
    if not chosen:
        raise LanemapError(f"neither {left} nor {right} has rows that match: lanemap list says what there is")
    return chosen


def differing(connection: Connection, pair: Pair, limit: int | None = None) -> list[dict[str, Any]]:
    """The elements that do not match, by lane, reg and slot, with ``left_row`` ... ``right_computation``.

    A side that has no such slot has None there.
    """
    left, right = _LEFT, _RIGHT
    at = and_(*(left.c[name] == right.c[name] for name in ("lane", "reg", "slot")))
    unequal = ~and_(*(left.c[name] == right.c[name] for name in _CELL))

    def columns(one: Any, other: Any, first: str, second: str) -> list[ColumnElement[Any]]:
        place = [one.c[name].label(name) for name in ("lane", "reg", "slot")]
        sides = {first: one, second: other}
        return place + [sides[side].c[name].label(f"{side}_{name}") for side in ("left", "right") for name in _CELL]

    in_left = (
        select(*columns(left, right, "left", "right"))
        .select_from(left.outerjoin(right, and_(at, right.c.mapping_id == pair.right_mapping)))
        .where(left.c.mapping_id == pair.left_mapping, right.c.lane.is_(None) | unequal)
    )
    in_right = (
        select(*columns(right, left, "right", "left"))
        .select_from(right.outerjoin(left, and_(at, left.c.mapping_id == pair.left_mapping)))
        .where(right.c.mapping_id == pair.right_mapping, left.c.lane.is_(None))
    )
    every = union_all(in_left, in_right).subquery()
    ordered = select(every).order_by(every.c.lane, every.c.reg, every.c.slot).limit(limit)
    found = connection.execute(ordered)
    names = tuple(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found.all()]


_KEY = Key._fields


@cache
def _side_by_side(asked: tuple[tuple[str, Value], ...]) -> Select[Any]:
    """Fragments of both sources, ``left`` and ``right``, by key; those of one alone with nothing beside them."""

    def side(name: str) -> Any:
        chosen = [fragment.c[column] == value for column, value in asked]
        joined = fragment.join(source, source.c.id == fragment.c.source_id)
        columns = [fragment.c[column] for column in ("id", *_KEY, "mapping_id", "status", "registers", "slots")]
        return select(*columns).select_from(joined).where(source.c.name == bindparam(name), *chosen).subquery()

    def beside(first: Any, second: Any) -> ColumnElement[bool]:
        plain = [first.c[name] == second.c[name] for name in _KEY[:4]]
        major = func.coalesce(first.c.major, "") == func.coalesce(second.c.major, "")
        selector = func.coalesce(first.c.selector, -1) == func.coalesce(second.c.selector, -1)
        qualifiers = func.coalesce(first.c.qualifiers, "") == func.coalesce(second.c.qualifiers, "")
        return and_(*plain, major, selector, qualifiers)

    one, other = side("left"), side("right")
    in_left = select(
        literal(0).label("side"),
        one.c.id.label("place"),
        *(one.c[name] for name in _KEY),
        one.c.mapping_id.label("left_mapping"),
        other.c.mapping_id.label("right_mapping"),
        one.c.status.label("left_status"),
        other.c.status.label("right_status"),
        one.c.registers,
        one.c.slots,
    ).select_from(one.outerjoin(other, beside(one, other)))
    in_right = (
        select(
            literal(1),
            other.c.id,
            *(other.c[name] for name in _KEY),
            one.c.mapping_id,
            other.c.mapping_id,
            one.c.status,
            other.c.status,
            other.c.registers,
            other.c.slots,
        )
        .select_from(other.outerjoin(one, beside(one, other)))
        .where(one.c.id.is_(None))
    )
    every = union_all(in_left, in_right).subquery()
    has_rows = every.c.left_mapping.is_not(None) | every.c.right_mapping.is_not(None)
    return select(every).where(has_rows).order_by(every.c.side, every.c.place)


def _without_rows(row: Any) -> Pair:
    """The verdict where a side has no rows or both have the same; ``different`` stands for what is not known yet."""
    left, right = row.left_mapping, row.right_mapping
    status = None
    if right is None:
        verdict, status = Verdict.LEFT_ONLY, row.right_status or "not there"
    elif left is None:
        verdict, status = Verdict.RIGHT_ONLY, row.left_status or "not there"
    else:
        verdict = Verdict.IDENTICAL if left == right else Verdict.DIFFERENT
    key = Key(*(getattr(row, name) for name in Key._fields))
    return Pair(key, verdict, left, right, row.registers, row.slots, status)


def _look_at_elements(connection: Connection, pairs: Sequence[Pair], size: Sizes) -> list[Pair]:
    """Refined or different, with the count, for each two mappings that are not the same."""
    told: dict[tuple[int | None, int | None], dict[str, Any]] = {}
    for pair in pairs:
        mappings = (pair.left_mapping, pair.right_mapping)
        if pair.verdict is Verdict.DIFFERENT and mappings not in told:
            told[mappings] = _match(connection, pair, size)
    return [
        replace(pair, **told[pair.left_mapping, pair.right_mapping]) if pair.verdict is Verdict.DIFFERENT else pair
        for pair in pairs
    ]


_PACKED = select(mapping.c.id, func.length(mapping.c.elements).label("length"))


def _sizes(connection: Connection) -> Sizes:
    """How many elements each mapping has, by how long they are packed."""
    return {row.id: row.length // element_type().itemsize for row in connection.execute(_PACKED)}


def _beside(*places: str) -> Any:
    """The elements of two mappings that have the same place, side by side."""
    return _LEFT.join(_RIGHT, and_(*(_LEFT.c[name] == _RIGHT.c[name] for name in places)))


_CHOSEN = and_(_LEFT.c.mapping_id == bindparam("left"), _RIGHT.c.mapping_id == bindparam("right"))
_SAME_ROW = and_(_LEFT.c.row == _RIGHT.c.row, _LEFT.c.computation == _RIGHT.c.computation)
_WITHIN = {
    "left": and_(_SAME_ROW, _LEFT.c.col >= _RIGHT.c.col, _LEFT.c.col_last <= _RIGHT.c.col_last),
    "right": and_(_SAME_ROW, _RIGHT.c.col >= _LEFT.c.col, _RIGHT.c.col_last <= _LEFT.c.col_last),
}
_MATCH = (
    select(
        func.count().label("both"),
        func.sum(case((and_(*_WITHIN.values()), 1), else_=0)).label("same"),
        *(func.sum(case((inside, 1), else_=0)).label(side) for side, inside in _WITHIN.items()),
    )
    .select_from(_beside("lane", "reg", "slot"))
    .where(_CHOSEN)
)

_SLOTS = _beside("lane", "reg", "slot", "computation")
_COUNT = select(func.count()).select_from(_SLOTS).where(_CHOSEN)
_ROWS = select(_LEFT.c.row, _RIGHT.c.row).select_from(_SLOTS).where(_CHOSEN).distinct()
_COLS = (
    select(_LEFT.c.col, _LEFT.c.col_last, _RIGHT.c.col, _RIGHT.c.col_last).select_from(_SLOTS).where(_CHOSEN).distinct()
)


def _mappings(pair: Pair) -> dict[str, int | None]:
    return {"left": pair.left_mapping, "right": pair.right_mapping}


def _match(connection: Connection, pair: Pair, size: Sizes) -> dict[str, Any]:
    found = connection.execute(_MATCH, _mappings(pair)).one()
    sizes = [size[pair.left_mapping], size[pair.right_mapping]]
    windows = pair.instruction == "mma.sp" and pair.role in "AE"
    if windows and found.both == sizes[0] == sizes[1]:
        for side in ("left", "right"):
            if getattr(found, side) == found.both:
                return {"verdict": Verdict.REFINED, "narrower": side}
    return {"verdict": Verdict.DIFFERENT, "count": sum(sizes) - found.both - (found.same or 0)}


#: The dimensions that the rows and columns of a role count.
_AXES = {"A": "mk", "B": "kn", "C": "mn", "D": "mn", "E": "mk"}
#: What must be there on both sides before a renumbering of a dimension can be believed: a product needs all of them.
_NEEDED = {"m": ("A", "CD"), "n": ("B", "CD"), "k": ("A", "B")}
#: Accumulators that a type of A and B can have; every other type takes f16 and f32.
_ACCUMULATORS = {"f64": {"f64"}, "b1": {"s32"}, "s4": {"s32"}, "u4": {"s32"}, "s8": {"s32"}, "u8": {"s32"}}
#: Types that one instruction can multiply with each other, by one of them: their K is one.
_MIXED = {"u8": "s8", "u4": "s4", "e5m2": "e4m3", "e3m2": "e4m3", "e2m3": "e4m3", "e2m1": "e4m3"}

_Windows = set[tuple[Span, Span]]


def _look_for_labels(connection: Connection, pairs: Sequence[Pair], size: Sizes) -> list[Pair]:
    """Relabelled instead of different, where one permutation of each dimension explains every fragment that counts it.

    M and N are shared by all operands of the instructions that share an accumulator, K by the A, B and E of types that
    one instruction can multiply.
    """
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        if pair.left_mapping is not None and pair.right_mapping is not None:
            groups.setdefault((pair.instruction, pair.shape, _family(pair)), []).append(pair)
    renamed: dict[Key, Pair] = {}
    for group in groups.values():
        if any(pair.verdict is Verdict.DIFFERENT for pair in group):
            renamed |= {pair.key: pair for pair in _relabel(connection, group, size)}
    return [renamed.get(pair.key, pair) for pair in pairs]


def _family(pair: Pair) -> str:
    """What the accumulators of the instruction are: f64, s32, or the floats narrower than that."""
    accumulators = _ACCUMULATORS.get(pair.type, {"f16", "f32"}) if pair.role in "ABE" else {pair.type}
    return next((each for each in ("f64", "s32") if each in accumulators), "float")


def _relabel(connection: Connection, group: Sequence[Pair], size: Sizes) -> list[Pair]:
    told: dict[tuple[int | None, int | None], tuple[bool, dict[str, _Windows]]] = {}
    exact: dict[str, _Windows] = {}
    refined: dict[str, list[_Windows]] = {}
    sizes: dict[str, int] = {}
    for pair in group:
        mappings = (pair.left_mapping, pair.right_mapping)
        if mappings not in told:
            told[mappings] = _side_of_each_slot(connection, pair, size)
        for axis, name in zip(_axes(pair), ("row", "col"), strict=True):
            windows = told[mappings][1][name]
            if pair.verdict is Verdict.REFINED and axis[0] == "k":
                refined.setdefault(axis, []).append(windows)
            else:
                exact.setdefault(axis, set()).update(windows)
        sizes.update(zip(_axes(pair), dimensions(pair.shape, pair.role), strict=True))
    found: dict[str, Permutation] = {}
    for axis, pairs in exact.items():
        permutation = find(sizes[axis], pairs)
        believed = permutation is not None and (is_identity(permutation) or _complete(axis, group))
        if permutation and believed and all(keeps(permutation, windows) for windows in refined.get(axis, [])):
            found[axis] = permutation
    return [_renamed(pair, told[pair.left_mapping, pair.right_mapping][0], found) for pair in group]


def _complete(axis: str, group: Sequence[Pair]) -> bool:
    """Whether the operands that count a dimension are there, so that a renumbering in one shows in the other."""
    there = {pair.role for pair in group if axis in _axes(pair)}
    return all(any(role in there for role in roles) for roles in _NEEDED[axis[0]])


def _renamed(pair: Pair, matched: bool, found: Mapping[str, Permutation]) -> Pair:
    permutations = {axis[0]: found[axis] for axis in _axes(pair) if axis in found}
    if pair.verdict is not Verdict.DIFFERENT or not matched or len(permutations) < 2:
        return pair
    moved = {axis: permutation for axis, permutation in permutations.items() if not is_identity(permutation)}
    return replace(pair, verdict=Verdict.RELABELLED, permutations=moved, count=0)


def _axes(pair: Pair) -> tuple[str, str]:
    """Names of the dimensions of rows and columns; K is one for the types that can be multiplied with each other."""
    rows, cols = (f"k {_MIXED.get(pair.type, pair.type)}" if axis == "k" else axis for axis in _AXES[pair.role])
    return rows, cols


def _side_of_each_slot(connection: Connection, pair: Pair, size: Sizes) -> tuple[bool, dict[str, _Windows]]:
    """The distinct rows and columns that stand side by side, and whether every slot is on both sides alike."""
    chosen = _mappings(pair)
    both = connection.scalar(_COUNT, chosen)
    beside = {
        "row": {((one, one), (other, other)) for one, other in connection.execute(_ROWS, chosen)},
        "col": {((a, b), (c, d)) for a, b, c, d in connection.execute(_COLS, chosen)},
    }
    return {size[pair.left_mapping], size[pair.right_mapping]} == {both}, beside
