"""External: somebody's own server or cluster, as `bench` and `compare` may use it.

Sits in `campaign`. Reading needs no permission. Writing rows takes --allow-writes, and changing settings
takes --tune-server: both are undone at the end, whatever ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flushlab.campaign.facts import EXTERNAL
from flushlab.errors import UsageError
from flushlab.record import Warning
from flushlab.server.remote.group import RemoteGroup, open_group
from flushlab.server.remote.server import Address, from_nodes, from_option_file
from flushlab.spec.option import flag
from flushlab.spec.parts import RemoteAccess, WorkloadSpec
from flushlab.workload import Workload, on_data
from flushlab.workload.driven import reaching, seeded
from flushlab.workload.oltp import OltpWorkload
from flushlab.workload.txn import TxnWorkload
from flushlab.workload.upsert import UpsertWorkload

Load = OltpWorkload | UpsertWorkload | TxnWorkload


@dataclass(frozen=True)
class Own:
    """Somebody's own server, as it was named.

    Attributes:
        addresses: of it, or of nodes of its cluster.
        database: of the user's transactions, or None.
        allow_writes: the load may write.
        tune_server: settings may be changed.
    """

    addresses: tuple[Address, ...]
    database: str | None
    allow_writes: bool
    tune_server: bool


def own_server(
    remote: RemoteAccess, database: str | None = None, workload: WorkloadSpec | None = None
) -> Own | None:
    """The server of somebody's own that was named; None where none is.

    Args:
        remote: where it is, and what may be done there.
        database: where the user's transactions run; the DSN's if None.
        workload: what writes; how it reaches the server is a matter of the DSN.

    Raises:
        UsageError: an address that is none, or an option of the load that does not go with it.
    """
    if not remote.named_by:
        return None
    for name in ("ssl_mode", "ssl_ca"):
        if workload is not None and name in workload.options:
            raise UsageError(
                f"{flag(name)} is for servers that flushlab starts, but {remote.named_by} names one that"
                " runs",
                hint="remove it",
            )
    if remote.dsn is not None:
        addresses = from_nodes(remote.dsn)
    else:
        addresses = (from_option_file(Path(str(remote.defaults_file))),)
    named = database or addresses[0].database or None
    return Own(addresses, named, allow_writes=remote.allow_writes, tune_server=remote.tune_server)


def settled_access(own: Own | None, name: str) -> RemoteAccess:
    """The access to somebody's own server as a campaign keeps it: without its account, with all permissions.

    Args:
        own: the server that was named; None: none was.
        name: of the server that was found there.
    """
    if own is None:
        return RemoteAccess()
    nodes = name.replace(", ", ",")
    return RemoteAccess(dsn=f"mysql://USER:PASSWORD@{nodes}", allow_writes=True, tune_server=True)


@contextmanager
def opened(own: Own) -> Iterator[RemoteGroup]:
    """The server, with all nodes of its cluster.

    Raises:
        UsageError: it is not all of a cluster.
        ServerError: it does not answer, or its cluster is not in step.
    """
    with open_group(own.addresses) as server:
        yield server


def doubts(later: Iterable[str] = ()) -> Iterator[Warning]:
    """What is to be said of figures of somebody's server.

    Args:
        later: names of changed settings whose effect comes later than a turn.
    """
    text = (
        "this is not flushlab's own server: whatever else it does affects the figures, and its host cannot be"
        " seen"
    )
    yield Warning(EXTERNAL, text)
    for name in later:
        text = f"the effect of {name} shows later, in background work, which short turns cannot measure"
        yield Warning("shows-later", text, name)


def driving(
    workload: Workload, server: RemoteGroup, database: str | None = None, seed: int | None = None
) -> Load:
    """The workload as it reaches the server, with draws of its own: rows that are set to what an earlier run
    has set them to cost next to nothing.

    Args:
        workload: it.
        server: where.
        database: of the user's transactions, or None.
        seed: of the draws; a random one if None.

    Raises:
        UsageError: no load of the engine.
    """
    if not isinstance(workload, OltpWorkload | UpsertWorkload | TxnWorkload):
        raise UsageError(
            f"{workload.name} is for servers that flushlab starts",
            hint="your own server takes sysbench's workloads, upsert and txn:FILE",
        )
    address = server.address
    found = reaching(workload, address.transport, address.ssl_mode, address.ssl_ca)
    load = seeded(on_data(found, database) if database else found, seed)
    assert isinstance(load, OltpWorkload | UpsertWorkload | TxnWorkload), "what the engine drives"
    return load


def require_same_place(stored: str, own: Own | None) -> None:
    """Makes sure that a campaign that goes on runs where it ran.

    Args:
        stored: where somebody's own server was; empty if flushlab started them.
        own: the server that is named now.

    Raises:
        UsageError: it ran on somebody's own server that is not named again, or on none.
    """
    if bool(stored) == bool(own):
        return
    if stored:
        raise UsageError(
            f"the campaign runs on your own server, {stored}: its password is not stored",
            hint="name it again with --dsn or --defaults-file, and what it may be used for",
        )
    raise UsageError("the campaign runs on servers that flushlab starts", hint="give --resume alone")
