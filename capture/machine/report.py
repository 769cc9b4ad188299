"""What a run says: its findings for a terminal, a notebook, a CI and a program, and its operands as fragments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...db.errors import LanemapError
from ...db.layout.algebra import Array
from ...db.layout.fragment import Fragment, Source
from ...db.layout.sets import claim_sets
from ...db.render import blocks
from ...db.render.blocks import Block, Facts, Image, Passage, Title
from ...db.render.junit import TestCase, junit
from ...db.render.picture import compose
from ...db.rows import wrapped
from ...db.text import brief, counted
from .findings import Judge
from .operands import Diagnostic

if TYPE_CHECKING:
    from ...db.render.picture.formats import Picture

#: Kinds of faults, by what is said of one.
FAULTS = {
    "bounds": "out of bounds",
    "alignment": "misaligned",
    "unset": "uninitialised",
    "type": "type",
    "race": "race",
    "divergence": "divergence",
    "deadlock": "deadlock",
    "trap": "trap",
    "descriptor": "no descriptor",
    "tensor map": "no tensor map",
    "barrier": "barrier",
    "metadata": "metadata",
    "scale": "block scale",
    "tensor memory": "Tensor Memory",
}

#: What is judged: the kinds of findings of each, of which those of a product need one.
_JUDGED = {"operand": {"operand", "pairing", "metadata", "scale"}, "product": {"sum", "store", "unwritten"}}
_JUDGED |= {kind: {kind} for kind in FAULTS}

_WIDTH = 80
#: How many operands are drawn.
_DRAWN = 4


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """A run of a kernel on simulated threads.

    ``findings`` are what is wrong; ``notes`` what could not be judged, and ``conflicts``
    where a bank of shared memory has to give several words at once. ``outputs`` are the arrays as the kernel leaves
    them, by name. ``ok`` is whether nothing is wrong and a product that was given could be checked. ``file`` is where
    the kernel was read from.
    """

    kernel: str
    findings: tuple[Diagnostic, ...]
    notes: tuple[str, ...]
    outputs: dict[str, Array]
    counts: str
    conflicts: tuple[str, ...]
    checked: bool
    judge: Judge
    file: str = ""

    def operand(self, role: str, mma: int = 1, warp: int = 0) -> Fragment:
        """What an operand of one execution of ``mma`` holds, as a fragment that can be drawn and compared.

        It is A, B, C, D, or the metadata E or the block scales SFA and SFB.

        Executions count from 1, as in findings, and warps are those that execute it together. Rows and columns are
        those that should hold the element. D holds what its sums are stored as, also after more is added to them. E and
        scales are followed where a product is given.

        Raises:
            LanemapError: there is no such operand, or it does not hold elements of one tile.
        """
        return self.judge.fragment(role, mma, warp)

    def draw(self, role: str, mma: int = 1, warp: int = 0) -> Picture:
        """A picture of what an operand holds beside what it must; the cells that differ are framed. See ``operand``."""
        held, must = self.operand(role, mma, warp), self.judge.must(role, mma)
        return compose.difference([held], [must])

    def sources(self, name: str) -> list[Source]:
        """What the operands of all executions hold, as sources that can be stored, compared and exported.

        The first has what comes first; executions that contradict it are further ones, after whose names it is seen
        which: ``gemm:mma 3 warp 0``. What cannot be followed, or is not of one tile, is left out.
        """
        about = {"kernel": self.kernel} | ({"file": Path(self.file).name} if self.file else {})
        units = [
            (f"{held[0].instruction} {number} warp {warp}", [replace(each, source=name) for each in held])
            for number, warp, held in self.judge.held()
        ]
        every = claim_sets(Source(name, "trace", f"{self.kernel}, traced", (), about), units)
        return [source for source in every if source.fragments]

    @property
    def ok(self) -> bool:
        """Whether there is no finding, and nothing that a given product leaves open."""
        return not self.findings and self.checked

    @property
    def exit_code(self) -> int:
        """What the command exits with: 1 where it is not ``ok``."""
        return int(not self.ok)

    @property
    def verdict(self) -> str:
        """The run in one line."""
        found = f"{counted(len(self.findings), 'finding')} in {self.kernel}" if self.findings else ""
        return found or (f"nothing is wrong in {self.kernel}" if self.checked else f"{self.kernel} is unjudged")

    def check(self) -> None:
        """Raise AssertionError with the findings where it is not ``ok``: in a test of a kernel, all that it needs."""
        __tracebackhide__ = True  # pytest shows the line that asked
        if not self.ok:
            raise AssertionError(f"{self.verdict}\n{self.text()}")

    @property
    def facts(self) -> Mapping[str, str]:
        """What else there is to say, by what it is of: a product that is right, and memory."""
        kinds = {finding.kind for finding in self.findings}
        clean = [
            words for kind, words in (("race", "no race"), ("bounds", "nothing out of bounds")) if kind not in kinds
        ]
        until = " until it stopped" if clean and any(note.startswith("stopped") for note in self.notes) else ""
        facts = {"memory": "; ".join(clean) + until, "banks": "; ".join(self.conflicts)}
        if self.checked and self.judge.steps and not kinds & _JUDGED["product"]:
            name = self.judge.steps[-1].left.name
            facts = {name: f"all {counted(self.outputs[name].size, 'element')} are right"} | facts
        return {name: words for name, words in facts.items() if words}

    def text(self) -> str:
        """All of it, in lines of 80 columns."""
        lines = []
        for finding in self.findings:
            lines += wrapped(finding.words, _WIDTH, "  ")
            lines += [line for detail in finding.details for line in wrapped(detail, _WIDTH, "    ", "  ")]
        for said in (*(f"{name}: {words}" for name, words in self.facts.items()), *self.notes, self.counts):
            lines += wrapped(said, _WIDTH, "  ")
        return "\n".join(lines)

    def blocks(self) -> Iterator[Block]:
        """All of it for readers, with pictures of operands that hold what they must not."""
        yield Title(f"Trace of {self.kernel}", 1)
        yield Passage(self.verdict, "agreed" if self.ok else "disagreed")
        drawn = 0
        for finding in self.findings:
            yield Title(finding.words, 3)
            yield from finding.details
            if finding.operand and drawn < _DRAWN and (draw := self._drawn(*finding.operand)):
                drawn += 1
                yield Image(draw)
        yield Title("The run", 2)
        yield Facts(self.facts.items())
        yield from (Passage(note, "item") for note in self.notes)
        yield self.counts

    def contents(self) -> str:
        """All of it as elements of a page that has ``blocks.STYLE`` and a heading of its own."""
        _, *rest = self.blocks()
        return blocks.as_html(rest)

    def _drawn(self, role: str, mma: int, warp: int) -> Callable[[], str] | None:
        try:
            return self.draw(role, mma, warp).image
        except LanemapError:  # what it holds is of several tiles
            return None

    def records(self) -> dict[str, Any]:
        """All of it but the arrays, as JSON has it."""
        names = ("kind", "words", "place", "details", "count")
        findings = [{name: getattr(finding, name) for name in names} for finding in self.findings]
        facts = ("kernel", "ok", "exit_code", "checked", "notes", "conflicts", "counts")
        return {name: getattr(self, name) for name in facts} | {"findings": findings}

    def report(self, form: str = "table") -> str:
        """The report as text, in one of ``FORMATS``.

        Raises:
            LanemapError: there is no such format.
        """
        if form not in FORMATS:
            raise LanemapError(f"a trace is reported as {', '.join(FORMATS)}, not as {form!r}", "format")
        return FORMATS[form](self)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return brief(self.text(), "text() is all of it, outputs has the arrays")

    def _repr_html_(self) -> str:
        return blocks.as_element(self.blocks())


def _junit(trace: Trace) -> str:
    """A case for each thing that is judged; what needs a product is skipped without one."""
    cases = []
    for name, kinds in _JUDGED.items():
        found = [finding for finding in trace.findings if finding.kind in kinds]
        case = TestCase(trace.kernel, name)
        if found:
            case = case._replace(
                failed=found[0].words, text="\n" + "\n".join(map(str, found)) + "\n", type=found[0].kind
            )
        elif not trace.checked:
            case = case._replace(skipped="; ".join(trace.notes))
        elif name == "product" and not trace.judge.steps:
            case = case._replace(skipped="no product was given")
        cases.append(case)
    if not trace.checked:
        cases.append(TestCase(trace.kernel, "run", failed="; ".join(trace.notes), type="stopped"))
    return junit(f"lanemap: {trace.verdict}", [(trace.kernel, cases)])


def _annotations(trace: Trace) -> str:
    """Annotations of a workflow on GitHub, at lines of the source where the kernel names them, else of the kernel."""
    lines, found = [], [(str(finding), finding.place) for finding in trace.findings]
    for words, place in found + [("\n".join(trace.notes), "")] * (not trace.checked):
        named = re.fullmatch(r"(?:line |(.+):)(\d+)", place)
        file = named[1] or trace.file if named else trace.file
        at = {"file": file, "line": named[2]} if named and file else {"file": file} if file else {}
        lines.append(blocks.annotation("error", words, **at, title=trace.kernel))
    return "".join(lines)


#: The writers of a report, by the names of formats.
FORMATS: Mapping[str, Callable[[Trace], str]] = {
    "table": lambda trace: trace.text() + "\n",
    "markdown": lambda trace: blocks.as_markdown(trace.blocks()),
    "json": lambda trace: json.dumps(trace.records(), indent=1) + "\n",
    "html": lambda trace: blocks.as_page(trace.blocks()),
    "junit": _junit,
    "github": _annotations,
}
