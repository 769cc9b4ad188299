"""Layouts as formulas: MLIR's affine maps, Python's index functions, PTX's own notation, CuTe's and Triton's layouts.

``lane`` is the thread, ``value`` or ``i`` its element. Where an instruction handles several products or matrices,
``computation`` is a coordinate before row and column.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from ...isa.instructions import AXES, WARP, WORD, dimensions, instruction
from ...isa.shared import BoundingBox, Tile
from ...isa.tiling import Tiling, grid
from ...isa.types import TYPES
from ...layout.algebra import MOST_CASES, Array, NotASumError, Sum, as_cases, as_sum, bits, span
from ...layout.digits import Digit, quotients
from ...layout.fragment import Fragment
from ...layout.shared import places, shared, strides, swizzle
from .table import RefusedError, Writer, bits_of, cells, inverse, refusal, sum_of, table

_PLACE = ("lane", "value")
_NONE = Digit(1, 1, 0)


def affine(fragment: Fragment, name: str) -> str:
    """MLIR's map from lane and value to the cell, and the nested layout that IREE uses, or why there is none.

    A nested layout cuts each dimension into outer, thread and element tiles, ``(outer * threads + thread) * elements +
    element``, and lets a lane count its elements through the outer tiles, then the element tiles, the last dimension
    fastest. PTX counts them its own way, so a map from those tiles to ``value`` comes with it.
    """
    sums = {axis: sum_of(fragment, axis, values) for axis, values in cells(fragment).items()}
    plain = _map(name, _PLACE, [quotients(axis_sum.axes, _PLACE, axis_sum.constant) for axis_sum in sums.values()])
    cut = []
    for axis, total in sums.items():
        threads, values = ([digit for digit in digits if digit.weight] for digits in total.axes)
        thread, *more = threads or [_NONE]
        element = next((digit for digit in values if digit.weight == 1), _NONE)
        outer, *others = [digit for digit in values if digit is not element] or [_NONE]
        nested = thread.weight in (0, element.size) and outer.weight in (0, element.size * thread.size)
        if not nested or more or others or total.constant:
            return f"{plain}// no nested layout: {axis} is more than one outer, one thread and one element tile\n"
        cut.append((outer, thread, element))
    ones, zeros = [1] * len(cut), [0] * len(cut)
    parts = {
        "subgroup_tile": ones,
        "batch_tile": ones,
        "outer_tile": [outer.size for outer, _, _ in cut],
        "thread_tile": [thread.size for _, thread, _ in cut],
        "element_tile": [element.size for _, _, element in cut],
        "subgroup_strides": zeros,
        "thread_strides": [thread.step if thread.weight else 0 for _, thread, _ in cut],
    }
    body = ", ".join(f"{part} = {numbers}" for part, numbers in parts.items())
    names = [f"{part}{axis}" for part in ("outer", "element") for axis in range(len(cut))]
    digits = [outer for outer, _, _ in cut] + [element for _, _, element in cut]
    value = Sum(0, tuple((Digit(1, digit.size, digit.step if digit.weight else 0),) for digit in digits))
    counted = np.sort(value(*np.indices([digit.size for digit in digits], sparse=True)), axis=None)
    if not np.array_equal(counted, np.arange(fragment.per_thread)):
        return f"{plain}// no nested layout: some elements of a lane hold the same cell\n"
    layout = f"#{name}_nested = #iree_vector_ext.nested_layout<{body}>\n"
    return plain + layout + _map(f"{name}_nested_value", names, [quotients(value.axes, names)])


def _map(name: str, names: Sequence[str], results: Sequence[str]) -> str:
    words = ", ".join(results).replace("//", "floordiv").replace("%", "mod")
    return f"#{name} = affine_map<({', '.join(names)}) -> ({words})>\n"


def python(fragment: Fragment, name: str) -> str:
    """Two functions, as TVM and TileLang take them: from the cell to lane and value, and back.

    They are ``shared_RxC_to_NAME_TxV_layout`` and ``NAME_TxV_to_shared_RxC_layout``, of T threads with V values.
    """
    coordinates = cells(fragment)
    back = inverse(fragment, unique=True)
    count = fragment.per_thread
    sums = {axis: sum_of(fragment, axis, values) for axis, values in coordinates.items()}
    # Sums of digits that name each cell once are digits of the cell the other way, too.
    places = dict(zip(_PLACE, map(as_sum, np.divmod(back.places, count)), strict=True))
    shared = "shared_" + "x".join(map(str, back.extents.values()))
    group = f"{name}_{fragment.threads}x{count}"
    forward = _function(f"{shared}_to_{group}_layout", tuple(sums), places)
    return f"{forward}\n\n{_function(f'{group}_to_{shared}_layout', _PLACE, sums)}"


def _function(name: str, names: Sequence[str], sums: Mapping[str, Sum]) -> str:
    lines = [f"    {result} = {quotients(total.axes, names, total.constant)}\n" for result, total in sums.items()]
    return f"def {name}({', '.join(names)}):\n{''.join(lines)}    return {', '.join(sums)}\n"


#: What PTX calls two fields of the lane in every section about a warp.
_FIELDS = {("%laneid", 4, 8): "groupID", ("%laneid", 1, 4): "threadID_in_group"}
_DEFINITIONS = {"groupID": "groupID = %laneid >> 2", "threadID_in_group": "threadID_in_group = %laneid % 4"}


def ptx_formula(fragment: Fragment, _: str) -> str:
    """Definitions of ``row`` and ``col``, after the terms they use, and of ``computation``, from 1, if several.

    A coordinate is a sum of bit fields of the lane and ``i``, in as few cases as can be had by halving the elements,
    then the lanes. Where only some lanes hold elements, the cases of ``row`` say which. Of an operand in shared memory
    it is the canonical layout, with numbers for its letters (9.7.17.5.1.2.1.3).

    Raises:
        RefusedError: a coordinate takes too many cases for a formula, or no bits tell which lanes hold it.
    """
    if isinstance(of := fragment.tile, Tile) and not of.narrow:
        with suppress(RefusedError):
            return f"{_stored(fragment)}{swizzle(of.mode)} o {_unswizzled(fragment, of)}\n"
    held = table(fragment)
    coordinates = held.everywhere
    threads, values = coordinates["row"].shape
    spelt, definition = _lane(fragment)
    tests = _test(fragment, spelt, threads, held.lanes), _test(fragment, "i", values, held.elements)
    window = coordinates["col_last"] - coordinates["col"]
    lines = _definition(fragment, "row", coordinates["row"], tests)
    if window.any():
        even = (window == window[0, 0]).all()
        lines += ["col = [firstcol ... lastcol]", *_definition(fragment, "firstcol", coordinates["col"])]
        last = [f"lastcol = firstcol + {window[0, 0]}"]
        lines += last if even else _definition(fragment, "lastcol", coordinates["col_last"])
    else:
        lines += _definition(fragment, "col", coordinates["col"])
    if coordinates["computation"].any():
        lines += _definition(fragment, "computation", coordinates["computation"] + 1)
    used = [text for term, text in _DEFINITIONS.items() if any(term in line for line in lines)]
    return "\n".join([*definition, *used, *lines]) + "\n"


def _lane(fragment: Fragment) -> tuple[str, list[str]]:
    """What a formula calls the lane, and its definition where it needs one: ``%laneid`` is that of a single warp."""
    vendor = instruction(fragment.instruction).vendor
    if fragment.memory:
        return "lane", []
    if fragment.threads <= vendor.group or not vendor.thread:
        return vendor.lane, []
    return "thread", [f"thread = {vendor.thread} % {fragment.threads}  // in a block of one dimension"]


def _test(fragment: Fragment, name: str, count: int, numbers: Array) -> str:
    """The condition that one of ``count`` lanes or elements is among ``numbers``; empty where all are."""
    bit_test = bits_of(count, numbers)
    if bit_test is None:
        raise RefusedError(f"{fragment}: no bits of {name} tell which ones hold something")
    mask, value = bit_test
    if not mask or mask == count - 1:
        return f"{name} = {value}" if mask else ""
    field = f"{name} % {mask + 1}" if mask & (mask + 1) == 0 else f"({name} & 0x{mask:X})"
    return f"{field} = {value}"


def _definition(fragment: Fragment, name: str, values: Array, tests: tuple[str, str] = ("", "")) -> list[str]:
    """The lines that define a coordinate over (lane, element), under conditions on the two."""
    try:
        cases = as_cases(values)
    except NotASumError as error:
        lane, element = error.index
        why = f"has {name} {error.value}: a formula would need more than {MOST_CASES} cases"
        raise refusal(fragment, lane, element, why) from None
    letter = {"B": "b", "C": "c", "D": "c", "E": "e"}.get(fragment.role, "a")
    spelt, _ = _lane(fragment)
    (threads, count), (lane_test, element_test) = values.shape, tests
    texts, clauses = [], []
    for case in cases:
        text = bits(case, (spelt, "i"), _FIELDS if threads == WARP else {})
        # A case that began with a sign would continue the condition of the case before it.
        texts.append(f"0 - {text[1:]}" if text.startswith("-") else text)
        lanes, numbers = case.parts
        elements = " && ".join(filter(None, (_between("i", numbers, count), element_test)))
        clause = f"  for {letter}i where {elements}" if elements else ""
        if len(numbers) == 1 < count and not element_test:
            clause = f"  for {letter}{numbers.start}"
        condition = " && ".join(filter(None, (_between(spelt, lanes, threads), lane_test)))
        clauses.append(clause + (f"  if {condition}" if condition else ""))
    width = max(map(len, texts)) if any(clauses) else 0
    margins = [f"{name} = ", *[" " * len(f"{name} = ")] * (len(texts) - 1)]
    return [f"{margin}{text:<{width}}{clause}" for margin, text, clause in zip(margins, texts, clauses, strict=True)]


def _between(name: str, part: range, count: int) -> str:
    if len(part) == count:
        return ""
    if len(part) == 1:
        return f"{name} = {part.start}"
    if part.start == 0:
        return f"{name} < {part.stop}"
    return f"{name} >= {part.start}" if part.stop == count else f"{part.start} <= {name} < {part.stop}"


_CUTE = (files(__package__) / "cute.hpp").read_text("utf-8")


def cute(fragment: Fragment, name: str) -> str:
    """An alias of CuTe's layout, after one of its ThrID where its threads are not simply the lanes.

    It maps (thread, value) to a cell counted down the columns: of A as (M, K), of B as (N, K), of C and D as (M, N).
    Where a warp does several products, the layout is that of one of them; a ThrID says which lanes its threads are, and
    the lanes of the other products follow as its complement. Where every lane holds elements of several matrices, cells
    are counted through one matrix after the other. In shared memory it maps (m, k) or (n, k) to the element's offset.
    """
    if of := fragment.tile:
        return _in_memory(fragment, of, name)
    coordinates = cells(fragment)
    rows, cols = fragment.dimensions
    row, col = coordinates["row"], coordinates["col"]
    counted = col + row * cols if fragment.role == "B" else row + col * rows
    computation = coordinates.get("computation", np.zeros((1, counted.shape[1]), np.int64))
    if (computation == computation[0]).all():
        return _alias(name, _digits(fragment, counted + computation * rows * cols))
    if len(odd := np.argwhere(computation != computation[:, :1]).tolist()):
        lane, element = odd[0]
        raise refusal(fragment, lane, element, "is of another product than its lane's first element")
    first = np.flatnonzero(computation[:, 0] == 0)
    threads = sum_of(fragment, "lane", first[:, None]).axes[0]
    lanes = _products(threads, fragment.threads)
    if lanes.shape != (fragment.threads // len(first), len(first)):
        raise RefusedError(f"{fragment}: the lanes of its first product have no complement")
    agrees = (computation[lanes, 0] == np.arange(len(lanes))[:, None]) & (counted[lanes] == counted[first]).all(axis=2)
    if len(odd := np.argwhere(~agrees).tolist()):
        raise refusal(
            fragment, int(lanes[tuple(odd[0])]), 0, "is not of the product, or not the cell, that its ThrID says"
        )
    return _alias(f"{name}_thr_id", [(digit,) for digit in threads]) + _alias(name, _digits(fragment, counted[first]))


def _stored(fragment: Fragment) -> str:
    """The comment that says what k counts of a sparse A, of which a part of the columns lies in memory."""
    sparsity = fragment.sparsity
    kept = f"{sparsity.fields * sparsity.group} of {sparsity.width} columns"
    return f"// k counts what is stored, {kept}\n" if fragment.windowed else ""


def _unswizzled(fragment: Fragment, of: Tile | BoundingBox) -> Sum:
    """The place of each (mn, k) in shared memory before its bytes are swizzled, counted in elements.

    Raises:
        RefusedError: the mode of the operand puts its elements elsewhere.
    """
    if not np.array_equal(shared(fragment.key, places(of)), fragment.table):
        raise RefusedError(f"{fragment}: its elements do not lie as its mode says")
    step = WORD // fragment.slots
    return Sum(
        0, tuple(tuple(digit._replace(weight=digit.weight // step) for digit in axis) for axis in strides(of).axes)
    )


def _in_memory(fragment: Fragment, of: Tile | BoundingBox, name: str) -> str:
    mode, step, layout = swizzle(of.mode), WORD // fragment.slots, f"{name}_linear"
    plain = _alias(layout, _unswizzled(fragment, of).axes)
    for moved in filter(None, (mode, mode.also)):
        counted = moved._replace(first=(8 << moved.first).bit_length() - step.bit_length())  # in elements
        layout = f"ComposedLayout<{counted}, _0, {layout}>"
    return f"{_stored(fragment)}{plain}using {name} = {layout};\n"


def _products(threads: Sequence[Digit], count: int) -> Array:
    """The lane of each thread in each product: those of a ThrID, then those of its complement."""
    starts, reached = np.zeros(1, np.int64), 1
    for weight, size in [*sorted((digit.weight, digit.size) for digit in threads), (count, 1)]:
        starts = (starts + reached * np.arange(weight // reached)[:, None]).ravel()
        reached = weight * size
    return starts[:, None] + Sum(0, (tuple(threads),))(np.arange(math.prod(digit.size for digit in threads)))


def _digits(fragment: Fragment, counted: Array) -> tuple[tuple[Digit, ...], ...]:
    """The digits of thread and value whose sum are the cells over (thread, value)."""
    total = sum_of(fragment, "cell", counted)
    if total.constant:
        raise refusal(fragment, 0, 0, f"has cell {total.constant}, but layouts start at cell 0")
    return total.axes


def _alias(name: str, modes: Sequence[Sequence[Digit]]) -> str:
    opening = f"using {name} = "
    return f"{opening}{_layout(modes, ' ' * len(f'{opening}Layout<'))};\n"


def _layout(modes: Sequence[Sequence[Digit]], indent: str = "") -> str:
    """CuTe's layout of these modes, on two lines where the second one has an indent."""
    word, gap = ("Shape ", f"\n{indent}") if indent else ("Shape", "")
    shape = _tuple(word, [_tuple(word, [_integer(digit.size) for digit in mode] or ["_1"]) for mode in modes])
    stride = _tuple(
        "Stride", [_tuple("Stride", [_integer(digit.weight) for digit in mode] or ["_0"]) for mode in modes]
    )
    return f"Layout<{shape},{gap}{stride}>"


