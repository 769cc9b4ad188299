"""What passed in one run of pytest is left out of the next one: ``-p passed``, with PASSED naming a file of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_FILE = Path(os.environ["PASSED"])
_BEFORE = {*_FILE.read_text("utf-8").splitlines()} if _FILE.exists() else set()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Leave out what passed before, by the names that pytest-xdist gives to tests with a group."""
    yield
    config.hook.pytest_deselected(items=[item for item in items if ascii(item.nodeid) in _BEFORE])
    items[:] = [item for item in items if ascii(item.nodeid) not in _BEFORE]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what passes."""
    if report.when == "call" and report.passed and "PYTEST_XDIST_WORKER" not in os.environ:
        with _FILE.open("a", encoding="utf-8") as file:
            print(ascii(report.nodeid), file=file)
