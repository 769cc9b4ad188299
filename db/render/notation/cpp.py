"""A C++17 header: for each fragment a type with its sizes, the cell of each slot, and the slot of each cell.

The functions are arithmetic on their arguments, constexpr, and compiled for the device too where CUDA compiles them.
A coordinate is a sum of digits, a few cases of such sums, or, where it is swizzled, the exclusive or of two. Any other
is an element of a string literal: compilers fold it where the arguments are known, and else keep it in read-only
memory, never in a thread's own. Fragments that differ only in the byte and thread of their block scales are one type
with these as template parameters.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.resources import files
from itertools import product

import numpy as np

from ...errors import LanemapError
from ...flow.reduction import LINES, reduction
from ...isa.vendors import VENDORS
from ...layout.algebra import Array, Case, NotASumError, as_cases, as_swizzle, bits
from ...layout.fragment import PLACE, Fragment
from .table import Inverse, RefusedError, Table, Writer, bits_of, inverse, table

#: What types need, with the shuffles of the vendors whose names are in it.
_BEFORE = re.sub("@(.*)@", lambda at: VENDORS[at[1]].shuffle, (files(__package__) / "cpp.hpp").read_text("utf-8"))


def joined(fragments: Sequence[Fragment], name: str) -> str | None:
    """One type for fragments that differ in the numbers that select block scales; None unless every choice has rows."""
    return header(fragments, name) if all(one.has_rows for one in fragments) and parameters(fragments) else None


def header(fragments: Sequence[Fragment], name: str) -> str:
    """A type with constants, ``holds``, ``at``, and ``find`` or a line that says why there is none.

    The numbers that select block scales, in which several fragments differ, are parameters of the type and the first
    indices of the tables that its functions read.
    """
    first, chosen = fragments[0], parameters(fragments)
    sizes = [len(values) for values in chosen.values()]
    names = [choice if values[-1] < len(values) else f"({choice} / {values[1]})" for choice, values in chosen.items()]
    tables, occupied = [table(fragment) for fragment in fragments], first.occupied_bits
    counts = dict(zip(("rows", "cols"), first.dimensions, strict=True)) | {"threads": first.threads}
    counts |= {"registers": first.registers, "slots": first.slots}
    more = {"slot_bits": first.slot_bits, "first_bit": occupied.start, "element_bits": len(occupied)}
    more |= {"chunk": 1, "kept": 0}
    try:
        back = [inverse(fragment) for fragment in fragments]
        more |= {"chunk": back[0].chunk, "kept": back[0].extents.get("nth", 1)}
        find = _find(first, back, sizes, names)
    except RefusedError as error:
        find = f"  // no find: {error}\n"
    source = re.sub(r"\W", "_", f"from_{first.source}", flags=re.ASCII)
    digests = [str(fragment.digest) for fragment in fragments]
    digest = digests[0] if len(digests) == 1 else sha256("".join(digests).encode()).hexdigest()
    guard = f"LANEMAP_{name}_{digest:.8}".upper()
    template = check = aliases = ""
    if chosen:
        template = f"template <{', '.join(f'int {choice}' for choice in chosen)}>\n"
        every = (" || ".join(f"{choice} == {value}" for value in values) for choice, values in chosen.items())
        check = f'  static_assert(({") && (".join(every)}), "there is no such choice of scales");\n'
        for fragment, values in zip(fragments, product(*chosen.values()), strict=True):
            instance = f"{name}<{', '.join(map(str, values))}>"
            aliases += f'using {fragment.identifier} [[deprecated("write {instance}")]] = {instance};\n'
    return (
        f"#ifndef {guard}\n#define {guard}\ninline namespace {source} {{\n\n{template}struct {name} {{\n"
        f"{check}{_constants(counts)}{_constants(more)}\n"
        f"{_holds(tables, sizes, names)}\n{_at(tables, sizes, names)}\n{find}{_reductions(first)}}};\n"
        f"{aliases}\n}}  // namespace {source}\n#endif\n"
    )


def _constants(values: Mapping[str, int]) -> str:
    return f"  static constexpr int {', '.join(f'{name} = {value}' for name, value in values.items())};\n"


def parameters(fragments: Sequence[Fragment]) -> dict[str, list[int]]:
    """The numbers that select block scales, by name, if there is a fragment for each combination of them."""
    if len(fragments) == 1:
        return {}
    chosen = [dict(re.findall(r"(\w+_id)::(\d)", str(fragment.qualifiers))) for fragment in fragments]
    choices = {name: sorted({int(numbers[name]) for numbers in chosen}) for name in chosen[0]}
    combinations = [tuple(int(numbers[name]) for name in choices) for numbers in chosen]
    return choices if combinations == list(product(*choices.values())) else {}


def _holds(tables: Sequence[Table], sizes: Sequence[int], names: Sequence[str]) -> str:
    """The test for lanes that hold something and, where they do not fill their slots, for these slots."""
    first = tables[0].fragment
    shape = {"lane": first.threads, "reg": first.registers, "slot": first.slots}
    full = all(len(contents.elements) == first.per_thread for contents in tables)
    held = [(contents.lanes, *map(np.unique, np.divmod(contents.elements, first.slots))) for contents in tables]
    masks = np.array([[bits_of(*pair) or (-1, 0) for pair in zip(shape.values(), sets, strict=True)] for sets in held])
    same, blocks = (masks[:, :, 0] == masks[0, :, 0]).all(), [len(reg) * len(slot) for _, reg, slot in held]
    if same and (masks[:, :, 0] >= 0).all() and blocks == [len(contents.elements) for contents in tables]:
        tests = []
        for (name, count), mask, values in zip(shape.items(), masks[0, :, 0].tolist(), masks[:, :, 1].T, strict=True):
            field = name if mask == count - 1 else f"({name} & 0x{mask:X})"
            tests += [f"{field} == {expression(values.reshape(sizes), names)}"] if mask else []
        text = " && ".join(tests) or "true"
    elif beyond := [
        name
        for name, count in zip(("row", "col"), first.dimensions, strict=True)
        if (tables[0].everywhere[name] >= count).any()
    ]:
        text = " && ".join(f"at({', '.join(PLACE)}).{name} < {name}s" for name in beyond)
    else:
        places = np.zeros((len(tables), first.threads, first.per_thread), bool)
        for filled, contents in zip(places, tables, strict=True):
            filled[np.ix_(contents.lanes, contents.elements)] = True
        places = places.reshape(*sizes, *shape.values())
        text = f"{_literal(places[..., 0, 0], [*names, 'lane']) if full else _literal(places, [*names, *shape])} == 1"
    if not full:
        return _function("bool", "holds", [*shape], {}, text)
    return _function("bool", "holds", ["lane"], {}, text) + _function("bool", "holds", [*shape], {}, "holds(lane)")


def _at(tables: Sequence[Table], sizes: Sequence[int], names: Sequence[str]) -> str:
    first, everywhere = tables[0].fragment, [contents.everywhere for contents in tables]
    shape = (*sizes, first.threads, first.registers, first.slots)
    grid = {name: np.stack([arrays[name] for arrays in everywhere]).reshape(shape) for name in everywhere[0]}
    indices = [*names, *PLACE]
    lines = {name: expression(grid[name], indices) for name in ("row", "col")}
    window = grid["col_last"] - grid["col"]
    if window.any():
        even = (window == window.flat[0]).all()
        lines["col_last"] = f"col + {window.flat[0]}" if even else expression(grid["col_last"], indices)
    # nvcc has no constant where the default of col_last is that of a cell which is returned.
    results = ["row", "col", "col_last" if "col_last" in lines else "col"]
    if grid["computation"].any():
        lines["computation"] = expression(grid["computation"] + 1, indices)
        results.append("computation")
    return _function("cell", "at", PLACE, lines, f"{{{', '.join(results)}}}")


def _find(first: Fragment, back: Sequence[Inverse], sizes: Sequence[int], names: Sequence[str]) -> str:
    extents = back[0].extents
    arguments = [name for name in ("row", "col", "computation", "nth") if name in extents]
    indices = [*names, *("(computation - 1)" if name == "computation" else name for name in extents)]
    places = np.stack([inverted.places for inverted in back]).reshape(*sizes, *extents.values())
    lines = {name: expression(array, indices) for name, array in zip(PLACE, first.place(places), strict=True)}
    passed = ", ".join(name if name == "nth" else f"c.{name}" for name in arguments)
    nth = "nth" if "nth" in arguments else "/*nth*/"
    return _function("place", "find", arguments, lines, "{lane, reg, slot}") + (
        f"  static LANEMAP_FUNCTION place find(cell c, int {nth} = 0) {{ return find({passed}); }}\n"
    )


def _reductions(fragment: Fragment) -> str:
    """The reductions of rows and columns of a warp that holds all of its elements, where masks do them."""
    text = ""
    for along in LINES if fragment.vendor and not fragment.partial else ():
        with suppress(LanemapError):
            found = reduction(fragment, along)
            if found.masks is None or found.values is None:
                continue
            counts = {f"{along}_values": len(found.values), f"{along}_warps": max(map(len, found.warps), default=1)}
            of = np.zeros(fragment.per_thread, np.int64)
            for number, together in enumerate(found.values):
                of[list(together)] = number
            value = expression(of.reshape(-1, fragment.slots), ["reg", "slot"])
            text += f"\n{_constants(counts)}{_function('int', f'{along}_value', ['reg', 'slot'], {}, value)}"
            text += _REDUCE.format(
                along=along, elements=fragment.per_thread, masks="".join(f", {m}" for m in found.masks)
            )
    return text


#: A reduction of what a thread holds, which lanes exchange.
_REDUCE = """#ifdef LANEMAP_SHUFFLE
  template <class T, class Op> static __device__ auto reduce_{along}s(const T (&d)[{elements}], Op op) {{
    return reduce<{along}_values{masks}>(d, [](int i) {{ return {along}_value(i / slots, i % slots); }}, op);
  }}
