"""An account that lacks rights on somebody's own server: one refusal names all, and its hint suffices."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flushlab.bulk.fill import fill
from flushlab.campaign.bench import bench
from flushlab.errors import UsageError
from flushlab.server import Sandbox
from tests.conftest import StartSandbox, flavors

ALLOWED: dict[str, Any] = {"allow_writes": True, "allow_set_global": True}
FLUSH = {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 10}
BRIEF: dict[str, Any] = {"duration": 0.5, "threads": 2, "rate": 100}
"""A load that leaves the processors to others: what is asked here is what it may do, not how fast."""
SMALL: dict[str, Any] = {**BRIEF, "tables": 1, "table_size": 50}
TRANSACTIONS = """
database = "my_shop"
setup = "CREATE TABLE stock (id INT PRIMARY KEY, n INT); INSERT INTO stock VALUES (1, 1)"
[transaction.sell]
statements = ["UPDATE stock SET n = n + 1 WHERE id = 1", "DELETE FROM stock WHERE id = 0"]
"""
Run = Callable[[str, Path, list[str]], object]


@dataclass(frozen=True)
class Limited:
    """A server, and an account that may do nothing."""

    server: Sandbox
    dsn: str

    @property
    def databases(self) -> list[tuple[Any, ...]]:
        return self.server.query("SHOW DATABASES")


@pytest.fixture(params=flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", first=2), scope="module")
def sandbox(request: pytest.FixtureRequest, shared_sandbox: StartSandbox) -> Sandbox:
    return shared_sandbox(request.param, settings={"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 0})


@pytest.fixture
def limited(sandbox: Sandbox, private_home: Path) -> Limited:
    sandbox.query("DROP USER IF EXISTS 'o\\'app'@'127.0.0.1'")
    sandbox.query("CREATE USER 'o\\'app'@'127.0.0.1' IDENTIFIED BY 'secret'")
    return Limited(sandbox, f"mysql://o'app:secret@127.0.0.1:{sandbox.endpoint.port}/")


def sees_replication(server: Sandbox, *, alone: bool = False) -> list[str]:
    """What it takes to see whether the server is a replica; where SUPER is granted, that does."""
    if not alone and (server.build.flavor == "mariadb" or server.build.version < (8,)):
        return ["SUPER"]
    return ["SLAVE MONITOR" if server.build.flavor == "mariadb" else "REPLICATION CLIENT"]


def benched(workload: str) -> Run:
    def run(dsn: str, folder: Path, said: list[str]) -> object:
        file = folder / "shop.toml"
        file.write_text(TRANSACTIONS)
        given = BRIEF if workload == "txn:" else SMALL
        named = workload + (str(file) if workload == "txn:" else "")
        return bench(workload=named, settings=FLUSH, dsn=dsn, progress=said.append, **given, **ALLOWED)

    return run


def filled(dsn: str, folder: Path, said: list[str]) -> object:
    return fill(
        "users",
        rows=10,
        dsn=dsn,
        database="my_shop",
        create=True,
        allow_set_global=True,
        progress=said.append,
    )


@pytest.mark.parametrize(
    ("run", "there"),
    [
        pytest.param(
            benched("oltp_update_non_index"), "CREATE, DROP, INDEX, INSERT, SELECT, UPDATE", id="oltp"
        ),
        pytest.param(benched("upsert"), "CREATE, DROP, INSERT, SELECT, UPDATE", id="upsert"),
        pytest.param(benched("txn:"), "CREATE, DELETE, DROP, INSERT, SELECT, UPDATE", id="txn"),
        pytest.param(filled, "ALTER, CREATE, DROP, INSERT, SELECT, UPDATE", id="fill"),
    ],
)
def test_one_refusal_names_all_missing_rights_and_its_hint_suffices(
    limited: Limited, run: Run, there: str, tmp_path: Path
) -> None:
    before, said = limited.databases, list[str]()
    with pytest.raises(UsageError, match=r"^the account 'o\\'app'@'127\.0\.0\.1' lacks ") as refused:
        run(limited.dsn, tmp_path, said)
    assert limited.databases == before
    assert [line for line in said if "--allow-set-global" in line or "made in" in line] == []
    hint = str(refused.value.hint)
    everywhere, inside = re.findall(r"GRANT ([\w, ]+) ON", hint)
    sets = "SYSTEM_VARIABLES_ADMIN" if limited.server.build.version[:2] == (8, 0) else "SUPER"
    asked = ["PROCESS", *sees_replication(limited.server), sets]
    assert everywhere == (sets if run is filled else ", ".join(dict.fromkeys(asked)))
    assert inside == there
    for statement in hint.split("; "):
        limited.server.query(statement)
    run(limited.dsn, tmp_path, said)
    for (name,) in limited.databases:
        if name == "my_shop":
            limited.server.query("DROP DATABASE my_shop")


@pytest.mark.parametrize("way", ["database", "wildcard", "role", "all"])
def test_rights_count_however_they_were_granted(limited: Limited, way: str, tmp_path: Path) -> None:
    server, to = limited.server, "'o\\'app'@'127.0.0.1'"
    if way == "role" and server.build.version[:2] == (5, 7):
        pytest.skip("MySQL 5.7 has no roles")
    if way == "all":
        server.query(f"GRANT ALL ON *.* TO {to}")
    elif way == "role":
        for statement in ("DROP ROLE IF EXISTS loader", "CREATE ROLE loader", "GRANT ALL ON *.* TO loader"):
            server.query(statement)
        server.query(f"GRANT loader TO {to}")
        mariadb = server.build.flavor == "mariadb"
        server.query(f"SET DEFAULT ROLE loader {'FOR' if mariadb else 'TO'} {to}")
    else:
        server.query(f"GRANT ALL ON {'sbtest' if way == 'database' else '`sb%`'}.* TO {to}")
        server.query(f"GRANT {', '.join(['PROCESS', *sees_replication(server, alone=True)])} ON *.* TO {to}")
    said = list[str]()
    bench(workload="oltp_insert", dsn=limited.dsn, allow_writes=True, progress=said.append, **SMALL)
    assert any(line.startswith("made in sbtest") for line in said)


def test_a_load_on_tables_that_are_there_needs_no_right_to_make_some(limited: Limited) -> None:
    server, to = limited.server, "'o\\'app'@'127.0.0.1'"
    for statement in (
        "CREATE DATABASE sbtest",
        "CREATE TABLE sbtest.sbtest1 (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL DEFAULT 0,"
        " c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '')",
        "INSERT INTO sbtest.sbtest1 (k) VALUES (1), (2)",
        f"GRANT {', '.join(['PROCESS', *sees_replication(server, alone=True)])} ON *.* TO {to}",
        f"GRANT SELECT ON sbtest.sbtest1 TO {to}",
    ):
        server.query(statement)
    asked: dict[str, Any] = {**SMALL, "table_size": 2, "dsn": limited.dsn, "allow_writes": True}
    try:
        with pytest.raises(UsageError) as refused:
            bench(workload="oltp_update_non_index", **asked)
        assert refused.value.hint == f"GRANT UPDATE ON `sbtest`.* TO {to}"
        server.query(f"GRANT UPDATE ON sbtest.sbtest1 TO {to}")
        bench(workload="oltp_update_non_index", **asked)
    finally:
        server.query("DROP DATABASE sbtest")
