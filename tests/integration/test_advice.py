"""What a tuning hands over, run by the servers' own client: settings.sql, verify.sql, rollback.sql."""

from __future__ import annotations

import subprocess

import pytest

from flushlab.advice.statements import SECONDS, rollback_statements, statements_file, verification
from flushlab.build import find_build
from flushlab.record import Value
from flushlab.server import Sandbox
from tests.conftest import StartSandbox, flavors
from tests.waiting import wait_until

CHANGES: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2, "innodb_lru_scan_depth": 512}
OWN: dict[str, Value] = {"innodb_lru_scan_depth": 2048, "performance_schema": "ON"}
WRITES = 20
LOAD = "".join(f"BEGIN; INSERT INTO measured.t VALUES ({number}, 0); COMMIT;\n" for number in range(WRITES))


def client(server: Sandbox, sql: str, how: str = "--table") -> str:
    program = server.build.client or find_build("mariadb@10.11", get=False).client
    assert program is not None
    words = [program, f"--defaults-file={server.endpoint.option_file}", how]
    done = subprocess.run(words, input=sql, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def figures(output: str) -> dict[str, list[str]]:
    """The cells of the tables' rows, by their first; of a statement that is in two tables, all of them."""
    found = dict[str, list[str]]()
    for line in output.lower().splitlines():
        if line.startswith("| "):
            first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            found.setdefault(first, []).extend(cells)
    return found


def require_figures_of_between_the_readings(server: Sandbox) -> None:
    """Statements from before the first reading are in no result, those behind it are in all of them."""
    verify, sleep = verification(CHANGES, server.identity), f"DO SLEEP({SECONDS});"
    assert verify.count(sleep) == 1
    client(server, "CREATE DATABASE measured; CREATE TABLE measured.t (id INT PRIMARY KEY, v INT)")
    client(server, LOAD)
    syncs = "redo_log_syncs" if server.identity.flavor == "mysql" else "innodb_data_fsyncs"
    idle = dict[str, list[str]]()

    def is_idle() -> bool:
        idle.update(figures(client(server, verify.replace(sleep, ""))))
        return float(idle[syncs][0]) == 0

    wait_until(is_idle, "the server's own syncs after the load end")
    loaded = figures(client(server, verify.replace(sleep, LOAD.replace("(", "(1000 + "))))
    assert ("no percentiles:" in verify.lower()) == (
        server.identity.flavor == "mariadb" or server.identity.version < (8,)
    )
    has_percentiles = server.identity.flavor == "mysql" and server.identity.version >= (8,)
    for statement in ("commit", "insert, update, delete, replace"):
        assert idle[statement] == ["0.0", "null"]
        assert [float(cell) > 0 for cell in loaded[statement]] == [True] * (5 if has_percentiles else 2)
    assert float(loaded[syncs][0]) > 0


def test_a_server_without_performance_schema_is_told_first_what_will_be_missing(
    sandbox: StartSandbox,
) -> None:
    server = sandbox("mariadb@10.11", settings={"performance_schema": "OFF"})
    verify = verification(CHANGES, server.identity).replace(f"DO SLEEP({SECONDS})", "DO SLEEP(0)")
    lines = [line.strip("| ") for line in client(server, verify).splitlines() if line.startswith("| ")]
    assert lines[:2] == ["note", "performance_schema is OFF: no latencies, no syncs of each log"]
    assert lines.count("note") == 1
    assert "innodb_data_fsyncs" in "\n".join(lines).lower(), "what does not need it is told"


@pytest.mark.parametrize("name", flavors("mysql@8.0", "mysql@9.7"))
def test_binary_prepared_statements_say_that_they_have_no_percentiles(
    name: str, sandbox: StartSandbox
) -> None:
    server, sleep = sandbox(name, settings=OWN), f"DO SLEEP({SECONDS});"
    verify, row = verification(CHANGES, server.identity), "prepared, of any kind: no histogram of them"
    assert row not in figures(client(server, verify.replace(sleep, "")))
    executed = verify.replace(sleep, "SET @n2 = COALESCE(@n2, 0) - 3;")
    assert figures(client(server, executed))[row] == ["null", "null", "null"]


@pytest.mark.parametrize("name", flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", first=2))
def test_a_change_is_made_seen_measured_and_undone(name: str, sandbox: StartSandbox) -> None:
    server = sandbox(name, settings=OWN)
    require_figures_of_between_the_readings(server)
    before = server.read_back(CHANGES)
    verify = verification(CHANGES, server.identity).replace(f"DO SLEEP({SECONDS})", "DO SLEEP(0)")
    assert "| innodb_lru_scan_depth          | 2048 | 512" in client(server, verify)

    persisted = ""
    if server.identity.persists:
        server.query("SET PERSIST innodb_flush_log_at_trx_commit = 1")
        server.query("SET PERSIST_ONLY innodb_flush_method = 'fsync'")
        apply = statements_file({**CHANGES, "innodb_flush_method": "O_DIRECT"}, server.identity)
        persisted = client(server, apply, "--skip-column-names")
        assert client(server, apply, "--skip-column-names") == "", "a second run adds nothing"
    else:
        client(server, statements_file(CHANGES, server.identity))
    assert server.read_back(CHANGES) == CHANGES
    seen = client(server, verify)
    assert "| innodb_flush_log_at_trx_commit | 2    | 2" in seen
    for counter in ("questions", "handler_commit", "innodb_data_fsyncs"):
        (line,) = (line for line in seen.lower().splitlines() if line.startswith(f"| {counter} "))
        assert float(line.split("|")[2]) >= 0

    back = rollback_statements(CHANGES, OWN, before, server.identity)
    client(server, "\n".join([*back, persisted]))
    assert server.read_back(CHANGES) == before
    if server.identity.persists:
        found = server.query(
            "SELECT variable_name, variable_value FROM performance_schema.persisted_variables"
        )
        assert dict(found) == {"innodb_flush_log_at_trx_commit": "1", "innodb_flush_method": "fsync"}
