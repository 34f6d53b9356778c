"""Remote use: what a run needs and changes of the user's own server, and how the change is undone.

Sits in `campaign.pool`, below `remote`. Before anything is written it says what will change, where and
for how long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from flushlab.campaign.pool.own_load import CONNECTIONS, require_observable
from flushlab.campaign.pool.protocol import Use
from flushlab.errors import FlushlabError, MeasurementError, UsageError
from flushlab.progress import Progress
from flushlab.record import Value
from flushlab.server.protocol import replicas_of, sources_of
from flushlab.server.remote.made_tables import made_tables
from flushlab.server.remote.put_back import Changes, putting_back
from flushlab.server.remote.rights import Needs, require_rights
from flushlab.server.remote.server import RemoteGroup, RemoteServer, require_alike
from flushlab.server.sql import quoted
from flushlab.spec.parts import RemoteAccess
from flushlab.trial.runner import restart_settings
from flushlab.units import counted, format_seconds
from flushlab.workload.engine import errno_of
from flushlab.workload.sql import TxnWorkload
from flushlab.workload.tables import READ_ONLY, WRITES, OltpWorkload, UpsertWorkload

Load = OltpWorkload | UpsertWorkload | TxnWorkload

_ANOTHERS = 1050
"""ER_TABLE_EXISTS_ERROR: of what was not there a moment before."""
_OFF = ("OFF", "0")


@dataclass(frozen=True)
class RemoteUse:
    """`loads`: that flushlab drives; none: the load that the server has is observed."""

    server: RemoteGroup
    access: RemoteAccess
    loads: Sequence[Load]
    use: Use
    say: Progress

    @contextmanager
    def begun(self, *, once: bool = False) -> Iterator[None]:
        """Inside, settings may change before each slice; `once`: they are changed now."""
        server, arms, say, lasts_s = self.server, self.use.arms, self.say, self.use.lasts_s
        limit = f"for about {format_seconds(lasts_s)}" if lasts_s else ""
        self._require_permitted()
        self.require_possible(writes=self.access.allow_writes)
        if self.loads:
            until = limit or "until it ends"
            say(f"warning: the load competes with production commits on {server.name}, {until}")
        every = [Changes(node, *arms) for node in server.nodes]
        changing = [one for one in every if one.before]
        server.before = {name: value for one in every for name, value in one.before.items()}
        require_changeable(server, arms, sorted(server.before))
        for one in changing:
            one.require_settable()
        for one in changing:
            until = "until this ends" if once or not limit else limit
            say(f"--allow-set-global: {until}, on {one.where}: {one.meanwhile}")
        for one in changing:
            say(f"--allow-set-global: if flushlab cannot put it back, on {one.where}: {one.by_hand}")
        with putting_back(every, say) as undo:
            for load in self.loads if self.access.allow_writes else ():
                undo.enter_context(self._made_tables(load))
            for one in every:
                one.make() if once else one.announce()
            if not self.loads:
                say(f"observing the load of {server.name}{limit and f' {limit}'}; flushlab adds none")
            yield

    def _changing(self) -> list[str]:
        every = (Changes(node, *self.use.arms) for node in self.server.nodes)
        return sorted({name for one in every for name in one.before})

    def _require_permitted(self) -> None:
        missing = [] if self.access.allow_writes else self.lacks_writes()
        if ((names := self._changing()) or not self.loads) and not self.access.allow_set_global:
            text = f"{', '.join(names) or 'settings'}: settings of your own server are left alone"
            meanwhile = "" if self.loads else " under your load"
            hint = f"--allow-set-global lets flushlab change them{meanwhile}, and puts everything back"
            missing.append((text, hint))
        if missing:
            raise UsageError(
                "; ".join(text for text, _ in missing), hint="; ".join(hint for _, hint in missing)
            )

    def lacks_writes(self) -> list[tuple[str, str]]:
        """What cannot run unless flushlab may write, and what it would do then."""
        found = dict[str, str]()
        for load in self.loads:
            if not (isinstance(load, OltpWorkload) and load.name in READ_ONLY):
                found[f"{load.name} writes, and your own server is only read"] = (
                    "--allow-writes lets it write; tables that are made are dropped at the end"
                )
                continue
            there = _tables(self.server, load.database)
            if missing := next((name for name in load.table_names if name not in there), None):
                found[f"there is no table {load.database}.{missing}"] = (
                    "--allow-writes makes the tables, and drops them at the end"
                )
        return [*found.items()]

    def require_possible(self, *, writes: bool) -> None:
        """Changes nothing, and needs no permission."""
        server, arms, names = self.server, self.use.arms, self._changing()
        require_connections(server, self.use.connections if self.loads else CONNECTIONS)
        needs = Needs(process=True, replication=writes or not self.loads, settings=names)
        for one in [self._needs(needs, load, writes=writes) for load in self.loads] or [needs]:
            require_rights(server.nodes, one)
        if needs.replication:
            require_source(server)
        for node in server.nodes if self.loads and writes else ():
            if replicas := replicas_of(node):
                self.say(
                    f"{counted(replicas, 'replica')} of {node.address.name} will get everything that the load"
                    " writes, as well"
                )
        require_changeable(server, arms, names)
        if not self.loads:
            require_observable(server, arms, names)

    def _needs(self, needs: Needs, load: Load, *, writes: bool) -> Needs:
        needs = needs._replace(database=load.database)
        if isinstance(load, TxnWorkload):
            run = [one.sql for kind in load.spec.transactions for one in kind.statements]
            making = ("CREATE", "DROP", "INSERT", "SELECT") if writes and load.setup.strip() else ()
            return needs._replace(privileges=making, statements=run)
        privileges = {"SELECT", *WRITES.get(load.name, ("INSERT", "UPDATE"))}
        if writes and not {*load.table_names} <= _tables(self.server, load.database):
            privileges |= {"CREATE", "DROP", "INSERT"}
            privileges |= {"INDEX"} if isinstance(load, OltpWorkload) else set()
        return needs._replace(privileges=privileges, table=load.table_names[0])

    @contextmanager
    def _made_tables(self, load: Load) -> Iterator[None]:
        """Made if they are not there; what was made is dropped again, after a kill by the next flushlab."""
        with made_tables(self.server, load.database, self.say) as made:
            try:
                load.prepare(self.server)
            except FlushlabError as error:
                if isinstance(error, MeasurementError):
                    error.hint = (error.hint or "").partition(", or empty")[0]  # a sandbox, that is
                elif errno_of(error) == _ANOTHERS:
                    error.hint = f"somebody else makes tables in {load.database}: they were left alone"
                raise
            if names := made.names:
                self.say(f"made in {load.database}, to be dropped at the end: {', '.join(names)}")
            yield


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


def _tables(server: RemoteGroup, database: str) -> set[str]:
    if not server.query("SHOW DATABASES WHERE `Database` = %s", (database,)):
        return set()
    return {str(name) for name, *_ in server.query(f"SHOW TABLES FROM {quoted(database)}")}
