"""Which threads give the addresses of a matrix, as the sections of ldmatrix and stmatrix say in a table and in words.

The words say which addresses are those of the first matrix, and that each is one of a row. The table has a row for each
number of matrices, a column for some threads each, and in its cells addresses or a dash.
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


_ORDER = ("first", "second", "third", "fourth")
_MATRIX = re.compile(
    rf"addr(\d{{1,3}})\s?-\s?addr(\d{{1,3}})\scorrespond\sto\sthe\srows\sof\sthe\s({'|'.join(_ORDER)})\smatrix"
)
_START = re.compile(r"\b[Ee]ach\saddress\scorresponds\sto\sthe\sstart\sof\sa\smatrix\srow\b")
_THREADS = re.compile(r"\b[Tt]hreads\s(\d{1,3})\s?-\s?(\d{1,3})\b")
_HEAD = re.compile(rf"\.num[\s|]{{1,9}}(?:{_THREADS.pattern}[\s|]{{0,9}}){{1,8}}")
_CELL = re.compile(r"addr(\d{1,3})\s?-\s?addr(\d{1,3})|(?<![\w-])-")
_ROW = re.compile(rf"\.x(?P<count>\d{{1,2}})[\s|]{{1,9}}(?P<cells>(?:(?:{_CELL.pattern})[\s|]{{1,9}}){{1,8}})")
