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
from flushlab.server.attached import Address, from_nodes, from_option_file
from flushlab.server.external import External, open_external
from flushlab.workload import Workload, on_data
from flushlab.workload.driven import reaching, seeded
from flushlab.workload.oltp import OltpWorkload
from flushlab.workload.parse import flag
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
    dsn: str | None,
    defaults_file: Path | str | None,
    *,
    database: str | None,
    allow_writes: bool,
    tune_server: bool,
    **not_theirs: object,
) -> Own | None:
    """What `--dsn` or `--defaults-file` names; None where neither is given.

    Args:
        dsn: of a server, or of several nodes.
        defaults_file: an option file.
        database: where the user's transactions run; the DSN's if None.
        allow_writes, tune_server: see `Own`.
        not_theirs: values of options that are for servers of flushlab's.

    Raises:
        UsageError: both are given, or a flag that does not go with them, or with neither.
    """
    if dsn is None and defaults_file is None:
        for name, given in (("--allow-writes", allow_writes), ("--tune-server", tune_server)):
            if given:
                raise UsageError(f"{name} is for a server of your own", hint="remove it, or name one: --dsn")
        return None
    names = "--dsn" if dsn is not None else "--defaults-file"
    for name in (flag(name) for name, given in not_theirs.items() if given):
        raise UsageError(
            f"{name} is for servers that flushlab starts, but {names} names one that runs", hint="remove it"
        )
    if dsn is not None and defaults_file is not None:
        raise UsageError("--dsn and --defaults-file cannot be combined", hint="give one of them")
    addresses = from_nodes(dsn) if dsn is not None else (from_option_file(Path(str(defaults_file))),)
    named = database or addresses[0].database or None
    return Own(addresses, named, allow_writes=allow_writes, tune_server=tune_server)


@contextmanager
def opened(own: Own) -> Iterator[External]:
    """The server, with all nodes of its cluster.

    Raises:
        UsageError: it is not all of a cluster.
        ServerError: it does not answer, or its cluster is not in step.
    """
    with open_external(own.addresses) as server:
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
    workload: Workload, server: External, database: str | None = None, seed: int | None = None
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
