"""From one instruction to the next, to memory and to sparse metadata: ``lanemap chain``, ``reduce`` and so on."""

import csv
import re
import sys
from enum import StrEnum
from itertools import takewhile
from typing import Annotated, Any, Unpack

import typer

from .. import DEFAULT_SOURCE, Chaining, Database, LanemapError, Query, Which, named_file
from .app import DISAGREES, OK, app, complain, open_database, remark, write_answer, write_rows
from .options import ChainFormat, Format, Operand, argument, next_words, operand_word, read_text


def _next_word(context: typer.Context, incomplete: str) -> list[str]:
    """A completer for the words of several operands, one after the other."""
    words = context.params.get("operand") or []
    last = Query.split(words)[-1] if words else []
    return next_words([] if last and Query.parse(last).role else last, context, incomplete)


@app.command(epilog="Example: lanemap chain m16n8k16 f32 D m16n8k16 f16 A")
def chain(
    operand: Annotated[
        list[str],
        argument(
            "OPERAND [OPERAND]",
            "A D, and an A, B or C: each a SHAPE, TYPE and ROLE, or a name. Or ldmatrix first, or stmatrix last.",
            _next_word,
        ),
    ],
    source: str = DEFAULT_SOURCE,
    format: ChainFormat = ChainFormat.TABLE,
    db: str | None = None,
    **how: Unpack[Chaining],
) -> int:
    """Say how D of one instruction becomes A, B or C of the next.

    It shows whether D can be used directly, and otherwise which values move between lanes. Tiles of D are put
    together, or D is cut, to fit; with --tile both are of such a tile, and its lanes count the threads of all
    warps. A table is by register, other formats are by element. Of a D alone, it lists every A and B that it can
    feed without a move between lanes, also with K renumbered, and of an A, B or C every D that can feed it. Exit
    code 0: no value moves to another lane; 1: some do.

    ldmatrix before an operand loads it, and stmatrix after it stores it: then the answer is the address in a tile of
    shared memory that each lane passes, and the bank conflicts with what avoids them. Either may have qualifiers, as in
    ldmatrix.x4. ld.shared and st.shared in their place are plain moves, as wide as the operand allows.

    With --through a D, or what a tensor map writes, goes through a tile in shared memory to the second operand: to a
    descriptor, as A 128B.K, to lanes that load it, or to a tensor map. Exit code 1: it is not read where it is written.

    With --format cpp the answer is a C++ device function that does it, with inline PTX.
    """
    words, *taken = Query.split(operand)
    if len(taken) > 1:
        raise LanemapError(f"name two operands, as in m16n8k16 f32 D m16n8k16 f16 A: these are {1 + len(taken)}")
    named = [word.lower() for word in taken[0]] if taken else []
    if named[:1] == ["movmatrix"] and named[1:2] not in ([], ["a"], ["m8n8"]):
        raise LanemapError("leave movmatrix out: the answer says what it makes where values must move")
    through = how.get("through")
    if through and not re.match(r"\d|none", through, re.IGNORECASE):  # else what follows is taken for an operand
        raise LanemapError(f"--through {through} names no swizzle: write --through 128B {through}")
    start = Query.parse(words, source=source)
    end = Query.parse(taken[0], source=source) if taken else None
    with open_database(db) as database:
        answer = database.chain(start, end, **how)
        remark(answer.remarks)
        if format is ChainFormat.CPP:
            remark(answer.failed)
            sys.stdout.write(answer.cpp())
        else:
            write_answer(answer, Format(format))
    return answer.exit_code


#: The most characters of a table, and numbers of an array.
_LARGEST = 1 << 22

#: What is reduced to one value.
Along = StrEnum("Along", ["ROW", "COL"])


@app.command(epilog="Example: lanemap reduce m16n8k16 f32 D --along row")
def reduce(
    operand: Operand,
    along: Annotated[Along, "What becomes one value: each row, or each col."] = Along.ROW,
    format: Format = Format.TABLE,
    db: str | None = None,
    **which: Unpack[Which],
) -> None:
    """Say which lanes share a row or column, and how they reduce it.

    A lane first combines the registers of each of its values. Then each value is combined with that of the lane whose
    number differs by each mask (shfl.sync.bfly), after which all lanes that share the row have its result. Where warps
    share one, the answer says which: they need shared memory. Where no masks do it, it says why, and who holds what.
    Other formats than a table have a line for each element. "lanemap export --format cpp" has it as a function.
    """
    with open_database(db) as database:
        found = database.reduce(Query.parse(operand, **which), along)
        remark(found.remarks)
        write_answer(found, format)


@app.command(epilog="Example: lanemap blame m16n8k16 f16 --a a.npy --b b.npy --actual d.npy")
def blame(
    operand: Annotated[list[str], argument("SHAPE TYPE", "An instruction, or one name of it.", operand_word)],
    actual: str,
    a: str | None = None,
    b: str | None = None,
    c: str | None = None,
    e: str | None = None,
    sfa: str | None = None,
    sfb: str | None = None,
    expected: str | None = None,
    accumulator: str | None = None,
    format: Format = Format.TABLE,
    db: str | None = None,
    **which: Unpack[Which],
) -> int:
    """Say which single mistake explains a wrong result.

    It tries every exchange of two registers, lanes or slots, rows or columns, halves or bits of these, every offset and
    transposition, of each operand, and names all that explain every element. Files hold arrays of numpy (.npy) with the
    rows and columns of an operand. Unsigned integers of an operand of floats are its bits, as uint16 of bf16; all else
    are values. A sparse A has what is stored of it. Without A and B, --expected is compared, and only what happens to C
    and D can be told. Exit code 0: the result is right; 1: it is wrong, explained or not.
    """
    files = {"a": a, "b": b, "c": c, "e": e, "sfa": sfa, "sfb": sfb, "expected": expected}
    arrays = {name: _array(file) for name, file in files.items() if file is not None}
    with open_database(db) as database:
        found = database.blame(Query.parse(operand, **which), _array(actual), accumulator=accumulator, **arrays)
    remark(found.remarks)
    write_answer(found, format)
    return OK if found.right else DISAGREES


