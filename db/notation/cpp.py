"""A C++17 header: for each fragment a namespace with its sizes, the cell of each slot, and the slot of each cell.

The functions are arithmetic on their arguments, constexpr, and compiled for the device too where CUDA compiles them.
A coordinate that is neither a sum of digits nor a few cases of one is an element of a string literal: compilers fold
it where the arguments are known, and keep it in read-only memory, never in a thread's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..fragment import Fragment, elements
from . import Notation, RefusedError
from .arithmetic import bits, evaluate
from .digits import Array, Case, NotASumError, as_cases
from .table import HeldElements, Inverse, by_lane, everywhere, holding, inverse

_BEFORE = """\
// C++17, constexpr, no other header. Arguments must be in range.
//
// holds(lane)                  whether a lane holds anything
// holds(lane, reg, slot)       the same of a slot, where a lane holds something in some of its slots only
// at(lane, reg, slot)          the cell of a slot that holds something
// find(row, col)               the slot of a cell
// find(row, col, computation)  the same, where a warp does several products
// find(row, col, nth)          the same, where several slots hold a cell or, in sparse A and E, any of its chunk of
//                              columns: the nth of `kept`, from 0
//
// Where two sources that are both included differ, name one: lanemap::from_SOURCE::...

#ifndef LANEMAP_FUNCTION
#if defined(__CUDACC__)
#define LANEMAP_FUNCTION __host__ __device__ constexpr
#else
#define LANEMAP_FUNCTION constexpr
#endif

namespace lanemap {

struct cell {
  int row, col;
  int col_last = col;   // end of the window of columns, in sparse A and E
  int computation = 1;  // 1 to 4 where a warp does four products
};

struct place {
  int lane, reg, slot;
};

}  // namespace lanemap
#endif

