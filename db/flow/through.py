"""From one instruction to the next through a tile in shared memory: whether one reads what the other wrote.

What writes is a D, which lanes store, or a tensor map; what reads is a descriptor of wgmma, lanes that load, or a
tensor map. Each of them has an element of the matrix at some bit of memory: an array over (mn, k), as of tiles. What
lanes store lies as its reader packs it, swizzled by the mode that is named.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import LanemapError
from ..isa.instructions import WARP, WORD, Key
from ..isa.names import MATRIX_MOVES, PLAIN_MOVES, Query
from ..isa.shared import BOX_MODES, LARGEST, MODES, BoundingBox, Tile, mode_named, pattern
from ..layout.algebra import Array
from ..layout.banks import degrees
from ..layout.fragment import Fragment
from ..layout.shared import places
from ..rows import Rows, Told
from ..store.reader import Reader
from ..text import counted, either
from . import box
from .chain import as_half_pairs, operand
from .descriptor import Descriptor, memory_key
from .recipe import Pair, Recipe, recipe


@dataclass(frozen=True, eq=False, repr=False)
class Through(Told):
    """What one operand writes to a tile of shared memory, and where the next reads.

    ``written`` and ``read`` are the bits of memory at which each element of the matrix lies for either, over M or N and
    K of the second operand, or rows and elements of its box; ``turned`` where the first of these count columns of the
    first operand. ``stores`` and ``loads`` are the moves where lanes are at an end, and ``fitting`` are the modes with
    which both agree.
    """

    first: Fragment
    second: Fragment
    tile: Tile | BoundingBox
    written: Array
    read: Array
    fitting: Sequence[str]
    turned: bool
    stores: Recipe | None = None
    loads: Recipe | None = None
    descriptor: Descriptor | None = None

    @property
    def ends(self) -> tuple[Fragment, Fragment]:
        """Both operands."""
        return self.first, self.second

    @property
    def moves_values(self) -> bool:
        """Whether an element is not read where it was written."""
        return bool((self.written != self.read).any())

    @property
    def exit_code(self) -> int:
        """1 where an element is not read where it was written."""
        return int(self.moves_values)

    @property
    def verdict(self) -> str:
        """``right``, or which element is read from where another lies, and with which mode both agree."""
        if not self.moves_values:
            return "right"

        def named(mn: int, k: int) -> str:
            return f"{self._letters[0]} {mn} {self._letters[1]} {k}"

        wrong = np.argwhere(self.written != self.read)[0].tolist()
        held = np.argwhere(self.written == self.read[*wrong]).tolist()
        found = f"{named(*held[0])} is written" if held else "nothing is written"
        agree = f"both agree in {' or '.join(self.fitting)}" if self.fitting else "they agree in no mode"
        return f"{named(*wrong)} is read where {found}: {agree}"

    @property
    def size(self) -> int:
        """Bytes of the tile, or of as many boxes as hold the matrix."""
        return self.tile.size * (self.written.size // (self.tile.mn * self.tile.k))

    @property
    def extents(self) -> str:
        """Those of the matrix, as in ``m64k128``."""
        return self.named(self.written.shape)

    def named(self, cell: Sequence[int]) -> str:
        """Two numbers with the letters of their axes."""
        return "".join(f"{letter}{number}" for letter, number in zip(self._letters, cell, strict=True))

    @property
    def _letters(self) -> str:
        return _LETTERS[self.second.role]

    def degree(self, moves: Recipe) -> int:
        """The highest conflict degree in the banks of the moves at one end, wherever in the tile they begin."""
        every = (self.addresses(moves, start).reshape(-1, WARP) for start in self.starts(moves))
        return max(int(degrees(places, moves.width).max()) for places in every)

    def starts(self, moves: Recipe) -> list[tuple[int, int]]:
        """Where in the matrix each operand begins that the moves at one end take, over (mn, k)."""
        step = self._step(moves)
        counts = (extent // of for extent, of in zip(self.written.shape, step, strict=True))
        return [(mn * step[0], k * step[1]) for mn, k in np.ndindex(*counts)]

    def addresses(self, moves: Recipe, start: tuple[int, int]) -> Array:
        """The byte of the tile that each address of the moves names, of an operand that begins there."""
        line, byte = np.array([(address.line, address.byte) for address in moves.addresses]).T
        place = byte * 8 // self.tile.bits
        mn, k = (line, place) if _along_k(self.tile) else (place, line)
        return np.asarray(self.written[mn + start[0], k + start[1]] // 8)

    def _step(self, moves: Recipe) -> tuple[int, int]:
        lines, places = moves.tile[0], moves.tile[1] * 8 // self.tile.bits
        return (lines, places) if _along_k(self.tile) else (places, lines)

    def rows(self) -> Rows:
        """The bit of the tile at which each element is written and read."""
        cells = zip(*(index.ravel().tolist() for index in np.indices(self.written.shape)), strict=True)
        bits = zip(self.written.ravel().tolist(), self.read.ravel().tolist(), strict=True)
        return Rows(
            (*self._letters, "written", "read"), [(*cell, *both) for cell, both in zip(cells, bits, strict=True)]
        )

    def words(self, bits: Array) -> Iterator[tuple[int, ...]]:
        """Elements as ``Fragment.tuples`` has them, of the tile as it is written or read, by the bits of either."""
        for *cell, bit in np.column_stack([*map(np.ravel, (*np.indices(bits.shape), bits))]).tolist():
            row, col = reversed(cell) if self.turned else cell
            yield 0, bit // WORD, bit % WORD // self.tile.bits, row, col, col

    def parts(self) -> Iterator[str | Rows]:
        """The verdict, the tile, and how each end reaches it."""
        yield f"{self.first} through {self.extents} in {self.tile.mode} to {self.second}"
        yield self.verdict
        yield f"tile:    {self.size} bytes from a multiple of {self.tile.alignment}"
        for name, moves in (("written", self.stores), ("read", self.loads)):
            if moves:
                used = moves.moves[0]
                form = used.instruction + (f".{used.qualifiers}" if used.qualifiers else "")
                packed = "converted to 16 bits, " if moves.packed else ""
                conflict = f"{degree}-way conflict" if (degree := self.degree(moves)) > 1 else "no conflict"
                times = f"{len(moves.moves)} x " if len(moves.moves) > 1 else ""
                count = len(self.starts(moves))
                each = f", for each of {count} {moves.operand.role}" if count > 1 else ""
                yield f"{name + ':':<8} {packed}{times}{form}, {conflict}{each}"
        for name, end in (("written", self.first), ("read", self.second)):
            if end.role == "t":
                yield f"{name + ':':<8} tensor map, {end.qualifiers}"
        if self.descriptor:
            products = counted(len(self.descriptor.steps.rows), "product")
            yield f"read:    descriptor without address 0x{self.descriptor.word:016x}, {products}"


_LETTERS = {"A": "mk", "B": "nk", "t": "mn"}


def matrix_move(first: Query, second: Query) -> tuple[Query, Query] | None:
    """The move and the operand: ldmatrix or ld.shared before it, stmatrix or st.shared after it. None where neither is.

    The operand may be what tcgen05.ld has loaded, or tcgen05.st is to store.

    Raises:
        LanemapError: both are of shared memory, or one is not where it belongs.
    """
    of_registers = [query.parameters()["role"] == "r" for query in (first, second)]
    if not any(of_registers):
        return None
    moves = [*zip(MATRIX_MOVES, PLAIN_MOVES, strict=True)]
    names = [query.token("instruction") or moves[at][0] for at, query in enumerate((first, second))]
    of_memory = [name in (*MATRIX_MOVES, *PLAIN_MOVES) for name in names]
    if all(of_registers) and all(of_memory):
        raise LanemapError("both are matrix moves: name the A, B, C or D that one of them loads or stores")
    place = int(of_memory[1]) if all(of_registers) else of_registers.index(True)
    if names[place] not in moves[place]:
        why = "" if of_memory[place] else f"{names[place]} is not for shared memory: "
        before, after = MATRIX_MOVES
        raise LanemapError(f"{why}write {before} before what it loads, and {after} after what it stores")
    move, partner = (first, second) if place == 0 else (second, first)
    return (move if move.token("instruction") else replace(move, instruction=names[place])), partner


def _along_k(of: Tile | BoundingBox) -> bool:
    """Whether its lines run along the second index."""
    return isinstance(of, BoundingBox) or of.major == "K"


def end(reader: Reader, query: Query) -> Fragment:
    """The operand that a query names: one in registers with its elements, one in memory without them.

    Raises:
        LanemapError: there is no such operand; says what would be right.
    """
    if box.writes(query):
        written = box.describe(query)
        shape, mode = f"m{written.box.mn}n{written.box.k}", written.box.mode
        return Fragment.of(Key("cp.async.bulk.tensor", shape, written.type, "t", qualifiers=mode), None, "documented")
    asked = query.parameters()
    if asked["role"] in ("A", "B") and pattern(asked["qualifiers"]):
        return Fragment.of(memory_key(query), None, "documented")
    return operand(reader, query)


def through(
    first: Fragment, second: Fragment, mode: str, moves: Callable[[str], Sequence[Pair]], *, transposed: bool = False
) -> Through:
    """What a D or a tensor map writes for an A or B, or for a tensor map.

    Args:
        first: a D with its elements, or a box of a tensor map.
        second: an A or B with its elements, or one in shared memory, or a box.
        mode: the swizzling mode of what lanes write. That of a box is its own.
        moves: the moves of a name, see ``recipe.pairs``.
        transposed: whether D is taken transposed.

    Raises:
        LanemapError: one is no such operand, they do not fit, or no move stores or loads it; says what would be right.
    """
    source, goal = first.tile, second.tile
    if isinstance(source, Tile) or (source is None and first.role != "D"):
        raise LanemapError(f"{first} writes nothing to memory: name a D, or cp.async.bulk.tensor m64n64 b16 128B t")
    if second.role not in _LETTERS or (second.windowed and not goal):
        raise LanemapError(
            f"{second} reads nothing from memory: name a dense A or B, or one such as A 128B.K, or a box"
        )
    chosen = mode_named(mode, "through")
    if source and chosen != source.mode:
        raise LanemapError(f"{first} is swizzled by {source.mode}, not {chosen}: take {source.mode}", "through")
    bits = goal.bits if goal else second.slot_bits
    if source and source.bits != bits:
        raise LanemapError(f"{first} has elements of {source.bits} bits, {second} of {bits}: write b{bits}")
    major = "MN" if isinstance(goal, Tile) and goal.major == "MN" else "K"
    turned = major == "MN" if source else transposed != (second.role == "B")
    own = ((source.mn, source.k) if source else first.dimensions)[:: -1 if turned else 1]
    least = (goal.mn, goal.k) if goal else second.dimensions[:: -1 if second.role == "B" else 1]
    # Several D may make one operand, where a box is a whole matrix.
    mn, k = own if source else (max(own[0], least[0]), max(own[1], least[1]))
    if mn % least[0] or k % least[1] or mn % own[0] or k % own[1]:
        raise LanemapError(
            f"{first} is {own[0]} x {own[1]} here, no multiple of {least[0]} x {least[1]} as {second} is"
        )

    def laid(mode: str) -> tuple[Tile | BoundingBox, Array | None]:
        """The tile of the matrix as the reader packs it in a mode, and the bits of its elements if it has room."""
        if isinstance(goal, BoundingBox):
            of = goal._replace(mode=mode)
            row, col = np.indices((mn, k))
            number = col // of.k * (mn // of.mn) + row // of.mn
            return of, number * of.size * 8 + places(of)[row % of.mn, col % of.k] if of.fits else None
        whole = Tile(mode, major, bits, mn, k)
        return whole, None if (k if major == "K" else mn) * bits // 8 % whole.span else places(whole)

    names = BOX_MODES if isinstance(goal, BoundingBox) else MODES
    tile, written = (source, places(source)) if source else laid(chosen)
    if written is None:
        along = (k if major == "K" else mn) * bits // 8
        fitting = [name for name in names if laid(name)[1] is not None]
        better = goal.mode if goal and goal.mode in fitting else either(fitting)
        why = f"{chosen} has lines of {tile.span} bytes, and these have {along}"
        raise LanemapError(f"{why}: take {better}", "through")
    written = written.T if source and turned else written
    descriptor: Descriptor | None = None
    read: Array | None
    if isinstance(goal, Tile):
        descriptor = Descriptor(second.key, goal._replace(mn=mn, k=k))
        read = descriptor.read
    else:
        read = laid(goal.mode)[1] if goal else written
    if max(tile.size, written.size * bits // 8) > LARGEST:
        raise LanemapError(f"a tile of {written.size * bits // 8} bytes exceeds the {LARGEST} of a block")
    assert read is not None
    compared = written if source else read
    fitting = [name for name in names if (other := laid(name)[1]) is not None and np.array_equal(other, compared)]
    return Through(
        first,
        second,
        tile,
        written,
        read,
        fitting,
        turned,
        None if source else _moved(first, bits, (major == "K") ^ turned, "st", moves),
        None if goal else _moved(second, bits, second.role == "A", "ld", moves),
        descriptor,
    )


def _moved(held: Fragment, bits: int, by_row: bool, name: str, moves: Callable[[str], Sequence[Pair]]) -> Recipe:
    """The moves of an operand from or to memory of elements of so many bits, by matrices or else plain ones."""
    half = as_half_pairs(held) if bits == held.slot_bits // 2 else None
    if bits != (half or held).slot_bits:
        raise LanemapError(f"{held} has {held.slot_bits} bits in memory, or 16: {bits} bits need another conversion")
    failed: list[LanemapError] = []
    for move in (f"{name}matrix", next(plain for plain in PLAIN_MOVES if plain.startswith(name))):
        try:
            found = recipe(moves(move), half or held, "row" if by_row else "col")
        except LanemapError as error:
            failed.append(error)
            continue
        if not found.packed:  # else it would store other elements than those that are read
            return replace(found, operand=held, packed=bool(half))
    raise failed[-1]