#endif
"""


def expression(values: Array, names: Sequence[str]) -> str:
    """An array over the named indices as an expression: a sum, the exclusive or of two, cases of sums, or a table."""
    with suppress(NotASumError):
        texts = [bits(Case(total, (*map(range, values.shape),)), names) for total in as_swizzle(values)]
        return texts[0] if len(texts) == 1 else f"({texts[0]}) ^ ({texts[1]})"
    try:
        *cases, last = as_cases(values)
    except NotASumError:
        return _literal(values, names)
    text = bits(last, names)
    for case in reversed(cases):
        tests = []
        for name, part, length in zip(names, case.parts, values.shape, strict=True):
            tests += [f"{name} >= {part.start}"] if part.start else []
            tests += [f"{name} < {part.stop}"] if part.stop < length else []
        text = f"{' && '.join(tests)} ? {bits(case, names)} : {text}"
    return text


def _literal(values: Array, names: Sequence[str]) -> str:
    """An element of a string literal, counted with the last index fastest."""
    index = names[0]
    for name, length in zip(names[1:], values.shape[1:], strict=True):
        index = f"({index}) * {length} + {name}"
    units = "\\x" + (values.ravel() & 0xFFFF).astype(">u2").tobytes().hex("_", 2).upper().replace("_", "\\x")
    lines = [units[at : at + 96] for at in range(0, len(units), 96)]
    return "short(" + "".join(f'\n      u"{line}"' for line in lines) + f"[{index}])"


def _function(kind: str, name: str, parameters: Sequence[str], lines: Mapping[str, str], result: str) -> str:
    body = "".join(f"    const int {variable} = {text};\n" for variable, text in lines.items())
    code = "".join((body + result).split('"')[::2])  # without the text of literals, which is long
    used = {parameter for parameter in parameters if re.search(rf"\b{parameter}\b", code)}
    listed = ", ".join(f"int {parameter}" if parameter in used else f"int /*{parameter}*/" for parameter in parameters)
    block = f"\n{body}    return {result};\n  " if body else f" return {result}; "
    return f"  static LANEMAP_FUNCTION {kind} {name}({listed}) {{{block}}}\n"


CPP = Writer(
    lambda fragment, name: header([fragment], name), joined=joined, before=_BEFORE, after="\n}  // namespace lanemap\n"
)
