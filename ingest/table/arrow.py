"""How much an Arrow file holds, without decompressing it: a few bytes may stand for any amount of memory.

A message of Arrow is a flatbuffer and a body. Each compressed buffer in the body begins with its size when it is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import unpack_from
from typing import Any

_DICTIONARY, _BATCH = 2, 3
#: The places of the fields in their tables, as Arrow's Message.fbs has them.
_KIND, _HEADER = 1, 2
_OF_DICTIONARY = 1
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3


def arrow_sizes(messages: Iterable[Any]) -> tuple[int, int]:
    """How many rows the batches of a stream have, and how many bytes they and its dictionaries are in memory."""
    rows = size = 0
    for message in messages:
        head, body = bytes(message.metadata), message.body
        table = _follow(head, 0)
        kind = _field(head, table, _KIND)
        if kind is None or head[kind] not in (_DICTIONARY, _BATCH):
            continue
        batch = _follow(head, _field(head, table, _HEADER))
        if head[kind] == _DICTIONARY:
            batch = _follow(head, _field(head, batch, _OF_DICTIONARY))
        elif (length := _field(head, batch, _LENGTH)) is not None:
            rows += unpack_from("<q", head, length)[0]
        if _field(head, batch, _COMPRESSION) is None:
            size += len(body)
        else:
            size += sum(_decompressed(body, *each) for each in _buffers(head, batch))
    return rows, size


def _decompressed(body: Any, offset: int, length: int) -> int:
    said = unpack_from("<q", body[offset : offset + 8])[0] if length >= 8 else -1
    return length if said == -1 else max(0, said)


def _buffers(head: bytes, batch: int) -> Iterable[tuple[int, int]]:
    """Where each buffer of a batch is in the body, and how long."""
    vector = _follow(head, _field(head, batch, _BUFFERS))
    (count,) = unpack_from("<I", head, vector)
    return [unpack_from("<qq", head, vector + 4 + 16 * at) for at in range(min(count, len(head) // 16))]


def _follow(head: bytes, place: int | None) -> int:
    """Where a table or vector is that an offset at a place refers to."""
    place = place or 0
    return int(place + unpack_from("<I", head, place)[0])


def _field(head: bytes, table: int, number: int) -> int | None:
    """Where a field of a table is; None where the table does not have it."""
    entries = table - unpack_from("<i", head, table)[0]
    (size,) = unpack_from("<H", head, entries)
    offset = unpack_from("<H", head, entries + 4 + 2 * number)[0] if 4 + 2 * number < size else 0
    return table + offset if offset else None
