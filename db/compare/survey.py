"""What is known of every operand of every instruction, and from which sources; and all captures side by side."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from .. import lookup
from ..errors import AbsentError
from ..isa.forms import Form, forms
from ..isa.instructions import INSTRUCTIONS, PRODUCT_ROLES, ROLES, Key, instruction
from ..isa.names import Query
from ..isa.spelling import atom, opcode
from ..isa.types import scaled as has_scales
from ..isa.types import types_named
from ..isa.vendors import VENDORS
from ..layout.fragment import Fragment
from ..rows import Rows, Tabular
from ..store.reader import Reader
from ..text import brief, counted, grouped, naturally
from . import crosscheck
from .summary import Said, verdicts
from .verdict import Verdict

#: The numbers in a name that say how many columns there are.
_WIDTH = re.compile(r"(?<=n)\d+|(?<=\bx)\d+")
_WORDS = re.compile(r"[a-z0-9.:_]+")


class Known(StrEnum):
    """What is known of an operand, the most important for a reader first."""

    CONTRADICTED = "contradicted"
    ERROR = "known error"
    DRAWN = "figure-only"
    IMPORTED = "imported"
    DOCUMENTED = "documented"
    MEASURED = "measured"
    AGREED = "documented and measured"


class Product(NamedTuple):
    """An instruction with a shape, and the type of A or of the matrix that is moved."""

    instruction: str
    shape: str
    type: str

    def __str__(self) -> str:
        return " ".join(self)

    @property
    def forms(self) -> list[Form]:
        """Its forms, but for those with a B of another type; those of the most exact accumulator first."""
        return sorted((form for form in forms(*self) if form.b in ("", form.a)), key=lambda form: form.d != "f32")

    @property
    def accumulators(self) -> Sequence[str]:
        """The types of D that it has, the most exact first; none of a move."""
        return list(dict.fromkeys(form.d for form in self.forms if form.d))

    @property
    def aliases(self) -> Sequence[str]:
        """What it is called besides its name: its mnemonics, its opcodes, its atoms."""
        # No mnemonic names a box: a tensor map does.
        forms = [form for form in self.forms if form.instruction.register_roles]
        called = [form.mnemonic for form in forms]
        for form in forms:
            called += filter(None, (opcode(form), atom(form)))
        return list(dict.fromkeys(called))

    @property
    def sparse(self) -> bool:
        """Whether its A is sparse."""
        return instruction(self.instruction).sparse


@dataclass(frozen=True, eq=False, repr=False)
class Survey:
    """All sources and fragments of a database; elements are read on demand.

    ``sources`` has the record of each source by its name, ``fragments`` the fragments of each key by source, and
    ``known`` what these amount to. ``best`` has the best evidence of each, see ``lookup.choose``, and ``documents``
    are those of the vendors that answer first. ``check`` is that of all sources, None where no two can be compared.
    """

    sources: Mapping[str, Mapping[str, Any]]
    fragments: Mapping[Key, Mapping[str, Fragment]]
    known: Mapping[Key, Known]
    best: Mapping[Key, Fragment]
    documents: Collection[str]
    check: crosscheck.Check | None
    _begun: dict[tuple[object, ...], bool] = field(default_factory=dict, init=False)
    _said: dict[Product, dict[Key, dict[str, Said]]] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        of = ", ".join(self.sources)
        return brief(f"Survey of {counted(len(self.operands), 'operand')} in {of}", "sources names all")

    def shown(self, key: Key, source: str | None = None) -> Fragment:
        """The fragment that look-ups show: that of a source, or by default the best evidence."""
        return self.best[key] if source is None else self.fragments[key][source]

    @cached_property
    def operands(self) -> Mapping[Key, Sequence[Key]]:
        """The keys of each operand, which differ in major, selector and qualifiers, by what they have in common."""

        def order(key: Key) -> tuple[Any, ...]:
            return key.major != "row", key.major or "", key.selector or 0, naturally(key.qualifiers or "")

        by_operand = grouped(self.fragments, lambda key: key.operand)
        return {operand: sorted(keys, key=order) for operand, keys in by_operand.items()}

    @cached_property
    def widest(self) -> Mapping[Key, Key]:
        """The wider operand of which each one is the first columns, or the whole, in the same places.

        They differ in N alone, or in how often a move repeats. The same is known of both, from the same sources.
        """

        def alike(key: Key) -> tuple[object, ...]:
            having = frozenset((name, its.has_rows) for name, its in self.fragments[key].items())
            shape, qualifiers = (_WIDTH.sub("", name or "") for name in (key.shape, key.qualifiers))
            return key._replace(shape=shape, qualifiers=qualifiers), self.known[key], having

        found: dict[Key, Key] = {}
        for keys in grouped(self.fragments, alike).values():
            *narrower, wide = sorted(keys, key=lambda key: [*map(naturally, (key.shape, key.qualifiers or ""))])
            found |= {key: wide for key in narrower if self._begins(key, wide)}
        return found

    @cached_property
    def represented(self) -> Mapping[Key, Key]:
        """For each operand that says no more than another, that other one.

        It is the widest, and where several types lie in the same places and the same is known of them, the first.
        """

        def alike(key: Key) -> tuple[object, ...]:
            said = self.said(self.product_of[key.operand])[key].items()
            its = [(*layout(its), its.citation) for its in self.fragments[key].values()]
            return key._replace(type=""), self.known[key], *said, *its

        layout = attrgetter("digest", "registers", "slots", "first_bit", "register_bits")
        wide = (key for key in self.fragments if key not in self.widest and self.shown(key).has_rows)
        first = {key: keys[0] for keys in grouped(wide, alike).values() for key in keys[1:]}
        every = {**first, **self.widest}
        return {key: first.get(wide, wide) for key, wide in every.items()}

    @cached_property
    def representing(self) -> Mapping[Key, Sequence[Key]]:
        """For each operand those that say no more than it does."""
        return grouped(self.represented, self.represented.__getitem__)

    @cached_property
    def widest_product(self) -> Mapping[Product, Product]:
        """The instruction of which each one is the first columns, in all its operands that have any."""

        def widest(key: Key) -> object:
            if (shown := self.shown(key)).has_rows:
                return self.widest.get(key, key)
            return key._replace(shape=_WIDTH.sub("", key.shape)), shown.status

        def alike(product: Product) -> tuple[object, ...]:
            keys = chain.from_iterable(map(self.operands.__getitem__, self.products[product]))
            return product.instruction, product.type, frozenset(map(widest, keys))

        groups = grouped(self.products, alike).values()
        return {product: wide for *narrower, wide in groups for product in narrower}

    def _begins(self, narrow: Key, wide: Key) -> bool:
        both = ((its, self.fragments[wide][name]) for name, its in self.fragments[narrow].items() if its.has_rows)
        distinct = {(one.digest, one.packing, of.digest, of.packing, one.dimensions): (one, of) for one, of in both}
        self._begun.update((pair, one.begins(of)) for pair, (one, of) in distinct.items() if pair not in self._begun)
        return bool(distinct) and all(map(self._begun.__getitem__, distinct))

    @cached_property
    def products(self) -> Mapping[Product, Sequence[Key]]:
        """The operands of each product, A first."""
        keys: dict[Product, dict[Key, None]] = {}
        for product in dict.fromkeys(Product(form.name, form.shape, form.a) for form in forms() if form.d):
            named = (form.key(role).operand for form in product.forms for role in form.types)
            if operands := dict.fromkeys(key for key in named if key in self.operands):
                keys[product] = operands
        covered = {operand for operands in keys.values() for operand in operands}
        for operand in (operand for operand in self.operands if operand not in covered):  # in the order of the table
            keys.setdefault(Product(*operand[:3]), {})[operand] = None
        names = [*INSTRUCTIONS, *(product.instruction for product in keys)]
        order = sorted(
            keys, key=lambda product: (names.index(product.instruction), naturally(product.shape), product.type)
        )
        return {product: sorted(keys[product], key=lambda key: (ROLES.index(key.role), key.type)) for product in order}

    @cached_property
    def product_of(self) -> Mapping[Key, Product]:
        """The instruction that each operand is one of: of several the one of its type."""
        found: dict[Key, Product] = {}
        for product, operands in self.products.items():
            for operand in operands:
                if found.setdefault(operand, product).type != operand.type == product.type:
                    found[operand] = product
        return found

    def roles(self, products: Sequence[Product]) -> list[str]:
        """The roles of products of one instruction, in columns that all products of a kind share."""
        axes = instruction(products[0].instruction).axes
        more = (operand.role for line in products for operand in self.products[line])
        return list(dict.fromkeys([*(PRODUCT_ROLES if axes.keys() <= {*PRODUCT_ROLES} else axes), *more]))

    def said(self, product: Product) -> dict[Key, dict[str, Said]]:
        """The verdict on what each source has of each fragment of an instruction."""
        if product not in self._said:
            shown = {key: self.shown(key) for operand in self.products[product] for key in self.operands[operand]}
            there = (self.fragments[key].get(source) for source in self.sources for key in shown)
            self._said[product] = verdicts(shown, filter(None, there))
        return self._said[product]

    def named(self, query: Query) -> Iterator[Key | Product]:
        """What a query names: fragments where it says a role, else instructions; the dense ones first."""
        keys = query.matching(self.fragments)
        if "role" in query.asked:
            in_order = filter(keys.__contains__, self.fragments)
            yield from sorted(in_order, key=lambda key: instruction(key.instruction).sparse)
        elif keys:
            yield from self._products(query, keys)

    def _products(self, query: Query, keys: set[Key]) -> Iterator[Product]:
        """The instructions that have one of the fragments: of a type the one whose A it is, the dense ones first."""
        type_ = query.type_named("A") or query.token("type") or query.parameters()["type"]
        shape = query.parameters()["shape"]
        several = {*query.tokens.values()} <= {"instruction", "shape", "type"}
        named = {(form.name, form.shape, form.a) for form in query.forms}
        for product in sorted(self.products, key=lambda product: product.sparse):
            of_it = {key for operand in self.products[product] for key in self.operands[operand]}
            alike = type_ in (None, product.type) and shape in (None, product.shape)
            if alike and (several or tuple(product) in named) and not of_it.isdisjoint(keys):
                yield product

    def like(self, text: str) -> Iterator[Key | Product]:
        """The instructions, then the fragments, whose names hold all words of a text, or other names of a type.

        A target that is among the words is one that they run on, and a vendor is theirs.
        """
        asked = {*_WORDS.findall(text.lower())}
        meant = {word: {*types_named(word)} for word in asked}
        scaled = {product[:3] for product, keys in self.products.items() if any(key.role == "SFA" for key in keys)}
        made = asked & (_every_target() | VENDORS.keys())
        for names, name in self._called.items() if asked else ():
            held = all(word in name or not meant[word].isdisjoint(name.split()) for word in asked - made)
            held = held and made <= {*_targets().get(tuple(names[:4]), ()), instruction(names[0]).vendor.name}
            if held and (names[:3] in scaled or not any(map(has_scales, asked))):
                yield names

    @staticmethod
    def without_targets(text: str) -> str:
        """A text without the words that name targets."""
        return " ".join(word for word in text.split() if word.lower() not in _every_target())

    @cached_property
    def _called(self) -> Mapping[Key | Product, str]:
        """Every instruction and then every fragment, with its name in small letters."""
        every: Iterable[Key | Product] = (*self.products, *(key for keys in self.operands.values() for key in keys))
        return {names: " ".join(str(name) for name in names if name is not None).lower() for names in every}

    @staticmethod
    def facets(*path: str) -> dict[str, Collection[str]]:
        """What a search is narrowed by: what an instruction has of it, or with a role an operand."""
        name, _, type_ = path[:3]
        targets = _targets().get(path, ())
        return {"vendor": [instruction(name).vendor.title], "instruction": [name], "target": targets, "type": [type_]}

    def of_operand(self, operand: Key) -> Known:
        """What is known of an operand: the first of ``Known`` that is true of one of its fragments."""
        return min((self.known[key] for key in self.operands[operand]), key=[*Known].index)


@cache
def _targets() -> Mapping[tuple[str, ...], Collection[str]]:
    """The targets on which there is an instruction, or an operand, by instruction, shape, type and role."""
    found: dict[tuple[str, ...], set[str]] = {}
    for alike in grouped(forms(), lambda form: (form.instruction.vendor.name, form.targets)).values():
        runs = [*alike[0].targets, *filter(alike[0].supports, alike[0].instruction.vendor.targets)]
        for form in alike:
            for path in ((form.name, form.shape, form.a), *(form.key(role)[:4] for role in form.types)):
                found.setdefault(path, set()).update(runs)
    return found


@cache
def _every_target() -> set[str]:
    return {*chain.from_iterable(_targets().values())}


def survey(reader: Reader) -> Survey:
    """Survey a whole database."""
    with reader.snapshot():
        sources = {record["name"]: record for record in lookup.sources(reader).records()}
        all_fragments = lookup.fragments(reader, Query()) if sources else []
        check = None
        with suppress(AbsentError):  # no two sources can be compared
            check = crosscheck.checked(reader)
        best, documents = lookup.best(reader, all_fragments), lookup.documents(lookup.by_trust(reader)).values()
    differ = [result for result in check.results if result.verdict is Verdict.DIFFERENT] if check else []
    by_key = grouped((fragment for fragment in all_fragments if fragment.key in best), lambda fragment: fragment.key)
    fragments = {key: {str(fragment.source): fragment for fragment in same_key} for key, same_key in by_key.items()}
    contradicted, errors = ({result.key for result in differ if bool(result.known) is known} for known in (False, True))

    def known(key: Key, holders: Iterable[Fragment]) -> Known:
        kinds = {sources[str(fragment.source)]["kind"] for fragment in holders if fragment.has_rows}
        states = {
            Known.CONTRADICTED: key in contradicted,
            Known.ERROR: key in errors or any(fragment.citation.erratum for fragment in holders),
            Known.AGREED: {"document", "capture"} <= kinds,
            Known.MEASURED: "capture" in kinds,
            Known.DOCUMENTED: "document" in kinds,
            Known.IMPORTED: "import" in kinds,
        }
        return next((state for state, true in states.items() if true), Known.DRAWN)

    states = {key: known(key, holders.values()) for key, holders in fragments.items()}
    return Survey(sources, fragments, states, best, [*documents], check)


class Capture(NamedTuple):
    """A capture: the name of its source, its card and driver, its time, and the status of each form.

    ``forms`` has the statuses by mnemonic: captured, unsupported or failed. Unknown fields are empty.
    """

    source: str
    title: str
    device: str
    compute_capability: str
    driver_version: str
    cuda_version: str
    time: str
    forms: Mapping[str, str]


class Disagreement(NamedTuple):
    """A fragment on whose layout captures disagree: the sources that agree are grouped, the largest group first."""

    key: Key
    groups: Sequence[Sequence[str]]


@dataclass(frozen=True, repr=False)
class Fleet(Tabular):
    """All captures, and every fragment on which two of them differ."""

    captures: Sequence[Capture]
    disagreements: Sequence[Disagreement]

    @property
    def forms(self) -> list[str]:
        """The mnemonic of every form that was requested of a capture, in the order of the captures."""
        return list(dict.fromkeys(form for capture in self.captures for form in capture.forms))

    def rows(self) -> Rows:
        """One row for each form of each capture, with the card, the driver and the status."""
        rows = [
            (form, status, capture.source, *capture[2:-1])
            for capture in self.captures
            for form, status in capture.forms.items()
        ]
        return Rows(("instruction", "status", "source", *Capture._fields[2:-1]), rows)


def fleet(reader: Reader) -> Fleet:
    """The captures of a database."""
    with reader.snapshot():
        captured = [row for row in reader.sealed("source", "provenance") if row[1] == "capture"]
        every = lookup.fragments(reader, *(Query(source=name) for name, *_ in captured), families=True)
    captures = []
    for name, _, title, provenance in captured:
        facts: dict[str, Any] = json.loads(provenance)
        device = facts["device"] if isinstance(facts.get("device"), dict) else {}
        card, capability, driver, cuda = (str(device.get(field, "")) for field in ("name", *Capture._fields[3:6]))
        status = {record["instruction"]: record["status"] for record in facts.get("instructions", [])}
        captures.append(Capture(name, title, card, capability, driver, cuda, str(facts.get("time", "")), status))
    disagreements = []
    for key, of_key in grouped((one for one in every if one.has_rows), lambda one: one.key).items():
        groups = grouped(of_key, lambda one: one.digest).values()
        if len(groups) > 1:
            names = [[str(one.source) for one in alike] for alike in groups]
            disagreements.append(Disagreement(key, sorted(names, key=len, reverse=True)))
    return Fleet(captures, disagreements)
