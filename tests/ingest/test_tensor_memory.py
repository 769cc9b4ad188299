"""What the document says of tcgen05.ld and tcgen05.st: registers in a table, layouts only in figures."""

import re

#: Table 49, registers by shape, for x1, x2, x4, ...
REGISTERS = {
    "16x32bx2": [1, 2, 4, 8, 16, 32, 64, 128],
    "16x64b": [1, 2, 4, 8, 16, 32, 64, 128],
    "32x32b": [1, 2, 4, 8, 16, 32, 64, 128],
    "16x128b": [2, 4, 8, 16, 32, 64, 128],
    "16x256b": [4, 8, 16, 32, 64, 128],
}
SECTIONS = ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"]


def test_every_shape_and_count_has_the_registers_of_the_table(sources):
    for source in sources.values():
        found = [each for each in source.fragments if each.instruction.startswith("tcgen05.")]
        assert {(*each.key[:4], each.qualifiers): (each.registers, each.slots) for each in found} == {
            (name, shape, "b32", "r", f"x{1 << at}{packed}"): (registers, 2 if packed else 1)
            for name, pack in (("tcgen05.ld", ".pack::16b"), ("tcgen05.st", ".unpack::16b"))
            for shape, row in REGISTERS.items()
            for at, registers in enumerate(row)
            for packed in ("", pack)
        }
        for each in found:
            assert (each.status, each.has_rows, each.threads) == ("figure-only", False, 32)
            at = SECTIONS.index(each.shape)
            assert (each.citation.section, each.citation.figures.partition(" ")[0]) == (
                f"9.7.16.2.3.1.{at + 1}",
                str(183 + at),
            )


def test_all_that_a_warp_loads_fills_its_registers(sources):
    """The lanes of the shape, and its bits in each as often as it is repeated; half of each column if packed."""
    for each in next(iter(sources.values())).fragments:
        if not each.instruction.startswith("tcgen05."):
            continue
        lanes, bits, twice = re.fullmatch(r"(\d+)x(\d+)b(x2)?", each.shape).groups()
        count = int(re.match(r"x(\d+)", each.qualifiers)[1])
        packed = 2 if "pack" in each.qualifiers else 1
        assert each.dimensions == (int(lanes), int(bits) * count // 32 * packed)
        assert each.computations == (2 if twice else 1)
        assert each.computations * int(lanes) * int(bits) * count == 32 * 32 * each.registers
