"""What is known about a defect beyond a comparison: its reach, versions, confirmation, correction.

The facts are data in ``evidence.toml``. This module only joins them with what a comparison finds.
"""

from functools import cache
from pathlib import Path
from typing import Literal, get_args

import msgspec

from ..isa.instructions import Key
from ..text import naturally

#: How far a wrong layout reaches, the worst first; empty where nobody has examined it.
Reach = Literal["wrong product", "does not compile", "opaque", "unreachable", "only names", "editorial", ""]
REACHES: tuple[str, ...] = get_args(Reach)[:-1]


class Shown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a defect shows in a database: text in the origin of an operand, its claim set, words of its key."""

    function: str = ""
    set: str | None = None
    operand: str = ""

    def matches(self, key: Key, origin: str, claim_set: object) -> bool:
        """Whether an operand is in this place."""
        words = {word for part in key if part is not None for word in str(part).split(".")}
        in_set = self.set is None or self.set == claim_set
        return in_set and self.function in origin and {*self.operand.split()} <= {*words, key.instruction}


class Confirmation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run of the library's kernel: how many elements of D were wrong, and the control that was right."""

    card: str
    date: str
    wrong: int
    of: int
    control: str
    how: str = ""

    def __str__(self) -> str:
        how = f" ({self.how})" if self.how else ""
        return f"on an {self.card}, {self.date}: {self.wrong} of {self.of} elements wrong{how}; right: {self.control}"


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One root cause: a function of a library. ``evidence.toml`` says what each field means."""

    name: str
    library: str
    title: str
    release: str
    shows: tuple[Shown, ...]
    reach: Reach
    reason: str
    newest: str
    file: str = ""
    line: int = 0
    function: str = ""
    copied: str = ""
    since: str = ""
    until: str = ""
    fixed: str = ""
    reports: tuple[str, ...] = ()
    words: str = ""
    agreement: str = ""
    confirmed: Confirmation | None = None
    not_run: str = ""
    correction: str = ""
    before: str = ""
    after: str = ""
    tried: str = ""
    language: str = "text"
    reproduction: str = ""
    prints: str = ""

    def is_in(self, version: str) -> bool:
        """Whether a release has it; a release without a number may."""
        since, at, until = map(naturally, (self.since, version, self.until))
        return not version or (since <= at and (not self.until or at <= until))

    @property
    def versions(self) -> str:
        """Which releases have it."""
        if not self.newest:
            return ""
        since = f"since {self.since}" if self.since else ""
        until = f"until {self.until}, fixed in {self.fixed or 'a later one'}" if self.until else "not fixed"
        return ", ".join(filter(None, (since, until, f"newest examined: {self.newest}")))

    @property
    def root(self) -> str:
        """The file, line and function, and the release."""
        line = ":".join(filter(None, (self.file, str(self.line or ""))))
        return ", in ".join(filter(None, (" ".join(filter(None, (line, self.function))), self.release)))

    @property
    def run(self) -> str:
        """The confirmation, or why there is none."""
        return str(self.confirmed) if self.confirmed else f"not run: {self.not_run}" if self.not_run else ""


#: The evidence for a defect that nobody has examined.
NOTHING = Evidence("", "", "", "", (), "", "", "")


class LibraryRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A library that was examined: which version, whether it was read or run, and what was found."""

    name: str
    version: str
    looked: str
    found: str


class EvidenceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of ``evidence.toml``."""

    defect: tuple[Evidence, ...] = ()
    library: tuple[LibraryRecord, ...] = ()

    def of(self, library: str, version: str, key: Key, origin: str, claim_set: object) -> Evidence:
        """The defect that an operand of a release of a library shows, ``NOTHING`` where none is known."""
        found = (
            evidence
            for evidence in self.defect
            if library.removesuffix("+errata") in (evidence.library, f"{evidence.library}-{version}")
            and evidence.is_in(version)
            and any(place.matches(key, origin, claim_set) for place in evidence.shows)
        )
        return next(found, NOTHING)


@cache
def examined() -> EvidenceFile:
    """The shipped evidence."""
    return msgspec.toml.decode(Path(__file__).with_name("evidence.toml").read_bytes(), type=EvidenceFile)
