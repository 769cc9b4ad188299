"""Records what an older version of a library claims of the operands that DEFECTS.md is about, to date its defects.

    python tests/wild/past.py cute CUTLASS_FOLDER
    python tests/wild/past.py python tilelang PYTHON_OF_THE_OLDER_VERSION

It writes ``tests/importers/past/LIBRARY-VERSION.json.gz``: sources, each with these operands alone.
"""

import gzip
import json
import sys
from pathlib import Path

from lanemap.ingest.importing import read

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "tests" / "importers" / "past"


def _kept(source, page):
    """A source as JSON, with the operands that the page names."""
    provenance = {name: value for name, value in source.provenance.items() if name != "files"}
    fragments = [
        (
            fragment.key,
            {"registers": fragment.registers, "slots": fragment.slots, "origin": fragment.citation.origin},
            fragment.elements.tolist(),
        )
        for fragment in source.fragments
        if f"{fragment.role} of {fragment.instruction} {fragment.shape} " in page
    ]
    provenance["wrong"] = [
        wrong for wrong in provenance.get("wrong", []) if "{3} of {0} {1} ".format(*wrong["operand"]) in page
    ]
    return {**{name: getattr(source, name) for name in ("name", "kind", "title")}, "provenance": provenance} | {
        "fragments": fragments
    }


def main():
    kind, *path = sys.argv[1:]
    page = (ROOT / "DEFECTS.md").read_text()
    options = {"python": path[1]} if kind == "python" else {}
    found = [imported.source for imported in read(kind, *path[:1], **options)]
    sets = [source for source in found if f"({source.provenance.get('set')}, " in page or kind != "python"]
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{found[0].name.partition(':')[0]}.json.gz"
    said = {"made": " ".join(["python tests/wild/past.py", kind]), "sources": [_kept(source, page) for source in sets]}
    file.write_bytes(gzip.compress(json.dumps(said, sort_keys=True, separators=(",", ":")).encode(), mtime=0))


if __name__ == "__main__":
    main()
