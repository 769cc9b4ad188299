"""The readers of what comes from outside, each with sound inputs and a way to damage them that gets past its gates."""

import io
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from lanemap import LanemapError
from lanemap.capture import recording
from lanemap.db.store.export import DIGEST_KEY, METADATA_KEY
from lanemap.ingest import cute, document, python
from lanemap.ingest.table import load

CORPUS = Path(__file__).parent / "corpus"

#: What stands in the place of a number, a text or a whole branch.
ODD = [
    None,
    -1,
    0,
    1,
    2**15,
    2**31,
    2**63,
    10**400,
    1.5,
    float("nan"),
    True,
    "",
    "x",
    "\0",
    "\ud800",
    "a" * 9999,
    [],
    {},
]


def header(data, folder):
    file = folder / "header.hpp"
    file.write_bytes(data)
    return [imported.source for imported in cute.load(file)]


def capture(data, folder):
    file = folder / "capture.parquet"
    file.write_bytes(data)
    return [recording.read(file)]


def table(data, folder):
    file = folder / "a table"
    file.write_bytes(data)
    return [imported.source for imported in load(file)]


def page(data, folder):
    file = folder / "a page"
    file.write_bytes(data)
    return [imported.source for imported in document.read([file], "page")]


def right(lane, value):
    return [lane // 4 + value // 2 % 2 * 8, lane % 4 * 2 + value % 2 + value // 4 * 8]


def answered(tasks, *_):
    """What a right library answers: in the place of its process."""
    found = []
    for task in tasks:
        domain = [*(task["domain"] or ()), 1, 1][:2]
        values = [right(lane, value) for lane in range(domain[0]) for value in range(domain[1])]
        found.append({"values": values} if task["domain"] else {"value": "((4,8),(2,2,2)):((32,1),(16,8,128))"})
    return "1.0", found


def mapping(data, folder, answers=answered):
    file = folder / "a mapping.toml"
    file.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(python, "answers", answers)
        return [imported.source for imported in python.load(str(file))]


def answers(data, folder):
    """What a process answers, for the entries of the sound mapping."""
    try:
        given = msgspec.json.decode(data, type=list[dict[str, Any]])
    except msgspec.DecodeError as error:  # as of a message on the pipe
        raise LanemapError(str(error)) from None
    sound = (CORPUS / "mapping" / "sound.toml").read_bytes()
    return mapping(sound, folder, lambda tasks, *_: ("1.0", [*given, *[{}] * len(tasks)][: len(tasks)]))


READERS = {
    "header": header,
    "capture": capture,
    "table": table,
    "page": page,
    "mapping": mapping,
    "answers": answers,
}
#: A sound input of each reader.
SOUND = {
    reader: sorted((CORPUS / reader).glob("sound.*"), key=lambda file: file.suffix != ".md")[0] for reader in READERS
}


#: Words of pages and mappings, in the place of others.
WORDS = (
    "%laneid",
    "row =",
    "for ai where i < ",
    "Figure 84",
    "| --- |",
    "<td rowspan=9999>",
    "</html>",
    ".f16 / .bf16",
)
WORDS += (
    "Multiplicand A:",
    "Matrix Fragments for mma.m16n8k16",
    "a9999",
    'tile = "m256n256"',
    "[[entry]]",
    "{0,1}",
)


def changed_text(data, chance):
    """Text with words, lines and signs left out, doubled, exchanged, or others in their place."""
    parts = list(data.decode("latin-1"))
    for _ in range(chance.choice((1, 1, 2, 5))):
        start = chance.randrange(len(parts))
        end = start + chance.choice((1, 1, 3, 10, 80, 500))
        part = parts[start:end]
        match chance.randrange(6):
            case 0:
                part = []
            case 1:
                part *= chance.choice((2, 2, 50, 3000))
            case 2:
                part = [chance.choice('{}<>()",;:_/*\\#\n 0129%=&x\0\xff') for _ in part]
            case 3:
                part = part[::-1]
            case 4:
                part = list(
                    chance.choice(
                        ("_0", "_99999999999999999999", "-1", "Shape<", "template <class T>", '"', "/*", *WORDS)
                    )
                )
            case 5:
                at = chance.randrange(len(parts))
                part = parts[at : at + len(part)]
        parts[start:end] = part
    return "".join(parts).encode("latin-1")


def changed_bytes(data, chance):
    """Bytes with some flipped, or cut off."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 4, 40))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed[: chance.randrange(1, len(changed))] if chance.randrange(8) == 0 else changed)


def changed_column(held, chance):
    """A table with odd values, gaps, or another type in one of its columns, or without it."""
    at = chance.randrange(held.num_columns)
    column, name = held.column(at), held.column_names[at]
    match chance.randrange(5):
        case 0:
            return held.remove_column(at)
        case 1:
            return held.append_column(name.upper(), column)
        case 2:
            gaps = np.zeros(len(column), bool)
            gaps[chance.randrange(len(column))] = True
            return held.set_column(at, name, pa.array(column.to_pylist(), type=column.type, mask=gaps))
        case 3:
            kind = chance.choice([pa.int64(), pa.float64(), pa.string(), pa.uint8(), pa.bool_(), pa.large_string()])
            try:
                return held.set_column(at, name, column.cast(kind))
            except pa.ArrowException:
                return held
        case _:
            values = column.to_pylist()
            values[chance.randrange(len(values))] = chance.choice(ODD)
            try:
                return held.set_column(at, name, pa.array(values, type=column.type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                return held.slice(0, chance.randrange(held.num_rows))


def changed_tree(node, chance):
    """JSON with something odd in one place."""
    if not isinstance(node, dict | list) or not node or chance.randrange(6) == 0:
        return chance.choice(ODD)
    place = chance.choice(sorted(node) if isinstance(node, dict) else range(len(node)))
    inside = changed_tree(node[place], chance)
    if isinstance(node, dict):
        return {**node, place: inside} if chance.randrange(8) else {k: v for k, v in node.items() if k != place}
    return [*node[:place], inside, *node[place + 1 :]] if chance.randrange(8) else node[:place] + node[place + 1 :]


def changed_capture(data, chance):
    """A capture with odd values in its rows or in what it says, sealed again so that its digest fits."""
    if chance.randrange(5) == 0:
        return changed_bytes(data, chance)
    file = pq.ParquetFile(io.BytesIO(data))
    metadata = file.metadata.metadata or {}
    earlier = METADATA_KEY not in metadata
    key = recording._EARLIER if earlier else METADATA_KEY
    held, said = file.read(), json.loads(metadata[key])
    if chance.randrange(3):
        said = changed_tree(said, chance)
    else:
        held = changed_column(held, chance)
    try:
        columns = {name: held[name].to_numpy() for name in ("layout", *recording.Element._fields)}
        if earlier:
            del said["digest"]
            said["digest"] = recording._earlier_digest(said, columns)
        digest = recording._digest(json.dumps(said).encode(), columns).encode()
    except (KeyError, ValueError, TypeError):
        digest = b"0"
    metadata = {key: json.dumps(said).encode()} | ({} if earlier else {DIGEST_KEY: digest})
    stream = io.BytesIO()
    pq.write_table(held.replace_schema_metadata(metadata), stream)
    return stream.getvalue()


def changed_table(data, chance):
    """A table with odd values, in any of the three formats."""
    held = changed_column(pq.read_table(io.BytesIO(data)), chance)
    stream = io.BytesIO()
    match chance.randrange(3):
        case 0:
            pq.write_table(held, stream)
        case 1:
            options = pa.ipc.IpcWriteOptions(compression=chance.choice(["zstd", "lz4", None]))
            with pa.ipc.new_file(stream, held.schema, options=options) as writer:
                writer.write_table(held)
        case 2:
            pa.csv.write_csv(held, stream)
            return changed_text(stream.getvalue(), chance) if chance.randrange(2) else stream.getvalue()
    return changed_bytes(stream.getvalue(), chance) if chance.randrange(2) else stream.getvalue()


def changed_json(data, chance):
    return json.dumps(changed_tree(json.loads(data), chance)).encode()


CHANGES = dict.fromkeys(READERS, changed_text) | {
    "capture": changed_capture,
    "table": changed_table,
    "answers": changed_json,
}


def changed(reader, data, seed):
    chance = random.Random(seed)
    try:
        return CHANGES[reader](data, chance)
    except (pa.ArrowException, LookupError, ValueError, OSError):  # it was damaged so much before that it is no table
        return changed_bytes(data, chance)
