"""An instruction as a whole: its mnemonics, its operands, and a verdict on each source that has them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..isa.forms import Form
from ..isa.instructions import Key, choices, instruction, undecided
from ..isa.listing import grouped, naturally
from ..isa.names import Query
from ..layout.fragment import Fragment
from ..lookup import best, by_trust, fragments, prefer_dense
from ..store.columns import Told
from ..store.reader import Reader, Rows, Value


class OperandSummary(NamedTuple):
    """One operand, as look-ups show it, and a verdict on the rows of each source that has it.

    The operand has a fragment for each of ``selectors`` and ``qualifiers``. A verdict is ``rows`` for the source whose
    rows look-ups show, else the verdict of a comparison with it, or the status of a fragment without rows, such as
    figure-only.
    """

    fragment: Fragment
    selectors: tuple[int, ...]
    qualifiers: str | None
    verdicts: Mapping[str, str]


@dataclass(frozen=True)
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
        mnemonics = [(form.mnemonic, form.targets) for form in self.forms if len(self._shapes) == 1]
        yield Rows(("", ""), mnemonics) if mnemonics else self.title
        said = ((source, operand.verdicts.get(source), operand) for source in self.sources for operand in self.operands)
        alike = grouped((entry for entry in said if entry[1] is not None), lambda entry: entry[:2])
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
    dense = prefer_dense(fragments(reader, replace(query, source=None)))
    shown = best(dense, by_trust(reader))
    judged = {
        source: verdicts(shown, {fragment.key: fragment for fragment in theirs}, source)
        for source, theirs in grouped(dense, lambda fragment: str(fragment.source)).items()
    }
    roles = instruction(dense[0].instruction).axes
    keys = sorted(shown, key=lambda key: (naturally(key.shape), [*roles, key.role].index(key.role)))
    operands = []
    for alike in grouped(keys, lambda key: key._replace(selector=None, qualifiers=undecided(key.qualifiers))).values():
        selectors = tuple(key.selector for key in alike if key.selector is not None)
        names = {source: dict.fromkeys(of[key].verdict for key in alike if key in of) for source, of in judged.items()}
        words = {source: ", ".join(distinct) for source, distinct in names.items() if distinct}
        operands.append(OperandSummary(shown[alike[0]], selectors, choices(key.qualifiers for key in alike), words))
    forms = tuple(form for form in query.forms if form.name == dense[0].instruction)
    return Summary(forms, tuple(operands))


class Said(NamedTuple):
    """A verdict on an operand in a source, and the reason if it differs."""

    verdict: str
    words: str = ""


def verdicts(shown: Mapping[Key, Fragment], theirs: Mapping[Key, Fragment], source: str) -> dict[Key, Said]:
    """Verdicts on the fragments of a source against those shown. Elements are read only where digests differ."""
    by_key = {key: Said(fragment.status if not fragment.has_rows else "identical") for key, fragment in theirs.items()}
    differs = [key for key, fragment in theirs.items() if fragment.has_rows and not fragment.same_layout(shown[key])]
    if differs:
        from .verdict import compare

        results = compare(list(shown.values()), list(theirs.values()))
        by_key |= {result.key: Said(result.verdict.value, result.words) for result in results if result.key in differs}
    return by_key | {
        key: Said("rows") for key, fragment in theirs.items() if fragment.has_rows and shown[key].source == source
    }
