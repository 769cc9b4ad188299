"""The definition of the verdicts, by sets alone: it judges ``lanemap.db.compare``, of which it uses nothing.

Both sides name, for each place, a row, columns and a computation. Of an operand that both have the verdict is the first
of these that is true:

- unjudged: a window of columns is a whole row, which claims nothing;
- identical: each place has the same on both sides;
- refined: only columns differ, those of one side are within the windows of the other, and metadata can select them;
- relabelled: there is a form of the instruction that has the operand, and all operands of the form that count one of
  its axes were compared, come from one source, and are renumbered alike, so that no product changes; metadata can
  select the columns; and no form all of whose operands are right by themselves contradicts it;
- different.

**Renumbered alike** is an axis where a permutation takes every set of numbers that stands in a place on the left to the
set in that place on the right. There is one if, of numbers on the left and on the right, as many are in the same sets.

**Metadata can select** the columns of a sparse A, or of its E, where in each chunk of each row some valid choice of
columns has one within each window, of both sides, and of A and E together. A side with windows is numbered as metadata
numbers columns; the other may be renumbered.
"""

from collections import defaultdict
from itertools import combinations, permutations, product
from math import factorial, prod

from lanemap.db.isa.forms import forms

AXES = {"A": "mk", "B": "kn", "C": "mn", "D": "mn", "E": "mk", "SFA": "mk", "SFB": "kn", "r": "mn", "p": "m1"}
#: Axes that memory counts.
FIXED = {"ldmatrix": "n", "stmatrix": "n", "wgmma": "kn", "wgmma.sp": "kn"}
COMPARED_ALONE = {"tcgen05.ld", "tcgen05.st", "tcgen05.mma"}
#: Of so many columns metadata selects how many runs of how many neighbours.
STORED = {2: (1, 1), 4: (2, 1), 8: (2, 2)}


class UndecidedError(Exception):
    """More renumberings than can be tried take the left to the right."""


def judged(left, right):
    """The verdict on every fragment, by its key."""
    mine, theirs = ({one.key: one for one in side if len(one.elements)} for side in (left, right))
    found = dict.fromkeys(mine, "left only") | dict.fromkeys(theirs, "right only")
    groups = defaultdict(dict)
    for key in mine.keys() & theirs.keys():
        groups[key.instruction, key.shape][key] = pair = _Pair(mine[key], theirs[key])
        found[key] = "identical" if pair.same else "unjudged" if pair.claimless else "different"
    for (name, shape), pairs in groups.items():
        every = [key for key in found if (key.instruction, key.shape) == (name, shape)]
        pairs = {key: pair for key, pair in pairs.items() if found[key] != "unjudged"}
        same = {key: () for key, pair in pairs.items() if pair.same}
        refined = {key: () for key, pair in pairs.items() if pair.narrows and not pair.same}
        refined = _selected(pairs, refined, same | refined)
        moved = _relabelled(pairs, same | refined, _products(name, shape, every))
        wider = {key: order for key, order in moved.items() if pairs[key].loose}
        found |= dict.fromkeys(_selected(pairs, refined, same | refined | moved), "refined")
        found |= dict.fromkeys(moved.keys() - wider.keys(), "relabelled")
        found |= dict.fromkeys(_selected(pairs, wider, same | refined | moved), "relabelled")
    return found


