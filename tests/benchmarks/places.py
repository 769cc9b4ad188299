"""A million places of cells and cells of places, against indexing arrays of these numbers by hand.

python tests/benchmarks/places.py
"""

from functools import partial

import numpy as np
from ratio import compare, processor

import lanemap

COUNT = 1_000_000
OPERANDS = {
    "A": ("m16n8k16", "f16", "A"),
    "A of mma.sp, a window in two places": ("m16n8k32", "f16", "A", "mma.sp"),
    "D of wgmma": ("m64n256k16", "f32", "D"),
}
random = np.random.default_rng(0)
database = lanemap.open()
for name, (shape, type_, role, *instruction) in OPERANDS.items():
    fragment = database.fragment(shape, type_, role, instruction=instruction[0] if instruction else None)
    for call, fields in ((fragment.find, ("row", "col")), (fragment.at, ("lane", "reg", "slot"))):
        ranges = [fragment.ranges[field] for field in fields]
        asked = [random.integers(0, valid.stop, COUNT) for valid in ranges]
        known = [np.array(column) for column in call(*np.meshgrid(*ranges, indexing="ij"))]

        def by_hand(known: list[np.ndarray] = known, asked: tuple[np.ndarray, ...] = tuple(asked)) -> None:
            _ = [element[asked] for element in known]

        call(*asked)
        start = processor()
        call(*asked)
        rate = COUNT / (processor() - start) / 1e6
        print(f"{call.__name__} of {name}: {rate:.0f} million a second (at least 1)")
        compare(f"{call.__name__} of {name} against arrays by hand", partial(call, *asked), by_hand, 4, rounds=5)
