"""Outputs of real servers, written to files as people do: the doctor reads them as it reads the servers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pymysql
import pytest

from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.diagnosis.files.folder import read
from flushlab.diagnosis.files.samples import evidence_of
from flushlab.server import Sandbox
from tests.conftest import flavors
from tests.unit.diagnosis.files.outputs import box, processlists, tabs, vertical
from tests.waiting import wait_until

SERVERS = flavors(
    "mariadb@10.11", "mysql@5.7", "mysql@8.0", "mysql@9.7", "mariadb@11.8", "mariadb@11.4", first=3
)
LOOKS = 6


def connected(server: Sandbox) -> Any:
    own = server.endpoint
    return pymysql.connect(unix_socket=own.socket, user=own.user, password=own.password)


def records(cursor: Any, sql: str) -> list[dict[str, str]]:
    cursor.execute(sql)
    names = [column[0] for column in cursor.description]
    return [
        {name: "NULL" if value is None else str(value) for name, value in zip(names, row, strict=True)}
        for row in cursor.fetchall()
    ]


def pairs(cursor: Any, sql: str) -> dict[str, str]:
    cursor.execute(sql)
    return {str(name): str(value) for name, value in cursor.fetchall()}


def collected(server: Sandbox, folder: Path) -> Diagnosis:
    """What a person would collect, until Uptime has grown."""
    connection = connected(server)
    with connection.cursor() as cursor:
        statuses = [pairs(cursor, "SHOW GLOBAL STATUS")]
        lists: list[Sequence[dict[str, str]]] = []
        while len(lists) < LOOKS or statuses[-1]["Uptime"] == statuses[0]["Uptime"]:
            lists.append(records(cursor, "SHOW FULL PROCESSLIST"))
            time.sleep(0.1)
            statuses.append(pairs(cursor, "SHOW GLOBAL STATUS"))
        (folder / "status").write_text("".join(map(box, (statuses[0], statuses[-1]))))
        (folder / "processlist").write_text(processlists(lists))
        (folder / "innodb").write_text(vertical(records(cursor, "SHOW ENGINE INNODB STATUS")))
        (folder / "variables").write_text(tabs(pairs(cursor, "SHOW GLOBAL VARIABLES")))
    connection.close()
    return diagnose(evidence_of(read(folder)))


@pytest.fixture
def held(shared_sandbox: Any, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A server where one connection holds a row that another waits for."""
    server: Sandbox = shared_sandbox(request.param)
    server.query("CREATE DATABASE IF NOT EXISTS files")
    server.query("CREATE TABLE files.t (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB")
    server.query("INSERT INTO files.t VALUES (1, 0), (2, 0)")
    holder, waiter = connected(server), connected(server)
    with holder.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE files.t SET n = n + 1")
    waiter._execute_command(3, b"UPDATE files.t SET n = n + 1 WHERE id = 1")  # its answer comes later
    sql = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
    # InnoDB makes the table anew only if nobody has read it for 0.1 s.
    wait_until(lambda: server.query(sql)[0][0] == 1, "one waits for the row", pause_s=0.2)
    yield server
    holder.rollback()
    holder.close()
    waiter.close()
    server.query("DROP DATABASE files")


@pytest.mark.parametrize("held", SERVERS, indirect=True)
def test_files_of_a_server_tell_what_the_server_does(held: Sandbox, tmp_path: Path) -> None:
    found = collected(held, tmp_path)
    evidence = found.evidence
    assert evidence.identity.version == held.identity.version
    assert evidence.identity.flavor == held.identity.flavor
    (monitor,) = evidence.monitors
    assert not monitor.absent
    assert monitor.checkpoint_age is not None and monitor.history_length is not None
    assert sorted((one.waits, one.rows_locked > 0) for one in monitor.transactions) == [
        (False, True),
        (True, True),
    ]
    assert evidence.time.writers == 1
    assert evidence.time.connections["row lock"] == 1.0
    assert found.findings[0].name == "row_locks"
    assert found.floor.startswith("strict")
    assert found.not_judged == ("the machine: its side is in pt-stalk's samples",)
