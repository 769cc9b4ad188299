"""A model of shared memory that is filled and read by hand: it uses no formula of the package."""

#: What lies in each 16-byte unit of successive rows of 128 bytes, as the document's tables of patterns show it (5.5.7).
PATTERNS = {
    "none": ["01234567"],
    "32B": ["01234567", "10325476"],
    "64B": ["01234567", "10325476", "23016745", "32107654"],
    "128B": [
        *("01234567", "10325476", "23016745", "32107654"),
        *("45670123", "54761032", "67452301", "76543210"),
    ],
}
SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}


def moved(mode, address, base=0):
    """Where the byte of an address lies after its unit was put in its place. The base offset is that of the pattern."""
    row = PATTERNS[mode][(address // 128 - base) % len(PATTERNS[mode])]
    return address // 128 * 128 + row.index(str(address // 16 % 8)) * 16 + address % 16


def memory(mode, major, bits, mn, k, narrow=0):
    """The bit at which each element lies, and the size: atoms are written one after the other, line by line.

    Elements that are narrow begin their 16 bytes one after the other, and leave the rest.
    """
    found, address, unit = {}, 0, 128 // bits
    along = SPANS[mode] * 8 // bits
    atom_mn, atom_k = (8, along) if major == "K" else (along, 8)
    for first_mn in range(0, mn, atom_mn):
        for first_k in range(0, k, atom_k):
            for line in range(8):
                for step in range(0, along, unit):
                    for at in range(unit):
                        mn_step, k_step = (line, step + at) if major == "K" else (step + at, line)
                        cell = (first_mn + mn_step, first_k + k_step)
                        if cell[0] < mn and cell[1] < k:
                            found[cell] = moved(mode, address) * 8 + at * (narrow or bits)
                    address += 16
    return found, address


def addressed(word, major, bits, mn, k):
    """The bit of an element that a descriptor addresses, by what the document says of its fields."""
    if word >> 46 & 7 == 1:  # one of tcgen05.mma
        mode = {0: "none", 2: "128B", 4: "64B", 6: "32B"}[word >> 61]
    else:
        mode = {0: "none", 1: "128B", 2: "64B", 3: "32B"}[word >> 62]
    start, leading, stride = ((word >> shift & 0x3FFF) * 16 for shift in (0, 16, 32))
    unit, width, base = 128 // bits, SPANS[mode] // 16, word >> 49 & 7
    if major == "K":
        column, at = divmod(k, unit)
        byte = mn % 8 * SPANS[mode] + mn // 8 * stride + column // width * leading + column % width * 16
    else:
        column, at = divmod(mn, unit)
        of_k = k % 8 * SPANS[mode], k // 8 * (leading if mode == "none" else stride)
        of_mn = column * stride if mode == "none" else column % width * 16 + column // width * leading
        byte = sum(of_k) + of_mn
    return moved(mode, start + byte, base) * 8 + at * bits


#: The same of the modes that only tensor maps have, in units of 8 bytes. Eights swap in every other line.
_EIGHTS = {
    **{
        mode: [[2 * int(unit) + half for unit in row for half in (0, 1)] for row in rows]
        for mode, rows in PATTERNS.items()
    },
    "128B.atom32": [[unit ^ line << 2 for unit in range(16)] for line in range(4)],
    "128B.atom32.flip8": [[unit ^ line << 2 ^ line % 2 for unit in range(16)] for line in range(4)],
    "128B.atom64": [[unit ^ line << 3 for unit in range(16)] for line in range(2)],
}


def box(mode, rows, width, start):
    """Where each byte of a box lies whose rows have so many bytes, after an address at which its pattern begins."""
    pitch, pattern = SPANS.get(mode, 128) if mode != "none" else width, _EIGHTS[mode]
    found = []
    for byte in range(rows * width):
        line, at = divmod(start + byte // width * pitch + byte % width, 128)
        found.append(line * 128 + pattern[line % len(pattern)].index(at // 8) * 8 + at % 8)
    return found
