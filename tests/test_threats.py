"""The threat model of the guide: each sentence is a promise that a test proves, or says what is not defended."""

import ast
import re
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from starlette.requests import Request

import lanemap
from lanemap.cli.web.app import create_app
from lanemap.cli.web.work import Work

TESTS = Path(__file__).parent
ROOT = Path(lanemap.__file__).parent

#: Sentences by their beginnings, and the tests that prove them.
PROMISES = {
    "Lanemap downloads nothing": """test_threats.py::test_only_sending_a_capture_connects_to_anything
        test_threats.py::test_commands_connect_to_nothing""",
    "Without a token, whoever can reach the server": "web/test_api.py::test_a_file_is_compared_and_not_kept",
    "It listens to this machine alone": """test_threats.py::test_other_machines_are_not_listened_to
        web/test_command.py::test_what_it_means_to_listen_to_everyone_is_said
        web/test_command.py::test_a_name_that_it_is_given_is_its_own
        web/test_attacks.py::test_a_host_that_is_not_its_own_is_refused""",
    "Only who knows the token": """web/test_attacks.py::test_nothing_is_written_without_the_token
        web/test_attacks.py::test_nothing_is_written_where_the_server_has_no_token
        web/test_attacks.py::test_what_is_no_file_is_refused
        web/test_attacks.py::test_a_capture_is_stored_once_as_a_source_of_its_own
        web/test_attacks.py::test_two_captures_of_one_card_do_not_replace_each_other""",
    "A request has limits of time and size": """web/test_command.py::test_a_request_that_does_not_come_is_not_waited_for
        web/test_attacks.py::test_what_is_too_large_is_refused
        web/test_attacks.py::test_what_takes_too_long_is_killed_and_told_when_to_come_again
        web/test_command.py::test_a_request_that_nobody_waits_for_ends""",
    "One address has a part": """web/test_command.py::test_half_sent_requests_keep_nobody_out
        web/test_attacks.py::test_slow_uploads_hold_up_neither_a_capture_nor_another_address
        test_threats.py::test_one_address_leaves_a_process_for_another""",
    "A named `--proxy` is believed": "web/test_command.py::test_a_named_proxy_asks_for_others",
    "Where the file of the database is replaced": """
        web/test_attacks.py::test_a_database_that_another_took_the_place_of_is_the_other
        web/test_attacks.py::test_a_database_that_is_gone_takes_nothing_until_it_is_back""",
    "Queries in SQL cannot write": """db/test_reader.py::test_no_statement_writes
        db/test_reader.py::test_functions_that_do_more_than_read_are_refused
        web/test_attacks.py::test_a_query_ends_by_its_limits web/test_attacks.py::test_a_process_has_a_limit_of_memory
        web/test_attacks.py::test_others_are_served_while_queries_run""",
    "A kernel that somebody sends is": "web/test_trace.py::test_a_kernel_that_is_too_large_is_refused",
    "It runs on simulated threads": """web/test_trace.py::test_a_kernel_without_an_end_ends_and_keeps_nobody_out
        web/test_trace.py::test_a_kernel_has_a_limit_of_memory
        web/test_trace.py::test_what_cannot_be_run_is_refused_in_one_sentence
        machine/test_report.py::test_no_file_is_read_where_none_may_be""",
    "For a superuser's role": "web/test_command.py::test_a_role_that_reads_more_than_tables_takes_no_queries",
    "Tables, captures, exports, datasets, headers and documents are data": """
        web/test_attacks.py::test_a_bomb_is_refused
        fuzz/test_readers.py::test_any_change_is_read_or_refused_in_words
        web/test_command.py::test_nothing_of_the_current_folder_is_run""",
    "Every table of a database": """db/test_integrity.py::test_a_flipped_bit_is_refused_or_changes_nothing
        db/test_integrity.py::test_every_change_of_a_value_is_noticed""",
    "Lanemap replaces the file that you name": """db/test_export.py::test_no_output_replaces_a_database
        db/test_export.py::test_no_report_replaces_what_it_compares""",
    "It replaces only those folders": """web/test_site.py::test_the_site_replaces_its_own_files_only
        db/test_dataset.py::test_a_folder_of_something_else_is_refused
        db/test_dataset.py::test_what_somebody_put_into_it_stays""",
    "It runs in a process of its own": """
        importers/python/test_trouble.py::test_what_a_library_does_neither_keeps_nor_kills_the_others""",
    "So a mapping can falsify its own answers": """
        importers/python/test_trouble.py::test_what_a_library_does_neither_keeps_nor_kills_the_others""",
    "What it started is ended": "importers/python/test_trouble.py::test_nothing_that_a_library_started_goes_on",
    "Of the address of a database": """db/test_store.py::test_a_password_is_shown_nowhere
        db/test_store.py::test_an_address_that_is_nearly_right_is_refused_without_its_password
        web/test_attacks.py::test_no_answer_names_a_place_on_the_machine""",
    "Tokens are read from files": "test_threats.py::test_no_command_takes_a_token_itself",
}

