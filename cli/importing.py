"""What ``import`` says: what came in, and what was left out and why."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..db.errors import LanemapError
from ..db.reader import Rows
from ..ingest.imported import Imported
from ..ingest.python import shipped
from .options import Format
from .output import write_rows


def list_mappings(kind: str, form: Format) -> None:
    """The mappings that ship, with the versions that each was seen to work with.

    Raises:
        LanemapError: the kind has no mappings.
    """
    if kind.lower() != "python":
        raise LanemapError(f"{kind} has no mappings: lanemap import python --list")
    rows = [(each.path.stem, each.library, each.package, " ".join(each.seen)) for each in shipped()]
    write_rows(Rows(("mapping", "library", "package", "seen"), rows), form)


def write_imported(found: Sequence[Imported], form: Format) -> None:
    """A line for each source, which is not part of the rows, then what was left out, and what is wrong in the rest.

    As a table it has one line for each reason, because a header has hundreds of atoms that share one.
    """
    stream = sys.stdout if form is Format.TABLE else sys.stderr
    for each in found:
        fragments, skipped = len(each.source.fragments), len(each.skipped)
        wrong = f", {len(each.findings)} findings" if each.findings else ""
        stream.write(f"{each.source.name}: {fragments} fragments, {each.rows} rows; {skipped} left out{wrong}\n")
    left_out = [(each.source.name, atom.name, atom.reason) for each in found for atom in each.skipped]
    findings = [(each.source.name, atom.name, atom.reason) for each in found for atom in each.findings]
    if form is not Format.TABLE:
        write_rows(Rows(("source", "name", "reason"), [*left_out, *findings]), form)
        return
    for rows in (_by_reason("left_out", left_out), _by_reason("wrong_in", findings)):
        if rows.rows:
            sys.stdout.write("\n")
            write_rows(rows, form)


def _by_reason(count: str, left_out: Sequence[tuple[str, str, str]]) -> Rows:
    groups: dict[str, list[str]] = {}
    for _, name, reason in left_out:
        groups.setdefault(reason, []).append(name)
    more = {reason: ", ..." if len(names) > 1 else "" for reason, names in groups.items()}
    rows = [(len(names), reason, names[0] + more[reason]) for reason, names in groups.items()]
    return Rows((count, "reason", "name"), rows)
