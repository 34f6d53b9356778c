"""Recover: how far a killed node has come, by `mariadbd --wsrep-recover`. Sits in `server`."""

from __future__ import annotations

import signal

from flushlab.errors import StartFailed
from flushlab.process import Guard
from flushlab.server.sandbox import failures, log
from flushlab.server.sandbox.grastate import NOWHERE, State, recovered
from flushlab.server.sandbox.sandbox import Sandbox

_LIMIT_S = 900.0


def recover(node: Sandbox) -> State:
    """The position that InnoDB recovers to; the server runs for as long as that takes and ends.

    A node without data has none.

    Raises:
        StartFailed: InnoDB cannot recover; carries what the server said. Or it is `unfinished`.
        NoSpace, NoMemory, LibraryMissing: this machine lacks something.
    """
    assert node.membership is not None, "only a cluster's node has a position"
    if not (node.datadir / "ibdata1").is_file():
        return NOWHERE  # its data are gone: it takes another node's
    before = log.size(node.log)
    with Guard(f"{node.name}.recover") as guard:
        process = guard.spawn(
            [*node.build.command, f"--defaults-file={node.folder / 'my.cnf'}", "--wsrep-recover"],
            log=node.log,
            cwd=node.datadir,
            environment=node.membership.environment(node.build),
            network="host",  # it tries whether somebody answers at the socket that the killed node left
        )
        code = process.wait(_LIMIT_S)
    said = log.since(node.log, before)
    if code == 0:
        return recovered(said)
    what = f"the server {node.build.name}"
    if code is None:
        error = StartFailed(f"{what} had not recovered {node.name} after {_LIMIT_S:.0f} s")
        error.unfinished = True
        raise error
    if code == -signal.SIGKILL:
        raise failures.killed(what, f" while it recovered {node.name}")
    how = f"could not recover {node.name} ({failures.ending(code)})"
    failed = failures.start_failed(node.build, node.endpoint, node.settings, said, how)
    if isinstance(failed, StartFailed):
        failed.hint = (
            f"empty {node.datadir} and start the cluster again: the node then copies another one's data,"
            " and what it alone had is lost"
        )
    raise failed