class _Pair:
    """A fragment on both sides.

    ``sets`` has for each axis and computation the spans of numbers that stand in each other's place, that of the left
    with that of the right, each as its first and its last. ``loose`` are windows of columns that are wider on one side.
    """

    def __init__(self, left, right):
        self.key, self.sources = left.key, (left.source, right.source)
        self.sides = one, other = [{row[:3]: row[3:] for row in side.elements.tolist()} for side in (left, right)]
        bits = {side.first_bit for side in (left, right)} - {None}
        self.packed = (left.register_bits, left.slots) == (right.register_bits, right.slots) and len(bits) < 2
        tables = left.elements, right.elements
        whole = [(table["col_last"] - table["col"] + 1 >= left.dimensions[1]).any() for table in tables]
        self.windowed = left.windowed
        self.claimless = left.windowed and any(whole)
        self.same = self.packed and one == other and not self.claimless
        self.movable = self.packed and one.keys() == other.keys()
        self.sizes = dict(zip(self.axes, (*left.dimensions, left.computations), strict=True))
        self.sets = {axis: defaultdict(set) for axis in self.axes}
        self.chunk = left.chunk
        self.together = STORED[self.chunk][1] if self.key.role == "E" else 1
        self.loose = set()
        alike, within = self.movable and self.windowed, [True, True]
        rows, cols, computations = (self.sets[axis] for axis in self.axes)
        for place in one.keys() & other.keys():
            (row, col, last, number), (its_row, its_col, its_last, its_number) = one[place], other[place]
            rows[number].add(((row, row), (its_row, its_row)))
            if last - col != its_last - its_col:
                self.loose.add(((col, last), (its_col, its_last)))
            elif last - col == self.together - 1:  # one field of metadata selects them together
                cols[number].add(((col, last), (its_col, its_last)))
            else:  # each number in metadata is a column
                cols[number] |= {((col + at,) * 2, (its_col + at,) * 2) for at in range(last - col + 1)}
            computations[1].add(((number - 1, number - 1), (its_number - 1, its_number - 1)))
            alike = alike and (row, number) == (its_row, its_number)
            within[0] = within[0] and its_col <= col and last <= its_last
            within[1] = within[1] and col <= its_col and its_last <= last
        self.narrows = alike and any(within)

    @property
    def axes(self):
        """What rows, columns and computations count."""
        named = {"A": "mn", "D": "nm"} if self.key.instruction == "movmatrix" else AXES
        return (*named[self.key.role], "computation")

    @property
    def names_columns(self):
        """Whether the sides differ in their columns, and one of them names what metadata selects of the other's."""
        cols = [(one[1:3], other[1:3]) for one, other in self._cells]
        few = (bool(self.loose) or last - first < self.together for (first, last), _ in cols)
        return any(one != other for one, other in cols) and any(few)

    @property
    def _cells(self):
        one, other = self.sides
        return [(one[place], other[place]) for place in sorted(one.keys() & other.keys())]

    def leaves_open(self, side):
        """Whether windows of a side are wider than what metadata selects."""
        return any(both[side][2] - both[side][1] >= self.together for both in self._cells)

    def keeps(self, order):
        """Whether a renumbering takes the windows of one side into those of the other, each in its order."""
        ways = [dict(enumerate(order)), {right: left for left, right in enumerate(order)}]

        def inside(narrow, wide, goes):
            to = [goes.get(at, -1) for at in _numbers(narrow)]
            ordered = sorted(to) if len(to) == self.together else to
            return {*to} <= {*_numbers(wide)} and ordered == [*range(ordered[0], ordered[0] + len(to))]

        return all(inside(left, right, ways[0]) for left, right in self.loose) or all(
            inside(right, left, ways[1]) for left, right in self.loose
        )

    def choices(self, side, comes):
        """What metadata may select in each chunk that has all its elements, and whether all have that have any.

        A choice has the numbers of the runs. Windows are those of a side, and of the other what ``comes`` from it.
        """
        fields, run = STORED[self.chunk]
        held = run if self.key.role == "A" else 1  # an element of A is one column of a run

        def selected(start, runs):
            """The columns of each element of a chunk, if metadata selects these runs of it."""
            columns = [[start + at * run + step for step in range(run)] for at in runs]
            return [{column} for each in columns for column in each] if held > 1 else [{*each} for each in columns]

        shared = []
        for both in self._cells:
            row, col, last, number = both[side]
            theirs = {comes.get(at) for at in _numbers(both[1 - side][1:3])}
            columns = {*_numbers((col, last))} & theirs
            shared.append((number, row, min(columns, default=col), columns))
        widest = max(max(columns, default=col) - col + 1 for *_, col, columns in shared)
        chunks = next(count for count in (1, 2, 4, 8, 16, 32) if widest <= count * self.chunk)
        found, blocks = {}, defaultdict(list)
        for number, row, col, columns in shared:
            blocks[number, row, col // (chunks * self.chunk)].append(columns)
        of_chunk = fields * held
        whole = {block: windows for block, windows in blocks.items() if len(windows) == chunks * of_chunk}
        for (number, row, block), windows in whole.items():
            for part in range(chunks):
                start = (block * chunks + part) * self.chunk
                wanted = windows[part * of_chunk : (part + 1) * of_chunk]
                choices = combinations(range(self.chunk // run), fields)
                found[number, row, start] = {
                    runs for runs in choices if all(map(set.issubset, selected(start, runs), wanted))
                }
        return found, whole == blocks


def _numbers(span):
    return range(span[0], span[1] + 1)


def _selected(pairs, asked, agreeing):
    """Those ``asked``, with their orders of K, whose columns some metadata selects, also with those of E, or A."""
    return {
        key: order
        for key, order in asked.items()
        if _possible(pairs[key], [pairs[one] for one in agreeing if pairs[one].windowed], order)
    }


def _possible(pair, others, order):
    beside = [one for one in others if one.key.type == pair.key.type and one.key.role != pair.key.role]
    beside = [one for one in beside if _selectable([one], order)]
    return _selectable([pair], order) and all(_selectable([pair, one], order) for one in beside)


def _selectable(pairs, order):
    """Whether some metadata selects a column in all that the windows of both sides have in common.

    ``order`` takes the columns of the left to the right. Metadata counts columns as a side does that leaves it a
    choice; where neither does, it may be either.
    """
    goes = dict(enumerate(order or range(pairs[0].sizes["k"])))
    comes = {right: left for left, right in goes.items()}
    for side in [side for side in (0, 1) if any(pair.leaves_open(side) for pair in pairs)] or (0, 1):
        (first, complete), *others = (pair.choices(side, (comes, goes)[side]) for pair in pairs)
        for chunk, possible in first.items():
            if not possible.intersection(*(some[chunk] for some, _ in others if chunk in some)):
                return False
        if not complete:
            return False
    return True


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


def _relabelled(pairs, settled, products):
    """The pairs that a form explains by a renumbering, and contradicts by none, with their orders of K."""

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
        """The orders that explain a pair; None if none do."""
        for form in products if pair.movable else ():
            if pair.key not in form.get(pair.key.role, ()):
                continue
            orders = {}
            for axis in pair.axes:
                counting = [] if fixed(pair.key, axis) else members(form, axis, pairs)
                one_source = len({one.sources for one in counting}) == 1
                orders[axis] = _alike(axis, counting) if one_source else None
                if orders[axis] is None and _stays(pair, axis):
                    orders[axis] = ()
            if None not in orders.values():
                return orders.get("k", ())
        return None

    moved = {key: order for key, pair in pairs.items() if key not in settled and (order := explained(pair)) is not None}
    right = moved.keys() | settled.keys()
    agreed = {}
    for key, order in moved.items():
        of = [product for product in products if key in product.get(key.role, ())]
        groups = ((axis, members(one, axis, right)) for one in of for axis in pairs[key].axes if not fixed(key, axis))
        if all(_alike(axis, group) is not None for axis, group in groups if group):
            agreed[key] = order
    return agreed


def _axes_of(role, pairs):
    moving = any(key.instruction == "movmatrix" for key in pairs)
    return (*({"A": "mn", "D": "nm"} if moving else AXES)[role], "computation")


def _stays(pair, axis):
    unmoved = all(left == right for some in pair.sets[axis].values() for left, right in some)
    return unmoved and (axis != pair.axes[1] or _leaves_choice([pair], range(pair.sizes[axis])))


def _leaves_choice(group, order):
    """Whether what A and E name lies in the windows of the other side, and metadata can select it."""
    sparse = [pair for pair in group if pair.windowed]
    named = [pair for pair in sparse if pair.names_columns]
    return all(pair.keeps(order) for pair in sparse) and all(_possible(pair, sparse, order) for pair in named)


def _alike(axis, group):
    """A renumbering, or one for each computation, that takes the left of all to the right.

    Returns:
        That of the columns of A and E, if there are any, or an empty one; None if there is none.
    """
    size = max((pair.sizes[axis] for pair in group), default=1)
    classes = []
    for number in {number for pair in group for number in pair.sets[axis]}:
        # A block scale is that of so many columns.
        sets = [(spans, size // pair.sizes[axis]) for pair in group for spans in pair.sets[axis].get(number, ())]
        left, right = (_by_sets(size, [(spans[side], width) for spans, width in sets]) for side in (0, 1))
        if (
            left is None
            or right is None
            or {name: len(some) for name, some in left.items()} != {name: len(some) for name, some in right.items()}
        ):
            return None
        classes.append([(some, right[name]) for name, some in left.items()])
    columns = [pair for pair in group if pair.windowed and axis == pair.axes[1]]
    if not columns:
        return ()
    if prod(factorial(len(some)) for some, _ in classes[0]) > 1000:
        raise UndecidedError
    # Within a class any number may go to any: some way must leave metadata a choice.
    starts = [start for some, _ in classes[0] for start in some]
    for ways in product(*(permutations(there) for _, there in classes[0])):
        goes = dict(zip(starts, (to for way in ways for to in way), strict=True))
        if _leaves_choice(columns, order := tuple(map(goes.get, range(size)))):
            return order
    return None


def _by_sets(size, sets):
    """The numbers of an axis by which sets they are in, as the places of these; None if a set has other numbers.

    A set is a span, from its first to its last, of blocks so many numbers wide.
    """
    of_number = {number: [] for number in range(size)}
    for at, ((first, last), width) in enumerate(sets):
        for number in range(first * width, (last + 1) * width):
            if number not in of_number:
                return None
            of_number[number].append(at)
    found = defaultdict(list)
    for number, places in of_number.items():
        found[tuple(places)].append(number)
    return found
