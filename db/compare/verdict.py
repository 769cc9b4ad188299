"""Two sources compared fragment by fragment, on arrays.

Equal digests are equal layouts. Each pair of layouts that differ is compared once, however many fragments have it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from operator import eq

from ..isa.instructions import Key, dimensions, instruction
from ..isa.spelling import every_candidate
from ..layout.fragment import IMPOSSIBLE, Fragment
from ..layout.permutation import Permutation, describe, fitting, is_identity, keeps
from ..text import grouped
from . import windows
from .difference import Difference, Pair, difference
from .windows import Named


class Verdict(StrEnum):
    """The relation between the layouts of one fragment in two sources."""

    IDENTICAL = "identical"
    REFINED = "refined"
    RELABELLED = "relabelled"
    DIFFERENT = "different"
    LEFT_ONLY = "left only"
    RIGHT_ONLY = "right only"
    UNJUDGED = "unjudged"


_NOT_COMPARED = (Verdict.LEFT_ONLY, Verdict.RIGHT_ONLY, Verdict.UNJUDGED)


#: Most results have it: one for all.
_UNMOVED: Mapping[str, Permutation] = {}


@dataclass(frozen=True, slots=True)
class Result:
    """One fragment in two sources, either of which may lack it, and the verdict.

    ``difference`` has the elements of both sides where they are not identical. ``narrower`` is the side whose windows
    of columns lie within those of the other, for ``refined`` and some of ``relabelled``. ``permutations``, for
    ``relabelled``, take rows, columns or depth (``m``, ``n``, ``k``) or the ``computation`` of the left to the right;
    products of one instruction that are renumbered differently have names such as ``k of product 2``. ``same_as``, for
    ``different``, is another fragment of the right that equals the left one. ``known`` is the erratum that explains the
    difference. ``impossible`` is the side whose columns no metadata can select. ``reason`` says why it is ``unjudged``,
    or ``different`` without elements, as one side puts two of them in one place.
    """

    key: Key
    verdict: Verdict
    left: Fragment | None
    right: Fragment | None
    difference: Difference | None = None
    narrower: str | None = None
    permutations: Mapping[str, Permutation] = field(default_factory=lambda: _UNMOVED)
    same_as: Fragment | None = None
    known: str | None = None
    impossible: str | None = None
    reason: str = ""

    @property
    def sides(self) -> tuple[Fragment, Fragment]:
        """The fragments of what was compared."""
        assert self.left is not None
        assert self.right is not None
        return self.left, self.right

    @property
    def compared(self) -> bool:
        """Whether both sides have elements that claim something, so that they were compared."""
        return self.verdict not in _NOT_COMPARED

    @property
    def agrees(self) -> bool:
        """Whether both sides were compared, and are not different."""
        return self.compared and self.verdict is not Verdict.DIFFERENT

    @property
    def disagrees(self) -> bool:
        """Different, and not explained by an erratum."""
        return self.verdict is Verdict.DIFFERENT and self.known is None

    @property
    def words(self) -> str:
        """The verdict in words; empty where both are identical."""
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
                if self.difference is None:
                    return self.reason
                same = [f"it is {self.same_as} on the right"] if self.same_as else []
                none = f"no valid metadata selects the columns that the {self.impossible} names, and no others"
                return "; ".join([*same, *([none] if self.impossible else []), self.difference.words])
            case Verdict.UNJUDGED:
                return self.reason
        lacking = self.right if self.verdict is Verdict.LEFT_ONLY else self.left
        return lacking.status if lacking else "not there"


def compare(left: Sequence[Fragment], right: Sequence[Fragment]) -> list[Result]:
    """A verdict on every fragment that either source has elements of, in the order of the left, then of the right.

    The verdict on an operand depends on the others of its instruction: pass all of them, then pick from the results.
    """
    lefts, rights = ({fragment.key: fragment for fragment in side} for side in (left, right))
    held = {fragment.key for fragment in (*left, *right) if fragment.has_rows}
    differences: dict[tuple[object, ...], Difference] = {}

    def differ(first: Fragment, second: Fragment) -> Difference:
        layouts = first.digest, first.packing, second.digest, second.packing
        if layouts not in differences:
            differences[layouts] = difference(first, second)
        return differences[layouts]

    results = {key: _alone(key, lefts.get(key), rights.get(key), differ) for key in {**lefts, **rights} if key in held}
    for (name, shape), group in grouped(results.values(), lambda result: result.key[:2]).items():
        compared = [result for result in group if result.compared and not result.reason]
        if any(result.verdict is not Verdict.IDENTICAL for result in compared):
            forms = _forms(name, shape) if instruction(name).known else _guessed(_part(result.key) for result in group)
            together = _Together(_beside_metadata(compared), forms, differ)
            judged = _beside_metadata([together.judged(result) for result in together.results])
            results |= {result.key: result for result in judged}
    # A fragment that differs may equal another one of the right: name the one with the most similar key.
    layouts = grouped(right, lambda fragment: fragment.digest)
    for key, result in results.items():
        alike = layouts.get(result.left.digest, []) if result.left and result.verdict is Verdict.DIFFERENT else []
        if alike and result.right not in alike:
            results[key] = replace(result, same_as=max(alike, key=lambda fragment: sum(map(eq, key, fragment.key))))
    return [*results.values()]


Differ = Callable[[Fragment, Fragment], Difference]


def _alone(key: Key, left: Fragment | None, right: Fragment | None, differ: Differ) -> Result:
    """The verdict without regard to the other operands."""
    if left and right and IMPOSSIBLE in (left.status, right.status):
        side = "left" if left.status == IMPOSSIBLE else "right"
        return Result(key, Verdict.DIFFERENT, left, right, reason=f"the {side} puts two elements in one place")
    if left is None or not left.has_rows:
        return Result(key, Verdict.RIGHT_ONLY, left, right)
    if right is None or not right.has_rows:
        return Result(key, Verdict.LEFT_ONLY, left, right)
    unclaimed = {"left": windows.unclaimed(left), "right": windows.unclaimed(right)}
    if reasons := [f"the {side} {why}" for side, why in unclaimed.items() if why]:
        return Result(key, Verdict.UNJUDGED, left, right, reason="; ".join(reasons))
    if left.digest == right.digest and left.packed_like(right):
        return Result(key, Verdict.IDENTICAL, left, right)
    compared = differ(left, right)
    narrower = "left" if left.refines(right) else "right" if right.refines(left) else None
    return Result(key, Verdict.REFINED if narrower else Verdict.DIFFERENT, left, right, compared, narrower)


def _named(result: Result) -> Named:
    compared = result.difference
    tables = (compared.left, compared.right) if compared else (side.table for side in result.sides)
    return Named(result.sides[0], *tables)


def _beside_metadata(group: Sequence[Result]) -> list[Result]:
    """The results, but different where no metadata selects the columns that the narrower side names.

    A sparse A and the metadata E of its type are judged together: one choice of columns must be within both.
    """
    sparse = [one for one in map(_named, (result for result in group if result.agrees)) if one.operand.windowed]
    return [
        replace(result, verdict=Verdict.DIFFERENT, narrower=None, permutations={}, impossible=result.narrower)
        if result.narrower and not windows.possible(_named(result), sparse, result.permutations.get("k", ()))
        else result
        for result in group
    ]


#: Computations can be renumbered like a dimension.
_COMPUTATION = "computation"


def axes_of(key: Key) -> Sequence[str]:
    """What rows and columns count, and the computation, in this order. Block scales count blocks of K."""
    return (*key.axes.replace("s", "k"), _COMPUTATION)


def _scales(key: Key) -> int:
    """How many block scales an operand has along K; 0 for others."""
    extents = zip(key.axes, dimensions(key.shape, key.role, key.instruction, key.qualifiers), strict=True)
    return dict(extents).get("s", 0)


def _part(key: Key) -> Key:
    """The operand of a form that a fragment is, whatever its selector and which of its block scales are used."""
    scales = _scales(key)
    return key._replace(selector=None, qualifiers=f"scale_vec::{scales}X" if scales else key.qualifiers)


Form = frozenset[Key]


@lru_cache(1 << 10)
def _forms(name: str, shape: str) -> Sequence[Form]:
    """The operands in registers of each form of an instruction with a shape."""
    operand_sets = []
    for form in every_candidate({name: "instruction", shape: "shape"}):
        # A form that loads or stores one operand of a product is not a form of the product.
        if not (form.role and form.instruction.multiplies):
            keys = [form.key(role) for role in form.types if role in form.instruction.axes]
            scales = f"scale_vec::{form.block_scales[0]}X" if form.block_scales else None
            scaled = (key._replace(qualifiers=scales) if key.role.startswith("SF") else key for key in keys)
            operand_sets.append(frozenset(scaled))
    return tuple(dict.fromkeys(operand_sets))


def _guessed(parts: Iterable[Key]) -> Sequence[Form]:
    """The form of an instruction that has no row: of all operands that either side names, if each role is there once.

    It is a product, so it has a D, also where neither side names it.
    """
    by_role = grouped(dict.fromkeys(parts), lambda part: part.role)
    if any(len(same) > 1 for same in by_role.values()) or not {"A", "B"} <= by_role.keys():
        return ()
    operands = frozenset(part for (part,) in by_role.values())
    return [operands if {"C", "D"} & by_role.keys() else operands | {next(iter(operands))._replace(role="D")}]


def counts_alike(keys: Collection[Key], others: Collection[Key]) -> bool:
    """Whether two sources that agree where both have an operand of an instruction and shape count every axis alike.

    Of a product only the pairing is certain, not how an axis is counted (see ``_Together``), unless memory fixes it. So
    where both have operands that count it, in one form or in forms that share such operands, they must have one in
    common. Block scales in common pair the blocks of K, and not what is in them. All that they have of an instruction
    without forms may be operands of one.
    """

    def counts(part: Key, axis: str) -> bool:
        return axis in (*part.axes, _COMPUTATION) or (axis == "s" and "k" in part.axes)

    mine, theirs = ({_part(key) for key in side} for side in (keys, others))
    for (name, shape), parts in grouped(mine | theirs, lambda part: part[:2]).items():
        forms = _forms(name, shape) or [frozenset(parts)]
        for axis in {axis for part in parts for axis in (*part.axes, _COMPUTATION)}.difference(instruction(name).fixed):
            together: list[Form] = []
            for form in forms:
                counting = frozenset(part for part in form if counts(part, axis))
                apart = [other for other in together if other.isdisjoint(counting)]
                together = [*apart, counting.union(*(other for other in together if other not in apart))]
            if any(mine & parts and theirs & parts and not mine & theirs & parts for parts in together):
                return False
    return True


class _Together:
    """The operands of one instruction and shape that were compared, judged by those of its forms.

    A product does not change if an axis is renumbered alike in all operands that count it: M in A, C, D and their
    scales, N in B, C, D and theirs, K in A, B, metadata, and as whole blocks in scales. An axis that an operand in
    memory counts is fixed. So an operand that differs is relabelled if there is a form of which everything that counts
    its axes was compared, and is renumbered alike, from one source to one source. If an operand is missing, nothing
    shows that it is renumbered alike; only C or D may be missing, as a sum may start from zero or from its last result.
    """

    def __init__(self, results: Sequence[Result], forms: Sequence[Form], differ: Differ) -> None:
        self.results = results
        self._differ = differ
        self._members = grouped(results, lambda result: _part(result.key))
        self._forms = [form for form in forms if not form.isdisjoint(self._members)]
        self._common: dict[tuple[str, tuple[Key, ...]], Sequence[Permutation] | None] = {}
        self._moves = {result.key: moves for result in results if (moves := self._explained(result))}

    def judged(self, result: Result) -> Result:
        """The result: relabelled instead of different where renumbering explains it, and contradicts no form."""
        moves = self._moves.get(result.key)
        return _relabelled(result, moves) if moves and not self._contradicted(result) else result

    def _explained(self, result: Result) -> Mapping[str, Sequence[Permutation]] | None:
        """The permutations of each axis that a form explains a difference with."""
        compared = result.difference
        if result.verdict is not Verdict.DIFFERENT or compared is None or not compared.same_slots or compared.packing:
            return None
        for form in self._of(result):
            found = {axis: self._alike(axis, form) or self._unmoved(axis, result) for axis in axes_of(result.key)}
            moves = {axis: orders for axis, orders in found.items() if orders}
            if moves.keys() == found.keys():
                return moves
        return None

    def _of(self, result: Result) -> Iterable[Form]:
        return (form for form in self._forms if _part(result.key) in form)

    def _alike(self, axis: str, form: Form) -> Sequence[Permutation] | None:
        """The permutations of an axis that a form has in common, if all that counts it comes from one source."""
        sharing = self._sharing(axis, form, {result.key for result in self.results})
        sources = {tuple(side and side.source for side in (one.left, one.right)) for one in sharing}
        return self._shared(axis, sharing) if len(sources) == 1 else None

    def _unmoved(self, axis: str, result: Result) -> Sequence[Permutation] | None:
        """Without renumbering an operand is right whatever the others are."""
        alone = self._shared(axis, [result])
        return alone if alone and all(map(is_identity, alone)) else None

    def _sharing(self, axis: str, form: Form, among: Collection[Key]) -> Sequence[Result]:
        """Those among some fragments that count an axis in a form; none if too few are there, or the axis is fixed."""
        counting = {part.role: part for part in form if axis in axes_of(part)}
        if any(axis in instruction(part.instruction).fixed for part in counting.values()):
            return ()
        there = {
            role: [one for one in self._members.get(part, ()) if one.key in among] for role, part in counting.items()
        }
        missing = {role for role, results in there.items() if not results}
        enough = not missing or missing < counting.keys() & {"C", "D"}
        return [result for results in there.values() for result in results] if enough else ()

    def _contradicted(self, result: Result) -> bool:
        """Whether all operands of some form are right, each by itself or by a form of its own, but not together."""
        right = {one.key for one in self.results if one.agrees} | self._moves.keys()
        asked = [(axis, form) for form in self._of(result) for axis in axes_of(result.key)]
        together = ((axis, self._sharing(axis, form, right)) for axis, form in asked)
        return any(sharing and not self._shared(axis, sharing) for axis, sharing in together)

    def _shared(self, axis: str, sharing: Sequence[Result]) -> Sequence[Permutation] | None:
        """``common_permutations``, if metadata can select what a sparse A and its E name of the columns."""
        asked = axis, tuple(result.key for result in sharing)
        if asked not in self._common:
            orders = common_permutations(axis, sharing, self._differ)
            sparse = [
                one for one in map(_named, sharing) if one.operand.windowed and axis == axes_of(one.operand.key)[1]
            ]
            chosen = [one for one in sparse if one.chosen]
            torn = orders and not all(windows.possible(one, sparse, orders[0]) for one in chosen)
            self._common[asked] = None if torn else orders
        return self._common[asked]


def common_permutations(axis: str, members: Sequence[Result], differ: Differ) -> Sequence[Permutation] | None:
    """The permutations of an axis that take the left of every member to its right, one for each computation.

    None if there are none. Each computation may have its own, as that does not change what the instruction computes.
    """
    exact: dict[int, set[Pair]] = {}
    loose: list[tuple[int, set[Pair]]] = []
    blocks: list[tuple[int, set[Pair]]] = []
    size = count = 1
    for result in members:
        left, right = result.sides
        compared = result.difference or differ(left, right)
        at = axes_of(result.key).index(axis)
        pairs = compared.pairs[at]
        count = max([count, *pairs])
        if scales := _scales(result.key) if axis == "k" else 0:
            blocks += [(scales, numbers) for numbers in pairs.values()]
            continue
        size = max(size, (*left.dimensions, left.computations)[at])
        for computation, numbers in pairs.items():
            free = windows.loose(left, numbers) if at == 1 else set()
            loose.append((windows.together(left), free))
            exact.setdefault(computation, set()).update(numbers - free)
    if size == 1 and blocks:  # scales alone
        size = max(scales for scales, _ in blocks)
    permutations = [fitting(size, exact.get(computation, ())) for computation in range(1, count + 1)]
    complete = [order for order in permutations if order is not None]
    if len(complete) < count or not all(keeps(complete[0], pairs, together) for together, pairs in loose):
        return None
    return complete if all(_keeps_blocks(complete[0], *block) for block in blocks) else None


def _keeps_blocks(permutation: Permutation, count: int, pairs: Iterable[Pair]) -> bool:
    """Whether a permutation of K takes each block, as a whole, to the block that its scale goes to."""
    width = len(permutation) // count
    return all(
        {index // width for index in permutation[left * width : (left + 1) * width]} == {right}
        for (left, _), (right, _) in pairs
    )


def _relabelled(result: Result, orders: Mapping[str, Sequence[Permutation]]) -> Result:
    moved: dict[str, Permutation] = {}
    for axis, order in orders.items():
        if len(set(order)) == 1:
            moved[axis] = order[0]
        else:
            moved |= {f"{axis} of product {number}": permutation for number, permutation in enumerate(order, 1)}
    moved = {axis: permutation for axis, permutation in moved.items() if not is_identity(permutation)}
    assert result.difference is not None
    columns, pairs = orders[axes_of(result.key)[1]][0], result.difference.pairs[1].get(1, set())
    wider = any(left[1] - left[0] != right[1] - right[0] for left, right in pairs)
    narrower = keeps(columns, pairs, windows.together(result.sides[0])) if wider else None
    return replace(result, verdict=Verdict.RELABELLED, permutations=moved, narrower=narrower, impossible=None)