def _integer(number: int) -> str:
    """A number known to the compiler. CuTe has names for some (cute/numeric/integral_constant.hpp)."""
    named = number in (*range(11), 12, 384, 768) or (number % 8 == 0 and number <= 256)
    return f"_{number}" if named or (number.bit_count() == 1 and number <= 1 << 19) else f"Int<{number}>"


def _tuple(word: str, parts: Sequence[str]) -> str:
    return f"{word}<{','.join(parts)}>" if len(parts) > 1 else parts[0]


def traits(name: str, operands: Mapping[str, Fragment], atom: str) -> str:
    """The members of CuTe's MMA_Traits of an instruction as a struct, given the aliases of its operands A, B, C and D.

    Of a tile it is the ``TiledMMA`` of the atom: the aliases are its layouts of thread and value.

    Raises:
        RefusedError: CuTe has no name for a type, or the operands differ where CuTe has one layout or ThrID.
    """
    if tiling := operands["D"].tiling:
        return _tiled_mma(name, tiling, operands["D"].shape, atom)
    a, c, d = (operands[role] for role in "ACD")
    if c.digest != d.digest or c.slots != d.slots:
        raise RefusedError(f"{name}: CuTe has one layout for C and D, whose rows differ")
    products = [table(fragment).coordinates["computation"][:, 0] for fragment in operands.values()]
    if any(not np.array_equal(product, products[0]) for product in products):
        raise RefusedError(f"{name}: its operands are not of the same product in every lane")
    for fragment in operands.values():
        if fragment.type not in TYPES or not TYPES[fragment.type].cute:
            raise RefusedError(f"{name}: CuTe has no type {fragment.type}")
    (m, k), (_, n) = a.dimensions, c.dimensions
    lines = [
        *(f"ValType{role} = {TYPES[operands[role].type].cute}" for role in "DABC"),
        f"Shape_MNK = Shape<{_integer(m)},{_integer(n)},{_integer(k)}>",
        f"ThrID = {a.key.identifier}_thr_id" if products[0].any() else f"ThrID = Layout<{_integer(a.threads)}>",
        *(f"{role}Layout = {operands[role].key.identifier}" for role in "ABC"),
    ]
    body = "".join(f"  using {line};\n" for line in lines)
    return f"struct {name} {{\n{body}}};\n"


