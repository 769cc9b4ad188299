"""An instruction as a whole: its mnemonics, its operands, and a verdict on each source that has them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..isa.forms import Form
from ..isa.instructions import Key, choices, instruction, undecided
from ..isa.names import Query
from ..layout.fragment import Fragment
from ..lookup import best, fragments, prefer_dense
from ..rows import Rows, Told
from ..store.reader import Reader, Value
from ..text import grouped, naturally


class OperandSummary(NamedTuple):
    """One operand, as look-ups show it, and a verdict on the rows of each source that has it.

    The operand has a fragment for each of ``selectors`` and ``qualifiers``. A verdict is ``rows`` for the source whose
    rows look-ups show, else the verdict of a comparison with it, or the status of a fragment that has none:
    figure-only or unstated.
    """

    fragment: Fragment
    selectors: tuple[int, ...]
    qualifiers: str | None
    verdicts: Mapping[str, str]


@dataclass(frozen=True, repr=False)
class Summary(Told):
    """Every form that a query names, and the operands of the first instruction among them."""

    forms: tuple[Form, ...]
    operands: tuple[OperandSummary, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """Every source that has one of the operands."""
        return tuple(dict.fromkeys(name for operand in self.operands for name in operand.verdicts))

    @property
    def title(self) -> str:
        """The instruction, with its shape if there is only one."""
        return " ".join((self.operands[0].fragment.instruction, *(self._shapes if len(self._shapes) == 1 else ())))

    @property
    def _shapes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(operand.fragment.shape for operand in self.operands))

    def rows(self) -> Rows:
        """A row for each operand, with a column for each source."""
        rows = [(*_row(operand), *map(operand.verdicts.get, self.sources)) for operand in self.operands]
        return Rows((*_OPERAND, *self.sources), rows)

    def parts(self) -> Iterator[str | Rows]:
        """Tables of its mnemonics with targets, if there is one shape, of its operands, and of the verdicts on them.

        The operands have a column for the shape if there are several.
        """
        mnemonics = [(form.mnemonic, form.needs) for form in self.forms if len(self._shapes) == 1]
        yield Rows(("", ""), mnemonics) if mnemonics else self.title
        rows = ((source, operand.verdicts.get(source), operand) for source in self.sources for operand in self.operands)
        alike = grouped((row for row in rows if row[1] is not None), lambda row: row[:2])
        first = 1 if len(self._shapes) > 1 else 2
        yield Rows(_OPERAND[first:], [_row(operand)[first:] for operand in self.operands]).filled()
        verdicts = [(*which, self._names([operand for *_, operand in same])) for which, same in alike.items()]
        yield Rows(("source", "verdict", "operands"), verdicts)

    def _names(self, operands: Sequence[OperandSummary]) -> str:
        """Operands in words; those that differ only in qualifiers are named together."""
        if len(operands) == len(self.operands):
            return "all"

        def name(operand: OperandSummary) -> str:
            shown = operand.fragment
            major = shown.major if shown.key.several_majors else None
            return " ".join(filter(None, (shown.shape * (len(self._shapes) > 1), shown.role, shown.type, major)))

        groups = grouped(operands, name).items()
        words = (filter(None, (title, *(operand.qualifiers for operand in group))) for title, group in groups)
        return ", ".join(map(" ".join, words))


_OPERAND = (
    *("instruction", "shape", "role", "type", "major", "qualifiers"),
    *("matrix", "regs", "bits", "slots", "selectors"),
)


def _row(operand: OperandSummary) -> tuple[Value, ...]:
    shown = operand.fragment
    matrix, selectors = " x ".join(map(str, shown.dimensions)), " ".join(map(str, operand.selectors)) or None
    named = shown.instruction, shown.shape, shown.role, shown.type, shown.major, operand.qualifiers
    return *named, matrix, shown.registers, shown.register_bits, shown.slots, selectors


def instruction_summary(reader: Reader, query: Query) -> Summary:
    """The summary of the instruction that a query without a role names, a dense one if there is one.

    Raises:
        LanemapError: there is none; see ``lookup.fragments``.
    """
    dense = prefer_dense(query, fragments(reader, replace(query, source=None)))
    shown = best(reader, dense)
    judged, sources = verdicts(shown, dense), dict.fromkeys(str(fragment.source) for fragment in dense)
    roles = instruction(dense[0].instruction).axes
    keys = sorted(shown, key=lambda key: (naturally(key.shape), [*roles, key.role].index(key.role)))
    operands = []
    for alike in grouped(keys, lambda key: key._replace(selector=None, qualifiers=undecided(key.qualifiers))).values():
        selectors = tuple(key.selector for key in alike if key.selector is not None)
        names = {
            source: dict.fromkeys(judged[key][source].verdict for key in alike if source in judged[key])
            for source in sources
        }
        words = {source: ", ".join(distinct) for source, distinct in names.items() if distinct}
        operands.append(OperandSummary(shown[alike[0]], selectors, choices(key.qualifiers for key in alike), words))
    forms = tuple(form for form in query.forms if form.name == dense[0].instruction)
    return Summary(forms, tuple(operands))


class Said(NamedTuple):
    """A verdict on an operand in a source, and the reason if it differs."""

    verdict: str
    words: str = ""


def verdicts(shown: Mapping[Key, Fragment], found: Iterable[Fragment]) -> dict[Key, dict[str, Said]]:
    """The verdict on each fragment by its source, against those shown. Elements are read only where digests differ."""
    verdict_of: dict[Key, dict[str, Said]] = {key: {} for key in shown}
    for source, theirs in grouped(found, lambda fragment: str(fragment.source)).items():
        by_key = {fragment.key: Said(fragment.status) for fragment in theirs}
        having = [fragment for fragment in theirs if fragment.has_rows]
        by_key |= {one.key: Said("rows" if shown[one.key].source == source else "identical") for one in having}
        differs = [fragment.key for fragment in having if not fragment.same_layout(shown[fragment.key])]
        if differs:
            from .verdict import compare

            results = compare(list(shown.values()), theirs)
            differing = (result for result in results if result.key in differs)
            by_key |= {result.key: Said(result.verdict.value, result.words) for result in differing}
        for key, verdict in by_key.items():
            verdict_of[key][source] = verdict
    return verdict_of
