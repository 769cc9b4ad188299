import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import lanemap
from lanemap.cli import main
from lanemap.db.fragment import Fragment
from lanemap.ingest import catalogue

# Tests name the database they use; none may touch that of whoever runs them.
os.environ["LANEMAP_DB"] = os.devnull + "/no-test-uses-a-default-database"


@pytest.fixture(scope="session")
def sources():
    """The sources of the catalogue by name."""
    return {source.name: source for source in catalogue.load()}


@pytest.fixture(scope="session")
def fragments(sources) -> list[Fragment]:
    """Every fragment of the corrected document that has elements."""
    return [each for each in sources[lanemap.DEFAULT_SOURCE].fragments if each.elements is not None]


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """A database of everything that ships. Copy it before writing to it."""
    file = tmp_path_factory.mktemp("built") / "layouts.db"
    lanemap.open(str(file)).close()
    return file


@pytest.fixture
def file(built, tmp_path) -> Path:
    """A database of one's own."""
    return Path(shutil.copy(built, tmp_path / "layouts.db"))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The URL of a PostgreSQL server that runs for the tests."""
    import pgserver

    running = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield running.get_uri()
    running.cleanup()


@pytest.fixture
def run(monkeypatch, capfdbinary, built):
    """Run a command as the shell would: exit code, stdout and stderr. It uses the built database unless told not to."""

    def run(*arguments: str, db: Path | str | None = built, stdin: bytes = b"") -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["lanemap", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "80")
        if db is not None:
            monkeypatch.setenv("LANEMAP_DB", str(db))
        monkeypatch.setattr("sys.stdin", SimpleNamespace(read=lambda: stdin.decode()))
        with pytest.raises(SystemExit) as stopped:
            main()
        written = capfdbinary.readouterr()
        return SimpleNamespace(
            code=stopped.value.code,
            bytes=written.out,
            out=written.out.decode("utf-8", "replace"),
            err=written.err.decode(),
        )

    return run


@pytest.fixture
def refused(run):
    """Run a command that must fail: one line on stderr that holds every given word, exit 2, nothing on stdout."""

    def refused(*arguments: str, words: tuple[str, ...], **options) -> None:
        result = run(*arguments, **options)
        assert (result.code, result.out) == (2, ""), result
        assert result.err.startswith("lanemap: ")
        assert result.err.count("\n") == 1, result.err
        for word in words:
            assert word in result.err

    return refused
