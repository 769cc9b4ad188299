import shutil
from itertools import count

import pytest
from sqlalchemy import create_engine, text

import lanemap

_NUMBERS = count()


@pytest.fixture(scope="session")
def new_database(server):
    """Make a database on the server, empty or a copy of another one; its address."""
    admin = create_engine(server.replace("postgresql", "postgresql+psycopg", 1), isolation_level="AUTOCOMMIT")

    def new_database(template: str = "template1") -> str:
        name = f"test_{next(_NUMBERS)}"
        with admin.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
        return server.replace("/postgres?", f"/{name}?")

    yield new_database
    admin.dispose()


@pytest.fixture(scope="session")
def built_on_server(new_database):
    """The name of a PostgreSQL database of everything that ships. Copy it before writing to it."""
    address = new_database()
    lanemap.open(address).close()
    return address.partition("?")[0].rpartition("/")[2]


@pytest.fixture(params=["sqlite", "postgresql"])
def own(request, tmp_path, built):
    """A database of one's own with everything that ships, of both kinds in turn."""
    if request.param == "sqlite":
        return str(shutil.copy(built, tmp_path / "own.db"))
    return request.getfixturevalue("new_database")(request.getfixturevalue("built_on_server"))
