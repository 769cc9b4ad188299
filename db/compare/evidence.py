"""What is known of a defect beside what a comparison finds: its reach, versions, confirmation, correction.

The facts are data, in ``evidence.toml``. Nothing here is found out: it is joined with what the comparison finds.
"""

from functools import cache
from pathlib import Path
from typing import Literal, get_args

import msgspec

from ..isa.instructions import Key
from ..isa.listing import naturally

#: How far a wrong layout reaches, the worst first; nothing where nobody has looked.
Reach = Literal["wrong product", "does not compile", "opaque", "unreachable", "only names", "editorial", ""]
REACHES: tuple[str, ...] = get_args(Reach)[:-1]


class Shown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a database shows a defect: text in the origin of an operand, its claim set, words of its key."""

    function: str = ""
    set: str | None = None
    operand: str = ""

    def matches(self, key: Key, origin: str, claim_set: object) -> bool:
        """Whether an operand is there."""
        words = {word for part in key if part is not None for word in str(part).split(".")}
        in_set = self.set is None or self.set == claim_set
        return in_set and self.function in origin and {*self.operand.split()} <= {*words, key.instruction}


class Confirmation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel of the library, run: how many elements of D were wrong, and what had to be right, and was."""

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
    """One root cause: a function of a library. What each field means stands in ``evidence.toml``."""

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
        """Whether a release has it. One that is not named may have anything."""
        since, at, until = map(naturally, (self.since, version, self.until))
        return not version or (since <= at and (not self.until or at <= until))

    @property
    def versions(self) -> str:
        """Which releases have it."""
        if not self.newest:
            return ""
        since = f"since {self.since}" if self.since else ""
        until = f"until {self.until}, fixed in {self.fixed or 'a later one'}" if self.until else "not fixed"
        return ", ".join(filter(None, (since, until, f"newest looked at: {self.newest}")))

    @property
    def root(self) -> str:
        """Where it is."""
        line = ":".join(filter(None, (self.file, str(self.line or ""))))
        return ", in ".join(filter(None, (" ".join(filter(None, (line, self.function))), self.release)))

    @property
    def run(self) -> str:
        """What a kernel of the library computed."""
        return str(self.confirmed) if self.confirmed else f"not run: {self.not_run}" if self.not_run else ""


#: What is known of a defect that nobody has looked at.
NOTHING = Evidence("", "", "", "", (), "", "", "")


class LibraryRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A library that was looked at: which version, whether it was read or run, and what was found."""

    name: str
    version: str
    looked: str
    found: str


class EvidenceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

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
def facts() -> EvidenceFile:
    """All that is known."""
    return msgspec.toml.decode(Path(__file__).with_name("evidence.toml").read_bytes(), type=EvidenceFile)
