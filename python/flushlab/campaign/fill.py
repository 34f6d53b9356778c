"""`fill`: rows of a plan into a server, as fast as it takes them; the function behind `flushlab fill`.

Sits in `campaign`. Says where the rows go and what may be changed there; the load itself is `flushlab.bulk`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from flushlab import _core
from flushlab.build import Progress, find_build, silent
from flushlab.bulk import places
from flushlab.bulk.filled import Filled
from flushlab.bulk.loading import Asked, Load
from flushlab.bulk.loading import Progress as Far
from flushlab.bulk.places import Place
from flushlab.bulk.source import Source, SourceTable
from flushlab.bulk.throttle import throttle
from flushlab.datadir import parse_disk, require_fault_disk
from flushlab.errors import UsageError
from flushlab.generate.plan import FillPlan, read_plan
from flushlab.process.running import on_board
from flushlab.record import DiskProfile
from flushlab.record.running import FillProgress
from flushlab.server.attached import Attached, from_dsn, from_nodes, from_option_file
from flushlab.server.cluster import Cluster
from flushlab.server.databases import require_not_system
from flushlab.server.driven import driven
from flushlab.server.made_tables import drop_left
from flushlab.server.members import members, require_alike
from flushlab.server.protocol import Server
from flushlab.server.put_back import Changes, put_back_left
from flushlab.server.rights import Needs, require_rights
from flushlab.server.start import attach, is_kept
from flushlab.settings.floor import Floor

METHODS = ("auto", "load-data", "insert", "single")
_KEPT = "sandbox:"
_DATABASE = "app"
_PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "CREATE", "DROP", "ALTER")
"""Of a load: its notes and a sample of rows are tables beside those that it fills."""
_LAST_OF_NAMES = 0xFFFF
"""MySQL manual, "Schema Object Names": supplementary characters are not permitted."""


def fill(
    plan: Path | str = "users",
    *,
    rows: int | None = None,
    server: str | None = None,
    dsn: str | None = None,
    defaults_file: Path | str | None = None,
    database: str | None = None,
    threads: int | None = None,
    method: str = "auto",
    floor: Floor | str | None = None,
    create: bool = False,
    append: bool = False,
    truncate: bool = False,
    seed: int | None = None,
    resume: bool = False,
    ladder: bool = False,
    tune_server: bool = False,
    replica: Sequence[str] | None = None,
    max_lag: float = 1.0,
    basedir: Path | str | None = None,
    data_root: Path | str | None = None,
    disk: str | None = None,
    cluster: int | None = None,
    progress: Progress = silent,
    show: Callable[[Far], None] | None = None,
) -> Filled:
    """Fills tables with the rows of a plan.

    The arguments are those of `flushlab fill` under the same names.

    Args:
        plan: a built-in one (`users`, `sbtest`), or a file.
        rows: of the plan's largest table, with the others in proportion; what the plan says if None.
        server: a build, whose new sandbox is kept, or what is kept (`sandbox:NAME`, `cluster:NAME`);
            `mariadb` if nothing is named.
        dsn: a server that is not a sandbox: `mysql://user:password@host:port/database`; of a Galera cluster,
            rows go to the first node that it names.
        defaults_file: the same, by an option file's group `[client]`.
        database: where the tables are, or are to be; `app`, or the DSN's.
        threads: connections; found by trying if None.
        method: `auto`, `load-data`, `insert` or `single`.
        floor: the least guarantees while rows come: `throwaway` for a new sandbox, `second` for a kept one
            and with `tune_server`.
        create: make the database and its tables where they are missing; always done in a new sandbox.
        append: add to tables that have rows.
        truncate: remove the rows of tables that have some.
        seed: other rows for another one; the plan's if None.
        resume: go on with a load that was interrupted.
        ladder: first load for some seconds in each of the ways from one row a statement upwards, with
            figures.
        tune_server: change global settings of a server that is not a sandbox, or of every node of its Galera
            cluster, and put them back.
        replica: servers that replicate from one that is not a sandbox, each by DSN or option file: the load
            waits while one of them is behind, does not replicate or does not answer.
        max_lag: seconds that they may be behind.
        basedir: use the server installed there.
        data_root: where a new sandbox's data directory goes.
        disk: a new sandbox, or each node of a new cluster, gets a disk as slow as that one, which stays as
            long as it does (root): `gp3`, `flush=1ms,iops=3000`.
        cluster: a new Galera cluster of this many nodes, which is kept, in a new sandbox's place.
        progress: takes a line at a time.
        show: takes how far the load is, a few times a second.

    Returns:
        What was loaded, how fast, and what the limit was. It has been verified.

    Raises:
        UsageError: what makes no sense, or tables that are not as they must be.
        ServerError, ServerDied: the server refused rows, or is gone; `resume` goes on.
    """
    if method not in METHODS:
        raise UsageError(f"there is no method {method!r}", hint=f"it takes {', '.join(METHODS)}")
    _exclusive(append=append, truncate=truncate, resume=resume)
    _exclusive(ladder=ladder, resume=resume)
    elsewhere = dsn is not None or defaults_file is not None
    if resume and not elsewhere and not is_kept(server or ""):
        raise UsageError(
            "--resume needs the server whose load was interrupted",
            hint="name it: --server sandbox:NAME or --dsn",
        )
    there_is = elsewhere or is_kept(server or "")
    if cluster is not None and there_is:
        raise UsageError("--cluster starts a new cluster, but a server is named", hint="remove one of them")
    if disk is not None and there_is:
        raise UsageError(
            "--disk makes a disk for a new sandbox, but a server is named that has one",
            hint="remove one of them",
        )
    profile = parse_disk(disk) if disk is not None else None
    if profile is not None:
        require_fault_disk()
    if tune_server and not elsewhere:
        raise UsageError(
            "--tune-server is for a server of your own: a sandbox is tuned anyway", hint="remove it"
        )
    if replica and not elsewhere:
        raise UsageError(
            "--replica is for a server of your own: a sandbox's load leaves out the binary log",
            hint="remove it",
        )
    replicas = [
        from_dsn(one, "--replica") if "://" in one else from_option_file(Path(one)) for one in replica or ()
    ]
    put_back_left(progress)
    drop_left(progress)
    _exclusive(server=server, dsn=dsn, defaults_file=defaults_file)
    if threads is not None and not 1 <= threads <= 1024:
        raise UsageError(f"--threads {threads} is not a number of connections", hint="1 to 1024")

    asked_plan = read_plan(str(plan), rows=rows, seed=seed)
    largest = max(table.rows for table in asked_plan.tables)

    if any(ord(letter) > _LAST_OF_NAMES for letter in database or ""):
        raise UsageError(
            f"no server accepts the name {database!r}",
            hint="characters beyond U+FFFF, such as emoji, are not for names",
        )
    if database is not None:
        require_not_system(database)

    def source_of(existing: int) -> Source:
        return _source(read_plan(str(plan), rows=largest + existing, seed=seed) if existing else asked_plan)

    with (
        _on_external(dsn, defaults_file, database, _floor(floor), source_of(0), progress, tune_server)
        if elsewhere
        else _place(
            server,
            database,
            _floor(floor),
            basedir,
            data_root,
            profile,
            source_of(0),
            progress,
            ladder,
            cluster,
        )
    ) as (there, asked, place, quicken):
        asked = msgspec.structs.replace(
            asked,
            method=method,
            threads=threads,
            create=create or asked.create,
            existing="append" if append else "truncate" if truncate else "refuse",
            resume=resume,
            ladder=ladder,
            replicas=tuple(one.name for one in replicas),
        )
        python_before = _core.python_seconds()
        with (
            throttle(there, replicas, max_lag, progress) as throttled,
            on_board("fill", server=there.identity.name, workload=asked_plan.name) as board,
            board.standing(driven(there)),
        ):

            def seen(far: Far) -> None:
                board.fill(_far(far))
                if show is not None:
                    show(far)

            done = Load(there, source_of, asked, progress, seen, place, quicken, throttled).run()
        if took := _core.python_seconds() - python_before:
            progress(f"Python functions took {took:.1f} s, over all threads")
    ours = there if isinstance(there, Cluster) else place.server if place is not None else None
    if ours is None:
        return done
    client = ours.build.client or "mysql"
    command = f"{client} --defaults-file={ours.endpoint.option_file} {shlex.quote(asked.database)}"
    return msgspec.structs.replace(done, sandbox=ours.name, client=command)


def _far(far: Far) -> FillProgress:
    return FillProgress(
        table=far.table,
        rows=far.rows,
        total=far.total,
        bytes=far.bytes,
        rows_per_s=far.rows_per_s,
        left_s=far.seconds_left,
        bound_by=far.bound.what,
    )


_Found = tuple[Server, Asked, Place | None, Callable[[], None] | None]
"""The server, how to reach it, what may be changed of it if it is a sandbox, and what makes it fast."""


@contextmanager
def _on_external(
    dsn: str | None,
    defaults_file: Path | str | None,
    database: str | None,
    floor: Floor | None,
    source: Source,
    progress: Progress,
    tune_server: bool,
) -> Iterator[_Found]:
    """Somebody's own server, or all nodes of its cluster if their settings may be changed.

    Raises:
        UsageError: no database is named, or the account lacks rights.
    """
    if floor is not None and not tune_server:
        raise UsageError(
            "--floor needs a sandbox: a server that is not flushlab's keeps its settings",
            hint="remove it, or allow changes with --tune-server",
        )
    addresses = from_nodes(dsn) if dsn else (from_option_file(Path(str(defaults_file))),)
    address = addresses[0]
    name = database or address.database
    if not name:
        raise UsageError("no database is named", hint="use --database NAME, or name it in the DSN")
    asked = Asked(
        endpoint=address.endpoint,
        transport=address.transport,
        ssl_mode=address.ssl_mode,
        ssl_ca=address.ssl_ca,
        database=require_not_system(name),
        ours=False,
    )
    needs = Needs(database=name, privileges=_PRIVILEGES, table=source.tables[0].name)
    with ExitStack() as stack:
        named = [stack.enter_context(Attached(one)) for one in (addresses if tune_server else addresses[:1])]
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

        try:
            yield named[0], asked, None, quicken
        finally:
            for one in changes:
                one.put_back(progress)


@contextmanager
def _place(
    server: str | None,
    database: str | None,
    floor: Floor | None,
    basedir: Path | str | None,
    data_root: Path | str | None,
    profile: DiskProfile | None,
    source: Source,
    progress: Progress,
    ladder: bool,
    cluster: int | None,
) -> Iterator[_Found]:
    """A sandbox or a cluster of them."""
    if server is not None and is_kept(server) and not server.startswith(_KEPT):
        kept_cluster = attach(server)
        assert isinstance(kept_cluster, Cluster)
        with kept_cluster, _cluster(kept_cluster, floor or Floor.SECOND, database) as found:
            yield found
        return
    if server is not None and server.startswith(_KEPT):
        size = _ROW_BYTES * source.rows
        with places.kept_sandbox(server.removeprefix(_KEPT), size, floor, progress, slow=ladder) as kept:
            if (node := kept.server.membership) is not None:
                raise UsageError(
                    f"{kept.server.name} is a node of the cluster {node.cluster}: its rows are the cluster's",
                    hint=f"use --server cluster:{node.cluster}",
                )
            asked = Asked(endpoint=kept.server.endpoint, database=database or _DATABASE)
            yield kept.server, asked, kept, kept.quicken
        return
    build = find_build(server or "mariadb", basedir=Path(basedir) if basedir else None, progress=progress)
    disk = places.new_disk(Path(data_root) if data_root else None, profile)
    if cluster is not None:
        with (
            places.new_cluster(build, cluster, disk, progress) as begun,
            _cluster(begun, floor or Floor.THROWAWAY, database, create=True) as found,
        ):
            yield found
        return
    size = _ROW_BYTES * source.rows
    with places.new_sandbox(build, size, floor or Floor.THROWAWAY, disk, progress, slow=ladder) as new:
        asked = Asked(endpoint=new.server.endpoint, database=database or _DATABASE, create=True)
        yield new.server, asked, new, new.quicken


@contextmanager
def _cluster(
    cluster: Cluster, floor: Floor, database: str | None, *, create: bool = False
) -> Iterator[_Found]:
    """As a server of somebody's own: what a session keeps from the binary log, no other node gets."""
    with places.relaxed_cluster(cluster, floor) as quicken:
        endpoint, name = cluster.endpoint, database or _DATABASE
        yield cluster, Asked(endpoint=endpoint, database=name, ours=False, create=create), None, quicken
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


def _floor(given: Floor | str | None) -> Floor | None:
    try:
        return None if given is None else Floor(given)
    except ValueError:
        floors = ", ".join(floor.value for floor in Floor)
        raise UsageError(f"unknown floor {given!r}", hint=f"it takes {floors}") from None


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
