"""The table of vendors: what is true of the machines that execute their instructions."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from . import data


@cache
def _parts(pattern: str, target: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, target)


class Vendor(NamedTuple):
    """One vendor. The one without a name is that of instructions of which nothing is known.

    ``group`` is how many lanes execute together and ``group_name`` what the vendor calls them. Lanes within a run of
    ``near`` exchange values more cheaply than others, with AMD in one instruction (DPP); ``near_name`` is what such a
    run is called. Registers have ``register_bits``. Sources called ``document``, with a version after it, are its
    documents, and ``capture`` is the one that answers before others. Names of instructions begin with one of
    ``prefixes``. A ``target`` has a number, and perhaps a letter; ``targets`` are all there are.
    ``version`` is that of its instruction set which forms need that do not say which. Formulas call a lane ``lane``,
    and ``thread`` the thread of a block, whose groups follow each other.
    ``names`` is how the names begin that assemblers, C++ and compilers have for instructions, and ``shuffle`` is
    another lane's x in C++.
    """

    name: str
    title: str
    group: int
    group_name: str
    near: int
    near_name: str
    document: str = ""
    capture: str = ""
    prefixes: Sequence[str] = ()
    target: str = ""
    targets: Sequence[str] = ()
    version: tuple[int, ...] = ()
    register_bits: int = 32
    lane: str = "lane"
    thread: str = ""
    names: str = ""
    shuffle: str = "x of lane ^ mask"

    def supports(self, target: str, instruction_target: str) -> bool:
        """Whether what needs a target runs on another, such as sm_90a.

        One with an ``f`` stands for its family from there on, and one with an ``a`` for itself alone.
        """
        least, other = (_parts(self.target, name) for name in (target, instruction_target))
        if not least or not other or least["letter"] == "a":
            return target == instruction_target
        later = int(other["number"]) >= int(least["number"])
        family = least["number"][:-1] == other["number"][:-1] and bool(other["letter"])
        return later and (family or not least["letter"])

    def onwards(self, target: str) -> str:
        """A target, and with ``+`` if every later one has all that it has.

        >>> NVIDIA.onwards("sm_80"), NVIDIA.onwards("sm_90a"), NVIDIA.onwards("sm_120f")
        ('sm_80+', 'sm_90a', 'sm_120f')
        """
        parts = _parts(self.target, target)
        return f"{target}+" if parts and not parts["letter"] else target


VENDORS: Mapping[str, Vendor] = {
    row["name"]: Vendor(**row | {"version": tuple(row.get("version", ()))}) for row in data("vendors")
}
NVIDIA, UNKNOWN = VENDORS["nvidia"], VENDORS[""]


def vendor_of(instruction: str) -> Vendor:
    """The vendor of an instruction that has no row, by how its name begins.

    >>> vendor_of("v_mfma_f32_32x32x8_f16").title
    'AMD'
    """
    vendors = VENDORS.values()
    return next((vendor for vendor in vendors if instruction.lower().startswith(tuple(vendor.prefixes))), UNKNOWN)
