"""`fill`: rows of a plan into a server, as fast as it takes them; the function behind `flushlab fill`.

Sits in `campaign`. Says where the rows go and what may be changed there; the load itself is `flushlab.bulk`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from flushlab import _core
from flushlab.build import Progress, find_build, silent
from flushlab.bulk import destinations as places
from flushlab.bulk.destinations import Destination
from flushlab.bulk.filled import Filled
from flushlab.bulk.loading import Load, LoadRequest, RowProgress
from flushlab.bulk.source import Source, SourceTable
from flushlab.bulk.throttle import throttle
from flushlab.datadir import own_disk, require_fault_disk
from flushlab.errors import UsageError
from flushlab.generate.plan import FillPlan, read_plan
from flushlab.process.running import publish_status
from flushlab.record.running import FillProgress
from flushlab.server import DataDirectory
from flushlab.server.databases import require_not_system
from flushlab.server.galera.cluster import Cluster
from flushlab.server.protocol import Server
from flushlab.server.remote.made_tables import drop_left
from flushlab.server.remote.members import members, require_alike
from flushlab.server.remote.put_back import Changes, put_back_left
from flushlab.server.remote.rights import Needs, require_rights
from flushlab.server.remote.server import Address, RemoteServer, from_dsn, from_nodes, from_option_file
from flushlab.server.start import attach, is_kept
from flushlab.server.watched import watched
from flushlab.settings.floor import Floor
from flushlab.spec import fields
from flushlab.spec.build import build, names_given
from flushlab.spec.kinds import FillSpec
from flushlab.spec.parts import RemoteAccess
from flushlab.spec.sugar import taking
from flushlab.undo import Undo

_KEPT = "sandbox:"
_DATABASE = "app"
_PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "CREATE", "DROP", "ALTER")
"""Of a load: its notes and a sample of rows are tables beside those that it fills."""
_LAST_OF_NAMES = 0xFFFF
"""MySQL manual, "Schema Object Names": supplementary characters are not permitted."""


@taking(
    FillSpec,
    progress="Takes a line at a time.",
    show="Takes how far the load is, a few times a second.",
)
def fill(
    plan: Path | str = "users",
    *,
    progress: Progress = silent,
    show: Callable[[RowProgress], None] | None = None,
    **given: Any,
) -> Filled:
    """Fills tables with the rows of a plan.

    A build's new sandbox, or cluster, is kept. `replica` names servers that replicate from a server of your
    own, each by DSN or option file: the load waits while one of them is behind, does not replicate or does
    not answer.

    Returns:
        What was loaded, how fast, and what the limit was. It has been verified.

    Raises:
        UsageError: what makes no sense, or tables that are not as they must be.
        ServerError, ServerDied: the server refused rows, or is gone; `resume` goes on.
    """
    spec = build(FillSpec, {"plan": plan, **given})
    _require_sensible(spec)
    if own_disk(spec.storage.disk_iops, spec.storage.disk) is not None:
        require_fault_disk()
    replicas = [
        from_dsn(one, "--replica") if "://" in one else from_option_file(Path(one)) for one in spec.replica
    ]
    put_back_left(progress)
    drop_left(progress)
    asked_plan = read_plan(spec.plan, rows=spec.rows, seed=spec.seed)
    largest = max(table.rows for table in asked_plan.tables)

    def source_of(existing: int) -> Source:
        rows = largest + existing
        return _source(read_plan(spec.plan, rows=rows, seed=spec.seed) if existing else asked_plan)

    where = _on_external if spec.remote.named_by else _place
    with where(spec, source_of(0), progress) as (there, asked, place, quicken):
        asked = msgspec.structs.replace(
            asked,
            method=spec.method,
            threads=spec.threads,
            create=spec.create or asked.create,
            existing="append" if spec.append else "truncate" if spec.truncate else "refuse",
            resume=spec.again,
            ladder=spec.ladder,
            replicas=tuple(one.name for one in replicas),
        )
        python_before = _core.python_seconds()
        with (
            throttle(there, replicas, spec.max_lag, progress) as throttled,
            publish_status("fill", server=there.identity.name, workload=asked_plan.name) as live,
            live.standing(watched(there)),
        ):

            def publish(rows: RowProgress) -> None:
                live.fill(_published(rows))
                if show is not None:
                    show(rows)

            done = Load(there, source_of, asked, progress, publish, place, quicken, throttled).run()
        if took := _core.python_seconds() - python_before:
            progress(f"Python functions took {took:.1f} s, over all threads")
    ours = there if isinstance(there, Cluster) else place.server if place is not None else None
    if ours is None:
        return done
    client = ours.build.client or "mysql"
    command = f"{client} --defaults-file={ours.endpoint.option_file} {shlex.quote(asked.database)}"
    return msgspec.structs.replace(done, sandbox=ours.name, client=command)


def _published(rows: RowProgress) -> FillProgress:
    return FillProgress(
        table=rows.table,
        rows=rows.rows,
        total=rows.total,
        bytes=rows.bytes,
        rows_per_s=rows.rows_per_s,
        left_s=rows.seconds_left,
        bound_by=rows.bound.what,
    )


def _require_sensible(spec: FillSpec) -> None:
    """Refuses what makes no sense, or would have no effect.

    Raises:
        UsageError: something does not.
    """
    _exclusive(append=spec.append, truncate=spec.truncate, resume=spec.again)
    _exclusive(ladder=spec.ladder, resume=spec.again)
    elsewhere, kept = spec.remote.named_by, is_kept(spec.server.build)
    if spec.again and not elsewhere and not kept:
        raise UsageError(
            "--resume needs the server whose load was interrupted",
            hint="name it: --server sandbox:NAME or --dsn",
        )
    for key in names_given(spec) - {"server"} if kept else ():
        if (field := fields(FillSpec)[key]).option.started:
            raise UsageError(
                f"{field.flag} needs a new server, but {spec.server.build} is named, which there is already",
                hint="remove one of them",
            )
    if spec.replica and not elsewhere:
        raise UsageError(
            "--replica is for a server of your own: a sandbox's load leaves out the binary log",
            hint="remove it",
        )
    if any(ord(letter) > _LAST_OF_NAMES for letter in spec.database or ""):
        raise UsageError(
            f"no server accepts the name {spec.database!r}",
            hint="characters beyond U+FFFF, such as emoji, are not for names",
        )
    if spec.database is not None:
        require_not_system(spec.database)


_Found = tuple[Server, LoadRequest, Destination | None, Callable[[], None] | None]
"""The server, how to reach it, what may be changed of it if it is a sandbox, and what makes it fast."""


@contextmanager
def _on_external(spec: FillSpec, source: Source, progress: Progress) -> Iterator[_Found]:
    """Somebody's own server, or all nodes of its cluster if their settings may be changed.

    Raises:
        UsageError: no database is named, or the account lacks rights.
    """
    floor, remote, tune_server = spec.floor, spec.remote, spec.remote.tune_server
    if floor is not None and not tune_server:
        raise UsageError(
            "--floor needs a sandbox: a server that is not flushlab's keeps its settings",
            hint="remove it, or allow changes with --tune-server",
        )
    addresses = from_nodes(remote.dsn) if remote.dsn else (_by_file(remote),)
    address = addresses[0]
    name = spec.database or address.database
    if not name:
        raise UsageError("no database is named", hint="use --database NAME, or name it in the DSN")
    asked = LoadRequest(
        endpoint=address.endpoint,
        transport=address.transport,
        ssl_mode=address.ssl_mode,
        ssl_ca=address.ssl_ca,
        database=require_not_system(name),
        ours=False,
    )
    needs = Needs(database=name, privileges=_PRIVILEGES, table=source.tables[0].name)
    with ExitStack() as stack:
        named = [
            stack.enter_context(RemoteServer(one)) for one in (addresses if tune_server else addresses[:1])
        ]
        if not tune_server:
            require_rights(named, needs)
            yield named[0], asked, None, None
            return
        wanted = places.settings_of_others(named[0], floor or Floor.SECOND, _ROW_BYTES * source.rows)
        nodes = members(named, stack)
        changes = [Changes(node, wanted) for node in nodes]
        require_rights(
            nodes, needs._replace(settings=tuple({name for one in changes for name in one.before}))
        )

        def quicken() -> None:
            _tune(changes, progress)
            require_alike(nodes, wanted)

        with Undo() as undo:
            for one in reversed(changes):
                undo.callback(one.put_back, progress)
            yield named[0], asked, None, quicken


def _by_file(remote: RemoteAccess) -> Address:
    return from_option_file(Path(str(remote.defaults_file)))


@contextmanager
def _place(spec: FillSpec, source: Source, progress: Progress) -> Iterator[_Found]:
    """A sandbox or a cluster of them."""
    floor, database, ladder = spec.floor, spec.database, spec.ladder
    server = spec.server.build
    if is_kept(server) and not server.startswith(_KEPT):
        kept_cluster = attach(server)
        assert isinstance(kept_cluster, Cluster)
        with kept_cluster, _cluster(kept_cluster, floor or Floor.SECOND, database) as found:
            yield found
        return
    if server.startswith(_KEPT):
        size = _ROW_BYTES * source.rows
        with places.kept_sandbox(server.removeprefix(_KEPT), size, floor, progress, slow=ladder) as kept:
            if (node := kept.server.membership) is not None:
                raise UsageError(
                    f"{kept.server.name} is a node of the cluster {node.cluster}: its rows are the cluster's",
                    hint=f"use --server cluster:{node.cluster}",
                )
            asked = LoadRequest(endpoint=kept.server.endpoint, database=database or _DATABASE)
            yield kept.server, asked, kept, kept.quicken
        return
    basedir, data_root = spec.server.basedir, spec.storage.data_root
    found_build = find_build(server, basedir=Path(basedir) if basedir else None, progress=progress)
    profile = own_disk(spec.storage.disk_iops, spec.storage.disk)
    data = DataDirectory.below(data_root, profile)
    if (size_of_cluster := spec.server.cluster) is not None:
        with (
            places.new_cluster(found_build, size_of_cluster, data, progress) as begun,
            _cluster(begun, floor or Floor.THROWAWAY, database, create=True) as found,
        ):
            yield found
        return
    size = _ROW_BYTES * source.rows
    with places.new_sandbox(found_build, size, floor or Floor.THROWAWAY, data, progress, slow=ladder) as new:
        asked = LoadRequest(endpoint=new.server.endpoint, database=database or _DATABASE, create=True)
        yield new.server, asked, new, new.quicken


@contextmanager
def _cluster(
    cluster: Cluster, floor: Floor, database: str | None, *, create: bool = False
) -> Iterator[_Found]:
    """As a server of somebody's own: what a session keeps from the binary log, no other node gets."""
    with places.relaxed_cluster(cluster, floor) as quicken:
        endpoint, name = cluster.endpoint, database or _DATABASE
        yield cluster, LoadRequest(endpoint=endpoint, database=name, ours=False, create=create), None, quicken
        cluster.settled()


def _tune(every: Sequence[Changes], progress: Progress) -> None:
    """Says how to undo what is changed, and changes it; on each node of a cluster."""
    needed = [one for one in every if one.do]
    if not needed:
        progress("--tune-server: nothing to change, the server is as fast as the floor allows")
        return
    where = {one: f"on {one.where}: " if len(every) > 1 else "" for one in needed}
    for one in needed:
        progress(f"--tune-server: until the load ends, {where[one]}{' '.join(one.do)}")
    for one in needed:
        progress(f"--tune-server: if flushlab cannot put it back, {where[one] or 'run '}{' '.join(one.undo)}")
    for one in needed:
        one.make()


_ROW_BYTES = 200
"""About, of a row in its table and indexes: for the size of a new sandbox's buffer pool and redo log."""


def _exclusive(**flags: object) -> None:
    given = [f"--{name.replace('_', '-')}" for name, value in flags.items() if value]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} cannot be combined", hint="give one of them")


def _source(plan: FillPlan) -> Source:
    tables = (
        SourceTable(name=table.name, rows=table.rows, columns=table.columns, create=table.create)
        for table in plan.tables
    )
    return Source(name=plan.name, json=plan.json.decode(), tables=tuple(tables))
