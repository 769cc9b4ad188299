"""What ``capture`` does: choose the instructions, run them, and say what became of each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..capture import ptx
from ..db.errors import LanemapError
from ..db.files import atomically
from ..db.fragment import Fragment, Source
from ..db.instructions import FORMS, Form
from ..db.lookup import DEFAULT_SOURCE
from ..db.reader import Rows

_LISTED = ("instruction", "shape", "type", "accumulator", "majors", "selectors", "target")
_REPORTED = ("instruction", "status", "probes", "seconds", "documented", "message")

#: What kernels are written for where no GPU says otherwise.
_TARGET = "sm_90a"


def chosen(pattern: str | None, shape: str | None, type_: str | None) -> list[Form]:
    """The forms that match: a pattern of the whole instruction as PTX spells it, or of its first word."""
    found = [
        each
        for each in FORMS
        if (pattern is None or each.name == pattern or fnmatchcase(each.mnemonic, pattern))
        and (shape is None or each.shape == shape.lower().removeprefix("."))
        and (type_ is None or each.a == type_.lower().removeprefix("."))
    ]
    if not found:
        asked = {"--instruction": pattern, "--shape": shape, "--type": type_}
        given = " ".join(f"{option} {value!r}" for option, value in asked.items() if value is not None)
        raise LanemapError(f"no instruction matches {given}: lanemap capture --list says what there is")
    return found


def list_instructions(instructions: Sequence[Form]) -> Rows:
    """What a capture would run."""
    return Rows(
        _LISTED,
        [
            (
                each.mnemonic,
                each.shape,
                each.a,
                each.d,
                " ".join(each.majors),
                " ".join(str(selector) for selector in each.selectors if selector is not None) or None,
                each.target,
            )
            for each in instructions
        ],
    )


def write_ptx(instructions: Sequence[Form], folder: Path) -> int:
    """Write the kernel of each instruction to a file of its own, and count them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LanemapError(f"cannot make the folder {folder}: {error.strerror}") from None
    for each in instructions:
        target = _TARGET if each.supports(_TARGET) else each.target
        with atomically(folder / f"{each.mnemonic.replace('::', '-')}.ptx") as stream:
            stream.write(ptx.module(each, target).encode())
    return len(instructions)


def measure(instructions: Sequence[Form], number: int, name: str | None) -> tuple[Source, float]:
    """Capture on GPU ``number``; the source, and the seconds from before there was a context until the end."""
    from ..capture.cuda import Gpu
    from ..capture.run import capture

    started = time.perf_counter()
    with Gpu(number) as gpu, _progress(len(instructions)) as advance:
        source = capture(gpu, _anchor(), instructions, advance, name)
    seconds = time.perf_counter() - started
    return replace(source, provenance={**source.provenance, "seconds": round(seconds, 6)}), seconds


def report(source: Source) -> Rows:
    """One row per instruction: what became of it."""
    rows = []
    for result in source.provenance["instructions"]:
        documented = result["documented"]["verdict"] if result["documented"] else None
        message = result["message"] if result["status"] == "failed" else None
        seconds = round(result["seconds"], 3)
        rows.append((result["instruction"], result["status"], result["probes"], seconds, documented, message))
    return Rows(_REPORTED, rows)


def troubles(source: Source) -> list[str]:
    """What makes a capture disagree, as sentences."""
    results = source.provenance["instructions"]
    failed = [result["message"] for result in results if result["status"] == "failed"]
    wrong = [
        f"{result['instruction']}: products by the documented layout: {result['documented']['detail']}"
        for result in results
        if result["documented"] and result["documented"]["verdict"] == "disagrees"
    ]
    return [*failed, *wrong, *source.provenance["disagreements"]]


def _anchor() -> dict[Any, Fragment]:
    """The documented fragments by key: they name rows and columns, which no product can tell."""
    from ..ingest.catalogue import load

    document = next(source for source in load() if source.name == DEFAULT_SOURCE)
    return {fragment.key: fragment for fragment in document.fragments}


@contextmanager
def _progress(count: int) -> Iterator[Callable[[object], None] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("capturing", total=count)
        yield lambda _: bar.advance(task)
