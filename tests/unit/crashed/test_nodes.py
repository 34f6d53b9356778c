"""Nodes of a cluster after a crash, invented: each and as one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.crashed import recovered_server as looked_at
from flushlab.crashed.judge import Commits, Note, RecoveredServer, judge
from flushlab.crashed.measured import counts
from flushlab.crashed.recovered_server import AcksTable, Seen, as_one, see, way_back
from flushlab.errors import NoSpace, ServerDied, ServerError
from flushlab.record import Crash, CrashNode, CrashPoint
from flushlab.server.control import StatementFailed

POINT = CrashPoint(at=0, kind="random", seed=1)
NOTES = [Note(1, counter, 0, counter * 1_000_000_000) for counter in range(1, 6)]
"""Five acknowledged commits of one connection."""


def seen(number: int, commits: int, checksum: int = 1) -> Seen:
    return Seen(number, RecoveredServer({1: Commits(commits, commits)}), checksum)


def judged(*nodes: Seen, others: tuple[Crash, ...] = ()) -> Crash:
    known = [CrashNode(number=one.number, crashed=True, way="ist", outcome="unknown") for one in nodes]
    return as_one(POINT, NOTES, 6_000_000_000, nodes, known, others)


def test_a_cluster_whose_nodes_all_have_everything_kept_it() -> None:
    crash = judged(seen(1, 5), seen(2, 5))
    assert (crash.outcome, crash.lost, crash.reasons) == ("kept", 0, ())
    assert [(node.number, node.outcome) for node in crash.nodes] == [(1, "kept"), (2, "kept")]


def test_a_cluster_whose_nodes_agree_on_less_has_lost_the_rest() -> None:
    crash = judged(seen(1, 3), seen(2, 3))
    assert (crash.outcome, crash.lost, crash.lost_s) == ("lost", 2, 2.0)


@pytest.mark.parametrize("other", [seen(2, 4), seen(2, 5, checksum=2)])
def test_nodes_that_differ_are_inconsistent_whatever_one_of_them_has(other: Seen) -> None:
    crash = judged(seen(1, 5), other)
    assert crash.outcome == "inconsistent"
    assert crash.reasons[0].startswith("the nodes differ: node 1 has 5 commits, node 2 has")


def test_what_a_node_that_stayed_lacked_is_lost_even_if_a_node_that_came_back_had_it() -> None:
    before = judge(POINT, NOTES, 6_000_000_000, RecoveredServer({1: Commits(4, 4)}))
    crash = judged(seen(1, 5), seen(2, 5), others=(before,))
    assert (crash.outcome, crash.lost) == ("lost", 1)


@pytest.mark.parametrize(
    ("said", "way"),
    [
        ("WSREP: State transfer required:\nWSREP_SST: [INFO] rsync IST completed on joiner (2026)", "ist"),
        ("WSREP: State transfer required:\nWSREP_SST: [INFO] rsync SST completed on joiner (2026)", "sst"),
        ("WSREP: Member 0.0 (c-1) synced with group.", "none"),
    ],
)
def test_how_a_node_came_back_is_in_its_log(said: str, way: str) -> None:
    assert way_back(said) == way


def cluster_that_answers(monkeypatch: pytest.MonkeyPatch, error: Exception, *, killed: bool = False) -> Any:
    """Two nodes; the second one answers with an error."""
    one, two = (SimpleNamespace(was_killed=killed, query=lambda _: [("", 1)]) for _ in range(2))

    def look(node: Any, _: AcksTable) -> RecoveredServer:
        if node is two:
            raise error
        return RecoveredServer({1: Commits(5, 5)})

    monkeypatch.setattr(looked_at, "look", look)
    monkeypatch.setattr(looked_at, "dies", lambda _: "dying" in str(error))
    return SimpleNamespace(nodes=[one, two], settled=lambda: None)


ACKS = AcksTable("flushlab_crash", 1)


@pytest.mark.parametrize(
    "error",
    [
        StatementFailed(1034, "Index for table 'flushlab_acks' is corrupt", "SELECT c"),
        ServerDied("its log says:\n2026-11-25  2:00:00 0 [ERROR] InnoDB: the index is corrupt"),
        ServerError("no answer from a server that is dying: corrupt"),
    ],
)
def test_a_node_that_cannot_read_its_tables_is_inconsistent_and_counts(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    crash = judged(*see(cluster_that_answers(monkeypatch, error), ACKS))
    assert crash.outcome == "inconsistent"
    (reason,) = crash.reasons
    assert reason.startswith("node 2 cannot read its tables: ")
    assert "corrupt" in reason
    assert [node.outcome for node in crash.nodes] == ["kept", "inconsistent"]
    assert counts([crash]).bound_95 == 1


@pytest.mark.parametrize(
    ("error", "killed", "kind"),
    [
        (StatementFailed(1021, "Disk full", "SELECT c"), False, StatementFailed),
        (StatementFailed(1047, "WSREP has not yet prepared node", "SELECT c"), False, StatementFailed),
        (ServerError("the server does not answer within 600 s"), False, ServerError),
        (NoSpace("the disk is full"), False, NoSpace),
        (ServerDied("gone"), True, NoSpace),
    ],
)
def test_a_node_that_cannot_be_asked_says_nothing_of_its_data(
    monkeypatch: pytest.MonkeyPatch, error: Exception, killed: bool, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        see(cluster_that_answers(monkeypatch, error, killed=killed), ACKS)
