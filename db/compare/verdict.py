"""Two sources compared fragment by fragment, on arrays.

Equal digests are equal layouts. Each pair of layouts that differ is compared once, however many fragments have it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from operator import eq
from typing import NamedTuple

import numpy as np

from ..isa.instructions import Key, dimensions, instruction
from ..isa.listing import grouped
from ..isa.spelling import every_candidate
from ..layout.fragment import Fragment
from ..layout.permutation import Permutation, describe, find, is_identity, keeps
from .difference import Array, Difference, Pair, difference


class Verdict(StrEnum):
    """The relation between the layouts of one fragment in two sources."""

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
    of columns lie within those of the other, for ``refined`` and some of ``relabelled``. ``permutations``, for
    ``relabelled``, take rows, columns or depth (``m``, ``n``, ``k``) or the ``computation`` of the left to the right;
    products of one instruction that are renumbered differently have names such as ``k of product 2``. ``same_as``, for
    ``different``, is another fragment of the right that equals the left one. ``known`` is the erratum that explains the
    difference. ``impossible`` is the side whose columns no metadata can select.
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
    impossible: str | None = None

    @property
    def compared(self) -> bool:
        """Whether both sides have elements."""
        return self.verdict not in (Verdict.LEFT_ONLY, Verdict.RIGHT_ONLY)

    @property
    def agrees(self) -> bool:
        """Whether both sides have elements, and these are not different."""
        return self.compared and self.verdict is not Verdict.DIFFERENT

    @property
    def disagrees(self) -> bool:
        """Different, and not explained by an erratum."""
        return self.verdict is Verdict.DIFFERENT and self.known is None

    @cached_property
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
                assert self.difference is not None
                same = [f"it is {self.same_as} on the right"] if self.same_as else []
                none = f"no valid metadata selects the columns that the {self.impossible} names"
                impossible = [f"{none}; without col_last each is exact"] if self.impossible else []
                return "; ".join([*same, *impossible, self.difference.words])
        lacking = self.right if self.verdict is Verdict.LEFT_ONLY else self.left
        return lacking.status if lacking else "not there"


def compare(left: Sequence[Fragment], right: Sequence[Fragment]) -> list[Result]:
    """A verdict on every fragment that either source has elements of, in the order of the left, then of the right.

    The verdict on an operand depends on the others of its instruction: pass all of them, then pick from the results.
    """
    lefts, rights = ({fragment.key: fragment for fragment in side} for side in (left, right))
    held = {fragment.key for fragment in (*left, *right) if fragment.has_rows}
    differences: dict[tuple[str | int | None, ...], Difference] = {}

    def differ(first: Fragment, second: Fragment) -> Difference:
        layouts = first.digest, first.first_bit, second.digest, second.first_bit
        if layouts not in differences:
            differences[layouts] = difference(first, second)
        return differences[layouts]

    results = {key: _result(key, lefts.get(key), rights.get(key), differ) for key in {**lefts, **rights} if key in held}
    for group in grouped(
        (result for result in results.values() if result.compared), lambda result: result.key[:2]
    ).values():
        if any(result.verdict is Verdict.DIFFERENT for result in group):
            results |= {result.key: result for result in _rename(group, differ)}
    # A fragment that differs may equal another one of the right: name the one with the most similar key.
    layouts = grouped(right, lambda fragment: fragment.digest)
    for key, result in results.items():
        alike = layouts.get(result.left.digest, []) if result.left and result.verdict is Verdict.DIFFERENT else []
        if alike and result.right not in alike:
            results[key] = replace(result, same_as=max(alike, key=lambda fragment: sum(map(eq, key, fragment.key))))
    return [*results.values()]


Differ = Callable[[Fragment, Fragment], Difference]


def _result(key: Key, left: Fragment | None, right: Fragment | None, differ: Differ) -> Result:
    """The verdict without regard to the other operands."""
    if left is None or not left.has_rows:
        return Result(key, Verdict.RIGHT_ONLY, left, right)
    if right is None or not right.has_rows:
        return Result(key, Verdict.LEFT_ONLY, left, right)
    if left.digest == right.digest and not left.displaced(right):
        return Result(key, Verdict.IDENTICAL, left, right)
    compared = differ(left, right)
    narrower = _narrower(compared) if left.windowed and not compared.bits else None
    if narrower and _selectable(left, getattr(compared, narrower)):
        return Result(key, Verdict.REFINED, left, right, compared, narrower)
    return Result(key, Verdict.DIFFERENT, left, right, compared, impossible=narrower)


def _narrower(compared: Difference) -> str | None:
    """The side all of whose windows lie within those of the other, in the same rows."""
    left, right = compared.left, compared.right
    if not compared.same_slots or any((left[name] != right[name]).any() for name in ("row", "computation")):
        return None
    for side, narrow, wide in (("left", left, right), ("right", right, left)):
        if (narrow["col"] >= wide["col"]).all() and (narrow["col_last"] <= wide["col_last"]).all():
            return side
    return None


def _selectable(fragment: Fragment, table: Array) -> bool:
    """Whether some valid metadata selects columns in the window of each element of a sparse operand (9.7.14.6.1).

    The elements of one chunk of a row are in the order of their slots, as the indices in metadata ascend.
    """
    rule = fragment.sparsity
    run = rule.group if fragment.role == "A" else 1  # an element of E stands for all columns that it selects
    # A document may name a window of several chunks, whose elements are in the order of the chunks.
    block = max(rule.width, 1 << int((table["col_last"] - table["col"]).max(initial=0)).bit_length())
    size = rule.fields * run * block // rule.width
    if len(table) % size:
        return False
    blocks = table["computation"], table["row"], table["col"] // block
    order = np.lexsort((table["slot"], table["reg"], table["lane"], *blocks))
    named = np.stack(blocks, axis=1)[order].reshape(-1, size, len(blocks))
    if (named != named[:, :1]).any() or len(np.unique(named[:, 0], axis=0)) < len(named):
        return False
    chunks = len(named), block // rule.width, rule.fields * run
    offset = (named[:, 0, 2] * block)[:, None, None] + np.arange(chunks[1])[:, None] * rule.width
    first, last = (table[name][order].reshape(chunks) - offset for name in ("col", "col_last"))
    possible = np.zeros(chunks[:2], bool)
    for indices in rule.indices.values():
        start = (np.array(indices)[:, None] * rule.group + np.arange(run)).ravel()
        possible |= ((first <= start) & (start + rule.group - run <= last)).all(axis=2)
    return bool(possible.all())


#: Computations can be renumbered like a dimension.
_COMPUTATION = "computation"


class Term(NamedTuple):
    """An operand of a form: its role and type, and for block scales their number along K."""

    role: str
    type: str
    scales: int = 0


def _part(key: Key) -> Term:
    axes = key.axes
    extents = dict(zip(axes, dimensions(key.shape, key.role, key.instruction, key.qualifiers), strict=True))
    return Term(key.role, key.type, extents.get("s", 0))


def axes_of(key: Key) -> Sequence[str]:
    """What rows and columns count, and the computation, in this order. Block scales count blocks of K."""
    return (*key.axes.replace("s", "k"), _COMPUTATION)


@lru_cache(1 << 10)
def _forms(name: str, shape: str) -> tuple[frozenset[Term], ...]:
    """The operands in registers of each form of an instruction with a shape."""
    operand_sets = []
    for form in every_candidate({name: "instruction", shape: "shape"}):
        # A form that loads or stores one operand of a product is not a form of the product.
        if not (form.role and form.instruction.multiplies):
            scales, _ = form.block_scales or (0, "")
            types = [(role, type_) for role, type_ in form.types.items() if role in form.instruction.axes]
            operand_sets.append(frozenset(Term(*pair, scales * pair[0].startswith("SF")) for pair in types))
    return tuple(dict.fromkeys(operand_sets))


def _rename(group: Sequence[Result], differ: Differ) -> list[Result]:
    """The results for one instruction and shape: relabelled instead of different where renumbering explains them.

    One permutation of each axis must explain every operand that counts it: a product does not change if an axis is
    renumbered alike in all of them, M in A, C, D and their scales, N in B, C, D and theirs, K in A, B, metadata, and as
    whole blocks in scales. An axis that an operand in memory counts is fixed. If an operand is missing, nothing shows
    that it is renumbered alike; only C or D may be missing, as a sum may start from zero or from its last result.
    """
    name, shape = group[0].key[:2]
    members = grouped(group, lambda result: _part(result.key))
    forms = _forms(name, shape)
    if not instruction(name).known and len({part.role for part in members}) == len(members):
        forms = (frozenset(members),) if {"A", "B"} <= {part.role for part in members} else ()
    moves: dict[tuple[str, Key], Sequence[Permutation]] = {}
    for axis in dict.fromkeys(axis for result in group for axis in axes_of(result.key)):
        counting = [part for part, results in members.items() if axis in axes_of(results[0].key)]
        for parts in _together(counting, forms):
            sharing = [result for part in parts for result in members[part]]
            if all(result.verdict is not Verdict.DIFFERENT for result in sharing):
                continue
            permutations = common_permutations(axis, sharing, differ)
            free = axis not in instruction(name).fixed and any(_complete(axis, form, parts, name) for form in forms)
            if permutations and (free or all(map(is_identity, permutations))):
                moves |= {(axis, result.key): permutations for result in sharing}
                continue
            for result in sharing:  # without renumbering an operand is right whatever the others are
                alone = common_permutations(axis, [result], differ)
                if alone and all(map(is_identity, alone)):
                    moves[axis, result.key] = alone
    return [_renamed(result, {axis: moves.get((axis, result.key)) for axis in axes_of(result.key)}) for result in group]


def _together(parts: Iterable[Term], forms: Iterable[frozenset[Term]]) -> list[set[Term]]:
    """The operands that share an axis, in groups: those of one form, and of forms with an operand in common."""
    groups = [{term} for term in parts]
    for form in forms:
        joined = set().union(*(group for group in groups if group & form))
        groups = [*(group for group in groups if not group & form), *([joined] if joined else [])]
    return groups


def _complete(axis: str, form: frozenset[Term], parts: set[Term], name: str) -> bool:
    """Whether ``parts`` has all operands of a form that count an axis, so that it shows if only one is renumbered."""
    axes = instruction(name).axes
    counting = {part for part in form if axis == _COMPUTATION or axis in axes[part.role].replace("s", "k")}
    missing = {part.role for part in counting - parts}
    return bool(counting) and (not missing or missing < {part.role for part in counting} & {"C", "D"})


def common_permutations(axis: str, members: Sequence[Result], differ: Differ) -> Sequence[Permutation] | None:
    """The permutations of an axis that take the left of every member to its right, one for each computation.

    None if there are none. Each computation may have its own, as that does not change what the instruction computes.
    """
    exact: dict[int, set[Pair]] = {}
    loose: list[set[Pair]] = []
    blocks: list[tuple[int, set[Pair]]] = []
    size = count = 1
    for result in members:
        assert result.left is not None
        assert result.right is not None
        compared = result.difference or differ(result.left, result.right)
        at = axes_of(result.key).index(axis)
        pairs = compared.pairs[at]
        count = max([count, *pairs])
        if count > result.left.computations:  # the right has products that the left lacks
            return None
        extent = (*result.left.dimensions, result.left.computations)[at]
        if scales := _part(result.key).scales if axis == "k" else 0:
            blocks += [(scales, numbers) for numbers in pairs.values()]
            continue
        size = max(size, extent)
        for computation, numbers in pairs.items():
            if at == 1 and _loose(result.left, numbers):
                loose.append(numbers)
            else:
                exact.setdefault(computation, set()).update(numbers)
    if size == 1 and blocks:  # scales alone
        size = max(scales for scales, _ in blocks)
    permutations = [find(size, exact.get(computation, ())) for computation in range(1, count + 1)]
    complete = [order for order in permutations if order is not None]
    if len(complete) < count or not all(keeps(complete[0], pairs) for pairs in loose):
        return None
    return complete if all(_keeps_blocks(complete[0], *block) for block in blocks) else None


def _keeps_blocks(permutation: Permutation, count: int, pairs: Iterable[Pair]) -> bool:
    """Whether a permutation of K takes each block, as a whole, to the block that its scale goes to."""
    width = len(permutation) // count
    return all(
        {index // width for index in permutation[left * width : (left + 1) * width]} == {right}
        for (left, _), (right, _) in pairs
    )


def _loose(fragment: Fragment, pairs: Iterable[Pair]) -> bool:
    """Whether windows of columns differ in width between the sides, as they may."""
    return fragment.windowed and any(left[1] - left[0] != right[1] - right[0] for left, right in pairs)


def _renamed(result: Result, permutations: Mapping[str, Sequence[Permutation] | None]) -> Result:
    compared = result.difference
    if result.verdict is not Verdict.DIFFERENT or compared is None or not compared.same_slots or compared.bits:
        return result
    orders = {axis: order for axis, order in permutations.items() if order is not None}
    if len(orders) < len(permutations):
        return result
    assert result.left is not None
    (columns, *_), pairs = orders[axes_of(result.key)[1]], compared.pairs[1].get(1, set())
    narrower = keeps(columns, pairs) if _loose(result.left, pairs) else None
    if narrower and not _selectable(result.left, getattr(compared, narrower)):
        return replace(result, impossible=narrower)
    moved: dict[str, Permutation] = {}
    for axis, order in orders.items():
        if len(set(order)) == 1:
            moved[axis] = order[0]
        else:
            moved |= {f"{axis} of product {number}": permutation for number, permutation in enumerate(order, 1)}
    moved = {axis: permutation for axis, permutation in moved.items() if not is_identity(permutation)}
    return replace(result, verdict=Verdict.RELABELLED, permutations=moved, narrower=narrower)
