"""Matrix descriptors: the word with which wgmma or tcgen05.mma reads a tile in shared memory, and what it reads.

The tile has its atoms packed without gaps, first along K. A tensor map writes it with one copy, or with several that
follow each other where a box cannot be so large: its innermost dimension is a line, then come the lines of an atom, the
atoms along K, and those along M or N (9.7.17.5.1.2, 9.7.18.3 and .4).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from ..errors import LanemapError
from ..isa.instructions import INSTRUCTIONS, Key, dimensions, instruction, tile
from ..isa.names import Query
from ..isa.shared import LARGEST, LINES, LONGEST, MODES, Fields, Tile, descriptor, wrong_bits
from ..isa.spelling import candidates
from ..isa.types import TYPES
from ..layout.algebra import Array
from ..layout.shared import places, read, strides
from ..rows import Rows, Told
from ..text import either
from .instruction_descriptor import expect_shape

_LETTERS = {"A": "mk", "B": "nk"}
_NAMES = {
    "mode": "swizzling mode",
    "start": "start address",
    "leading": "leading byte offset",
    "stride": "stride byte offset",
    "base": "base offset",
}

#: The bytes of a row of the pattern, which the base offset counts.
_LINE = 128

#: What tensor maps call elements narrower than 8 bits, by the bits that they take on average and their own (5.5.1.1.1).
_PACKED = {(4, 4): "16U4_ALIGN8B", (8, 4): "16U4_ALIGN16B", (8, 6): "16U6_ALIGN16B"}

_EXTENTS = re.compile(r"([mnk])(\d{1,5})([mnk])(\d{1,5})")


class TensorMap(NamedTuple):
    """What ``cuTensorMapEncodeTiled`` needs to write a tile: the extents of the box, innermost first, and the swizzle.

    ``axes`` say what each of them counts: ``k``, or ``m`` or ``n``. Where elements have one bit, which no tensor
    map knows, the innermost counts bytes, ``k / 8``. Element strides are all 1.
    """

    box: tuple[int, ...]
    axes: tuple[str, ...]
    swizzle: str


@dataclass(frozen=True)
class Descriptor(Told):
    """The descriptor of an operand in a tile.

    ``word`` is the constant without the address. ``steps`` has a row for each product that the tile holds: where it
    begins along M or N and along K, in elements, and the advance of the start address in bytes and as it is encoded.
    """

    key: Key
    tile: Tile

    @property
    def fields(self) -> Fields:
        """The fields of the word, with 0 for the start address."""
        return Fields(self.tile.mode, *self.tile.offsets, constant=instruction(self.key.instruction).constant)

    @property
    def word(self) -> int:
        """The 64-bit constant, to which the encoded start address is added."""
        return descriptor(self.fields)

    @property
    def tensor_map(self) -> TensorMap:
        """The tensor map that writes the tile, in as many ``copies`` as it takes."""
        outer, inner = tuple(_LETTERS[self.key.role])
        (along_mn, along_k), atoms = self.tile.atom, self.tile.atoms
        line, lines = (along_k, along_mn) if self.tile.major == "K" else (along_mn, along_k)
        letters = (inner, outer) if self.tile.major == "K" else (outer, inner)
        innermost = (line // 8, f"{letters[0]} / 8") if self.tile.bits == 1 else (line, letters[0])
        joined: list[tuple[int, str]] = []
        for extent, letter in (innermost, (lines, letters[1]), (atoms[1], inner), (atoms[0], outer)):
            if extent > 1 and len(joined) > 1 and joined[-1][1] == letter:
                joined[-1] = joined[-1][0] * extent, letter
            elif extent > 1 or len(joined) < 2:
                joined.append((extent, letter))
        for at, (extent, letter) in enumerate(joined):
            if extent > LONGEST:  # what is outside of a part is for other copies
                whole = gcd(extent, LINES)
                part = max(part for part in range(whole, LONGEST + 1, whole) if extent % part == 0)
                joined[at:] = [(part, letter)]
        name = "NONE" if self.tile.mode == "none" else self.tile.mode
        extents, axes = zip(*joined, strict=True)
        return TensorMap(extents, axes, f"CU_TENSOR_MAP_SWIZZLE_{name}")

    @property
    def copies(self) -> int:
        """How many copies write the tile, one behind the other."""
        return self.tile.size * 8 // (prod(self.tensor_map.box) * (8 if self.tile.bits == 1 else self.tile.bits))

    @property
    def steps(self) -> Rows:
        """Where each product of the tile begins."""
        letter, of = _LETTERS[self.key.role][0], _product(self.key)
        advance = strides(self.tile)
        rows = []
        for mn in range(0, self.tile.mn, of.mn):
            for k in range(0, self.tile.k, of.k):
                byte = int(advance(mn, k)) // 8
                rows.append((mn, k, byte, byte >> 4))
        return Rows((letter, "k", "bytes", "encoded"), rows)

    @property
    def read(self) -> Array:
        """The bit at which each element of the tile is read, by the products one after the other: an array (mn, k)."""
        bits, of = np.empty((self.tile.mn, self.tile.k), np.int64), _product(self.key)
        for mn, k, byte, _ in self.steps.rows:
            bits[mn : mn + of.mn, k : k + of.k] = read(of, self.fields._replace(start=byte))
        return bits

    def rows(self) -> Rows:
        """The same as ``steps``."""
        return self.steps

    def parts(self) -> Iterator[str | Rows]:
        """Its facts, the lines of C++, and the steps."""
        of, fields = self.tile, self.fields
        leading = f"{fields.leading} bytes" if _reads_leading(self.key) else "not read"
        letter = _LETTERS[self.key.role][0]
        box = ", ".join(f"{extent} ({axis})" for extent, axis in zip(*self.tensor_map[:2], strict=True))
        yield f"{self.key} in a tile of {letter}{of.mn}k{of.k}"
        yield f"size: {of.size} bytes from a multiple of {of.alignment}"
        yield f"leading dimension byte offset: {leading}"
        yield f"stride dimension byte offset: {fields.stride} bytes"
        yield f"descriptor without address: 0x{self.word:016x}"
        copies = f", {self.copies} copies {of.size // self.copies} bytes apart" if self.copies > 1 else ""
        packed = f"CU_TENSOR_MAP_DATA_TYPE_{_PACKED[of.bits, of.step]}, " if (of.bits, of.step) in _PACKED else ""
        yield f"tensor map: {packed}box {box}, element strides 1, {self.tensor_map.swizzle}{copies}"
        yield ""
        yield f"constexpr uint64_t {self.key.role.lower()}_tile = 0x{self.word:016x};"
        yield f"uint64_t descriptor = {self.key.role.lower()}_tile | ((address & 0x3FFFF) >> 4);  // + encoded advance"
        yield ""
        yield "advance of the start address to each product:"
        yield self.steps


@dataclass(frozen=True)
class Decoded(Told):
    """What a word addresses, compared with what lies in a tile.

    ``begins`` is where in the tile the product begins that the start address is for, or the last one before it.
    ``reads`` has for each element of the product, over (mn, k), which element of the tile lies where it is read: mn and
    k, or -1 where there is none. ``corrections`` say which fields must be what.
    """

    right: Descriptor
    fields: Fields
    begins: tuple[int, int]
    reads: Array
    corrections: Sequence[str]

    @property
    def _needed(self) -> Array:
        return np.moveaxis(np.indices(self.reads.shape[:2]), 0, -1) + self.begins

    @property
    def wrong(self) -> Array:
        """Which elements of the product are not those of the tile, over (mn, k)."""
        return np.asarray((self.reads != self._needed).any(axis=-1))

    @property
    def exit_code(self) -> int:
        """0 where it reads what the tile has, else 1."""
        return int(self.wrong.any())

    @property
    def verdict(self) -> str:
        """``right``, or which rows read what, and which field must be what."""
        if not self.wrong.any():
            return "right"
        mn, k = np.argwhere(self.wrong)[0]
        needed, found = self._needed[mn:, k], self.reads[mn:, k]
        alike = (found - needed == found[0] - needed[0]).all(axis=-1) if found[0, 0] >= 0 else found[:, 0] < 0
        count = next((at for at, same in enumerate(alike) if not same), len(alike))
        line, deep = "row" if self.right.key.role == "A" else "column", needed[0, 1] or found[0, 1] > 0

        def named(cells: Array) -> str:
            (first, depth), last = cells[0], cells[count - 1, 0]
            of = f"{line}s {first} to {last}" if last > first else f"{line} {first}"
            return f"{of} at k {depth}" if deep else of

        lies = "what is not in the tile" if found[0, 0] < 0 else f"what lies in {named(found)}"
        return f"{named(needed)} {'read' if count > 1 else 'reads'} {lies}: {'; '.join(self.corrections)}"

    def rows(self) -> Rows:
        """Each element of the product, and the element of the tile that is read for it."""
        letter = _LETTERS[self.right.key.role][0]
        records = [(mn, k, *map(int, self.reads[mn, k])) for mn, k in np.ndindex(*self.reads.shape[:2])]
        return Rows((letter, "k", f"reads_{letter}", "reads_k"), records)

    def parts(self) -> Iterator[str | Rows]:
        """The fields, and the verdict."""
        given = self.fields
        yield f"swizzling mode: {given.mode}"
        letter, (mn, k) = _LETTERS[self.right.key.role][0], self.begins
        yield f"start address: {given.start}, for the product from {letter} {mn} k {k}"
        yield f"leading dimension byte offset: {given.leading}"
        yield f"stride dimension byte offset: {given.stride}"
        yield f"base offset: {given.base}"
        yield self.verdict


def describe(query: Query, extents: str | None = None) -> Descriptor:
    """The descriptor of an operand in a tile, by default the smallest one.

    Args:
        query: an operand with its layout in shared memory, such as m64n128k16 f16 B 128B.K.
        extents: the tile, such as n128k64: M or N, and K, both multiples of those of the product.

    Raises:
        LanemapError: there is no such operand or layout, or the tile does not fit it; says what would be right.
    """
    key = memory_key(query)
    of = _product(key)
    across = of.k * of.bits // 8
    uneven = of.major == "K" and of.span % across and across % of.span  # as the 48 bytes of K = 96
    if uneven and across > of.span:
        words = f"a product takes {across} bytes along K, and a line has {of.span}"
        raise LanemapError(f"{words}: write none.K or 128B.K")
    if extents is None:
        return Descriptor(key, of)
    letters, parts = _LETTERS[key.role], _EXTENTS.fullmatch(extents.lower())
    if not parts or {parts[1], parts[3]} != {*letters}:
        raise LanemapError(f"{extents!r} is no tile of {key.role}: write {letters[0]}{of.mn}k{4 * of.k}")
    numbers = {parts[1]: int(parts[2]), parts[3]: int(parts[4])}
    for letter, least in zip(letters, (of.mn, of.k), strict=True):
        if not numbers[letter] or numbers[letter] % least:
            raise LanemapError(
                f"{letter}{numbers[letter]} of the tile is no multiple of {least}, as one product has it"
            )
    whole = of._replace(mn=numbers[letters[0]], k=numbers["k"])
    along = whole.k if of.major == "K" else whole.mn
    if along * of.bits // 8 % of.span and not uneven:
        wide = along * of.bits // 8
        fitting = [mode for mode, span in MODES.items() if wide % span == 0]
        raise LanemapError(
            f"{of.mode} needs rows of {of.span} bytes, and these have {wide}: write {fitting[-1]}.{of.major}"
        )
    if uneven and whole.k > of.k:
        raise LanemapError(
            f"a product takes {across} of {of.span} bytes of a line, and a later one leaves it: write k{of.k}"
        )
    if whole.size > LARGEST:
        raise LanemapError(
            f"a tile of {extents} has {whole.size} bytes: a block has at most {LARGEST} of shared memory"
        )
    return Descriptor(key, whole)


def decode(word: int, query: Query, extents: str | None = None) -> Decoded:
    """What a descriptor reads of a tile that begins where its pattern does, at or below the start address.

    That is at a multiple of the tile's alignment, or with a base offset at the row of 128 bytes of the start address,
    which the base offset must then count.

    Raises:
        LanemapError: the word is no descriptor, or see ``describe``.
    """
    if not 0 <= word < 1 << 64:
        raise LanemapError(f"{word} is no descriptor: it has 64 bits, as in 0x4000004000400000")
    right, given = describe(query, extents), Fields.of(word)
    if wrong := wrong_bits(word, right.fields.constant):
        raise LanemapError(f"0x{word:016x} is no descriptor: {wrong}")
    of, product = right.tile, _product(right.key)
    lines = given.start % of.alignment // _LINE if given.base else 0
    within = (given.start - lines * _LINE) % of.alignment
    begin = given.start - within
    starts = {byte % of.alignment: (mn, k) for mn, k, byte, _ in reversed(right.steps.rows)}
    first = max(start for start in starts if start <= within)
    cells = np.full((of.size * 8 // of.step, 2), -1)
    held = places(of) // of.step
    cells[held] = np.moveaxis(np.indices(held.shape), 0, -1)
    at = read(product._replace(mode=given.mode), given) // of.step - begin * 8 // of.step
    inside = (at >= 0) & (at < len(cells))
    reads = np.where(inside[..., None], cells[np.where(inside, at, 0)], -1)

    needed, corrections = right.fields._replace(start=begin + first, base=lines), []
    bits = read(product, needed)
    past = [str(start + lines * _LINE) for start in sorted(starts)]
    choices = f"{either(past)} bytes past " if past != ["0"] else ""
    for field, name in _NAMES.items():
        wrong = getattr(given, field)
        changed = needed._replace(**{field: wrong})
        if not np.array_equal(read(product._replace(mode=changed.mode), changed), bits):
            must = f"{choices}a multiple of {of.alignment}" if field == "start" else getattr(needed, field)
            corrections.append(f"the {name} is {wrong}, it must be {must}")
    return Decoded(right, given, starts[first], reads, corrections)


def _reads_leading(key: Key) -> bool:
    """Whether a product goes from one atom to the next by the leading offset: not where a line has all of its depth."""
    of = _product(key)
    return of.major == "MN" or of.atoms[1] > 1


def _product(key: Key) -> Tile:
    of = tile(key)
    assert of is not None
    return of


def memory_key(query: Query) -> Key:
    """The operand in shared memory that a query names.

    Raises:
        LanemapError: it names none, or several.
    """
    asked = query.parameters()
    name, role = asked["instruction"] or "", asked["role"]
    forms = [form for form in candidates(query.tokens) if form.instruction.in_memory]
    if not forms and not (name in INSTRUCTIONS and INSTRUCTIONS[name].in_memory and asked["shape"]):
        raise LanemapError(f"{query.title} has no operand that a descriptor names: write m64n128k16 f16 B 128B.K")
    if role not in _LETTERS:
        raise LanemapError(
            f"a descriptor names A or B of {query.title}, not {role}" if role else "say which role: A or B"
        )
    if forms:
        form = min(forms, key=lambda form: form.sparse)
        key = form.key(role)._replace(type=query.type_named(role) or form.types[role], major=None)
    else:  # its mnemonic says no shape and no types
        if not (type_ := asked["type"] or query.token("type")):
            raise LanemapError(f"say the type of {role}: write {name} {asked['shape']} f16 {role} 128B.K")
        key = Key(name, asked["shape"], type_, role)
    dimensions(key.shape, role, key.instruction)
    given, patterns = asked["qualifiers"], instruction(key.instruction).patterns(TYPES[key.type].bits)
    if given is None:
        raise LanemapError(f"say how {role} lies in shared memory: {', '.join(patterns)}")
    known = {name.lower(): name for name in patterns}
    if given not in known:
        why = f"{key.type} is K-major only" if given.endswith(".mn") else f"there is no {given}"
        if given.upper() in map(str.upper, MODES):
            why = f"{given} is a mode without the axis that its lines run along"
        if given.endswith(".mn") and (drawn := instruction(key.instruction).drawn.get(key.type)):
            why = f"{key.type} lies along M or N in {drawn} alone, which is figure-only"
        raise LanemapError(f"{why}: choose from {', '.join(known.values())}")
    key = key._replace(qualifiers=known[given])
    if not forms:
        expect_shape(key)
    return key
