"""What is known of every operand of every instruction, and by whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from . import crosscheck, lookup
from .compare import Verdict
from .errors import LanemapError
from .forms import warpgroup, wmma
from .fragment import Fragment
from .grouped import grouped
from .instructions import FORMS, INSTRUCTIONS, Form, Key
from .lookup import DEFAULT_SOURCE, Query
from .names import naturally
from .reader import Reader


class Known(StrEnum):
    """What is known of an operand, what a reader must know first at the top."""

    CONTRADICTED = "contradicted"
    ERROR = "known error"
    DRAWN = "drawn only"
    IMPORTED = "imported"
    DOCUMENTED = "documented"
    MEASURED = "measured"
    AGREED = "documented and measured"


class Product(NamedTuple):
    """An instruction of a shape, with the type of its A, or of what it moves."""

    instruction: str
    shape: str
    type: str

    def __str__(self) -> str:
        return " ".join(self)


@dataclass(frozen=True, eq=False)
class Survey:
    """All sources and fragments of a database; elements are read when somebody asks for them.

    ``sources`` has the record of each source by its name, ``fragments`` what each source has of a key, and ``known``
    what that amounts to. ``trust`` has the names of the sources, see ``by_trust``.
    """

    sources: Mapping[str, Mapping[str, Any]]
    fragments: Mapping[Key, Mapping[str, Fragment]]
    known: Mapping[Key, Known]
    trust: Sequence[str]

    def shown(self, key: Key, source: str | None = None) -> Fragment:
        """The fragment that look-ups show: that of a source, or one with rows, of the default source if it has some."""
        there = self.fragments[key]
        if source is not None:
            return there[source]
        order = [DEFAULT_SOURCE, *self.trust]
        return min(there.values(), key=lambda each: (not each.has_rows, order.index(str(each.source))))

    @cached_property
    def operands(self) -> Mapping[Key, Sequence[Key]]:
        """The keys of each operand, which tell major, selector and qualifiers apart, by what they have in common."""
        found = grouped(self.fragments, operand_of)
        return {operand: sorted(keys, key=_variant) for operand, keys in found.items()}

    @cached_property
    def products(self) -> Mapping[Product, Sequence[Key]]:
        """The operands of each product, A first."""
        found: dict[Product, dict[Key, None]] = {}
        for form in (*FORMS, *warpgroup(), *wmma()):
            product = Product(form.name, form.shape, form.a)
            for role in form.types:
                if (operand := operand_of(form.key(role))) in self.operands:
                    found.setdefault(product, {})[operand] = None
        covered = {operand for operands in found.values() for operand in operands}
        for operand in self.operands.keys() - covered:
            found.setdefault(Product(*operand[:3]), {})[operand] = None
        roles = list(dict.fromkeys(role for each in ("mma.sp", *INSTRUCTIONS) for role in INSTRUCTIONS[each].axes))
        order = list(INSTRUCTIONS)
        return {
            product: sorted(operands, key=lambda each: (roles.index(each.role), each.type))
            for product, operands in sorted(
                found.items(),
                key=lambda each: (
                    order.index(each[0].instruction) if each[0].instruction in order else len(order),
                    naturally(each[0].shape),
                    each[0].type,
                ),
            )
        }

    def of_operand(self, operand: Key) -> Known:
        """What is known of all fragments of an operand together: the first of ``Known`` that is true of one."""
        return min((self.known[key] for key in self.operands[operand]), key=[*Known].index)


def operand_of(key: Key) -> Key:
    """The operand that a fragment belongs to, whatever its major, selector and qualifiers."""
    return key._replace(major=None, selector=None, qualifiers=None)


def forms_of(product: Product) -> list[Form]:
    """The forms of a product, those of the most exact accumulator first."""
    every = (*FORMS, *warpgroup(), *wmma())
    found = [form for form in every if (form.name, form.shape, form.a) == tuple(product)]
    return sorted(found, key=lambda form: form.d != "f32")


def survey(reader: Reader) -> Survey:
    """Look at everything that is in a database."""
    with reader.snapshot():
        sources = {record["name"]: record for record in lookup.sources(reader).records()}
        found = lookup.fragments(reader, Query()) if sources else []
        contradicted, errors = _differences(reader, sources)
        trust = lookup.by_trust(reader)
    fragments: dict[Key, dict[str, Fragment]] = {}
    for each in found:
        fragments.setdefault(each.key, {})[str(each.source)] = each
    kinds = {name: record["kind"] for name, record in sources.items()}
    known = {key: _known(there.values(), kinds, key in contradicted, key in errors) for key, there in fragments.items()}
    return Survey(sources, fragments, known, trust)


def _differences(reader: Reader, sources: Mapping[str, Mapping[str, Any]]) -> tuple[set[Key], set[Key]]:
    """The keys of which a source differs from a document, unexplained, and because of a known error."""
    documents = [name for name, record in sources.items() if record["kind"] == "document"]
    try:
        found = crosscheck.check(crosscheck.read_sources(reader), crosscheck.read_findings(reader), documents)
    except LanemapError:  # there are no two sources to compare
        return set(), set()
    differ = [each for one in found.comparisons for each in one.results if each.verdict is Verdict.DIFFERENT]
    return ({each.key for each in differ if not each.known}, {each.key for each in differ if each.known})


def _known(there: Iterable[Fragment], kinds: Mapping[str, str], contradicted: bool, error: bool) -> Known:
    there = list(there)
    having = {kinds[str(each.source)] for each in there if each.has_rows}
    if contradicted:
        return Known.CONTRADICTED
    if error or any(each.erratum for each in there):
        return Known.ERROR
    if {"document", "capture"} <= having:
        return Known.AGREED
    by_kind = {"capture": Known.MEASURED, "document": Known.DOCUMENTED, "import": Known.IMPORTED}
    return next((known for kind, known in by_kind.items() if kind in having), Known.DRAWN)


def _variant(key: Key) -> tuple[Any, ...]:
    return key.major != "row", key.major or "", key.selector or 0, naturally(key.qualifiers or "")
