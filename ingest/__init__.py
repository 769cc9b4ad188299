"""Sources that are read: the catalogue of the documentation, in PTX's own notation, and other toolchains' layouts."""

from pathlib import Path

from ..db.text import naturally


def folders(of: str) -> list[str]:
    """The folders of the catalogue that hold a ``document``, or a ``library``, the latest version first."""
    found = (Path(__file__).parent / "catalogue").glob(f"*/{of}.toml")
    return sorted((file.parent.name for file in found), key=naturally, reverse=True)


def names() -> list[str]:
    """The names of the sources in the catalogue."""
    return [name for folder in folders("document") for name in (folder, f"{folder}+errata")] + folders("library")