def _tiled_mma(name: str, tiling: Tiling, shape: str, atom: str) -> str:
    if sorted("mnk", key=f"{tiling.order[1:]}mnk".index) != [*"mnk"]:
        raise RefusedError(f"{name}: CuTe counts the instructions of a warp along M, then N, then K: {tiling.order[0]}")
    if not atom:
        raise RefusedError(f"{name}: CuTe has no atom of it")
    (m, n), sizes, permuted = tiling.warps, dict(AXES.findall(shape)), []
    for axis, (warps, times) in grid(tiling, shape).items():
        size = int(sizes[axis])
        modes = [Digit(1, size, 1), Digit(1, warps, size * times), Digit(1, times, size)]
        neighbours = tiling.contiguous and warps > 1 and times > 1
        permuted.append(_layout([modes]) if neighbours else _integer(size * warps * times))
    # By M first, or by N first.
    stride = (1, m, 0) if tiling.order[0] == "m" else (n, 1, 0)
    warps_ = _layout([[Digit(1, size, weight)] for size, weight in zip((m, n, 1), stride, strict=True)])
    atoms = {"": atom}
    if "_SS" in atom:
        # Its template has the majors of 16-bit types, signs of other floats, and nothing for integers.
        majors = "" if "_S32" in atom else "<>" if atom.endswith("_TN") else "<GMMA::Major::K, GMMA::Major::K>"
        atoms = {"": atom + majors, "_rs": atom.replace("_SS", "_RS") + majors}
    return "// Include <cute/atom/mma_atom.hpp> before this.\n" + "".join(
        f"using {name}_tiled_mma{ending} = TiledMMA<MMA_Atom<{called}>, {warps_},\n    Tile<{', '.join(permuted)}>>;\n"
        for ending, called in atoms.items()
    )