#: What is said so that nobody counts on it.
NOT_DEFENDED = (
    "Who may reach what",
    "A PostgreSQL role should be able to read",
    "The server has no TLS",
    "Put a proxy before it",
    "A seal finds damage, not forgery",
    "`import python` runs the library that a mapping names, with your rights",
    "It is no sandbox against a library that means harm",
    "What starts in a session of its own",
)


def test_every_sentence_is_proved_or_says_what_is_not_defended():
    page = (ROOT / "cli" / "web" / "guide" / "threats.md").read_text("utf-8")
    paragraphs = [" ".join(paragraph.split()) for paragraph in page.split("\n\n") if not paragraph.startswith("#")]
    sentences = [sentence for part in paragraphs for sentence in re.split(r"(?<=\.) (?=[A-Z`])", part)]
    known = [*PROMISES, *NOT_DEFENDED]
    assert [sentence for sentence in sentences if sum(sentence.startswith(begin) for begin in known) != 1] == []
    assert [begin for begin in known if not any(sentence.startswith(begin) for sentence in sentences)] == []
    for test in {test for tests in PROMISES.values() for test in tests.split()}:
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in (TESTS / file).read_text("utf-8"), test


@pytest.mark.slow
def test_only_sending_a_capture_connects_to_anything():
    """Of all that is in the package, besides what a server listens with."""
    found = set()
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for inside in tracked.split():
        if inside.startswith("tests/") or not (ROOT / inside).exists():
            continue
        for node in ast.walk(ast.parse((ROOT / inside).read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found |= {(inside, name) for name in names if re.match(_NETWORK, name)}
    assert found == {
        ("cli/serve.py", "socket"),
        ("cli/web/server.py", "socket"),
    }


_NETWORK = r"(socket|socketserver|ssl|asyncio\.streams|http\.client|urllib\.request|ftplib|smtplib|httpx|requests)$"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("find", "m16n8k16", "f16", "A", "--row", "9", "--col", "3"),
        ("chain", "m16n8k16 f32 D", "m16n8k16 f16 A"),
        ("diff", "ptx-isa-9.4", "h200-sm_90a", "m16n8k256"),
        ("sql", "SELECT COUNT(*) FROM source"),
        ("import", "python", "tensor-layouts", "--db", "own.db"),
        ("export", "--shape", "m16n8k8", "--format", "parquet", "--output", "own.parquet"),
    ],
)
def test_commands_connect_to_nothing(run, monkeypatch, tmp_path, built, command):
    asked = []
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, lambda *given: asked.append(given))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **_: asked.append(given))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.db").write_bytes(built.read_bytes())
    assert run(*command).code in (0, 1)
    assert asked == []


@pytest.mark.slow
def test_other_machines_are_not_listened_to(built):
    """Another address of this machine stands for one that others reach."""
    command = [sys.executable, "-m", "lanemap", "serve", "--db", str(built), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline().split()[3].rpartition(":")[2])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port)).close()
        socket.create_connection(("127.0.0.1", port)).close()
        process.terminate()


def test_one_address_leaves_a_process_for_another(database):
    app, held = create_app(database), []
    most = app.state.workers.limits["process"][1]

    async def hold(address):
        request = Request({"type": "http", "app": app, "client": (address, 1)})
        async with Work(request)._place("process"):
            held.append(address)
            await anyio.sleep_forever()

    async def ask():
        async with anyio.create_task_group() as group:
            for _ in range(3 * most):
                group.start_soon(hold, "192.0.2.1")
            await anyio.sleep(0.1)
            assert held == most * ["192.0.2.1"]
            group.start_soon(hold, "192.0.2.2")
            await anyio.sleep(0.1)
            assert held == [*most * ["192.0.2.1"], "192.0.2.2"]
            group.cancel_scope.cancel()

    anyio.run(ask)


@pytest.mark.parametrize("option", ["--token", "--password"])
def test_no_command_takes_a_token_itself(refused, option):
    refused("serve", option, "a-secret", words=(option,))
