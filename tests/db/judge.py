"""The definition of the verdicts, by sets alone: it judges ``lanemap.db.compare``, of which it uses nothing.

An axis is renumbered alike where a permutation takes every set of numbers on the left to the set in its place on the
right. There is one if as many numbers of the left as of the right are in exactly the same sets.
"""

from collections import Counter, defaultdict

from lanemap.db.isa.forms import forms

AXES = {"A": "mk", "B": "kn", "C": "mn", "D": "mn", "E": "mk", "SFA": "mk", "SFB": "kn", "r": "mn", "p": "m1"}
#: Axes that memory counts.
FIXED = {"ldmatrix": "n", "stmatrix": "n", "wgmma": "kn", "wgmma.sp": "kn"}
COMPARED_ALONE = {"tcgen05.ld", "tcgen05.st", "tcgen05.mma"}


def judged(left, right):
    """The verdict on every fragment, by its key. No windows are of different widths on the two sides."""
    mine, theirs = ({one.key: one for one in side if len(one.elements)} for side in (left, right))
    found = dict.fromkeys(mine, "left only") | dict.fromkeys(theirs, "right only")
    groups = defaultdict(dict)
    for key in mine.keys() & theirs.keys():
        groups[key.instruction, key.shape][key] = pair = _Pair(mine[key], theirs[key])
        found[key] = "identical" if pair.same else "unjudged" if pair.claimless else "different"
    for (name, shape), pairs in groups.items():
        every = [key for key in found if (key.instruction, key.shape) == (name, shape)]
        pairs = {key: pair for key, pair in pairs.items() if found[key] != "unjudged"}
        for key in _relabelled(pairs, _products(name, shape, every)):
            found[key] = "relabelled"
    return found


class _Pair:
    """A fragment on both sides, and for each axis the sets of numbers that stand in each other's place."""

    def __init__(self, left, right):
        self.key, self.sources = left.key, (left.source, right.source)
        one, other = ({row[:3]: row[3:] for row in side.elements.tolist()} for side in (left, right))
        bits = {side.first_bit for side in (left, right)} - {None}
        self.packed = (left.register_bits, left.slots) == (right.register_bits, right.slots) and len(bits) < 2
        tables = left.elements, right.elements
        whole = [(table["col_last"] - table["col"] + 1 >= left.dimensions[1]).any() for table in tables]
        self.claimless = left.windowed and any(whole)
        self.same = self.packed and one == other and not self.claimless
        self.movable = self.packed and one.keys() == other.keys()
        self.sizes = dict(zip(self.axes, (*left.dimensions, left.computations), strict=True))
        self.sets = {axis: defaultdict(set) for axis in self.axes}
        rows, cols, computations = (self.sets[axis] for axis in self.axes)
        together = left.sparsity.group if self.key.role == "E" else 1
        for place in one.keys() & other.keys():
            (row, col, last, number), (its_row, its_col, its_last, its_number) = one[place], other[place]
            rows[number].add(((row, row), (its_row, its_row)))
            if last - col == together - 1:  # one field of metadata selects them together
                cols[number].add(((col, last), (its_col, its_last)))
            else:  # each number in metadata is a column
                cols[number] |= {((col + at,) * 2, (its_col + at,) * 2) for at in range(last - col + 1)}
            computations[1].add(((number - 1, number - 1), (its_number - 1, its_number - 1)))

    @property
    def axes(self):
        """What rows, columns and computations count."""
        named = {"A": "mn", "D": "nm"} if self.key.instruction == "movmatrix" else AXES
        return (*named[self.key.role], "computation")


def _products(name, shape, keys):
    """The operands of each form, as the keys among some, by role; those that are missing have none."""
    if name in COMPARED_ALONE:
        return []
    known = [form for form in forms() if (form.name, form.shape) == (name, shape)]
    if not known:
        by_role = defaultdict(list)
        for key in keys:
            by_role[key.role].append(key)
        if not {"A", "B"} <= by_role.keys() or any(len(some) > 1 for some in by_role.values()):
            return []
        return [by_role if {"C", "D"} & by_role.keys() else {**by_role, "D": []}]
    found = []
    for form in known:
        if form.role and form.instruction.multiplies:
            continue
        operands = {}
        for role in form.types:
            wanted = form.key(role)
            operands[role] = [
                key
                for key in keys
                if (key.role, key.type, key.major) == (role, wanted.type, wanted.major)
                and (
                    f"scale_vec::{form.block_scales[0]}X" in key.qualifiers
                    if role.startswith("SF")
                    else key.qualifiers == wanted.qualifiers
                )
            ]
        found.append(operands)
    return found


def _relabelled(pairs, products):
    def members(product, axis, among):
        """The pairs of a form that count an axis; none if more than one of C and D are missing, or memory counts it."""
        there = {role: [pairs[key] for key in keys if key in among] for role, keys in product.items()}
        counting = {role: some for role, some in there.items() if axis in _axes_of(role, pairs)}
        lacking = {role for role, some in counting.items() if not some}
        spared = counting.keys() & {"C", "D"}
        whole = not lacking or (lacking <= spared and lacking != spared)
        return [pair for some in counting.values() for pair in some] if whole else []

    def fixed(key, axis):
        return axis in FIXED.get(key.instruction, "")

    def explained(pair):
        return pair.movable and any(
            pair.key in product.get(pair.key.role, ())
            and all(
                _stays(pair, axis)
                or (
                    not fixed(pair.key, axis)
                    and len({one.sources for one in members(product, axis, pairs)}) == 1
                    and _alike(axis, members(product, axis, pairs))
                )
                for axis in pair.axes
            )
            for product in products
        )

    moved = {key for key, pair in pairs.items() if not pair.same and explained(pair)}
    right = moved | {key for key, pair in pairs.items() if pair.same}
    for key in moved:
        of = [product for product in products if key in product.get(key.role, ())]
        groups = ((axis, members(one, axis, right)) for one in of for axis in pairs[key].axes if not fixed(key, axis))
        if all(_alike(axis, group) for axis, group in groups):
            yield key


def _axes_of(role, pairs):
    moving = any(key.instruction == "movmatrix" for key in pairs)
    return (*({"A": "mn", "D": "nm"} if moving else AXES)[role], "computation")


def _stays(pair, axis):
    return all(left == right for some in pair.sets[axis].values() for left, right in some)


def _alike(axis, group):
    """Whether one renumbering, or one for each computation, takes the left of all to the right."""
    size = max((pair.sizes[axis] for pair in group), default=1)
    for number in {number for pair in group for number in pair.sets[axis]}:
        inside = [Counter(), Counter()]
        members = [defaultdict(list), defaultdict(list)]
        every = [(pair, spans) for pair in group for spans in pair.sets[axis].get(number, ())]
        for at, (pair, spans) in enumerate(every):
            width = size // pair.sizes[axis]  # a block scale is that of so many columns
            for side, (first, last) in zip(members, spans, strict=True):
                for index in range(first * width, (last + 1) * width):
                    side[index].append(at)
        for counted, side in zip(inside, members, strict=True):
            if not {*side} <= {*range(size)}:
                return False
            counted.update(tuple(side[index]) for index in range(size))
        if inside[0] != inside[1]:
            return False
    return True
