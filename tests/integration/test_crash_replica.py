"""Real replicas of a server that crashed: they follow what came back, or stop at what it has lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.campaign.crash.crash import crash
from flushlab.crashed import recovered_server
from flushlab.crashed.judge import ACKS_TABLE
from flushlab.crashed.recovered_server import AcksTable, make_acks_table
from flushlab.crashed.replica import listening_replica, of_killed, transaction_ends
from flushlab.datadir import DataRoot
from flushlab.errors import UsageError
from flushlab.record import ReplicaState, Value
from flushlab.server import Sandbox
from tests.waiting import wait_until

ACKS = AcksTable("flushlab_crash", 1, alone=True)
COMMITS = 5
LOGGED: dict[str, Value] = {"log_bin": "ON"}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

StartSandbox = Callable[..., Sandbox]
Damage = Callable[[Sandbox], None]


def killed(
    server: Sandbox, *, dead: Damage | None = None, back: Damage | None = None
) -> tuple[ReplicaState, ReplicaState]:
    """A replica listens to five commits; the server is killed, damaged while dead or once it is back."""
    folder = DataRoot.open().path
    make_acks_table(server, ACKS)
    with listening_replica(server, ACKS, folder) as replica:
        for number in range(1, COMMITS + 1):
            server.query(f"INSERT INTO flushlab_crash.{ACKS_TABLE} VALUES (1, {number}, 1, 'x')")
        received = replica.server.datadir
        wait_until(
            lambda: sum(map(len, transaction_ends(received).values())) == COMMITS, "it has received all"
        )
        server.query("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS")  # with the last commit, which needs no sync
        server.kill()
        replica.stop_listening()
        if dead:
            dead(server)
        server.start_again()
        if back:
            back(server)
        old, new = of_killed(server, ACKS, replica, folder)
    assert old is not None and new is not None
    return old, new


def lose_the_end_of_the_binlog(server: Sandbox) -> None:
    """As a power cut does with sync_binlog=0: of five commits two are left."""
    (file,) = server.datadir.glob("binlog.0*")
    os.truncate(file, recovered_server.ends_in(file)[1])


def lose_rows(server: Sandbox) -> None:
    """As a power cut does with innodb_flush_log_at_trx_commit=2: the binary log has what the tables lack."""
    server.query("SET SESSION sql_log_bin = 0")
    server.query(f"DELETE FROM flushlab_crash.{ACKS_TABLE} WHERE n > 3")
    server.query("SET SESSION sql_log_bin = 1")


@pytest.mark.parametrize("name", ["mariadb@10.11", "mysql@8.0"])
def test_a_replica_that_is_ahead_of_the_binary_log_is_refused(name: str, sandbox: StartSandbox) -> None:
    server = sandbox(name, settings=LOGGED)
    old, new = killed(server, dead=lose_the_end_of_the_binlog)
    assert (old.outcome, old.error, old.ahead) == ("stopped", 1236, 0), old
    assert old.lacks == 1, "what was committed after the crash"
    assert (new.outcome, new.lacks) == ("diverged", 3), new


def test_a_replica_follows_a_server_that_lost_nothing_and_stops_at_a_commit_that_it_has_already(
    sandbox: StartSandbox,
) -> None:
    server = sandbox("mariadb@10.11", settings=LOGGED)
    follows = ReplicaState(outcome="follows")
    assert killed(server) == (follows, follows)
    old, new = killed(server, back=lose_rows)
    assert (old.outcome, old.error, old.ahead) == ("stopped", 1062, 2), old
    assert (new.outcome, new.error) == ("stopped", 1062), "the binary log has the lost commits, too"


def test_a_server_without_a_binary_log_has_no_replica(build: Callable[[str], Build]) -> None:
    build(name := "mariadb@10.11")
    with pytest.raises(UsageError, match="--replica needs the binary log"):
        crash(server=name, failure="process", crashes=1, duration=0.5, replica=True)


@needs_root
def test_replicas_follow_what_a_power_cut_leaves_of_a_server_that_syncs_its_binary_log(
    build: Callable[[str], Build], tmp_path: Path
) -> None:
    build(name := "mariadb@10.11")
    (arm,) = crash(
        server=name,
        crashes=1,
        duration=1.0,
        disk_size=512,
        settings={**LOGGED, "sync_binlog": 1, "innodb_log_file_size": 10 << 20},
        replica=True,
        positive_control=False,
        save_recording=tmp_path / "records",
    ).arms
    follows = ReplicaState(outcome="follows")
    assert [(judged.replica, judged.new_replica) for judged in arm.crashes] == [(follows, follows)]
    point = arm.crashes[0].point
    (again,) = crash(server=name, replay=f"{arm.folder}:at={point.at}:seed={point.seed}").arms
    assert again.crashes[0].replica == follows, "its replica is judged, too"