def linear(fragment: Fragment, name: str) -> str:
    """An alias of a ``#ttg.linear`` attribute: the cell is the XOR of a basis for each bit of register, lane and warp.

    ``register`` counts the elements i, ``lane`` the threads of a warp. Of an operand in shared memory it is a
    ``#ttg.shared_linear``, whose ``offset`` counts elements. As Triton has one for whole tensors, it is that of all
    that lies in the lines of the operand.
    """
    of = fragment.tile
    if isinstance(of, Tile) and of.narrow:
        raise RefusedError(f"{fragment}: its units of 16 bytes have padding, which no tensor has: export cute or cpp")
    lines = {} if fragment.windowed else table(fragment).lines()
    coordinates = {name: lines[name] for name in ("row", "col")} if lines else cells(fragment)
    threads, values = coordinates["row"].shape
    for count, unit in ((values, "elements per lane"), (threads, "lanes")):
        if count & (count - 1):
            raise RefusedError(f"{fragment}: {count} {unit} are not a power of two")
    every = np.stack(list(coordinates.values()), axis=-1)
    lanes, registers = (
        along[[1 << bit for bit in range(len(along).bit_length() - 1)]] for along in (every[:, 0], every[0])
    )
    recomputed = span(lanes, len(coordinates))[:, None] ^ span(registers, len(coordinates))
    if len(wrong := np.argwhere(recomputed != every).tolist()):
        lane, element, axis = wrong[0]
        held = f"{list(coordinates)[axis]} {every[lane, element, axis]}"
        why = f"has {held}, but the XOR of the bases of its bits is {recomputed[lane, element, axis]}"
        raise refusal(fragment, lane, element, why)
    within = fragment.group.bit_length() - 1
    if of:
        rows, cols = every[0].max(axis=0) + 1
        part = f"// of a tensor of {rows} x {cols}, which begins with this operand\n" if lines else ""
        offset = f"offset = {registers.tolist()}, block = []"
        return f"{part}#{name} = #ttg.shared_linear<{{{offset}}}, alignment = {of.alignment}>\n"
    bases = {"register": registers, "lane": lanes[:within], "warp": lanes[within:]}
    parts = [f"{part} = {vectors.tolist()}" for part, vectors in bases.items()]
    return f"#{name} = #ttg.linear<{{{', '.join([*parts, 'block = []'])}}}>\n"


