"""Recipes for loading an operand from shared memory, or storing it there.

ldmatrix and stmatrix move rows of memory, 16 bytes each, whose addresses lanes pass (9.7.16.5.15, 9.7.16.5.16). Their
fragments say which bits of which row are in which bits of which register, and so does that of the operand. From these
the addresses follow, or two of them contradict each other and the move cannot do it. ld.shared and st.shared move a row
of one, two or four words for each lane.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from .. import lookup
from ..errors import LanemapError
from ..isa.forms import Form, forms
from ..isa.instructions import WARP, WORD, Key, instruction
from ..isa.names import PLAIN_MOVES
from ..isa.shared import BANKS, LARGEST, MODES, mode_named
from ..isa.vendors import NVIDIA
from ..layout.algebra import Array, Case, NotASumError, as_sum, bits
from ..layout.banks import degrees
from ..layout.fragment import Element, Fragment, by_rule
from ..layout.shared import swizzle
from ..layout.tile import joined
from ..rows import Rows, Told
from ..store.reader import Reader
from ..text import grouped, spans
from .chain import as_half_pairs, common_to_majors
from .reduction import LINES

#: The lines of an operand's matrix that memory holds contiguously.
MAJORS = tuple(LINES)

#: Bytes that all banks hold once.
_LINE = BANKS * WORD // 8

#: How many operands can be moved together.
_MOST = 16

#: The source of a part of a register in which a slot holds nothing.
_NOTHING = np.iinfo(np.int64).min


class Address(NamedTuple):
    """The address that one lane passes to one move.

    ``line`` and ``byte`` are in the tile in memory, whose lines are the rows of the matrix if it is row-major, else its
    columns. ``matrix`` counts the matrices of the move from 1, ``reg`` the registers of the operand, then those of its
    neighbours: it is the first register of the matrix, ``Recipe.registers`` has all.
    """

    step: int
    qualifiers: str
    matrix: int
    reg: int
    lane: int
    line: int
    byte: int


class Pair(NamedTuple):
    """The two operands of ldmatrix or stmatrix: the registers, and the lanes that pass addresses."""

    r: Fragment
    p: Fragment


@dataclass(frozen=True, repr=False)
class Recipe(Told):
    """The moves that bring an operand from memory to registers, or back.

    Every lane passes an address to every move; those that the move ignores repeat others. ``packed`` says that the
    lanes first convert the elements to 16 bits and put two into each register. ``count`` operands are moved together,
    side by side; ``registers`` are theirs, in the order in which the moves take them. Lines begin ``pitch`` bytes
    apart, or where that is None as many as they have, and the tile is swizzled by a ``mode``.
    """

    operand: Fragment
    major: str
    moves: Sequence[Fragment]
    addresses: Sequence[Address]
    registers: Sequence[int]
    packed: bool = False
    count: int = 1
    pitch: int | None = None
    mode: str = "none"

    @property
    def degree(self) -> int:
        """The highest conflict degree of its moves in the banks of shared memory; 1 is none."""
        return self._degree(self.pitch or self.tile[1], self.mode)

    def _degree(self, pitch: int, mode: str) -> int:
        return int(degrees(self.places(pitch, mode).reshape(-1, WARP), self.width).max())

    @property
    def width(self) -> int:
        """Bytes of memory at one address that a lane passes, and of what addresses are multiples."""
        return self.moves[0].dimensions[1] * self.moves[0].slot_bits // 8

    def places(self, pitch: int, mode: str) -> Array:
        """The byte of the tile that each address names, whose lines are so far apart, and which is so swizzled."""
        return swizzle(mode)(np.array([address.line * pitch + address.byte for address in self.addresses]))

    @property
    def choices(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """The narrowest swizzle, and the least padding, with the lowest degree that either can have: pitch and mode."""
        pitch = self.pitch or self.tile[1]
        swizzled = [(pitch, mode) for mode, span in MODES.items() if not pitch % span]
        step = self.width
        padded = [(wider, "none") for wider in range(-(-pitch // step) * step, pitch + _LINE, step)]
        best_swizzled, best_padded = (min(some, key=lambda one: self._degree(*one)) for some in (swizzled, padded))
        return best_swizzled, best_padded

    def _banks(self) -> Iterator[str]:
        """What is asked of the banks, where somebody asked or there is a conflict."""
        pitch, degree, line = self.pitch or self.tile[1], self.degree, LINES[self.major]
        bits = swizzle(self.mode).bits
        if self.pitch or bits:
            flip = f", then ^ (address >> 3 & {(1 << bits) - 1 << 4:#x})" if bits else ""
            yield f"address: {line} * {pitch} + byte{flip}"
            if bits:
                yield f"start:   a multiple of {swizzle(self.mode).period} bytes"
        elif degree == 1:
            return
        better = []
        for one, words in zip(self.choices, ("with swizzle {1}", "{0} bytes apart"), strict=True):
            if (least := self._degree(*one)) < degree:
                better.append(f"{least if least > 1 else 'none'} {words.format(*one)}")
        swizzled = f", swizzle {self.mode}" if bits else ""
        conflict = f"{degree}-way conflict" if degree > 1 else "no conflict"
        yield f"banks:   {'; '.join([f'{conflict} with {line}s {pitch} bytes apart{swizzled}', *better])}"

    @property
    def tile(self) -> tuple[int, int]:
        """Lines of the tile in memory, and bytes of a line."""
        rows, columns = self.operand.dimensions
        down, across = _side_by_side(self.operand, self.count)
        columns = columns // 2 if self.operand.windowed else columns
        lines, places = (rows * down, columns * across)[:: 1 if self.major == "row" else -1]
        return lines, places * (WORD // 2 if self.packed else self.operand.slot_bits) // 8

    @property
    def shift(self) -> int:
        """By how many bits each register must be shifted left after the moves.

        Widening leaves elements in the lowest bits of each slot, but e2m1 occupies the central ones (9.7.16.5.14).
        """
        return self.operand.occupied_bits.start if _widened(self.moves[0], self.operand) else 0

    def rows(self) -> Rows:
        """Every address as a row, with the major of the tile, its byte there, and how far each register is shifted."""
        shift, places = self.shift, self.places(self.pitch or self.tile[1], self.mode).tolist()
        rows = [(self.major, *address, place, shift) for address, place in zip(self.addresses, places, strict=True)]
        return Rows(("major", *Address._fields, "address", "shift"), rows)

    def laid(self, pitch: int | None, mode: str | None) -> "Recipe":
        """The same for a tile whose lines are so many bytes apart, and swizzled.

        Raises:
            LanemapError: no move can do that; says what would be right.
        """
        (lines, width), step = self.tile, self.width
        wide = width if pitch is None else pitch
        if wide % step or wide < width:
            least = -(-width // step) * step
            raise LanemapError(f"invalid pitch {wide}: it is a multiple of {step} from {least} on", "pitch")
        if lines * wide > LARGEST:
            raise LanemapError(f"{lines} lines {wide} bytes apart exceed the {LARGEST} bytes of a block", "pitch")
        named = mode_named(mode or "none", "swizzle")
        if wide % MODES[named]:
            raise LanemapError(
                f"swizzle {named} needs a pitch that is a multiple of {MODES[named]}, not {wide}", "swizzle"
            )
        return replace(self, pitch=pitch, mode=named)

    def parts(self) -> Iterator[str | Rows]:
        """Each move with its addresses and registers, then a table of the matrices."""
        operand, (lines, width), line = self.operand, self.tile, LINES[self.major]
        named = f"the stored half of {operand}" if operand.windowed else str(operand)
        way = "from" if loads(self.moves[0]) else "to"
        yield f"{named} {way} a {line}-major tile of {lines} {line}s of {width} bytes"
        sources = (fragment.source for fragment in (operand, *self.moves) if fragment.source)
        yield f"source:  {', '.join(dict.fromkeys(sources))}"
        if self.count > 1:
            along = {"A": "M", "r": "the memory's columns"}.get(operand.role, "N")
            yield f"count:   {self.count} neighbours along {along}; registers of each follow those of the one before"
        if self.packed:
            yield "first:   convert each element to 16 bits, registers 2 i and 2 i + 1 into the halves of register i"
        occupied = operand.occupied_bits
        if widening := _widened(self.moves[0], operand):
            yield f"memory:  16 elements fill {widening[1]} of each 16 bytes, the rest is padding"
        elif len(occupied) < operand.slot_bits:
            yield f"memory:  {operand.type} in bits {spans(occupied)} of each byte, as in the registers"
        matrices, first = [], 0
        for step, addresses in grouped(self.addresses, lambda address: address.step).items():
            move = self.moves[step]
            regs = self.registers[first : first + move.registers]
            first += move.registers
            numbers = f"register{'s' * (len(regs) > 1)} {_in_order(regs)}"
            taken = f"packed {numbers}" if self.packed else f"{numbers} of {operand.role}"
            yield f"move {step}:  {mnemonic(move, operand)}, {taken}"
            if move.instruction not in PLAIN_MOVES and (form := form_of(move, operand)).target[-1].isalpha():
                yield f"target:  {form.needs}"
            yield f"{line + ':':<8} {formula(addresses, 'line')}"
            yield f"byte:    {formula(addresses, 'byte')}"
            parts = move.registers // move.computations
            for matrix, passed in grouped(addresses, lambda address: address.matrix).items():
                starts = {address.byte for address in passed}
                bytes_ = spans(start + byte for start in starts for byte in range(self.width))
                into = regs[matrix - 1] if parts == 1 else _in_order(regs[(matrix - 1) * parts : matrix * parts])
                matrices.append((step, matrix, into, spans(address.line for address in passed), bytes_))
        if self.shift:
            yield (
                f"then:    shift each register left by {self.shift}: {operand.type} has bits {spans(occupied)} of each "
                f"{operand.slot_bits}, the move leaves it in the lowest {len(occupied)}"
            )
        yield from self._banks()
        yield Rows(("move", "matrix", "register", f"{line}s", "bytes"), matrices)


class Recipes(Told, list[Recipe]):
    """The recipes of an operand for tiles of both majors; ``failed`` says why one of them has none."""

    def __init__(self, listed: Iterable[Recipe], failed: Iterable[LanemapError] = ()) -> None:
        super().__init__(listed)
        self.failed = list(map(str, failed))

    @property
    def ends(self) -> tuple[Fragment]:
        """The operand."""
        return (self[0].operand,)

    @property
    def verdict(self) -> str:
        """What the first one does."""
        return str(next(self[0].parts()))

    def rows(self) -> Rows:
        """Every address of every recipe as a row."""
        return replace(self[0].rows(), rows=[row for entry in self for row in entry.rows().rows])

    def parts(self) -> Iterator[str | Rows]:
        """The recipes, then the reasons of those that failed."""
        for entry in self:
            yield from entry.parts()
        yield from self.failed


def recipes(
    reader: Reader,
    move: lookup.Query,
    operand: lookup.Query,
    majors: Iterable[str],
    count: int,
    pitch: int | None = None,
    swizzle: str | None = None,
) -> Recipes:
    """The recipes for tiles of several majors. Raises the first error if there is no recipe at all."""
    fragments = lookup.operand_with_rows(reader, operand, "shape", "type", "source")
    if fragments[0].role == "r":
        fragments.expect_one("qualifiers")
    moves, common = pairs(reader, move), common_to_majors(fragments)
    listed, failed = [], []
    for major in majors:
        # If two majors have different layouts, take that of the tile.
        same = [fragment for fragment in fragments if major in (fragment.major, fragment.qualifiers)]
        try:
            found = recipe(moves, common or [*same, *fragments][0], major, count)
            listed.append(found if pitch is None and swizzle is None else found.laid(pitch, swizzle))
        except LanemapError as error:
            failed.append(error)
    if not listed:
        raise failed[0]
    shown = Recipes(listed, failed)
    shown.remarks = lookup.Fragments(operand, shown.ends).remarks
    return shown


def pairs(reader: Reader, query: lookup.Query) -> list[Pair]:
    """The ldmatrix or stmatrix of a query with each of its qualifiers, those of several matrices first; or plain moves.

    Those of m8n8 come first if the query names no shape. Sources are chosen as by ``every_operand``.

    Raises:
        LanemapError: no source has them.
    """
    if (name := query.token("instruction")) in PLAIN_MOVES:
        return [_plain(str(name), words) for words in (4, 2, 1)]
    every = reader.kept(("moves", repr(query)), lambda: lookup.every_operand(reader, replace(query, role=None)))
    addresses = {fragment.key._replace(role="r"): fragment for fragment in every if fragment.role == "p"}
    usable = [Pair(fragment, addresses[fragment.key]) for fragment in every if fragment.key in addresses]
    if not usable:
        raise LanemapError(f"no source has the addresses of {query.title}: name ldmatrix or stmatrix m8n8")
    return sorted(usable, key=lambda pair: (pair.r.shape != "m8n8", -pair.r.computations, str(pair.r.qualifiers)))


def _plain(name: str, words: int) -> Pair:
    """A plain move as a matrix of which each lane has a row: the fragments of D of an instruction without forms."""
    lane, word = np.indices((WARP, words))
    r = Key(name, f"m{WARP}n{words}", "b32", "D")
    p = r._replace(shape=f"m{WARP}n1")
    return Pair(
        Fragment.of(r, by_rule(1, lane, word), "documented", registers=words, slots=1),
        Fragment.of(p, by_rule(1, lane[:, :1], word[:, :1]), "documented", registers=1, slots=1),
    )


def recipe(available: Sequence[Pair], operand: Fragment, major: str, count: int = 1) -> Recipe:
    """The moves of an operand from a tile in memory, or to it.

    Args:
        available: the available moves, see ``pairs``.
        operand: what they load or store.
        major: ``row`` or ``col``, the order of the tile in memory.
        count: how many neighbours to move together, so that one move has the registers of several. If a matrix
            fills registers of more, it is rounded up to a multiple of them.

    Raises:
        LanemapError: none of the moves can do it; the message says why.
    """
    if major not in MAJORS:
        raise LanemapError(f"invalid major {major!r}: a tile in memory is row or col")
    if not 1 <= count <= _MOST:
        raise LanemapError(f"invalid count {count}: 1 to {_MOST} neighbours are moved together")
    _expect_movable(available[0].r, operand)
    # What widens 4 bits to s8 makes other bits than those in memory.
    usable = [pair for pair in available if pair.r.type != "s8"]
    fitting = [pair for pair in usable if pair.r.type != "b8x16" or _widened(pair.r, operand)]
    if not fitting:
        key = operand.key._replace(major=None, selector=None)
        raise LanemapError(f"{_name(available[0].r)} is for elements of 4 and 6 bits in bytes of their own, not {key}")
    dense = compressed(operand) if operand.windowed else operand
    versions = [replaced for replaced in (dense, as_half_pairs(dense)) if replaced]
    if loads(available[0].r):
        del versions[1:]
    failed: dict[str, str] = {}
    for name, same in grouped(fitting, lambda pair: _name(pair.r)).items():
        ways = grouped(same, lambda pair: _transposes(pair.r))
        reasons: dict[bool, str] = {}
        for fragment, transposing in product(versions, sorted(ways)):
            try:
                used, addresses, registers, number = _addresses(ways[transposing], fragment, major, count)
            except _ReasonError as error:
                reasons.setdefault(transposing, str(error))
                continue
            return Recipe(operand, major, used, addresses, registers, fragment is not dense, number)
        if not failed or same[0].r.slot_bits == operand.slot_bits:
            failed[name] = "; with .trans, ".join(dict.fromkeys(reasons.values()))
    (move, why), *others = failed.items()
    qualifiers = {pair.r.qualifiers for pair in available}
    move += f" {available[0].r.qualifiers}" if len(qualifiers) == 1 and None not in qualifiers else ""
    why = "; ".join([why, *map(": ".join, others)])
    raise LanemapError(f"{move} cannot move {operand} in a {LINES[major]}-major tile: {why}")


def _expect_movable(move: Fragment, operand: Fragment) -> None:
    name = operand.key._replace(major=None, selector=None)
    if operand.role == "r" and operand.instruction != move.instruction:
        if instruction(operand.instruction).moves == ("load" if loads(move) else "store"):
            raise LanemapError(
                "one move must load the registers and the other store them, as in tcgen05.ld ... stmatrix"
            )
    elif operand.role not in ("A", "B", "C", "D"):
        raise LanemapError(f"{name} is not a matrix operand: name an A, B, C or D")
    move.expect_rows()
    operand.expect_rows()
    if operand.memory:
        raise LanemapError(f"{name} lies in {operand.memory}, and {move.instruction} moves what registers hold")
    mover, user = (instruction(fragment.instruction).vendor for fragment in (move, operand))
    mover = mover if mover.name else NVIDIA  # of ld.shared and st.shared, which have no row
    if (user.name and user is not mover) or operand.threads % move.threads:
        whose = f"is {user.title}'s" if user.name else f"is held by {operand.threads} lanes"
        raise LanemapError(
            f"{name} {whose}, and {move.instruction} moves registers of {mover.title}'s {mover.group_name}s"
        )
    if operand.computations > 1:
        raise LanemapError(f"{name} holds {operand.computations} matrices: a recipe is for an operand of one product")


class _ReasonError(Exception):
    """Why a move cannot do it."""


def _side_by_side(operand: Fragment, count: int) -> tuple[int, int]:
    """How many neighbours are down and across: those of A, which has no N, along M, all others along their columns."""
    return (count, 1) if operand.role == "A" else (1, count)


def compressed(operand: Fragment) -> Fragment:
    """A sparse A with the columns that it has in memory, where the stored halves of its chunks are contiguous.

    Raises:
        LanemapError: a window of columns is not in one chunk, or lanes share the stored half of one.
    """
    records, width = operand.records(), operand.chunk
    chunks = grouped(records, lambda element: (element.row, element.col // width))
    apart = any(element.col // width != element.col_last // width for element in records)
    if apart or any(
        len({element.lane for element in held}) > 1 or 2 * len(held) > max(width, 2) for held in chunks.values()
    ):
        raise LanemapError(
            f"{operand} of {operand.source} does not say which chunk of {width} columns an element is of: "
            "ask a source that measured it",
            "source",
        )
    places = {
        element: chunk * width // 2 + at for (_, chunk), held in chunks.items() for at, element in enumerate(held)
    }
    table = operand.table.copy()
    table["col"] = table["col_last"] = [places[element] for element in records]
    return replace(operand, elements=table)


def _addresses(
    available: Sequence[Pair], operand: Fragment, major: str, count: int
) -> tuple[list[Fragment], list[Address], Sequence[int], int]:
    """The moves in order, the addresses passed to them, their registers in order, and of how many operands these are.

    A matrix that fills several registers may fill one of each of as many neighbours.
    """
    mover, user = (lookup.Query(**fragment.key._asdict()).forms for fragment in (available[0].r, operand))
    targets = instruction(operand.instruction).vendor.targets
    runs = (form.supports(target) and to.supports(target) for form, to, target in product(mover, user, targets))
    if mover and user and not any(runs):
        raise _ReasonError(f"it needs {mover[0].needs}, and {user[0].name} needs {user[0].needs}")
    together = joined(operand, *_side_by_side(operand, count))
    held, words = _held(together, major, available[0].r), together.registers * together.register_bits // WORD
    if (
        available[0].r.instruction in PLAIN_MOVES
    ):  # a vector may have any registers: those of a line, one after the other
        return *_in_turn(available, held, together, np.lexsort(held[0].T[::-1]).tolist()), count
    parts = available[0].r.registers // available[0].r.computations
    try:
        return *_in_turn(available, held, together, range(words)), count
    except _ReasonError:
        if parts == 1:
            raise
    if count % parts:
        return _addresses(available, operand, major, -(-count // parts) * parts)
    alternating = np.arange(words).reshape(-1, parts, words // count).swapaxes(1, 2).ravel().tolist()
    return *_in_turn(available, held, together, alternating), count


def _in_turn(
    pairs: Sequence[Pair], held: Array, operand: Fragment, registers: Sequence[int]
) -> tuple[list[Fragment], list[Address], Sequence[int]]:
    """The same for registers in this order: each move is the widest that fits the remaining ones."""
    used: list[Fragment] = []
    addresses: list[Address] = []
    first = 0
    for pair in pairs:
        while first + pair.r.registers <= len(registers):
            addresses += _step(pair, held, operand, len(used), registers[first : first + pair.r.registers])
            used.append(pair.r)
            first += pair.r.registers
    if first < len(registers):
        raise _ReasonError(f"it moves {pair.r.registers} registers at once, and there are {len(registers)}")
    return used, addresses, registers


def _held(operand: Fragment, major: str, move: Fragment) -> Array:
    """Where in memory each part of a lane's registers comes from: its line, and its first bit in the line.

    A part is what the move treats as one element. It may hold several elements of the operand, or a part of one.
    """
    width, bits, register = operand.slot_bits, move.slot_bits, operand.register_bits
    lane, reg, slot, row, col = (operand.table[name].astype(np.int64)[:, None] for name in Element._fields[:5])
    line, place = (row, col)[:: 1 if major == "row" else -1]
    start = np.arange(0, width, bits)
    inside = reg * register + slot * width + start
    sources = np.stack(np.broadcast_arrays(line, place * width + start - inside % bits), axis=-1)
    held = np.full((operand.threads, operand.registers * register // bits, 2), _NOTHING)
    held[lane, inside // bits] = sources
    if (held[lane, inside // bits] != sources).any():
        apart = f"the {bits // width} elements in them are not next to each other in memory"
        raise _ReasonError(f"it moves {bits} bits as one, and {apart}")
    return held


def _step(pair: Pair, held: Array, operand: Fragment, step: int, regs: Sequence[int]) -> list[Address]:
    """The addresses that the lanes pass to one move of these registers of the operand."""
    (r, p), table, lanes = pair, pair.r.table, np.arange(operand.threads)
    row_bits, width, taken = r.dimensions[1] * r.slot_bits, operand.slot_bits, np.array(regs)[table["reg"]]
    sources = held[lanes.reshape(-1, r.threads)[:, table["lane"]], taken * r.slots + table["slot"]]
    if (sources == _NOTHING).any():
        raise _ReasonError(f"it moves whole registers, and in some of {operand.role} a slot holds nothing")
    sources[..., 1] -= table["col"] * r.slot_bits
    starts = np.zeros((len(sources), r.computations + 1, r.dimensions[0], 2), np.int64)
    starts[:, table["computation"], table["row"]] = sources
    if (starts[:, table["computation"], table["row"]] != sources).any() or (sources[..., 1] % row_bits).any():
        if width > WORD:
            raise _ReasonError(f"a lane has {WORD} bits of each row of memory, and an element has {width}")
        if _transposes(r) and width > r.slot_bits:
            raise _ReasonError(f"it transposes {r.slot_bits} bits as one, and an element has {width}")
        raise _ReasonError(
            f"the lanes that share the {row_bits // 8} bytes of one address hold elements that are not side by side in "
            "memory"
        )
    matrices, first = np.unique(table["computation"], return_index=True)
    registers = dict(zip(matrices.tolist(), taken[first].tolist(), strict=True))
    passed = p.table[lanes % r.threads % len(p.table)]
    matrix, (line, bit) = passed["computation"], starts[lanes // r.threads, passed["computation"], passed["row"]].T
    passing = zip(matrix.tolist(), lanes.tolist(), line.tolist(), (bit // 8).tolist(), strict=True)
    return [Address(step, str(r.qualifiers), number, registers[number], *at) for number, *at in passing]


def _in_order(registers: Sequence[int]) -> str:
    """Registers in the order in which a move takes them."""
    rising = [*registers] == [*range(registers[0], registers[0] + len(registers))]
    return spans(registers) if rising else " ".join(map(str, registers))


def loads(move: Fragment) -> bool:
    """Whether it moves from memory to registers."""
    return move.instruction.startswith("ld")


def _transposes(move: Fragment) -> bool:
    return "trans" in str(move.qualifiers)


def _name(move: Fragment) -> str:
    if move.instruction in PLAIN_MOVES:
        return f"{move.instruction}{f'.v{move.registers}' if move.registers > 1 else ''}.b32"
    return f"{move.instruction} {move.shape} {move.type}"


def mnemonic(move: Fragment, operand: Fragment) -> str:
    """How a move of an operand is written."""
    return _name(move) if move.instruction in PLAIN_MOVES else str(form_of(move, operand))


def form_of(move: Fragment, operand: Fragment) -> Form:
    """The form of a move that moves an operand."""
    packed = f".{widening[0]}" if (widening := _widened(move, operand)) else ""
    every = forms(move.instruction, move.shape, move.type)
    return next(form for form in every if (form.qualifiers, form.packed) == (move.qualifiers, packed))


def _widened(move: Fragment, operand: Fragment) -> tuple[str, int] | None:
    """The format of elements that a move widens, and how many of each 16 bytes in memory they fill; None for others."""
    width = len(operand.occupied_bits)
    widens = move.type == "b8x16" and width < operand.slot_bits == 8
    return (f"b{width}x16_p{16 * (8 - width)}", 2 * width) if widens else None


def formula(addresses: Sequence[Address], name: str) -> str:
    """The ``line`` or ``byte`` of the addresses of one step, as an expression of the lane, or else as a list.

    >>> formula([Address(0, "x2", lane // 8 + 1, 0, lane, lane % 8, lane // 8 * 16) for lane in range(16)], "byte")
    '(lane >> 3) * 16'
    """
    values = np.array([getattr(address, name) for address in addresses])
    try:
        return bits(Case(as_sum(values), (range(len(values)),)), ("lane",))
    except NotASumError:
        return " ".join(map(str, values))
