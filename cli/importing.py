"""What ``import`` says: what came in, and what was left out and why."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..db.reader import Rows
from ..ingest.imported import Imported
from .options import Format
from .output import write_rows


def write_imported(found: Sequence[Imported], form: Format) -> None:
    """A line for each source, which is not part of the rows, and the list of what was left out.

    As a table it has one line for each reason, because a header has hundreds of atoms that share one.
    """
    stream = sys.stdout if form is Format.TABLE else sys.stderr
    for each in found:
        fragments, skipped = len(each.source.fragments), len(each.skipped)
        stream.write(f"{each.source.name}: {fragments} fragments, {each.rows} rows; {skipped} left out\n")
    left_out = [(each.source.name, atom.name, atom.reason) for each in found for atom in each.skipped]
    if form is not Format.TABLE:
        write_rows(Rows(("source", "name", "reason"), left_out), form)
    elif left_out:
        sys.stdout.write("\n")
        write_rows(_by_reason(left_out), form)


def _by_reason(left_out: Sequence[tuple[str, str, str]]) -> Rows:
    groups: dict[str, list[str]] = {}
    for _, name, reason in left_out:
        groups.setdefault(reason, []).append(name)
    more = {reason: ", ..." if len(names) > 1 else "" for reason, names in groups.items()}
    rows = [(len(names), reason, names[0] + more[reason]) for reason, names in groups.items()]
    return Rows(("left_out", "reason", "name"), rows)
