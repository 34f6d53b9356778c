"""`flushlab fill` of a server of one's own with a replica behind it."""

from __future__ import annotations

import pytest

from flushlab.bulk import limits
from flushlab.bulk.limits import replica_lag_s
from flushlab.errors import ServerError, UsageError
from flushlab.server import Sandbox
from tests.conftest import StartSandbox
from tests.integration.fill.target import Target
from tests.waiting import PATIENCE_S, wait_until

RELAXED = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}
ROWS = 8_000


@pytest.fixture(scope="module")
def mariadb(shared_sandbox: StartSandbox) -> Sandbox:
    source = shared_sandbox(settings={**RELAXED, "log_bin": "ON", "server_id": 11})
    source.query("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'")
    source.query("GRANT ALL ON *.* TO app@'127.0.0.1'")
    return source


@pytest.fixture(scope="module")
def replica(mariadb: Sandbox, shared_sandbox: StartSandbox) -> Sandbox:
    replica = shared_sandbox(settings={**RELAXED, "server_id": 22}, connects=True)
    replica.query(
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={mariadb.endpoint.port}, MASTER_USER='app',"
        " MASTER_PASSWORD='secret'"
    )
    replica.query("START SLAVE")
    (file, position, *_) = mariadb.query("SHOW MASTER STATUS")[0]
    # Zero seconds behind is also what a replica says that has not yet been sent anything.
    assert replica.query(f"SELECT MASTER_POS_WAIT('{file}', {position}, {PATIENCE_S})")[0][0] >= 0
    wait_until(lambda: replica_lag_s(replica) == [0], "the replica follows")
    return replica


def dsn(server: Sandbox, database: str = "") -> str:
    return f"mysql://app:secret@127.0.0.1:{server.endpoint.port}/{database}"


def test_a_load_waits_for_its_replica_and_then_goes_on(
    target: Target, replica: Sandbox, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SAMPLE_EVERY_S", 0.0)
    replica.query("STOP SLAVE SQL_THREAD")
    committed: list[int] = []
    reasons: list[str] = []

    def let_go(line: str) -> None:
        if line.startswith("waiting: "):
            # Later waits are for the lag of a slow machine: seconds behind, with the SQL thread running.
            reasons.append(line)
            replica.query("START SLAVE SQL_THREAD")
        if line.startswith("going on after"):
            committed.append(target.count())

    done = target.fill(
        ROWS,
        dsn=dsn(target.server, target.database),
        replica=[dsn(replica)],
        method="insert",
        threads=2,
        progress=let_go,
    )
    assert "does not replicate" in reasons[0]
    assert committed and committed[0] < ROWS
    assert done.waited["replica lag"] > 0
    assert (done.rows, target.is_whole(ROWS)) == (ROWS, True)
    wait_until(
        lambda: replica.query(f"SELECT COUNT(*) FROM {target.database}.users") == [(ROWS,)],
        "the replica has the rows",
    )


def test_a_replica_that_is_not_named_is_told_of(target: Target, replica: Sandbox) -> None:
    done = target.fill(10, dsn=dsn(target.server, target.database))
    (told,) = [warning.text for warning in done.warnings if warning.slug == "replicas"]
    assert "--replica" in told and done.waited == {}


def test_a_server_that_replicates_nothing_is_refused_before_anything_is_loaded(
    target: Target, replica: Sandbox
) -> None:
    where = dsn(target.server, target.database)
    with pytest.raises(UsageError, match="is not a replica"):
        target.fill(10, dsn=where, replica=[dsn(target.server)])
    with pytest.raises(ServerError, match="does not answer"):
        target.fill(10, dsn=where, replica=["mysql://app:secret@127.0.0.1:1"])
    assert target.server.query(f"SHOW DATABASES LIKE '{target.database}'") == []


def test_an_account_that_may_not_ask_a_replica_is_told_what_it_lacks(
    target: Target, replica: Sandbox
) -> None:
    replica.query("CREATE OR REPLACE USER plain@'127.0.0.1' IDENTIFIED BY 'secret'")
    where = dsn(replica).replace("app:", "plain:")
    with pytest.raises(ServerError, match="SLAVE MONITOR"):
        target.fill(10, dsn=dsn(target.server, target.database), replica=[where])


def test_a_sandbox_has_no_replicas_to_wait_for(target: Target, replica: Sandbox) -> None:
    with pytest.raises(UsageError, match="leaves out the binary log"):
        target.fill(10, replica=[dsn(replica)])
