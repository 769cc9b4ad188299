"""Servers under readers, uploads, imports and removals, while workers and servers are killed and started again.

python tests/benchmarks/soak.py [SECONDS]

One server has a database of SQLite, two share one of PostgreSQL, if pgserver is installed. At the end every source that
a database answered for is there, whole, and every one that was removed is not. Servers are started again in the first
sixth of the time, so that what they take later is that of a process that has gone on for a while. Their memory is what
is theirs alone, without files that are mapped; it and open files are printed for five moments, of half an hour those
after 1, 5, 10, 20 and 30 minutes. Memory is flat where the median of the last third is at most a twentieth above that
of the middle third. Exits 1 where something is lost, torn, or answered wrong, and in half an hour or more where memory
is not flat: caches take minutes to fill. Default: 60 seconds.
"""

import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx

import lanemap
from lanemap.db.layout.fragment import Source

TOKEN = "a-token-of-the-soak"
FIND = "/api/find?shape=m16n8k16&type=f16&role=A&row=9&col=3"
#: What is said where a worker was killed while it worked.
KILLED = "the process that worked on this ended"
PAGES = (
    "/",
    "/fleet",
    "/api/sources",
    "/defects",
    "/mma/m16n8k16/f16",
    "/api/sql?query=SELECT COUNT(*) AS n FROM source",
)
#: How many sources a database has, more or less, besides those that ship.
SOURCES = 8
#: When memory is printed, in parts of the time.
MOMENTS = (1 / 30, 1 / 6, 1 / 3, 2 / 3, 1)
#: By what part memory may grow from the middle third to the last, and in how many seconds that must hold.
GROWTH, FULL = 0.05, 1800
#: How many seconds there are between two processes that are killed, and after an import, at most: what a process worked
#: on comes to nothing, and everything is looked through again after each change.
CALM, REST = 20, 4


class Server:
    """``lanemap serve`` on a database; started again whenever it is ended."""

    def __init__(self, database: str, token: Path) -> None:
        self.command = [sys.executable, "-m", "lanemap", "serve", "--db", database, "--port", "0"]
        self.command += ["--token-file", str(token), "--sql-as-superuser"]
        self.database = database
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it stays open as long as the server
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[3]
        self.began = time.monotonic()

    def end(self, by: signal.Signals) -> None:
        self.process.send_signal(by)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.process.kill()
        self.process.communicate()

    def workers(self) -> list[int]:
        file = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(number) for number in file.read_text().split()]

    def use(self) -> tuple[int, int, int]:
        """Megabytes of memory and open files of the server itself, and megabytes of its largest worker."""
        workers = [0]
        for worker in self.workers():
            with suppress(OSError):  # it has just ended
                workers.append(_megabytes(worker))
        return _megabytes(self.process.pid), len([*Path(f"/proc/{self.process.pid}/fd").iterdir()]), max(workers)


def _megabytes(process: int) -> int:
    """What a process has in memory that is in no file."""
    said = re.search(r"^Anonymous: +(\d+) kB$", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)
    return int(said[1]) >> 10 if said else 0