namespace lanemap {

"""

_FUNCTION = re.compile(
    r"^LANEMAP_FUNCTION \w+ (\w+)\((?P<parameters>[^()]*)\) \{(?P<lines>.*?)return \{?(?P<results>.*?)\}?;", re.M | re.S
)
_LINE = re.compile(r"const int (\w+) = (.*?);", re.S)
_LITERAL = re.compile(r'short\(((?:\s*u"(?:\\x[0-9A-F]{4})+")+)\[(.*)\]\)')
_KEPT = re.compile(r" kept = (\d+);")


def compose(fragment: Fragment, name: str) -> str:
    """A namespace with constants, ``holds`` and ``at``, and ``find`` or a line that says why there is none."""
    held = by_lane(fragment)
    rows, cols = fragment.dimensions
    sizes = f"rows = {rows}, cols = {cols}, registers = {fragment.registers}, slots = {fragment.slots}"
    try:
        back = inverse(fragment)
        sizes += f", chunk = {back.chunk}, kept = {back.extents['nth']}" if "nth" in back.extents else ""
        find = _find(fragment, back)
    except RefusedError as error:
        find = f"// no find: {error}\n"
    source = re.sub(r"\W", "_", f"from_{fragment.source}", flags=re.ASCII)
    guard = f"LANEMAP_{name}_{fragment.digest:.8}".upper()
    return (
        f"#ifndef {guard}\n#define {guard}\ninline namespace {source} {{\nnamespace {name} {{\n\n"
        f"inline constexpr int {sizes};\n\n"
        f"{_holds(fragment, held)}\n{_at(fragment, everywhere(fragment, held))}\n{find}\n"
        f"}}  // namespace {name}\n}}  // namespace {source}\n#endif\n"
    )


def read(text: str, fragment: Fragment) -> Array:
    """The rows that ``holds`` and ``at`` say, as far as ``find``, if there is one, leads back to them."""
    functions = {match[1]: match.groupdict() for match in _FUNCTION.finditer(text)}
    lane, element = np.indices((fragment.threads, fragment.registers * fragment.slots), sparse=True)
    place = {"lane": lane, "reg": element // fragment.slots, "slot": element % fragment.slots}
    (holds,) = _call(functions["holds"], **place)
    cell = dict(zip(("row", "col", "col_last", "computation"), _call(functions["at"], **place), strict=False))
    columns = {"col_last": cell["col"], "computation": np.ones_like(lane)} | place | cell
    held = np.broadcast_to(holds, (fragment.threads, element.size))
    rows = elements({name: np.broadcast_to(each, held.shape)[held] for name, each in columns.items()})
    if "find" not in functions:
        return rows
    kept = _KEPT.search(text)
    nth = np.arange(int(kept[1]) if kept else 1)
    agree = np.ones(len(rows), bool)
    for offset in range(int((rows["col_last"] - rows["col"]).max(initial=0)) + 1):
        where = {name: rows[name][:, None].astype(np.int64) for name in ("row", "col", "computation")}
        where["col"] = np.minimum(where["col"] + offset, rows["col_last"][:, None])
        found = _call(functions["find"], **where, nth=nth)
        same = [rows[name][:, None] == value for name, value in zip(("lane", "reg", "slot"), found, strict=True)]
        agree &= np.logical_and.reduce(np.broadcast_arrays(*same)).any(axis=1)
    return rows[agree]


def _holds(fragment: Fragment, held: HeldElements) -> str:
    """Which lanes hold something and, where these leave out elements, in which slots."""
    lanes, elements, _ = held
    reg, slot = np.divmod(elements, fragment.slots)
    found = {"lane": lanes, "reg": np.unique(reg), "slot": np.unique(slot)}
    sizes = {"lane": fragment.threads, "reg": fragment.registers, "slot": fragment.slots}
    names = ["lane"] if len(elements) == fragment.registers * fragment.slots else list(sizes)
    tests = [_among(name, sizes[name], found[name]) for name in names]
    if None in tests or len(found["reg"]) * len(found["slot"]) > len(elements):
        places = np.zeros((fragment.threads, fragment.registers * fragment.slots), bool)
        places[np.ix_(lanes, elements)] = True
        table = places.reshape(*sizes.values()) if len(names) > 1 else places[:, elements[0]]
        return _function("bool", "holds", names, {}, f"{_literal(table, names)} == 1")
    return _function("bool", "holds", names, {}, " && ".join(filter(None, tests)) or "true")


def _among(name: str, count: int, numbers: Array) -> str | None:
    """The test that one of ``count`` numbers is among these, empty where all are, None where bits do not tell."""
    test = holding(count, numbers)
    if test is None:
        return None
    mask, value = test
    field = name if mask == count - 1 else f"({name} & 0x{mask:X})"
    return f"{field} == {value}" if mask else ""


def _at(fragment: Fragment, held: Mapping[str, Array]) -> str:
    names = ["lane", "reg", "slot"]
    grid = {name: each.reshape(fragment.threads, fragment.registers, fragment.slots) for name, each in held.items()}
    lines = {name: _value(grid[name], names) for name in ("row", "col")}
    window = grid["col_last"] - grid["col"]
    if window.any():
        even = (window == window.flat[0]).all()
        lines["col_last"] = f"col + {window.flat[0]}" if even else _value(grid["col_last"], names)
    results = list(lines)
    if grid["computation"].any():
        lines["computation"] = _value(grid["computation"] + 1, names)
        results = ["row", "col", lines.get("col_last", "col"), "computation"]
    return _function("cell", "at", names, lines, f"{{{', '.join(results)}}}")


def _find(fragment: Fragment, back: Inverse) -> str:
    parameters = [name for name in ("row", "col", "computation", "nth") if name in back.extents]
    names = ["(computation - 1)" if name == "computation" else name for name in back.extents]
    lane, element = np.divmod(back.places, fragment.registers * fragment.slots)
    values = {"lane": lane, "reg": element // fragment.slots, "slot": element % fragment.slots}
    lines = {name: _value(each, names) for name, each in values.items()}
    return _function("place", "find", parameters, lines, "{lane, reg, slot}")


def _value(values: Array, names: Sequence[str]) -> str:
    """An array over the indices that have these names as an expression: a sum, cases of sums, or a table."""
    try:
        *cases, last = as_cases(values)
    except NotASumError:
        return _literal(values, names)
    text = bits(last, names)
    for case in reversed(cases):
        text = f"{_condition(case, names, values.shape)} ? {bits(case, names)} : {text}"
    return text


def _condition(case: Case, names: Sequence[str], lengths: Sequence[int]) -> str:
    tests = []
    for name, part, length in zip(names, case.parts, lengths, strict=True):
        tests += [f"{name} >= {part.start}"] if part.start else []
        tests += [f"{name} < {part.stop}"] if part.stop < length else []
    return " && ".join(tests)


def _literal(values: Array, names: Sequence[str]) -> str:
    """An element of a string literal, counted with the last index fastest."""
    index = names[0]
    for name, length in zip(names[1:], values.shape[1:], strict=True):
        index = f"({index}) * {length} + {name}"
    units = [f"\\x{value & 0xFFFF:04X}" for value in values.ravel().tolist()]
    lines = ["".join(units[at : at + 16]) for at in range(0, len(units), 16)]
    return "short(" + "".join(f'\n      u"{line}"' for line in lines) + f"[{index}])"


def _function(kind: str, name: str, parameters: Sequence[str], lines: Mapping[str, str], result: str) -> str:
    body = "".join(f"  const int {each} = {text};\n" for each, text in lines.items())
    used = re.findall(r"\w+", body + result)
    listed = ", ".join(f"int {each}" if each in used else f"int /*{each}*/" for each in parameters)
    whole = f"\n{body}  return {result};\n" if body else f" return {result}; "
    return f"LANEMAP_FUNCTION {kind} {name}({listed}) {{{whole}}}\n"


def _call(function: Mapping[str, str], **arguments: Array) -> list[Array]:
    known: dict[str, Any] = {**arguments, "true": np.True_}
    for name, text in _LINE.findall(function["lines"]):
        known[name] = _evaluate(text, known)
    return [np.asarray(_evaluate(text, known)) for text in function["results"].split(", ")]


def _evaluate(text: str, known: Mapping[str, Any]) -> Any:
    """The value of an expression with conditions, of tests, or of a comparison with an element of a string literal."""
    *cases, last = text.split(" : ")
    value = _tested(last, known) if " && " in last else _element(last, known)
    for case in reversed(cases):
        tests, result = case.split(" ? ")
        value = np.where(_tested(tests, known), evaluate(result, known), value)
    return value


def _tested(text: str, known: Mapping[str, Any]) -> Any:
    return np.logical_and.reduce(np.broadcast_arrays(*(evaluate(test, known) for test in text.split(" && "))))


def _element(text: str, known: Mapping[str, Any]) -> Any:
    if (match := _LITERAL.match(text)) is None:
        return evaluate(text, known)
    units = [int(unit, 16) for unit in re.findall(r"\\x(\w{4})", match[1])]
    element = np.array(units, np.uint16).astype(np.int16)[evaluate(match[2], known)]
    return evaluate(f"element{text[match.end() :]}", {"element": element})


NOTATION = Notation(compose, read, before=_BEFORE, after="\n}  // namespace lanemap\n")
