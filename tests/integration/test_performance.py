"""What real servers tell of their own work: files, statements, stages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flushlab.build import Build
from flushlab.record import Performance
from flushlab.server import Sandbox
from flushlab.server.control import connect
from flushlab.telemetry import Observation, observe, performance
from tests.conftest import flavors

SERVERS = flavors(
    "mariadb@10.11", "mysql@8.0", "mysql@5.7", "mysql@9.7", "mariadb@11.8", "mariadb@11.4", first=2
)
INSERTS = 20
DDL = (
    "CREATE DATABASE app",
    "USE app",
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(50))",
    *["INSERT INTO t (a, b) VALUES (1, 'x')"] * INSERTS,
    "CREATE INDEX ix ON t (a)",
    "ALTER TABLE t FORCE",
    "CREATE TABLE gone (a INT PRIMARY KEY)",
    "DROP TABLE gone",
)

StartSandbox = Callable[..., Sandbox]


def migrate(server: Sandbox) -> None:
    with connect(server.endpoint, "socket") as connection, connection.cursor() as cursor:
        for statement in DDL:
            cursor.execute(statement)


def watched(server: Sandbox) -> tuple[Performance, Observation]:
    seen = Observation()
    with observe(server, seen):
        migrate(server)
    assert seen.performance is not None
    return seen.performance, seen


@pytest.mark.parametrize("name", SERVERS)
def test_switched_on_every_server_tells_files_statements_and_stages(name: str, sandbox: StartSandbox) -> None:
    server = sandbox(name, settings={**performance.SETTINGS, "innodb_flush_log_at_trx_commit": 1})
    assert performance.switch_on(server)
    told, seen = watched(server)
    assert told.untold == {}
    kinds = {one.kind: one for one in told.statements_by_kind}
    assert (kinds["insert"].count, kinds["insert"].rows_affected) == (INSERTS, INSERTS)
    assert (kinds["alter_table"].count, kinds["create_index"].count, kinds["create_table"].count) == (1, 1, 2)
    assert (kinds["alter_table"].seconds or 0) > 0
    assert not kinds.keys() & {"show_status", "show_variables"}, "flushlab's own do not count"
    assert {one.stage for one in told.stages} > {"innodb/alter table (log apply table)", "sql/Opening tables"}
    table = next(one for one in told.io_by_file if one.file == "app/t.ibd")
    assert (table.kind, table.seconds is not None) == ("data", True)
    removed = [one.file for one in told.io_by_file if not one.files]
    assert "removed files of class data" in removed, "what ALTER and DROP left behind"
    if seen.watched.fsyncs:  # the kernel counts them here
        redo = sum(one.fsyncs or 0 for one in told.io_by_file if one.kind == "redo")
        assert redo == seen.watched.fsyncs["redo"] >= INSERTS
        total = sum(one.fsyncs or 0 for one in told.io_by_file)
        assert total == sum(seen.watched.fsyncs.values()), "every sync has its file"


@pytest.mark.parametrize("name", ["mysql@5.7", "mariadb@10.11"])
def test_as_a_server_comes_what_it_does_not_tell_is_said(name: str, sandbox: StartSandbox) -> None:
    told, _ = watched(sandbox(name))
    kinds = {one.kind: one for one in told.statements_by_kind}
    assert (kinds["insert"].count, kinds["alter_table"].count) == (INSERTS, 1)
    if name.startswith("mariadb"):
        assert told.untold.keys() == {"io_by_file", "statements_by_kind", "stages"}
        assert kinds["insert"].seconds is None and told.stages == ()
    else:
        assert told.untold.keys() == {"stages"}, "MySQL has the rest on"
        assert "instruments stage/% are on" in told.untold["stages"]
        assert [one for one in told.stages if one.stage.startswith("innodb/alter table")]


def test_where_it_is_off_nothing_is_switched_on(sandbox: StartSandbox, build: Callable[[str], Build]) -> None:
    assert performance.switch_on(sandbox("mariadb@10.11")) is False
