"""The server against a FastAPI route that returns a constant, in one run, with 64 clients each.

python tests/benchmarks/serve.py

Each is asked in turn with the constant, a thousand requests at a time, so that whatever else the machine does slows
both. ``find`` is asked for 20,000 different cells, so that no answer comes from memory, and then for one of them. The
pages of an instruction's operands come from memory but for the first time.
"""

import asyncio
import contextlib
import itertools
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import lanemap

CLIENTS, AT_ONCE, ROUNDS = 64, 1_000, 20
CONSTANT = """
import sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/")
async def constant() -> dict[str, int]:
    return {"lane": 5, "reg": 1, "slot": 1}
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
"""


def cells(file: Path) -> list[str]:
    """The addresses of cells of many operands; two that follow each other are of different operands."""
    with lanemap.open(file) as database:
        found = database.fragments()
    found = found[found.has_rows & (found.instruction == "mma")].drop_duplicates(["shape", "type", "role"])
    operands = [
        [
            f"/api/find?shape={one.shape}&type={one.type}&role={one.role}&row={row}&col={col}"
            for row, col in itertools.product(range(one.rows), range(one.cols))
        ]
        for one in found.itertuples()
    ]
    return [element for every in itertools.zip_longest(*operands) for element in every if element]


async def ask(port: int, addresses: Sequence[str]) -> float:
    """Ask for addresses over 64 connections; the seconds that it took. Ends the program where an answer is not 200."""
    left = iter(addresses)

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for address in left:
            writer.write(f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                sys.exit(f"{address}: {head.decode()}")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return time.perf_counter() - start


@contextlib.contextmanager
def running(*command: str) -> Iterator[int]:
    """A server on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, *command, str(port)], stdout=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait()


def compare(name: str, ours: tuple[int, list[str]], theirs: int, limit: float) -> None:
    """Print the ratio of the medians. ``ours`` is a port and the addresses to ask for, ``theirs`` the other port."""
    port, addresses = ours
    mine, other = [], []
    for start in range(0, len(addresses), AT_ONCE):
        other.append(asyncio.run(ask(theirs, ["/"] * AT_ONCE)))
        mine.append(asyncio.run(ask(port, addresses[start : start + AT_ONCE])))
    ratio = statistics.median(mine) / statistics.median(other)
    rate = AT_ONCE / statistics.median(mine)
    print(f"{name}: {ratio:.2f} times (limit {limit}), {rate:.0f} requests a second, {len(addresses)} without an error")


folder = Path(tempfile.mkdtemp())
file, constant = folder / "layouts.db", folder / "constant.py"
constant.write_text(CONSTANT)
every = cells(file)[: AT_ONCE * ROUNDS]
with running(str(constant)) as theirs, running("-m", "lanemap", "serve", "--db", str(file), "--port") as ours:
    compare("find, each cell once", (ours, every), theirs, 3)
    compare("find, one cell", (ours, [every[0]] * AT_ONCE * ROUNDS), theirs, 3)
    pages = ["/mma/m16n8k16/bf16/A", "/mma/m16n8k16/bf16/B"]
    compare("an operand page", (ours, pages * (AT_ONCE * ROUNDS // 2)), theirs, 8)
