"""Waits: what a connection waits for at one moment, from its state and its statement. Pure.

States of execution and commit were seen under load, and by SHOW PROFILE SOURCE, on MySQL 5.7.22, 8.0.15 and
9.7.4 and MariaDB 10.11.19 and 11.8.9, with and without a binary log. MySQL 5.7 has no state for a commit: a
COMMIT stands in `starting`, a statement that commits by itself in `query end` (bug 76618). A statement that
reads passes the state of a commit, too, for some microseconds (ha_commit_trans in handler.cc): busy readers
are often seen in it. The states of semi-sync and Galera are those in the binaries of MySQL 9.7.4 and MariaDB
10.11.19 and 11.8.9. Percona XtraDB Cluster has words of its own for certification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from flushlab.record import ServerIdentity
from flushlab.telemetry.live.questions import ThreadState, waits_for_metadata

Wait = Literal[
    "commit", "metadata lock", "semi-sync", "certification", "flow control", "statement", "reading", "client"
]
"""Time of a connection: `statement` is a write being executed, `reading` any other statement, `client` the
client's turn."""
WAITS: tuple[Wait, ...] = get_args(Wait)

ROW_LOCK = "row lock"
"""Part of `statement`, and of `reading` by SELECT … FOR UPDATE, that no state tells; the server counts it."""
PROCESSOR = "processor"
"""Part of any wait that no state tells: a thread could go on, but for a processor. The kernel counts it."""
_WORDS = {"statement": "executing", "client": "client's turn", ROW_LOCK: "row locks"}


def wait_words(wait: str) -> str:
    return _WORDS.get(wait, wait)


_WRITES = frozenset(("insert", "update", "delete", "replace", "load"))
_COMMITS: Mapping[str, str] = {
    "waiting for handler commit": "MySQL 8.0 and later: ha_commit_trans in handler.cc",
    "Waiting for Binlog Group Commit ticket": "MySQL 8.0.31 and later: rpl_commit_stage_manager.cc",
    "Waiting for preceding transaction to commit": "MySQL: a replica, rpl_slave_commit_order_manager.cc",
    "Commit": "MariaDB: trans_commit and trans_commit_stmt in transaction.cc",
    "Commit implicit": "MariaDB: trans_commit_implicit in transaction.cc",
    "Waiting for prior transaction to commit": "MariaDB: order of a group, wait_for_commit in sql_class.cc",
    "Waiting for prior transaction to start commit": "MariaDB: order of a replica's workers, rpl_parallel.cc",
    "Updating status": "MariaDB since 10.6, no binary log: do_command in sql_parse.cc awaits the sync",
    "Freeing items": "the same in a pool of threads, or between the statements of a packet",
    "Writing to binlog": "MariaDB: XA and DDL, MYSQL_BIN_LOG::write in log.cc",
}
"""States of commits, and their sources."""
_ENDS = frozenset(("commit", "xa"))
_ALSO_END = frozenset(("begin", "start", "rollback"))
"""Statements that end the transaction before them, which takes a sync (a ROLLBACK on MySQL). Readers use
them, too."""
_READS = frozenset(
    (
        *("select", "(select", "with", "table", "values"),
        *("show", "set", "do", "explain", "describe", "desc", "use"),
    )
)
_STATES: dict[str, Wait] = {
    "Waiting for semi-sync ACK from slave": "semi-sync",
    "Waiting for semi-sync ACK from replica": "semi-sync",
    "Waiting for certification": "certification",
    "Waiting for flow control": "flow control",
}
_WRITING = frozenset(
    ("update", "updating", "updating main table", "updating reference tables", "deleting from main table")
)
"""In small letters: states of statements that write, whatever comment their text begins with."""
BACKGROUND = frozenset(
    ("Daemon", "Binlog Dump", "Binlog Dump GTID", "Connect", "Slave_IO", "Slave_SQL", "Slave_worker")
)
_CLIENT_S = 1
"""A connection that has slept for longer is not in the middle of its work."""


def wait_of(seen: ThreadState, identity: ServerIdentity) -> Wait | None:
    if seen.command in BACKGROUND:
        return None
    if seen.command == "Sleep":
        return "client" if seen.seconds < _CLIENT_S else None
    if waits_for_metadata(seen.state):
        return "metadata lock"
    if (known := _STATES.get(seen.state)) is not None:
        return known
    if seen.state.startswith("wsrep: ") and ("certif" in seen.state or "replicat" in seen.state):
        return "certification"
    if _commits(seen) or seen.verb in _ALSO_END:
        return "commit"
    if _writes(seen):
        ends = seen.state == "query end" and identity.flavor == "mysql" and identity.version < (8, 0)
        return "commit" if ends else "statement"
    return "reading" if seen.verb else None


def is_write(seen: ThreadState) -> bool:
    return _writes(seen) or _commits(seen)


def _commits(seen: ThreadState) -> bool:
    return seen.verb in _ENDS or (seen.state in _COMMITS and seen.verb not in _READS)


def _writes(seen: ThreadState) -> bool:
    return seen.verb in _WRITES or seen.state.lower() in _WRITING


LONG_S = 2
"""Shorter times are those of a server that works."""


class Longest:
    def __init__(self) -> None:
        self._noted: dict[tuple[bool, int], tuple[float, ThreadState]] = {}

    def note(self, at_s: float, states: Iterable[ThreadState]) -> None:
        for state in states:
            if state.seconds < LONG_S:
                continue
            if state.command in BACKGROUND and not waits_for_metadata(state.state):  # a replica's applier may
                continue
            key = state.command == "Sleep", state.id
            if key not in self._noted or self._noted[key][1].seconds <= state.seconds:
                self._noted[key] = at_s, state

    def forget(self, until_s: float) -> None:
        self._noted = {key: noted for key, noted in self._noted.items() if noted[0] >= until_s}

    def found(self, *, asleep: bool) -> Mapping[int, ThreadState]:
        return {number: state for (sleeps, number), (_, state) in self._noted.items() if sleeps == asleep}
