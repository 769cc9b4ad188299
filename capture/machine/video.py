"""Bytes and halves of registers, each computed by itself: vadd4, vabsdiff2 and others, of whole registers (9.7.19)."""

from collections.abc import Callable, Mapping

import numpy as np

from ...db.layout.algebra import Array
from .comparisons import COMPARISONS
from .launch import Maker, Step, Unknown, known
from .ptx import Function, Statement
from .schedule import Machine
from .values import ActiveThreads

#: What is computed of two numbers that are wider than what holds the result.
_RULES: Mapping[str, Callable[[Array, Array], Array]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    **{f"vset.{name}": compare for name, compare in COMPARISONS.items() if name not in ("num", "nan")},
}
_NAMES = {name.partition(".")[0] for name in _RULES}


def _of_parts(machine: Machine, instruction: Statement, function: Function) -> Step:
    """The same of each byte or half of two registers; with add the sum of all results, added to a third register."""
    name, *words = instruction.parts
    name, count = name[:-1], int(name[-1])
    kinds = [word for word in words if word in ("u32", "s32")]
    if name == "vset":
        name, kinds = f"vset.{words[2]}", ["u32", *kinds]
    if name not in _RULES or len(kinds) != 3 or len(instruction.operands) != 4 or {"sat", "add"} <= {*words}:
        raise Unknown(f"{instruction.opcode} is not known")
    known(instruction, f"u32 s32 sat add {name.partition('.')[2]}")
    result, *sources, added = machine.registers_of(instruction.operands, "b32", function)
    size = 4 // count
    to, *of = (np.dtype(f"{'i' if kind == 's32' else 'u'}{size}") for kind in kinds)

    def step(group: ActiveThreads) -> None:
        a, b = (
            np.ascontiguousarray(source.bits).view(type_).reshape(-1, count).astype("i8")
            for source, type_ in zip(sources, of, strict=True)
        )
        numbers = np.asarray(_RULES[name](a, b)).astype("i8")
        if "sat" in words:
            numbers = np.clip(numbers, np.iinfo(to).min, np.iinfo(to).max)
        if "add" in words:
            bits = (numbers.sum(axis=1) + added.bits).astype("u4")
        else:
            bits = np.ascontiguousarray(numbers.astype(to)).view("u4").ravel()
        ids = [each.ids for each in (*sources, *([added] if "add" in words else []))]
        result.put_numbers("b32", bits, machine.tape.join("mix", ids), group)

    return step


MAKERS: Mapping[str, Maker] = {f"{name}{count}": _of_parts for name in sorted(_NAMES) for count in (2, 4)}
