"""What a load's limit was, and when it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from flushlab.bulk.limits import GALERA, LimitEvidence, Throttle, bound
from flushlab.errors import UsageError
from flushlab.record import ServerIdentity
from flushlab.server.control import ConnectionRefused
from tests.fakes.server import FakeServer

IDLE = LimitEvidence(
    seconds=10.0,
    cores=4,
    connections=2,
    rows=1_000_000,
    statements=20,
    commits=20,
    cpu_s=1.0,
    server_cpu_s=5.0,
    send_s=10.0,
    answer_s=5.0,
    commit_s=1.0,
)


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        ({}, "server"),
        ({"held": {"replica lag": 4.0, "flow control": 1.0}, "cpu_s": 19.0}, "replica lag"),
        ({"held": {"replica lag": 1.0}}, "server"),
        ({"cpu_s": 19.0}, "client CPU"),
        ({"server_cpu_s": 18.0}, "server CPU"),
        ({"server_cpu_s": 18.0, "connections": 8}, "server"),
        ({"server_cpu_s": 20.0, "cpu_s": 14.0, "connections": 8}, "CPU"),
        ({"pool_waits": 500}, "buffer pool"),
        ({"io_share": 0.6}, "disk"),
        ({"others_share": 0.5, "io_share": 0.6, "server_cpu_s": 10.0}, "other programs"),
        ({"others_share": 0.5, "io_share": 0.6}, "disk"),
        ({"others_share": 0.5, "commit_s": 15.0, "commits": 2000, "log_syncs": 1500}, "log syncs"),
        ({"commit_s": 15.0, "commits": 2000, "log_syncs": 1500}, "log syncs"),
        ({"commit_s": 15.0, "commits": 2000, "log_syncs": 10}, "server"),
        ({"statements": 50_000, "commits": 50_000, "rows": 50_000, "answer_s": 18.0}, "round trips"),
        ({"statements": 10_000, "answer_s": 18.0}, "server"),
        ({"statements": 10_000, "answer_s": 18.0, "server_cpu_s": None}, "round trips"),
        (
            {"statements": 5_000, "commits": 5_000, "rows": 5_000, "answer_s": 18.0, "log_syncs": 5_000},
            "log syncs",
        ),
        ({"server_cpu_s": None}, "server"),
    ],
)
def test_the_limit_is_what_the_figures_say(seen: dict[str, object], what: str) -> None:
    found = bound(msgspec.structs.replace(IDLE, **seen))
    assert found.what == what
    assert found.why


def test_what_a_server_elsewhere_takes_is_not_told() -> None:
    seen = msgspec.structs.replace(IDLE, statements=10_000, answer_s=18.0, server_cpu_s=None)
    assert bound(seen).why == "1,000 statements/s of 100 rows; client 10% of a core, 4 cores"


MARIADB = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB")
MYSQL_5 = ServerIdentity(flavor="mysql", version=(5, 7, 44), version_text="5.7.44")
MYSQL_8 = ServerIdentity(flavor="mysql", version=(8, 0, 42), version_text="8.0.42")


class Behind:
    """A replica of some sources, and how far it is behind each of them."""

    def __init__(self, *seconds: int | None, identity: ServerIdentity = MARIADB) -> None:
        self.seconds = list(seconds)
        before, statement = {
            MARIADB: (34, "SHOW ALL SLAVES STATUS"),
            MYSQL_5: (32, "SHOW SLAVE STATUS"),
            MYSQL_8: (32, "SHOW REPLICA STATUS"),
        }[identity]
        rows = {statement: lambda: [(*["x"] * before, one, "x") for one in self.seconds]}
        self.server = FakeServer(identity=identity, answers=rows)


class Case:
    """A throttle with a clock that goes on by hand."""

    def __init__(self, replicas: Mapping[str, Any] | None = None, *, galera: bool = False) -> None:
        self.now_s = 0.0
        self.paused_s, self.queued = 0.0, 0
        self.said: list[str] = []
        self.is_galera = galera
        server = FakeServer(answers={GALERA: self._cluster})
        self.throttle = Throttle(server, replicas or {}, 1.0, self.said.append, lambda: self.now_s)

    def _cluster(self) -> list[tuple[str, str]]:
        if not self.is_galera:
            return []
        paused = str(round(self.paused_s * 1e9))
        return [("wsrep_flow_control_paused_ns", paused), ("wsrep_local_recv_queue", str(self.queued))]

    def after(self, seconds: float) -> str:
        """What the load waits for after some more seconds."""
        self.now_s += seconds
        found = self.throttle.holds()
        return found.what if found is not None else ""


@pytest.mark.parametrize("identity", [MARIADB, MYSQL_5, MYSQL_8])
def test_a_load_waits_while_a_replica_is_further_behind_than_asked_for(identity: ServerIdentity) -> None:
    near, far = Behind(0, identity=identity), Behind(1, identity=identity)
    case = Case({"near": near.server, "far": far.server})
    assert case.after(1) == ""
    far.seconds = [12]
    assert [case.after(1), case.after(1)] == ["replica lag"] * 2
    far.seconds = [1]
    assert case.after(1) == ""
    assert case.said == ["waiting: far is 12 s behind", "going on after 2.0 s"]
    assert case.throttle.waited == {"replica lag": 2.0}


def test_a_replica_of_several_sources_is_as_late_as_the_latest() -> None:
    replica = Behind(0, 0)
    case = Case({"r": replica.server})
    replica.seconds = [0, 7]
    assert case.after(1) == "replica lag"


def test_a_replica_that_stopped_or_is_gone_is_waited_for_too() -> None:
    replica = Behind(0)
    case = Case({"r": replica.server})
    replica.seconds = [None]
    assert case.after(1) == "replica lag"
    assert case.said == ["waiting: r does not replicate: see SHOW ALL SLAVES STATUS there"]
    replica.seconds = [0]
    assert case.after(1) == ""
    replica.server.die("out of memory")
    assert case.after(1) == "replica lag"
    assert "is gone" in case.said[-1]


def test_a_replica_that_refuses_the_login_ends_the_load() -> None:
    refusals: list[int] = []

    def refused() -> list[tuple[Any, ...]]:
        for errno in refusals:
            raise ConnectionRefused(errno, "refused")
        return [(*["x"] * 34, 0, "x")]

    replica = FakeServer(identity=MARIADB, answers={"SHOW ALL SLAVES STATUS": refused})
    case = Case({"db2": replica})
    refusals[:] = [1040]
    assert case.after(2.0) == "replica lag", "it is full, and is asked again"
    refusals[:] = [1045]
    with pytest.raises(ConnectionRefused, match="1045"):
        case.after(2.0)


def test_a_server_that_replicates_nothing_is_refused_before_the_load() -> None:
    with pytest.raises(UsageError, match="r is not a replica"):
        Case({"r": Behind().server})


def test_replicas_are_asked_once_a_second_however_often_the_load_asks() -> None:
    replica = Behind(0)
    case = Case({"r": replica.server})
    asked = len(replica.server.statements)
    for _ in range(32):
        case.after(0.125)
    assert len(replica.server.statements) == asked + 4


def test_a_load_waits_while_a_cluster_spends_its_time_in_flow_control() -> None:
    case = Case(galera=True)
    case.paused_s = 0.05
    assert case.after(1) == ""
    case.paused_s += 0.25
    assert case.after(1) == "flow control"
    assert case.said == ["waiting: the cluster spent 25% of the time in flow control"]
    assert case.after(1) == ""


def test_a_load_waits_while_its_node_has_more_to_apply_than_flow_control_allows() -> None:
    case = Case(galera=True)
    case.queued = 17
    assert case.after(1) == "flow control"
    case.queued = 16
    assert case.after(1) == ""


def test_without_replicas_and_cluster_there_is_nobody_to_wait_for() -> None:
    assert not Case().throttle.watches
    assert Case(galera=True).throttle.watches
