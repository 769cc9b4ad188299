"""Whether tensor instructions read arguments as what they are given as: an array of f16 is no operand of bf16."""

import numpy as np

from ...db.isa.forms import Form
from ...db.layout.algebra import Array
from .. import values
from .arguments import Argument
from .schedule import Machine


def expect_type(machine: Machine, form: Form, role: str, bits: int, numbers: Array, ids: Array) -> None:
    """Note an operand that reads an argument of another type, of ``bits`` bits each: numbers, and an origin of each.

    Each instruction is looked at until it has read an argument.
    """
    if (machine.at, role) in machine.typed:
        return
    numbers, ids = numbers.ravel(), ids.ravel()
    for argument in machine.typed_arguments:
        element = ids - argument.first
        here = (element >= 0) & (element < len(argument.numbers))
        if not here.any():
            continue
        machine.typed.add((machine.at, role))
        type_ = form.types[role]
        if type_ != argument.type and _misread(argument, type_, bits, element[here], numbers[here]):
            words = f"{argument.name} is given as {argument.type}, and {form.name} reads it as {type_}"
            machine.fault("type", np.zeros(1, int), words, of=argument.name)


def _misread(argument: Argument, type_: str, bits: int, element: Array, numbers: Array) -> bool:
    """Whether numbers are what the bits of elements, or of a part of each, are in another type, and not the elements.

    A kernel that converts what it loads has the elements.
    """
    if bits < 8 or argument.bits % bits:
        return False
    codes = values.from_bytes(argument.encode(), bits).reshape(-1, argument.bits // bits)[element]
    read = values.decode(type_, bits, codes)
    alike = (read == numbers[:, None]) | np.isnan(read) & np.isnan(numbers)[:, None]
    return bool(alike.any(axis=1).all() and (argument.numbers[element] != numbers).any())
