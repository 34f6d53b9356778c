"""Replicated: whether replicas can go on with what came back from a crash. Sits in `crashed`.

Two real replicas are attached to the recovered server. The first had followed the server before the crash,
and has the events received by then. The second is new, and follows from the beginning of the binary log. When
both have received everything, or were refused, each connection of the load commits once more, as an
application would. The commit has the number after the connection's last one in the recovered server's tables.
Then all rows are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from flushlab.crashed.acks import TABLE
from flushlab.crashed.binlog import Unreadable
from flushlab.crashed.received import Received, all_received
from flushlab.crashed.recovered_server import AcksTable, said
from flushlab.crashed.replica import Replica, Source
from flushlab.datadir import DataRoot
from flushlab.datadir.restore import copy_tree
from flushlab.errors import FlushlabError
from flushlab.process.passing import passing_folder
from flushlab.record import ReplicaOutcome, ReplicaState
from flushlab.server import Sandbox

Commit = tuple[int, int]
"""Connection and counter."""


def of_crash_image(
    server: Sandbox,
    acks: AcksTable | None,
    received: Received | None,
    at: int,
    work: Path,
    moment_ns: int | None = None,
) -> tuple[ReplicaState, ReplicaState] | tuple[None, None]:
    """What becomes of replicas of a server that came back on a crash image.

    Args:
        received: by the replica that had listened; None: none had.
        at: record that the run was cut at.
        moment_ns: as of `Received.before`.
        work: an existing folder, for the replicas' data.

    Returns:
        Of the one that had listened, and of a new one; nothing where there is nothing to look at.
    """
    if received is None or acks is None or not server.alive():
        return None, None
    try:
        with passing_folder(work, "replica", mode=0o711) as folder:
            copy_tree(received.datadir, folder / "data")
            root = DataRoot.open(work)
            with (
                Replica.adopt(server.build, server.settings, folder / "data", root) as old,
                Replica.start(server.build, server.settings, acks, root, number=3) as new,
            ):
                old.apply(received.before(at, moment_ns))
                return attach(server, acks, old, new)
    except (FlushlabError, OSError) as error:
        return unknown(str(error)), unknown(str(error))


def of_killed(
    server: Sandbox, acks: AcksTable, old: Replica, folder: Path
) -> tuple[ReplicaState, ReplicaState] | tuple[None, None]:
    """The states of two replicas of a server that came back from a kill.

    The first had received events until the kill; the second is new, with its data in the folder.
    """
    if not server.alive():
        return None, None
    try:
        with Replica.start(server.build, server.settings, acks, DataRoot.open(folder), number=3) as new:
            old.apply(all_received(old.server.datadir))
            return attach(server, acks, old, new)
    except (FlushlabError, Unreadable, OSError) as error:
        return unknown(str(error)), unknown(str(error))


def attach(server: Sandbox, acks: AcksTable, old: Replica, new: Replica) -> tuple[ReplicaState, ReplicaState]:
    """What becomes of both replicas of a recovered server that goes on with new commits.

    Args:
        server, acked_inserts: the recovered server and its acknowledgement table.
        old: it has applied what it had received.
        new: it has the empty acknowledgement table.

    Raises:
        ServerError: one of the three does not answer.
    """
    source = Source(server)
    there = rows(server, acks)
    ahead = len(rows(old.server, acks).keys() - there.keys())
    old.follow(source)
    new.follow(source)
    _go_on(server, acks, there)
    states = [replica.await_all(source) for replica in (old, new)]
    there = rows(server, acks)
    found = [rows(replica.server, acks) for replica in (old, new)]
    of_old, of_new = (
        judge(there, one, status.error, status.said) for one, status in zip(found, states, strict=True)
    )
    return msgspec.structs.replace(of_old, ahead=ahead), of_new


def judge(
    source: Mapping[Commit, object], replica: Mapping[Commit, object], error: int = 0, words: str = ""
) -> ReplicaState:
    """What a replica came to.

    Args:
        source, replica: the rows that they have in the end, by commit.
        error, words: that stopped it; 0: none did.
    """
    goes_on: ReplicaOutcome = "follows" if source == replica else "diverged"
    return ReplicaState(
        outcome="stopped" if error else goes_on,
        lacks=len(source.keys() - replica.keys()),
        error=error,
        said=said(words) if words else "",
    )


def unknown(why: str) -> ReplicaState:
    """It could not be looked at."""
    return ReplicaState(outcome="unknown", said=said(why))


def rows(server: Sandbox, acks: AcksTable) -> Mapping[Commit, tuple[int, int]]:
    """Rows of the acknowledgement table, by commit: their number and a sum over them."""
    found: Sequence[tuple[int, int, int, int]] = server.query(
        "SELECT c, n, COUNT(*), BIT_XOR(CRC32(CONCAT(part, ' ', pad)))"
        f" FROM {acks.database}.{TABLE} GROUP BY c, n"
    )
    return {(int(c), int(n)): (int(count), int(total)) for c, n, count, total in found}


def _go_on(server: Sandbox, acks: AcksTable, there: Mapping[Commit, object]) -> None:
    last: dict[int, int] = {}
    for connection, counter in there:
        last[connection] = max(last.get(connection, 0), counter)
    for connection, counter in (last or {1: 0}).items():
        values = ", ".join(
            f"({connection}, {counter + 1}, {part}, 'after the crash')" for part in range(1, acks.rows + 1)
        )
        server.query(f"INSERT INTO {acks.database}.{TABLE} (c, n, part, pad) VALUES {values}")
