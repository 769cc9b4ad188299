"""An instruction as a whole: its mnemonics, its operands, and what each source says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from .fragment import Fragment
from .grouped import grouped
from .instructions import Key, choices, instruction, undecided
from .lookup import DEFAULT_SOURCE, densest, fragments
from .names import Query, naturally
from .reader import Reader, Rows, Value

if TYPE_CHECKING:
    from .forms import Move
    from .instructions import Form


@dataclass(frozen=True)
class OperandSummary:
    """One operand, as look-ups show it, and for each source a verdict on the rows that it has of it.

    ``selectors`` and ``qualifiers`` are those that the operand has a fragment for each of. A verdict is ``rows`` for
    the source whose rows look-ups show, one of those of a comparison with it, or the status of a fragment without rows,
    as figure-only.
    """

    fragment: Fragment
    selectors: tuple[int, ...]
    qualifiers: str | None
    verdicts: Mapping[str, str]


@dataclass(frozen=True)
class Summary:
    """Every form that a request names, and the operands of the first instruction that has them."""

    forms: tuple[Form | Move, ...]
    operands: tuple[OperandSummary, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """Every source that has one of the operands."""
        return tuple(dict.fromkeys(name for each in self.operands for name in each.verdicts))

    @property
    def title(self) -> str:
        """The instruction, with the shape where there is only one."""
        return " ".join((self.operands[0].fragment.instruction, *(self._shapes if len(self._shapes) == 1 else ())))

    @property
    def _shapes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.fragment.shape for each in self.operands))

    @property
    def mnemonics(self) -> tuple[tuple[str, str], ...]:
        """The mnemonic and the targets of each form; none where there are several shapes."""
        return tuple((each.mnemonic, each.targets) for each in self.forms if len(self._shapes) == 1)

    def rows(self) -> Rows:
        """A row for each operand, with a column for each source."""
        rows = [(*_row(each), *map(each.verdicts.get, self.sources)) for each in self.operands]
        return Rows((*_OPERAND, *self.sources), rows)

    def tables(self) -> tuple[Rows, Rows]:
        """The same in two parts for reading: the operands, and which of them have which verdict in each source.

        The operands have a column for the shape where there are several.
        """
        alike: dict[tuple[str, str], list[OperandSummary]] = {}
        for source in self.sources:
            for each in self.operands:
                if source in each.verdicts:
                    alike.setdefault((source, each.verdicts[source]), []).append(each)
        said = [(*which, self._names(found)) for which, found in alike.items()]
        first = 1 if len(self._shapes) > 1 else 2
        operands = Rows(_OPERAND[first:], [_row(each)[first:] for each in self.operands])
        return operands, Rows(("source", "verdict", "operands"), said)

    def _names(self, operands: Sequence[OperandSummary]) -> str:
        """Operands in words, those together that only qualifiers tell apart."""
        if len(operands) == len(self.operands):
            return "all"
        qualifiers: dict[str, list[str]] = {}
        for operand in operands:
            shown = operand.fragment
            shape = shown.shape if len(self._shapes) > 1 else None
            major = shown.major if shown.key.several_majors else None
            name = " ".join(filter(None, (shape, shown.role, shown.type, major)))
            qualifiers.setdefault(name, []).extend(filter(None, [operand.qualifiers]))
        return ", ".join(" ".join((name, *each)) for name, each in qualifiers.items())


_OPERAND = (
    "instruction",
    "shape",
    "role",
    "type",
    "major",
    "qualifiers",
    "matrix",
    "regs",
    "bits",
    "slots",
    "selectors",
)


def _row(operand: OperandSummary) -> tuple[Value, ...]:
    shown = operand.fragment
    matrix, selectors = " x ".join(map(str, shown.dimensions)), " ".join(map(str, operand.selectors)) or None
    named = shown.instruction, shown.shape, shown.role, shown.type, shown.major, operand.qualifiers
    return *named, matrix, shown.registers, shown.register_bits, shown.slots, selectors


def instruction_summary(reader: Reader, query: Query) -> Summary:
    """The whole of an instruction that a query without a role names: of a dense one where there is one.

    Raises:
        LanemapError: there is none; see ``lookup.fragments``.
    """
    found = densest(fragments(reader, replace(query, source=None)))
    by_source: dict[str, dict[Key, Fragment]] = {}
    for each in found:
        by_source.setdefault(str(each.source), {})[each.key] = each
    shown = _shown(by_source)
    said = {source: verdicts(shown, theirs, source) for source, theirs in by_source.items()}
    roles = instruction(found[0].instruction).axes
    keys = sorted(shown, key=lambda key: (naturally(key.shape), [*roles, key.role].index(key.role)))
    operands = grouped(keys, lambda key: key._replace(selector=None, qualifiers=undecided(key.qualifiers)))
    return Summary(
        tuple(form for form in query.forms if form.name == found[0].instruction),
        tuple(_operand(keys, shown, said) for keys in operands.values()),
    )


def _shown(by_source: Mapping[str, Mapping[Key, Fragment]]) -> dict[Key, Fragment]:
    """The fragment of each key that look-ups show: with rows if there is one, and of the default source."""
    first = sorted(by_source, key=lambda source: source != DEFAULT_SOURCE)
    keys = dict.fromkeys(key for source in first for key in by_source[source])
    there = {key: [by_source[source][key] for source in first if key in by_source[source]] for key in keys}
    return {key: next((each for each in there[key] if each.has_rows), there[key][0]) for key in keys}


class Said(NamedTuple):
    """A verdict on what a source has of an operand, and the reason where it differs."""

    verdict: str
    words: str = ""


def verdicts(shown: Mapping[Key, Fragment], theirs: Mapping[Key, Fragment], source: str) -> dict[Key, Said]:
    """What a source has, compared with what is shown. Elements are read only where fingerprints differ."""
    said = {key: Said(each.status if not each.has_rows else "identical") for key, each in theirs.items()}
    differs = [key for key, each in theirs.items() if each.has_rows and each.digest != shown[key].digest]
    if differs:
        from .compare import compare

        results = compare(list(shown.values()), list(theirs.values()))
        said |= {each.key: Said(each.verdict.value, each.words) for each in results if each.key in differs}
    return said | {key: Said("rows") for key, each in theirs.items() if each.has_rows and shown[key].source == source}


def _operand(
    keys: Sequence[Key], shown: Mapping[Key, Fragment], said: Mapping[str, Mapping[Key, Said]]
) -> OperandSummary:
    together = {
        source: _together(theirs[key].verdict for key in keys if key in theirs) for source, theirs in said.items()
    }
    selectors = tuple(key.selector for key in keys if key.selector is not None)
    qualifiers = choices(key.qualifiers for key in keys)
    found = {source: words for source, words in together.items() if words}
    return OperandSummary(shown[keys[0]], selectors, qualifiers, found)


def _together(verdicts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(verdicts))
