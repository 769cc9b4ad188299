"""Two sources compared fragment by fragment, on arrays.

Equal digests are equal layouts. Each pair of layouts that differ is looked at once, however many fragments have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from operator import eq

from .difference import Difference, Pair, difference
from .fragment import Fragment
from .grouped import grouped
from .instructions import Key, instruction, products
from .permutation import Permutation, describe, find, is_identity, keeps


class Verdict(StrEnum):
    """What is said of one fragment in two sources."""

    IDENTICAL = "identical"
    REFINED = "refined"
    RELABELLED = "relabelled"
    DIFFERENT = "different"
    LEFT_ONLY = "left only"
    RIGHT_ONLY = "right only"


@dataclass(frozen=True)
class Result:
    """One fragment in two sources, either of which may lack it, and the verdict.

    ``difference`` has the elements of both sides where they are not identical. ``narrower`` is the side whose windows
    of columns lie within those of the other, for ``refined`` and some of ``relabelled``. ``permutations`` takes rows,
    columns or depth (``m``, ``n``, ``k``) or the ``computation`` of the left to the right, for ``relabelled``; the
    products of one instruction that are renumbered each in its own way have names such as ``k of product 2``.
    ``same_as`` is the other fragment of the right that the left one equals, for ``different``. ``known`` is the
    erratum that explains why the two differ.
    """

    key: Key
    verdict: Verdict
    left: Fragment | None
    right: Fragment | None
    difference: Difference | None = None
    narrower: str | None = None
    permutations: Mapping[str, Permutation] = field(default_factory=dict)
    same_as: Fragment | None = None
    known: str | None = None

    @property
    def compared(self) -> bool:
        """Whether both sides have elements."""
        return self.verdict not in (Verdict.LEFT_ONLY, Verdict.RIGHT_ONLY)

    @property
    def disagrees(self) -> bool:
        """Different, and not explained by an erratum."""
        return self.verdict is Verdict.DIFFERENT and self.known is None

    @cached_property
    def words(self) -> str:
        """The verdict as a person would explain it; empty where both are identical."""
        windows = f"the {self.narrower} names columns within the windows of the other"
        match self.verdict:
            case Verdict.IDENTICAL:
                return ""
            case Verdict.REFINED:
                return windows
            case Verdict.RELABELLED:
                moved = [f"{axis}: {describe(to, axis == _COMPUTATION)}" for axis, to in self.permutations.items()]
                return "; ".join([*moved, *([windows] if self.narrower else [])])
            case Verdict.DIFFERENT:
                assert self.difference is not None
                same = [f"it is {self.same_as} of the right"] if self.same_as else []
                return "; ".join([*same, self.difference.words])
        lacking = self.right if self.verdict is Verdict.LEFT_ONLY else self.left
        return lacking.status if lacking else "not there"


def compare(left: Sequence[Fragment], right: Sequence[Fragment]) -> list[Result]:
    """A verdict on every fragment that either source has elements of, in the order of the left one, then of the right.

    The operands of an instruction have a say in each other's verdicts: give all of them, and choose from the results.
    """
    mine, theirs = ({each.key: each for each in side} for side in (left, right))
    there = {each.key for each in (*left, *right) if each.has_rows}
    differences: dict[tuple[str | None, str | None], Difference] = {}

    def looked_at(one: Fragment, other: Fragment) -> Difference:
        digests = one.digest, other.digest
        if digests not in differences:
            differences[digests] = difference(one, other)
        return differences[digests]

    results = [_result(key, mine.get(key), theirs.get(key), looked_at) for key in {**mine, **theirs} if key in there]
    results = _relabelled(results, looked_at)
    return _taken_from_elsewhere(results, right)


LookedAt = Callable[[Fragment, Fragment], Difference]


def _result(key: Key, left: Fragment | None, right: Fragment | None, looked_at: LookedAt) -> Result:
    """Everything but what takes the other operands to see."""
    if left is None or not left.has_rows:
        return Result(key, Verdict.RIGHT_ONLY, left, right)
    if right is None or not right.has_rows:
        return Result(key, Verdict.LEFT_ONLY, left, right)
    if left.digest == right.digest:
        return Result(key, Verdict.IDENTICAL, left, right)
    found = looked_at(left, right)
    if narrower := _narrower(found) if left.windowed else None:
        return Result(key, Verdict.REFINED, left, right, found, narrower)
    return Result(key, Verdict.DIFFERENT, left, right, found)


def _narrower(found: Difference) -> str | None:
    """The side all of whose windows lie within those of the other, of the same row."""
    one, other = found.left, found.right
    if not found.same_slots or any((one[name] != other[name]).any() for name in ("row", "computation")):
        return None
    sides = {"left": (one, other), "right": (other, one)}
    within = (
        side
        for side, (narrow, wide) in sides.items()
        if (narrow["col"] >= wide["col"]).all() and (narrow["col_last"] <= wide["col_last"]).all()
    )
    return next(within, None)


#: Which computation an element is of can be renumbered like a dimension.
_COMPUTATION = "computation"
#: What must be there on both sides before a renumbering can be believed: without these there is no product.
_NEEDED = {"m": ("A", "CD"), "n": ("B", "CD"), "k": ("A", "B"), _COMPUTATION: ("A", "B", "CD")}


def _relabelled(results: Sequence[Result], looked_at: LookedAt) -> list[Result]:
    """Relabelled, not different, where one permutation of each dimension explains every operand that counts it."""
    groups = grouped((each for each in results if each.compared), lambda each: each.key[:2])
    renamed: dict[Key, Result] = {}
    for group in groups.values():
        if any(each.verdict is Verdict.DIFFERENT for each in group):
            renamed |= {each.key: each for each in _rename(group, looked_at)}
    return [renamed.get(each.key, each) for each in results]


def _rename(group: Sequence[Result], looked_at: LookedAt) -> list[Result]:
    """The results on one instruction of one shape, relabelled where that explains them."""
    forms = products(*group[0].key[:2])
    members = grouped(group, lambda each: (each.key.role, each.key.type))
    found: dict[tuple[str, RoleType], Sequence[Permutation]] = {}
    for axis in _NEEDED:
        counting = [operand for operand, results in members.items() if axis in _axes(results[0])]
        for operands in _together(counting, forms):
            sharing = [each for operand in operands for each in members[operand]]
            if all(each.verdict is not Verdict.DIFFERENT for each in sharing):
                continue
            permutations = _permutations(axis, sharing, looked_at)
            if permutations and (all(map(is_identity, permutations)) or _complete(axis, operands, forms)):
                found |= {(axis, operand): permutations for operand in operands}
    return [
        _renamed(each, {axis: found.get((axis, operand)) for axis in _axes(each)})
        for operand, results in members.items()
        for each in results
    ]


#: Role and type.
RoleType = tuple[str, str]


def _axes(result: Result) -> Sequence[str]:
    """The dimensions that rows and columns count, and the computation, in this order."""
    return (*instruction(result.key.instruction).axes[result.key.role], _COMPUTATION)


def _together(operands: Iterable[RoleType], forms: Sequence[Mapping[str, str]]) -> list[set[RoleType]]:
    """The operands that share a dimension: those of one form, and those of forms that have an operand in common."""
    groups = [{each} for each in operands]
    for form in forms:
        linked = set(form.items())
        joined = set().union(*(group for group in groups if group & linked))
        groups = [*(group for group in groups if not group & linked), *([joined] if joined else [])]
    return groups


def _complete(axis: str, operands: set[RoleType], forms: Sequence[Mapping[str, str]]) -> bool:
    """Whether a form has all it needs among them, so that a renumbering in one operand shows in the others."""
    needed = _NEEDED[axis]
    return any(all(any((role, form[role]) in operands for role in roles) for roles in needed) for form in forms)


def _permutations(axis: str, members: Sequence[Result], looked_at: LookedAt) -> Sequence[Permutation] | None:
    """The permutations of a dimension that take the left of every member to its right, one for each computation.

    None if there are none. What an instruction computes does not change when each of its computations has its own.
    """
    exact: dict[int, set[Pair]] = {}
    loose: list[set[Pair]] = []
    size = count = 1
    for each in members:
        assert each.left is not None
        assert each.right is not None
        found = each.difference or looked_at(each.left, each.right)
        at = _axes(each).index(axis)
        pairs = found.pairs[at]
        size = max(size, (*each.left.dimensions, each.left.computations)[at])
        count = max([count, *pairs])
        for computation, some in pairs.items():
            if at == 1 and _loose(each.left, some):
                loose.append(some)
            else:
                exact.setdefault(computation, set()).update(some)
    permutations = [find(size, exact.get(computation, ())) for computation in range(1, count + 1)]
    whole = [each for each in permutations if each is not None]
    return whole if len(whole) == count and all(keeps(whole[0], pairs) for pairs in loose) else None


def _loose(fragment: Fragment, pairs: Iterable[Pair]) -> bool:
    """Whether windows of columns are narrower on one side than on the other, as they may be."""
    return fragment.windowed and any(mine[1] - mine[0] != theirs[1] - theirs[0] for mine, theirs in pairs)


def _renamed(result: Result, permutations: Mapping[str, Sequence[Permutation] | None]) -> Result:
    found = result.difference
    if result.verdict is not Verdict.DIFFERENT or found is None or not found.same_slots:
        return result
    known = {axis: each for axis, each in permutations.items() if each is not None}
    if len(known) < len(permutations):
        return result
    assert result.left is not None
    (columns, *_), pairs = known[_axes(result)[1]], found.pairs[1].get(1, set())
    narrower = keeps(columns, pairs) if _loose(result.left, pairs) else None
    moved: dict[str, Permutation] = {}
    for axis, each in known.items():
        if len(set(each)) == 1:
            moved[axis] = each[0]
        else:
            moved |= {f"{axis} of product {number}": permutation for number, permutation in enumerate(each, 1)}
    moved = {axis: permutation for axis, permutation in moved.items() if not is_identity(permutation)}
    return replace(result, verdict=Verdict.RELABELLED, permutations=moved, narrower=narrower)


def _taken_from_elsewhere(results: Sequence[Result], right: Sequence[Fragment]) -> list[Result]:
    """Say of what differs which other fragment of the right it is, the one with the most alike key."""
    layouts = grouped(right, lambda each: each.digest)
    said = []
    for each in results:
        if each.verdict is Verdict.DIFFERENT and each.left and (alike := layouts.get(each.left.digest)):
            nearest = max(alike, key=lambda other, key=each.key: sum(map(eq, key, other.key)))  # type: ignore[misc]
            said.append(replace(each, same_as=nearest))
        else:
            said.append(each)
    return said