class Soak:
    """All that is going on, what was answered, and what must be there at the end."""

    def __init__(self, servers: list[Server], seconds: float) -> None:
        self.servers = servers
        self.seconds = seconds
        self.ends = time.monotonic() + seconds
        self.answers: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.there: defaultdict[str, set[str]] = defaultdict(set)
        self.gone: defaultdict[str, set[str]] = defaultdict(set)
        self.used: list[tuple[float, Server, tuple[int, int, int]]] = []
        home = httpx.get(servers[0].address, timeout=60, follow_redirects=True).text
        self.pages = (*PAGES, *re.findall(r'href="(/[^"]+/[^"]+)"', home))
        with lanemap.open(servers[0].database) as database:
            captured = database.source("h200-sm_90a")
            some = [
                replace(fragment, elements=fragment.elements)
                for fragment in captured.fragments
                if fragment.type == "b1"
            ]
        self.captured = replace(captured, fragments=some)
        self.digests = sorted(str(fragment.digest) for fragment in some)

    def forever(self, work: object, seed: int) -> None:
        chance = random.Random(seed)
        while time.monotonic() < self.ends:
            try:
                work(chance)  # type: ignore[operator]
            except (httpx.HTTPError, lanemap.LanemapError, FileNotFoundError, ProcessLookupError) as error:
                self.answers[f"{work.__name__}: {type(error).__name__}"] += 1  # type: ignore[attr-defined]
                time.sleep(0.1)
            except Exception as error:
                self.wrong.append(f"{work.__name__}: {error!r}")  # type: ignore[attr-defined]

    def read(self, chance: random.Random) -> None:
        path = chance.choice((FIND, chance.choice(PAGES), chance.choice(self.pages)))
        answer = httpx.get(chance.choice(self.servers).address + path, timeout=60, follow_redirects=True)
        self.answers[f"read: {answer.status_code}"] += 1
        if answer.status_code == 200 and path == FIND and answer.json()[0]["lane"] != 5:
            self.wrong.append(f"{path} answers {answer.text}")
        if answer.status_code not in (200, 503) and KILLED not in answer.text:
            self.wrong.append(f"{path} answers {answer.status_code}: {answer.text[:200]}")

    def upload(self, chance: random.Random) -> None:
        server = chance.choice(self.servers)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "capture")
            said = {**self.captured.provenance, "soak": chance.random()}
            lanemap.write_capture(replace(self.captured, provenance=said), file)
            headers = {"Authorization": f"Bearer {TOKEN}"}
            answer = httpx.post(
                f"{server.address}/api/captures", content=file.read_bytes(), headers=headers, timeout=60
            )
        self.answers[f"upload: {answer.status_code}"] += 1
        if answer.status_code in (200, 201):
            self.there[server.database].add(answer.json()["source"])
        elif answer.status_code != 503 and KILLED not in answer.text:
            self.wrong.append(f"upload answers {answer.status_code}: {answer.text[:200]}")

    def load(self, chance: random.Random) -> None:
        place = chance.choice(self.servers).database
        name = f"import-{chance.randrange(1 << 60)}"
        with lanemap.open(place) as database:
            database.add([Source(name, "import", "soaked", self.captured.fragments)])
            self.there[place].add(name)
            self.answers["import"] += 1
            time.sleep(chance.random() * REST)
            for word in chance.sample(sorted(self.there[place]), k=max(0, len(self.there[place]) - SOURCES)):
                self.there[place].discard(word)
                database.remove(word)
                self.gone[place].add(word)
                self.answers["removal"] += 1

    def kill(self, chance: random.Random) -> None:
        time.sleep(chance.random() * CALM)
        server = chance.choice(self.servers)
        if chance.random() < 0.8:
            for worker in chance.sample(server.workers(), k=min(1, len(server.workers()))):
                os.kill(worker, signal.SIGKILL)
                self.answers["killed worker"] += 1
        elif server.began < time.monotonic() - self.seconds / 40 < self.ends - self.seconds * 5 / 6:
            by = chance.choice((signal.SIGTERM, signal.SIGKILL))
            server.end(by)
            server.start()
            self.answers[f"restart after {by.name}"] += 1

    def look(self, _: random.Random) -> None:
        for server in self.servers:
            self.used.append((time.monotonic() - self.ends + self.seconds, server, server.use()))
        time.sleep(0.5)

    def run(self) -> None:
        works = [self.read] * 3 + [self.upload, self.load] + [self.kill, self.look]
        threads = [threading.Thread(target=self.forever, args=target) for target in zip(works, range(99), strict=False)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def check(self) -> None:
        """Whether all databases hold what they answered for."""
        for place in dict.fromkeys(server.database for server in self.servers):
            with lanemap.open(place) as database:
                database.sql("SELECT COUNT(*) FROM element")  # verifies all of it
                names = {*database.sources().name}
                self.wrong += [f"{name} is lost" for name in self.there[place] - names]
                self.wrong += [f"{name} is back" for name in self.gone[place] & names]
                for name in names - lanemap.shipped_names():
                    if sorted(str(fragment.digest) for fragment in database.source(name).fragments) != self.digests:
                        self.wrong.append(f"{name} is torn")

    def say(self) -> None:
        print(", ".join(f"{name} {count}" for name, count in sorted(self.answers.items())))
        for number, server in enumerate(self.servers):
            kind = server.database.partition(":")[0].rpartition("/")[2]
            print(f"server {number} ({kind}): MB, open files, MB of its largest worker")
            for part in MOMENTS:
                near = [use for at, its, use in self.used if its is server and abs(at / self.seconds - part) < 1 / 60]
                said = ", ".join(f"{statistics.median(figures):.0f}" for figures in zip(*near, strict=True))
                print(f"  after {part * self.seconds:.0f} s: {said}")
            thirds = [
                [use[0] for at, its, use in self.used if its is server and at * 3 // self.seconds == n] for n in (1, 2)
            ]
            middle, last = map(statistics.median, thirds)
            flat = last <= middle * (1 + GROWTH)
            print(
                f"  memory is {'' if flat else 'not '}flat: {middle:.0f} MB in the middle third, {last:.0f} in the last"
            )
            if not flat and self.seconds >= FULL:
                self.wrong.append(f"server {number} takes more and more memory")
            server.errors.seek(0)
            if "Traceback" in (errors := server.errors.read()):
                self.wrong.append(f"server {number} has a traceback: {errors[errors.index('Traceback') :][:6000]}")
        for mistake in self.wrong:
            print("WRONG", mistake)


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder, "token")
        token.write_text(TOKEN)
        token.chmod(0o600)
        places = [str(Path(folder, "soak.db"))]
        try:
            import pgserver
        except ImportError:
            print("without PostgreSQL: pgserver is not installed")
        else:
            Path(folder, "postgres").mkdir()
            places += [pgserver.get_server(Path(folder, "postgres")).get_uri()] * 2
        for place in dict.fromkeys(places):
            lanemap.open(place).close()
        servers = [Server(place, token) for place in places]
        soak = Soak(servers, seconds)
        try:
            soak.run()
        finally:
            for server in servers:
                server.end(signal.SIGTERM)
        soak.check()
        soak.say()
    return bool(soak.wrong)


if __name__ == "__main__":
    sys.exit(main())
