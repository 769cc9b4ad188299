"""Machine code of device functions has no more instructions than the same conversion written with CuTe.

CuTe's is NumericArrayConverter of CUTLASS's headers, after a layout that takes the accumulator's elements as the
operand has them. Both have the same loads before and the same stores after.
"""

import importlib.util
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lanemap.db.isa.types import TYPES
from lanemap.db.layout.algebra import as_sum

from ..functions import compiled, kernel
from ..toolchain import program

THEIRS = """
extern "C" __global__ void theirs_{name}(const unsigned* given, unsigned* made) {{
  {kind} d[{registers}];
  CUTE_UNROLL
  for (int at = 0; at < {registers}; ++at) d[at] = reinterpret_cast<const {kind}*>(given)[at * {threads} + threadIdx.x];
  const auto layout = cute::make_layout(cute::make_shape({shape}), cute::make_stride({stride}));
  const auto taken = cute::make_tensor(reinterpret_cast<const {of}*>(&d[0]), layout);
  cutlass::Array<{of}, {count}> values;
  CUTE_UNROLL
  for (int at = 0; at < {count}; ++at) values[at] = taken(at);
  const auto result = cutlass::NumericArrayConverter<{to}, {of}, {count}>::convert(values);
  const auto& words = reinterpret_cast<const cutlass::Array<unsigned, {words}>&>(result);
  CUTE_UNROLL
  for (int at = 0; at < {words}; ++at) made[at * {threads} + threadIdx.x] = words[at];
}}
"""

INCLUDED = "#include <cute/tensor.hpp>\n#include <cutlass/numeric_conversion.h>\n"

#: By target: chains that move nothing between lanes.
CHAINS = {
    "sm_80": [
        ("m16n8k16 f32 D", "m16n8k16 f16 A", {}),
        ("m16n8k16 f32 D", "m16n8k16 bf16 A", {}),
        ("m16n8k16 f32 D", "m16n8k16 bf16 B", {"transpose": True}),
        ("m16n8k16 f16 D", "m16n8k16 bf16 A", {}),
        ("m16n8k16 f16 D", "m16n8k8 tf32 A", {"relabel": True}),
        ("m16n8k32 s32 D", "m16n8k32 s8 A", {"relabel": True}),
        ("m16n8k32 s32 D", "m16n8k32 u8 A", {"relabel": True}),
        ("m16n8k16 f32 D", "m16n8k32 s8 A", {"relabel": True}),
        ("m16n8k64 s32 D", "m16n8k64 s4 A", {"relabel": True}),
        ("m16n8k16 f32 D", "m16n8k16 f16 A", {"tile": "m64n32k32", "warps": "4x1"}),
        ("m16n8k16 f32 D", "m16n8k16 bf16 A", {"tile": "m64n64k64", "warps": "2x1", "order": "nkn"}),
        ("m16n8k32 s32 D", "m16n8k32 s8 A", {"tile": "m32n64k64", "warps": "2x1", "relabel": True}),
    ],
    "sm_90a": [
        ("m16n8k16 f32 D", "m16n8k32 e4m3 A", {"relabel": True}),
        ("m16n8k16 f32 D", "m16n8k32 e5m2 A", {"relabel": True}),
        ("m16n8k16 f16 D", "m16n8k32 e4m3 A", {"relabel": True}),
        ("m64n64k16 f32 D", "m64n64k16 f16 A", {}),
        ("m64n64k16 f32 D", "m64n64k16 bf16 A", {}),
        ("m64n64k32 f32 D", "m64n64k32 e4m3 A", {"relabel": True}),
        ("m16n8k32 f32 D", "m16n8k32 e4m3 A", {"tile": "m64n64k64", "warps": "4x1", "relabel": True}),
        ("m64n64k16 f32 D", "m64n64k16 f16 A", {"tile": "m128n64k64", "warps": "2x1"}),
    ],
    "sm_120a": [
        ("m16n8k16 f32 D", "m16n8k16 f16 A", {}),
        ("m16n8k16 f32 D", "m16n8k32 e4m3 A", {"relabel": True}),
        ("m16n8k16 f32 D", "m16n8k32 e2m3 A", {"relabel": True}),
        ("m16n8k16 f32 D", "m16n8k32 e3m2 A", {"relabel": True}),
        ("m16n8k16 f32 D", "m16n8k64 e2m1 A", {"relabel": True}),
        ("m16n8k16 f32 D", "m16n8k16 bf16 A", {"tile": "m64n32k32", "warps": "4x1"}),
        ("m16n8k32 f32 D", "m16n8k32 e5m2 A", {"tile": "m64n64k64", "warps": "4x1", "relabel": True}),
    ],
}


def cute_type(name):
    """What CUTLASS calls a type."""
    in_bytes = {name: f"detail::float_{name}_unpack8bits_t" for name in ("e2m3", "e3m2")}
    named = (in_bytes | {"s4": "int4b_t", "u4": "uint4b_t"}).get(name) or TYPES[name].cute
    return named if re.fullmatch(r"u?int\d+_t|float|double", named) else f"cutlass::{named}"


def theirs(chain, name):
    """The kernel that converts with CuTe as a chain says."""
    first, second = chain.ends
    table = np.sort(chain.table[chain.table["lane"] == 0], order=["tile_row", "tile_col", "reg", "slot"])
    tile = table["from_tile_row"] * chain.tiles[0][1] + table["from_tile_col"]
    order = (tile * first.registers + table["from_reg"]) * first.slots + table["from_slot"]
    digits = as_sum(order).axes[0]
    shape, stride = (", ".join(f"cute::Int<{digit[field]}>{{}}" for digit in digits) for field in (1, 2))
    return THEIRS.format(
        name=name,
        kind={"f32": "float", "s32": "int"}.get(first.type, "unsigned"),
        registers=first.registers * chain.tiles[0][0] * chain.tiles[0][1],
        threads=first.threads,
        shape=shape,
        stride=stride,
        of=cute_type(first.type),
        to=cute_type(second.type),
        count=len(order),
        words=len(order) // second.slots,
    )


def instructions(file):
    """The instructions of each kernel, without what fills up the end."""
    command = [program("nvdisasm"), "-c", file]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {}
    for section in re.split(r"^\s*\.section\s+\.text\.", text, flags=re.MULTILINE)[1:]:
        operations = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?\s*([A-Z]\w*)", section, re.MULTILINE)
        found[section.partition(",")[0]] = [name for name in operations if name not in ("NOP", "BRA")]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", CHAINS)
def test_no_more_instructions_than_with_cute(database, tmp_path, target):
    cutlass = importlib.util.find_spec("cutlass_library")
    if not cutlass:
        pytest.skip("needs the package nvidia-cutlass")
    chains = [database.chain(first, second, **how) for first, second, how in CHAINS[target]]
    assert not any(chain.moves_values for chain in chains)
    functions = [chain.cpp() for chain in chains]
    ours = [kernel(function, chain.first.threads) for function, chain in zip(functions, chains, strict=True)]
    made = [theirs(chain, name) for (name, _), chain in zip(ours, chains, strict=True)]
    include = Path(next(iter(cutlass.submodule_search_locations)), "source", "include")
    texts = [INCLUDED, *made, *functions, *(text for _, text in ours)]
    found = instructions(compiled(texts, target, tmp_path, f"-I{include}", "--expt-relaxed-constexpr", warnings=False))
    for name, _ in ours:
        print(target, name, len(found[name]), len(found[f"theirs_{name}"]))
        assert len(found[name]) <= len(found[f"theirs_{name}"]), (name, found[name], found[f"theirs_{name}"])
