"""Which threads give the addresses of a matrix and hold its elements, as the sections of ldmatrix and stmatrix say.

Words say which addresses are those of the first matrix, and that each is one of a row. A table has a row for each
number of matrices, a column for some threads each, and in its cells addresses or a dash. What a thread holds is said in
words alone; what these leave to a figure is not read.
"""

import re

from ...db.errors import LanemapError


def rows_addressed(text: str) -> tuple[int, set[str]]:
    """The rows that each matrix has, and the numbers of matrices, such as ``x2``: thread i gives address i.

    Raises:
        LanemapError: the text says something else, or not all of it.
    """
    orders = {number: (int(first), int(last)) for first, last, number in _MATRIX.findall(text)}
    rows = orders.get("first", (0, -1))[1] + 1
    due = {number: (at * rows, at * rows + rows - 1) for at, number in enumerate(_ORDER)}
    if not rows or not _START.search(text) or not orders.items() <= due.items():
        raise LanemapError("the words do not say which addresses are those of the rows of the first matrix")
    head = _HEAD.search(text)
    threads = _THREADS.findall(head[0]) if head else []
    matrices = set()
    for row in _ROW.finditer(text, head.end()) if head else ():
        # Each cell has the addresses of the same numbers as its threads, up to as many as the matrices have rows.
        cells = _CELL.findall(row["cells"])
        count = int(row["count"]) * rows
        expected = [span if int(span[0]) < count else ("", "") for span in threads]
        if cells != expected or count not in {int(last) + 1 for _, last in threads}:
            raise LanemapError(f"addresses that are not those of the threads of their numbers: {row[0].strip()}")
        matrices.add(f"x{row['count']}")
    if not matrices:
        raise LanemapError("no table says which threads give the addresses")
    return rows, matrices


def by_row(text: str, shape: str) -> int:
    """How many consecutive elements of a row each thread holds of each matrix; 0 where the words do not say it all.

    They must say that four threads share a row, thread 0 first, and that each register has a matrix of its own.
    """
    rows, cols = map(int, shape[1:].split("n"))
    first, *others = _SHAPES.split(text)
    parts = {"8x8": first} | dict(zip(others[::2], others[1::2], strict=True))
    part = parts.get(f"{rows}x{cols}", "")
    consecutive = _CONSECUTIVE.search(part)
    each = int(consecutive[1]) if consecutive else cols // 4 if _IN_ORDER.search(part) else 0
    return each if each * 4 == cols and _SHARED.search(part) and _ONE_EACH.search(text) else 0


def by_four(text: str) -> dict[str, bool]:
    """Of movmatrix, for A and D as far as words say it: whether four threads share a column, and not a row."""
    of = {("input", "a"): "A", ("result", "d"): "D"}
    return {of[held]: axis == "column" for axis, *pair in _TURNED.findall(text) if (held := (*pair,)) in of}


def is_transposed(text: str) -> bool:
    """Whether the words say what ``.trans`` does."""
    return bool(_TRANSPOSED.search(text))


_SHAPES = re.compile(r"\b[Ff]or\s(?:matrix\sshape\s)?(\d{1,2}x\d{1,2})\b(?=,|\smatrix\sshape)")
_CONSECUTIVE = re.compile(r"\b[Ee]ach\sthread\sin\sa\swarp\sloads\s(\d)\sconsecutive\scolumns\b(?!\sacross)")
_IN_ORDER = re.compile(
    r"\b[Ee]ach\sthread\sin\sa\swarp\s(?:load|store)s\sfragments\sof\sa\srow,\swith\sthread\s0\s"
    r"(?:receiving|storing)\sthe\sfirst\sfragment\s(?:in|from)\sits\sregister\sr,\sand\sso\son\b"
)
_SHARED = re.compile(
    r"\bgroup\sof\sfour\sthreads\s(?:load|store)s\san\sentire\srow\sof\sthe\smatrix\b"
    r"|\b[Aa]n\sentire\srow\sof\sthe\smatrix\scan\sbe\sloaded\sby\sa\sgroup\sof\sfour\sconsecutive\sand\saligned\sthreads\b"
)
_TURNED = re.compile(
    r"\b[Ee]ach\sthread\sin\sa\swarp\sholds\sa\sfragment\sof\sa\s(row|column)\sof\sthe\s(input|result)\smatrix,\swith\s"
    r"thread\s0\sholding\sthe\sfirst\sfragment\sin\sregister\s(\w),\sand\sso\son\.\s"
    r"A\sgroup\sof\sfour\sthreads\sholds\san\sentire\s\1\sof\sthe\s\2\smatrix\b"
)
_ONE_EACH = re.compile(r"\b[Ee]ach\scomponent\s(?:\w+\s){1,5}holds\sa\sfragment\sfrom\sthe\scorresponding\smatrix\b")
_TRANSPOSED = re.compile(r"\.trans\sindicates\sthat\sthe\smatrix\sis\s(?:load|stor)ed\sin\scolumn-major\sformat\b")
_ORDER = ("first", "second", "third", "fourth")
_MATRIX = re.compile(
    rf"addr(\d{{1,3}})\s?-\s?addr(\d{{1,3}})\scorrespond\sto\sthe\srows\sof\sthe\s({'|'.join(_ORDER)})\smatrix"
)
_START = re.compile(r"\b[Ee]ach\saddress\scorresponds\sto\sthe\sstart\sof\sa\smatrix\srow\b")
_THREADS = re.compile(r"\b[Tt]hreads\s(\d{1,3})\s?-\s?(\d{1,3})\b")
_HEAD = re.compile(rf"\.num[\s|]{{1,9}}(?:{_THREADS.pattern}[\s|]{{0,9}}){{1,8}}")
_CELL = re.compile(r"addr(\d{1,3})\s?-\s?addr(\d{1,3})|(?<![\w-])-")
_ROW = re.compile(rf"\.x(?P<count>\d{{1,2}})[\s|]{{1,9}}(?P<cells>(?:(?:{_CELL.pattern})[\s|]{{1,9}}){{1,8}})")