class _Encoding(NamedTuple):
    """The encoding of an operand's matrix as a tensor: ``#ttg.nvidia_mma`` for C and D, ``#ttg.dot_op`` for A and B.

    Along the inner axis (columns, or rows of B) a lane holds ``width`` elements, two in C and D, and the four lanes of
    a quad follow each other; along the outer axis eight quads do. A lane counts its elements along the inner axis, then
    through the blocks of eight within the height of the instruction, then through the blocks of the inner axis, then
    through the rest of the outer one. The instructions of ``warps``, along M and N, alternate; warps are counted along
    N first, but those of version 3, which is wgmma, along M. ``shape`` is that of the instruction, ``operand`` 0 for A,
    1 for B and None for C and D.
    """

    warps: tuple[int, int]
    shape: tuple[int, ...]
    operand: int | None = None
    width: int = 2

    def __str__(self) -> str:
        version, shape = 2 if len(self.shape) == 2 else 3, list(self.shape)
        warps = f"warpsPerCTA = {[*self.warps]}"
        mma = f"#ttg.nvidia_mma<{{versionMajor = {version}, versionMinor = 0, {warps}, instrShape = {shape}}}>"
        if self.operand is None:
            return mma
        return f"#ttg.dot_op<{{opIdx = {self.operand}, parent = {mma}, kWidth = {self.width}}}>"

    def cells(self, rows: int, cols: int) -> dict[str, Array] | None:
        """Row and col over (thread, element) in a tensor, None where instructions do not tile it."""
        names = ("row", "col") if self.operand == 1 else ("col", "row")
        inner, outer = (rows, cols) if self.operand == 1 else (cols, rows)
        height = 8 if self.operand == 1 else self.shape[0]
        length = self.shape[1] if self.operand is None else self.width * self.shape[0] // 2
        m, n = self.warps
        over, down = ((n, m), (1, m), (1, n))[0 if self.operand is None else 1 + self.operand]
        if inner % (length * over) or outer % (height * down):
            return None
        warp, lane = np.divmod(np.arange(WARP * m * n)[:, None], WARP)
        at_m, at_n = np.unravel_index(warp, self.warps, order="C" if len(self.shape) == 2 else "F")
        at_over, at_down = at_n * (over > 1), at_n if self.operand == 1 else at_m
        within = length // (4 * self.width)
        sizes = (self.width, height // 8, within, inner // (length * over), outer // (height * down))
        near, high, block, step, tile = np.unravel_index(np.arange(math.prod(sizes)), sizes, order="F")
        along = (((step * over + at_over) * within + block) * 4 + lane % 4) * self.width + near
        across = ((tile * down + at_down) * (height // 8) + high) * 8 + lane // 4
        return dict(zip(names, (along, across), strict=True))


def encoding(fragment: Fragment, name: str) -> str:
    """An alias of the encoding that equals the layout."""
    coordinates = cells(fragment)
    if "computation" in coordinates:
        raise RefusedError(f"{fragment}: Triton has no encoding of several products or matrices")
    if any(extent & (extent - 1) for extent in fragment.dimensions):
        raise RefusedError(f"{fragment}: Triton has no tensor of {' x '.join(map(str, fragment.dimensions))}")
    nearest = None
    for candidate in _encodings(fragment):
        encoded = candidate.cells(*fragment.dimensions)
        if encoded is None or encoded["row"].shape != coordinates["row"].shape:
            continue
        different = np.any([encoded[axis] != coordinates[axis] for axis in encoded], axis=0)
        if not different.any():
            return f"#{name} = {candidate}\n"
        nearest = nearest or (candidate, encoded, np.argwhere(different)[0].tolist())
    if nearest is None:
        raise RefusedError(f"{fragment}: Triton has no encoding of it")
    candidate, encoded, (lane, element) = nearest
    row, col = encoded["row"][lane, element], encoded["col"][lane, element]
    why = f"does not hold row {row} col {col}, as it does in {candidate}"
    usual = "nkn" if len(candidate.shape) == 2 else "mkn"
    if fragment.tiling and fragment.tiling[2:] != (usual, False):
        why += f"; Triton's tiles are in the order {usual}, and not contiguous"
    raise refusal(fragment, lane, element, why)


def _encodings(fragment: Fragment) -> Iterator[_Encoding]:
    """The encodings for the role of the fragment and the threads that hold it."""
    together = (fragment.atom or fragment).threads // WARP
    down, across = fragment.tiling.warps if fragment.tiling else (1, 1)
    warps = together * down, across
    if fragment.group != WARP or fragment.role not in "ABCD" or (together > 1 and fragment.role == "B"):
        return
    shapes: list[tuple[int, ...]] = [(16, 8), (8, 8)]
    if together > 1:
        (_, n), (_, k) = (dimensions(fragment.shape, role, fragment.instruction) for role in "DA")
        shapes = [(16, n, k)]
    if fragment.role in "CD":
        yield from (_Encoding(warps, shape) for shape in shapes)
        return
    # Usually a register holds all that a lane has of a row, so that width is tried first.
    widths = sorted((1, 2, 4, 8, 16, 32), key=lambda width: width != fragment.slots)
    yield from (_Encoding(warps, shape, "AB".index(fragment.role), width) for width in widths for shape in shapes)


WRITERS = {
    "affine": Writer(affine, before="// lane and value, which is the element i, to row and col.\n\n"),
    "python": Writer(
        python,
        comment="#",
        before="# From row and col to lane and value, which is the element i, and back.\n\n\n",
        between="\n\n",
    ),
    "ptx-formula": Writer(ptx_formula),
    "cute": Writer(cute, traits, before=_CUTE, after="\n}  // namespace lanemap\n"),
    "linear": Writer(
        linear, before="// From bits of register, which counts the elements i, and of lane to row and col.\n\n"
    ),
    "triton": Writer(encoding, before="// Encodings of tensors of the shape of the operand's matrix.\n\n"),
}
