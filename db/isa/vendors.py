"""The table of vendors: what is true of the machines that execute their instructions."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from . import facts


class Vendor(NamedTuple):
    """One vendor. The last one, without a name, is that of instructions of which nothing is known.

    ``group`` is how many lanes execute together and ``group_name`` what the vendor calls them. Lanes within a run of
    ``near`` exchange values more cheaply than others, with AMD in one instruction (DPP); ``near_name`` is what such a
    run is called. Registers have ``register_bits``. ``source`` is what look-ups use first. Names of instructions begin
    with one of ``prefixes``. A ``target`` has a number, and perhaps a letter where it stands for its family alone.
    Formulas call a lane ``lane``.
    """

    name: str
    title: str
    group: int
    group_name: str
    near: int
    near_name: str
    source: str = ""
    prefixes: Sequence[str] = ()
    target: str = ""
    register_bits: int = 32
    lane: str = "lane"

    def supports(self, target: str, instruction_target: str) -> bool:
        """Whether what needs a target runs on another, such as sm_90a. One with a letter stands for its family only."""
        (own, letter), (needed, feature) = (re.findall(self.target, name)[0] for name in (target, instruction_target))
        return bool(feature) and own[:-1] == needed[:-1] if letter else int(needed) >= int(own)


VENDORS: Sequence[Vendor]
*VENDORS, UNKNOWN = (Vendor(**row) for row in facts("vendors"))
NVIDIA = VENDORS[0]

#: What look-ups read unless another source is named: the document, corrected where it was proved wrong.
DEFAULT_SOURCE = NVIDIA.source


def vendor_of(instruction: str) -> Vendor:
    """The vendor of an instruction that has no row, by how its name begins.

    >>> vendor_of("v_mfma_f32_32x32x8_f16").title
    'AMD'
    """
    return next((vendor for vendor in VENDORS if instruction.lower().startswith(tuple(vendor.prefixes))), UNKNOWN)


def onwards(target: str) -> str:
    """A target and those that have all that it has, in short.

    >>> onwards("sm_80"), onwards("sm_90a")
    ('sm_80+', 'sm_90a')
    """
    return target if target[-1].isalpha() else f"{target}+"
