"""Layouts as formulas: MLIR's affine maps, Python's index functions, and PTX's own notation.

``lane`` is the thread, ``value`` or ``i`` its element. Where an instruction handles several products or matrices,
``computation`` is a coordinate before row and column.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ...isa.instructions import WARP, instruction
from ...layout.algebra import MOST_CASES, Array, Digit, NotASumError, Sum, as_cases, as_sum, bits, quotients
from ...layout.fragment import Fragment
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
    plain = _map(name, _PLACE, [quotients(axis_sum, _PLACE) for axis_sum in sums.values()])
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
    if not np.array_equal(counted, np.arange(fragment.registers * fragment.slots)):
        return f"{plain}// no nested layout: some elements of a lane hold the same cell\n"
    layout = f"#{name}_nested = #iree_vector_ext.nested_layout<{body}>\n"
    return plain + layout + _map(f"{name}_nested_value", names, [quotients(value, names)])


def _map(name: str, names: Sequence[str], results: Sequence[str]) -> str:
    words = ", ".join(results).replace("//", "floordiv").replace("%", "mod")
    return f"#{name} = affine_map<({', '.join(names)}) -> ({words})>\n"


def python(fragment: Fragment, name: str) -> str:
    """Two functions, as TVM and TileLang take them: from the cell to lane and value, and back.

    They are ``shared_RxC_to_NAME_TxV_layout`` and ``NAME_TxV_to_shared_RxC_layout``, of T threads with V values.
    """
    coordinates = cells(fragment)
    back = inverse(fragment, unique=True)
    count = fragment.registers * fragment.slots
    try:
        places = {"lane": as_sum(back.places // count), "value": as_sum(back.places % count)}
    except NotASumError as error:
        place = int(back.places[error.index])
        raise refusal(fragment, *divmod(place, count), "has a place that is no sum of digits of its cell") from None
    sums = {axis: sum_of(fragment, axis, values) for axis, values in coordinates.items()}
    shared = "shared_" + "x".join(map(str, back.extents.values()))
    group = f"{name}_{fragment.threads}x{count}"
    forward = _function(f"{shared}_to_{group}_layout", tuple(sums), places)
    return f"{forward}\n\n{_function(f'{group}_to_{shared}_layout', _PLACE, sums)}"


def _function(name: str, names: Sequence[str], sums: Mapping[str, Sum]) -> str:
    lines = "".join(f"    {result} = {quotients(total, names)}\n" for result, total in sums.items())
    return f"def {name}({', '.join(names)}):\n{lines}    return {', '.join(sums)}\n"


#: What PTX calls two fields of the lane in every section about a warp.
_FIELDS = {("%laneid", 4, 8): "groupID", ("%laneid", 1, 4): "threadID_in_group"}
_DEFINITIONS = {"groupID": "groupID = %laneid >> 2", "threadID_in_group": "threadID_in_group = %laneid % 4"}


def ptx_formula(fragment: Fragment, _: str) -> str:
    """Definitions of ``row`` and ``col``, after the terms they use, and of ``computation``, from 1, if several.

    A coordinate is a sum of bit fields of the lane, which is ``%laneid`` in PTX, and ``i``, in as few cases as can be
    had by halving the elements, then the lanes. Where only some lanes hold elements, the cases of ``row`` say which.

    Raises:
        RefusedError: a coordinate takes too many cases for a formula, or no bits tell which lanes hold it.
    """
    held = table(fragment)
    coordinates = held.everywhere()
    threads, values = coordinates["row"].shape
    spelt = instruction(fragment.instruction).vendor.lane
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
    return "\n".join([*used, *lines]) + "\n"


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
    spelt = instruction(fragment.instruction).vendor.lane
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


AFFINE = Writer(affine, before="// lane and value, which is the element i, to row and col.\n\n")
PYTHON = Writer(
    python,
    comment="#",
    before="# From row and col to lane and value, which is the element i, and back.\n\n\n",
    between="\n\n",
)
PTX_FORMULA = Writer(ptx_formula)