def _array(file: str) -> Any:
    """The array in a file of numpy, of no more numbers than the largest operand of a tile has."""
    import numpy as np

    try:
        with np.errstate(over="raise"):
            array = np.load(named_file(file, "an array of numpy"), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, ArithmeticError, MemoryError, SyntaxError, TypeError) as error:
        why = getattr(error, "strerror", None) or "it is no array of numbers that numpy saved"
        raise LanemapError(f"cannot read {file}: {why}") from None
    if not isinstance(array, np.ndarray) or array.size > _LARGEST:
        raise LanemapError(f"{file} is not one array of at most {_LARGEST} numbers: save it with numpy.save")
    return np.array(array)


@app.command(epilog="Example: lanemap descriptor m64n128k16 f16 B 128B.K --tile n128k64")
def descriptor(
    operand: Operand,
    tile: Annotated[
        str | None, typer.Option(help="The tile in memory, as in n128k64. Default: the smallest.", metavar="SHAPE")
    ] = None,
    decode: Annotated[
        str | None, typer.Option(help="A descriptor: say what it reads of the tile.", metavar="WORD")
    ] = None,
    format: Format = Format.TABLE,
) -> int:
    """Say which matrix descriptor reads a tile in shared memory.

    The answer says how to step through the tile, too.

    The operand has its layout in shared memory behind it: the swizzling mode (none, 32B, 64B or 128B) and along what
    its lines run (K, or MN of 16-bit types; of tcgen05.mma, which must be named, also of 8-bit types). The tile has its
    atoms packed without gaps, first along K; the answer has the tensor map that writes it. With --decode it says what a
    descriptor reads instead, compared with what lies in the tile. Exit code 0: that is right; 1: it is not.

    Of cp.async.bulk.tensor, a type and a mode it says where the elements of a box lie that a tensor map writes: --tile
    names its rows M and elements N. Modes are none, 32B, 64B, 128B, 128B.atom32, 128B.atom32.flip8 and 128B.atom64.

    Of tcgen05.mma, a kind, a shape and the types of D, A and B it is the 32-bit instruction descriptor, each field with
    its bits: tcgen05.mma kind::f16 m128n256 f32 bf16 bf16 transpose_B=yes. With "shared" for a kind it is the 64-bit
    descriptor of A or B in shared memory, by its fields: tcgen05.mma shared leading=1024 stride=1024 swizzle=128B. With
    --decode and a kind it says what a word has.
    """
    answer = Database.descriptor(Query.parse(operand), tile, decode=decode)
    write_answer(answer, format)
    return answer.exit_code


@app.command(epilog="Example: lanemap decode m16n8k32 f16 0x44444444 --selector 0")
def decode(
    operand: Annotated[
        list[str],
        argument(
            "SHAPE TYPE [WORD]",
            "An instruction, also by one name, and metadata: a word of each thread, or one for all; - for stdin.",
            operand_word,
        ),
    ],
    columns: str | None = None,
    selector: int | None = None,
    source: Annotated[str | None, "Default: the most trustworthy one that has both operands."] = None,
    format: Format = Format.TABLE,
    db: str | None = None,
) -> None:
    """Turn sparse metadata into columns, or columns into metadata.

    Metadata chooses the column of each element of a sparse A. With --columns it is made of these columns, as a word
    for each lane. What decode prints as CSV is what --columns takes.
    """
    named = [*takewhile(lambda token: not re.fullmatch(r"-|[+-]?\d.*", token), operand)]
    words, query = operand[len(named) :], Query.parse(named)
    if words and columns:
        raise LanemapError("give words of metadata, or --columns FILE for the way back, not both")
    with open_database(db) as database:
        if columns:
            metadata = database.encode(query, _table(columns), selector=selector, source=source)
        else:
            values = sys.stdin.read().split() if words == ["-"] else words
            metadata = database.decode(query, values, selector=selector, source=source)
    if metadata.others:
        complain(f"metadata as in {metadata.e.source}; --source takes another: {', '.join(metadata.others)}")
    write_rows(metadata.words_by_lane() if columns else metadata.columns_by_slot(), format)


def _table(file: str) -> dict[tuple[int, int, int], int]:
    """The column of each lane, reg and slot in a CSV file."""
    text = read_text(file, "a CSV with lane, reg, slot and col", _LARGEST + 1)
    if len(text) > _LARGEST:
        raise LanemapError(f"{file} has more than {_LARGEST} characters: the columns of one operand take far fewer")
    if text and not text.endswith(("\n", "\r")):
        raise LanemapError(f"{file}: the last line does not end with a line feed, so the table may be cut off")
    columns: dict[tuple[int, int, int], int] = {}
    reader = csv.DictReader(text.splitlines(keepends=True))
    try:
        for row in reader:
            lane, reg, slot, col = (int(row[name]) for name in ("lane", "reg", "slot", "col"))
            if (lane, reg, slot) in columns:
                raise LanemapError(f"{file}, line {reader.line_num}: lane {lane} reg {reg} slot {slot} is given twice")
            columns[lane, reg, slot] = col
    except (KeyError, TypeError, ValueError, csv.Error):
        raise LanemapError(
            f"{file}, line {reader.line_num}: cannot read lane, reg, slot and col: give a table such as decode prints "
            "as CSV"
        ) from None
    return columns
