"""Remote use: what a run needs and changes of the user's own server, and how the change is undone.

Sits in `campaign.pool`, below `remote`. Before anything is written it says what will change, where and
for how long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from flushlab.campaign.pool.protocol import Use
from flushlab.errors import FlushlabError, MeasurementError, UsageError
from flushlab.progress import Progress
from flushlab.record import Value
from flushlab.server.protocol import replicas_of, sources_of
from flushlab.server.remote.made_tables import made_tables
from flushlab.server.remote.put_back import Changes
from flushlab.server.remote.rights import Needs, require_rights
from flushlab.server.remote.server import RemoteGroup, RemoteServer, require_alike
from flushlab.server.sql import quoted
from flushlab.spec.parts import RemoteAccess
from flushlab.trial.runner import restart_settings
from flushlab.undo import Undo
from flushlab.units import counted, format_seconds
from flushlab.workload.engine import errno_of
from flushlab.workload.sql import TxnWorkload
from flushlab.workload.tables import READ_ONLY, WRITES, OltpWorkload, UpsertWorkload
from flushlab.workload.tables import SBTEST as OLTP_DATABASE
from flushlab.workload.tables import SBTEST as OLTP_PREFIX
from flushlab.workload.tables import UPSERT as UPSERT_DATABASE

Load = OltpWorkload | UpsertWorkload | TxnWorkload

_ANOTHERS = 1050
"""ER_TABLE_EXISTS_ERROR: of what was not there a moment before."""
_OFF = ("OFF", "0")


@contextmanager
def used(
    server: RemoteGroup, access: RemoteAccess, loads: Sequence[Load], use: Use, progress: Progress
) -> Iterator[None]:
    require_permitted(server, access, loads, use.arms)
    require_usable(server, loads, use, writes=access.allow_writes, progress=progress)
    warn_of_load(server, use.lasts_s, progress)
    with changed(server, use.arms, progress, use.lasts_s) as changes, ExitStack() as stack:
        for load in loads:
            stack.enter_context(tables(load, server, access, progress))
        for one in changes:
            one.announce()
        yield


def warn_of_load(server: RemoteGroup, lasts_s: float | None, progress: Progress) -> None:
    limit = f"for about {format_seconds(lasts_s)}" if lasts_s else "until it ends"
    progress(f"warning: the load competes with production commits on {server.name}, {limit}")


def require_permitted(
    server: RemoteGroup, access: RemoteAccess, loads: Sequence[Load], wanted: Sequence[Mapping[str, Value]]
) -> None:
    lacking = [] if access.allow_writes else [one for load in loads for one in lacks_writes(load, server)]
    missing = list(dict.fromkeys(lacking))
    if (names := changing(server, wanted)) and not access.allow_set_global:
        text = f"{', '.join(names)}: settings of your own server are left alone"
        missing.append((text, "--allow-set-global lets flushlab change them, and puts everything back"))
    if missing:
        raise UsageError("; ".join(text for text, _ in missing), hint="; ".join(hint for _, hint in missing))


def require_usable(
    server: RemoteGroup, loads: Sequence[Load], use: Use, *, writes: bool, progress: Progress
) -> None:
    require_connections(server, use.connections)
    names = changing(server, use.arms)
    for load in loads:
        require_rights(server.nodes, _needs(load, server, names, writes=writes))
    if writes:
        require_source(server)
        for node in server.nodes:
            if replicas := replicas_of(node):
                progress(
                    f"{counted(replicas, 'replica')} of {node.address.name} will get everything that the load"
                    " writes, as well"
                )
    require_changeable(server, use.arms, names)


def _needs(load: Load, server: RemoteGroup, settings: Sequence[str], *, writes: bool) -> Needs:
    needs, database = Needs(process=True, replication=writes, settings=settings), _database(load)
    if isinstance(load, TxnWorkload):
        run = [one.sql for kind in load.spec.transactions for one in kind.statements]
        making = ("CREATE", "DROP", "INSERT", "SELECT") if writes and load.setup.strip() else ()
        return needs._replace(database=database, privileges=making, statements=run)
    oltp = isinstance(load, OltpWorkload)
    prefix = OLTP_PREFIX if isinstance(load, OltpWorkload) else load.prefix
    names = [f"{prefix}{number}" for number in range(1, load.tables + 1)]
    privileges = {"SELECT", *WRITES.get(load.name, ("INSERT", "UPDATE"))}
    if writes and not {*names} <= (_tables(server, database) or set()):
        privileges |= {"CREATE", "DROP", "INSERT", *(["INDEX"] if oltp else [])}
    return needs._replace(database=database, privileges=privileges, table=names[0])


def changing(server: RemoteGroup, wanted: Sequence[Mapping[str, Value]]) -> list[str]:
    return sorted({name for node in server.nodes for name in Changes(node, *wanted).before})


@contextmanager
def tables(workload: Load, server: RemoteGroup, access: RemoteAccess, progress: Progress) -> Iterator[None]:
    """Made if they are not there; what was made is dropped again, after a kill by the next flushlab."""
    if not access.allow_writes:
        yield
        return
    with made_tables(server, _database(workload), progress) as made:
        try:
            workload.prepare(server)
        except FlushlabError as error:
            if isinstance(error, MeasurementError):
                error.hint = (error.hint or "").partition(", or empty")[0]  # a sandbox, that is
            elif errno_of(error) == _ANOTHERS:
                error.hint = f"somebody else makes tables in {_database(workload)}: they were left alone"
            raise
        if names := made.names:
            progress(f"made in {_database(workload)}, to be dropped at the end: {', '.join(names)}")
        yield


@contextmanager
def changed(
    server: RemoteGroup,
    wanted: Sequence[Mapping[str, Value]],
    progress: Progress,
    lasts_s: float | None = None,
) -> Iterator[tuple[Changes, ...]]:
    every = tuple(Changes(node, *wanted) for node in server.nodes)
    if changing := sorted({name for one in every for name in one.before}):
        require_changeable(server, wanted, changing)
        for one in every:
            one.require_settable()
        limit = f"for about {format_seconds(lasts_s)}" if lasts_s else "until this ends"
        for one in every:
            progress(f"--allow-set-global: {limit}, on {one.where}: {one.meanwhile}")
    for one in every:
        if one.undo:
            progress(f"--allow-set-global: if flushlab cannot put it back, on {one.where}: {one.by_hand}")
    server.before = {name: value for one in every for name, value in one.before.items()}
    with Undo() as undo:
        for one in reversed(every):
            one.report_silence(progress)
            undo.callback(one.put_back, progress)
        yield every


def require_changeable(
    server: RemoteGroup, wanted: Sequence[Mapping[str, Value]], changing: Sequence[str]
) -> None:
    static = {name for one in wanted for name in restart_settings(one, server.identity)}
    if static := static & {*changing}:
        raise UsageError(
            f"{', '.join(sorted(static))}: it needs a restart, and your own server is never restarted",
            hint="measure it on a copy: --server, --dataset",
        )
    if len(server.nodes) > 1:
        require_alike(server.nodes, changing)


def foreseen(server: RemoteGroup, arms: Sequence[Mapping[str, Value]], *, adds_load: bool) -> dict[str, str]:
    kept = "the load's rows; tables that it lacks are made, and dropped at the end" if adds_load else ""
    found = {node.address.name: Changes(node, *arms) for node in server.nodes}
    return {
        where: "; ".join(
            filter(None, (kept, f"{one.meanwhile}, then put back by {one.by_hand}" if one.undo else ""))
        )
        for where, one in found.items()
    }


def require_connections(server: RemoteGroup, threads: int) -> None:
    for node in server.nodes:
        most, others = _connections(node)
        if most - others < threads:
            raise UsageError(
                f"{threads} connections are needed, and max_connections is {most} on {node.address.name}"
                f", where others use {others}",
                hint="use fewer with --threads",
            )


def free_connections(server: RemoteGroup) -> int:
    return min(most - others for most, others in map(_connections, server.nodes))


def _connections(node: RemoteServer) -> tuple[int, int]:
    ((_, connected),) = node.query("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
    return int(node.read_back(["max_connections"])["max_connections"]), max(int(connected) - 1, 0)


def require_source(server: RemoteGroup) -> None:
    for node in server.nodes:
        where = node.address.name
        rows = node.query("SHOW GLOBAL VARIABLES LIKE '%read\\_only'")
        switches = {str(name): str(value) for name, value in rows}
        for name in ("read_only", "super_read_only", "innodb_read_only"):
            if switches.get(name, "OFF").upper() not in _OFF:
                raise UsageError(
                    f"{where} takes no writes: {name} is {switches[name]}", hint="name the server that does"
                )
        if sources := sources_of(node):
            raise UsageError(
                f"{where} is a replica of {', '.join(sources)}: what you write there exists only on it",
                hint="name the server that it replicates, or one that replicates nobody",
            )


def lacks_writes(workload: Load, server: RemoteGroup) -> list[tuple[str, str]]:
    if not (isinstance(workload, OltpWorkload) and workload.name in READ_ONLY):
        hint = "--allow-writes lets it write; tables that are made are dropped at the end"
        return [(f"{workload.name} writes, and your own server is only read", hint)]
    there = _tables(server, OLTP_DATABASE) or set()
    names = (f"{OLTP_PREFIX}{number}" for number in range(1, workload.tables + 1))
    if missing := next((name for name in names if name not in there), None):
        hint = "--allow-writes makes the tables, and drops them at the end"
        return [(f"there is no table {OLTP_DATABASE}.{missing}", hint)]
    return []


def _database(workload: Load) -> str:
    if isinstance(workload, TxnWorkload):
        return workload.database
    return OLTP_DATABASE if isinstance(workload, OltpWorkload) else UPSERT_DATABASE


def _tables(server: RemoteGroup, database: str) -> set[str] | None:
    if not server.query("SHOW DATABASES WHERE `Database` = %s", (database,)):
        return None
    return {str(name) for name, *_ in server.query(f"SHOW TABLES FROM {quoted(database)}")}
