"""What a tuning hands over, run by the servers' own client: settings.sql, verify.sql, rollback.sql."""

from __future__ import annotations

import subprocess

import pytest

from flushlab.advice import rollback_statements, set_statements, verification
from flushlab.advice.verification import SECONDS
from flushlab.build import find_build
from flushlab.record import Value
from flushlab.server import Sandbox
from tests.conftest import StartSandbox

CHANGES: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2, "innodb_lru_scan_depth": 512}
OWN: dict[str, Value] = {"innodb_lru_scan_depth": 2048}


def client(server: Sandbox, sql: str) -> str:
    program = find_build("mariadb@10.11", get=False).client
    assert program is not None
    words = [program, f"--defaults-file={server.endpoint.option_file}", "--table"]
    done = subprocess.run(words, input=sql, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["mariadb@10.11", "mysql@5.7", "mysql@8.0"])
def test_a_change_is_made_seen_and_undone(name: str, sandbox: StartSandbox) -> None:
    server = sandbox(name, settings=OWN)
    before = server.read_back(CHANGES)
    verify = verification(CHANGES, server.identity).replace(f"DO SLEEP({SECONDS})", "DO SLEEP(0)")
    assert "| innodb_lru_scan_depth          | 2048 | 512" in client(server, verify)

    client(server, "\n".join(set_statements(CHANGES, server.identity)))
    assert server.read_back(CHANGES) == CHANGES
    seen = client(server, verify)
    assert "| innodb_flush_log_at_trx_commit | 2    | 2" in seen
    for counter in ("questions", "handler_commit", "innodb_data_fsyncs"):
        (line,) = (line for line in seen.lower().splitlines() if line.startswith(f"| {counter} "))
        assert float(line.split("|")[2]) >= 0

    client(server, "\n".join(rollback_statements(CHANGES, OWN, before, server.identity)))
    assert server.read_back(CHANGES) == before
    if name == "mysql@8.0":
        assert server.query("SELECT * FROM performance_schema.persisted_variables") == []
        assert "p99_ms" in seen
