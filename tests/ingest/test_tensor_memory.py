"""What the document says of tcgen05.ld and tcgen05.st: registers in a table, layouts only in figures."""

import re

from ..shipped import NUMBERED

#: Table 49, registers by shape, for x1, x2, x4, ...
REGISTERS = {
    "16x32bx2": [1, 2, 4, 8, 16, 32, 64, 128],
    "16x64b": [1, 2, 4, 8, 16, 32, 64, 128],
    "32x32b": [1, 2, 4, 8, 16, 32, 64, 128],
    "16x128b": [2, 4, 8, 16, 32, 64, 128],
    "16x256b": [4, 8, 16, 32, 64, 128],
}
MOVES = ("tcgen05.ld", "tcgen05.st")
SECTIONS = ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"]


def test_every_shape_and_count_has_the_registers_of_the_table(sources):
    for name, source in sources.items():
        *_, chapter, higher = NUMBERED[name.removesuffix("+errata").removeprefix("ptx-isa-")]
        moves = [fragment for fragment in source.fragments if fragment.instruction.startswith(MOVES)]
        found = [fragment for fragment in moves if "spcompress" not in fragment.instruction]
        assert {
            (*fragment.key[:4], fragment.qualifiers): (fragment.registers, fragment.slots) for fragment in found
        } == {
            (name, shape, "b32", "r", f"x{1 << at}{packed}"): (registers, 2 if packed else 1)
            for name, pack in (("tcgen05.ld", ".pack::16b"), ("tcgen05.st", ".unpack::16b"))
            for shape, row in REGISTERS.items()
            for at, registers in enumerate(row)
            for packed in ("", pack)
        } | {
            ("tcgen05.ld.red", shape, type_, role, f"x{1 << at}"): (1 << at if role == "r" else 1, 1)
            for shape in ("32x32b", "16x32bx2")
            for type_ in ("f32", "u32", "s32")
            for role in ("r", "redval")
            for at in range(1, 8)
        }
        for fragment in found:
            assert (fragment.status, fragment.has_rows, fragment.threads) == ("figure-only", False, 32)
            at = SECTIONS.index(fragment.shape)
            assert (fragment.citation.section, fragment.citation.figures.partition(" ")[0]) == (
                f"{chapter}.2.3.1.{at + 1}",
                str(183 + higher + at),
            )


def test_all_that_a_warp_loads_fills_its_registers(sources):
    """The lanes of the shape, and its bits in each as often as it is repeated; half of each column if packed."""
    for fragment in next(iter(sources.values())).fragments:
        if not fragment.instruction.startswith(MOVES) or fragment.role not in ("r", "cdata"):
            continue
        lanes, bits, twice = re.fullmatch(r"(\d+)x(\d+)b(x2)?", fragment.shape).groups()
        count = int(re.match(r"x(\d+)", fragment.qualifiers)[1])
        packed = 2 if "pack" in fragment.qualifiers else 1
        assert fragment.dimensions == (int(lanes), int(bits) * count // 32 * packed)
        assert fragment.computations == (2 if twice else 1)
        stored = 2 if "spcompress" in fragment.instruction else 1
        assert fragment.computations * int(lanes) * int(bits) * count == 32 * 32 * fragment.registers * stored
