"""The example notebook runs, and shows what is stored in it. Run this file to store anew what it shows."""

import os
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs lanemap[test-browser]")
nbclient = pytest.importorskip("nbclient", reason="needs lanemap[test-browser]")
pytest.importorskip("ipykernel", reason="needs lanemap[test-browser]")

NOTEBOOK = Path(__file__).parent.parent / "cli" / "web" / "static" / "attention.ipynb"


def executed(folder, environment):
    """The notebook with what its cells show: their HTML where they have some, else their text."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3", record_timing=False)
    client.execute(cwd=str(folder), env=environment)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "text/html" in output["data"]:
                del output["data"]["text/plain"]
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def test_every_cell_shows_what_is_stored(built, tmp_path):
    environment = os.environ | {"LANEMAP_DB": str(built), "IPYTHONDIR": str(tmp_path / "ipython")}
    assert executed(tmp_path, environment).cells == nbformat.read(NOTEBOOK, as_version=4).cells


if __name__ == "__main__":
    nbformat.write(executed(sys.argv[1], dict(os.environ)), NOTEBOOK)
