"""Destinations: the servers that rows go to, as fast as their floor allows while they come.

Sits in `bulk`. Settings during the load:

- A new sandbox starts with the fastest settings of its floor. After an orderly stop it gets its defaults.
- A kept sandbox has relaxed commits for the load only, even if the load is killed and continues later.
- Any other server keeps its settings unless `--allow-set-global` permits relaxed commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from flushlab import atomic
from flushlab.build import Build, find_build
from flushlab.datadir import DataRoot, slow_disk_in
from flushlab.dataset.loaded import fast_settings
from flushlab.dataset.survey import Survey
from flushlab.errors import NotWritable, UsageError
from flushlab.generate.plan import FillPlan
from flushlab.process import ProcessIdentity
from flushlab.process.identity import myself
from flushlab.progress import Progress
from flushlab.record import Storage, Value
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.galera.cluster import Cluster
from flushlab.server.protocol import Server
from flushlab.server.remote.login import Address, addresses_of
from flushlab.server.remote.put_back import Changes, putting_back
from flushlab.server.remote.rights import Needs, require_rights
from flushlab.server.remote.server import RemoteServer, members, require_alike
from flushlab.server.sql import REDO_CAPACITY, redo_capacity_in_force, require_not_system, set_variable
from flushlab.server.start import CLUSTER, SANDBOX
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import guarantees, meets
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import FillSpec
from flushlab.undo import Undo, undo_all

_COMMITS: tuple[dict[str, Value], ...] = (
    {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0},
    {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0},
    {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 1},
    {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1},
)
"""Fastest first."""
_REDO = ("innodb_redo_log_capacity", "innodb_log_file_size")
_REDO_STEP = 16 << 20
_MOST_REDO = 1 << 30
_ROW_BYTES = 200
"""About, of a row in its table and indexes: for the size of a new sandbox's buffer pool and redo log."""
_DATABASE = "app"
_PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "CREATE", "DROP", "ALTER")
"""Of a load: its notes and a sample of rows are tables beside those that it fills."""
_INFILE = "local_infile"
_ALLOW = f"SET GLOBAL {_INFILE} = 1"


@dataclass(frozen=True, kw_only=True)
class Destination:
    """`create`: made for these rows, and so are the database and its tables; `quicken`: once all is known to
    fit."""

    server: Server
    address: Address
    database: str
    create: bool = False
    fast: Mapping[str, Value] = field(default_factory=dict)
    quicken: Callable[[], object] = lambda: None

    @property
    def ours(self) -> bool:
        """Not a cluster: rows that one of its sessions keeps from the binary log, no other node gets."""
        return isinstance(self.server, Sandbox)


def destination(spec: FillSpec, plan: FillPlan, progress: Progress) -> AbstractContextManager[Destination]:
    server, load_bytes = spec.server.build, _ROW_BYTES * plan.rows
    if spec.remote.named_by:
        return _external(spec, plan, load_bytes, progress)
    if server.startswith(SANDBOX):
        return _kept_sandbox(server.removeprefix(SANDBOX), spec, load_bytes, progress)
    if server.startswith(CLUSTER) or spec.server.cluster is not None:
        kept = server.removeprefix(CLUSTER) if server.startswith(CLUSTER) else ""
        return _cluster(kept, spec, progress)
    return _new_sandbox(spec, load_bytes, progress)


@contextmanager
def _external(spec: FillSpec, plan: FillPlan, load_bytes: int, progress: Progress) -> Iterator[Destination]:
    floor, remote, allow_set_global = spec.floor, spec.remote, spec.remote.allow_set_global
    if floor is not None and not allow_set_global:
        raise UsageError(
            "--floor needs a sandbox: a server that is not flushlab's keeps its settings",
            hint="remove it, or allow changes with --allow-set-global",
        )
    addresses = addresses_of(remote)
    name = spec.database or addresses[0].database
    if not name:
        raise UsageError("no database is named", hint="use --database NAME, or name it in the DSN")
    needs = Needs(database=require_not_system(name), privileges=_PRIVILEGES, table=plan.tables[0].name)
    with ExitStack() as stack:
        asked = addresses if allow_set_global else addresses[:1]
        named = [stack.enter_context(RemoteServer(one)) for one in asked]
        progress(f"warning: the load competes with production commits on {addresses[0].name} until it ends")
        found = Destination(server=named[0], address=addresses[0], database=name)
        if not allow_set_global:
            require_rights(named, needs)
            yield found
            return
        wanted = settings_of_others(named[0], floor or Floor.SECOND, load_bytes)
        nodes = members(named, stack)
        changes = [Changes(node, wanted) for node in nodes]
        changed = {name for one in changes for name in one.before}
        require_rights(nodes, needs._replace(settings=tuple(changed)))

        def quicken() -> None:
            _tune(changes, progress)
            require_alike(nodes, wanted)

        with putting_back(changes, progress):
            yield replace(found, quicken=quicken)


def _tune(every: Sequence[Changes], progress: Progress) -> None:
    needed = [one for one in every if one.do]
    if not needed:
        progress("--allow-set-global: nothing to change, the server is as fast as the floor allows")
        return
    where = {one: f"on {one.where}: " if len(every) > 1 else "" for one in needed}
    for one in needed:
        progress(f"--allow-set-global: until the load ends, {where[one]}{' '.join(one.do)}")
    for one in needed:
        progress(f"--allow-set-global: if flushlab cannot put it back, {where[one] or 'run '}{one.by_hand}")
    for one in needed:
        one.make()


@contextmanager
def _new_sandbox(spec: FillSpec, load_bytes: int, progress: Progress) -> Iterator[Destination]:
    plain = _kept_server(spec, progress)
    settings, arguments = settings_for(plain.build, load_bytes, spec.floor or Floor.THROWAWAY)
    relaxed = replace(plain, settings=settings, arguments=arguments)
    server = Sandbox.start(plain if spec.compare_methods else relaxed, progress)
    with _kept_once_begun(server, progress):
        progress(f"rows go to the new sandbox {server.name}")
        with _made_for_load(server, spec, settings, arguments, progress) as found:
            yield replace(found, create=True)


@contextmanager
def _made_for_load(
    server: Sandbox,
    spec: FillSpec,
    settings: dict[str, Value],
    arguments: Sequence[str],
    progress: Progress,
) -> Iterator[Destination]:
    def restart(settings: dict[str, Value], arguments: Sequence[str]) -> None:
        server.stop()
        server.set_before_start(settings, arguments)
        server.start_again()

    def quicken() -> None:
        if dict(server.settings) != settings:
            restart(settings, arguments)
        server.query(_ALLOW)

    begin_unfinished(server, defaults=True)
    if spec.compare_methods and server.settings:
        progress(f"restarting {server.name} with its defaults")
        restart({}, [])
    server.query(_ALLOW)
    yield _own(server, spec, fast=settings, quicken=quicken)
    progress(f"restarting {server.name} with its defaults")
    restart({}, [])
    end_unfinished(server)


@contextmanager
def _kept_sandbox(name: str, spec: FillSpec, load_bytes: int, progress: Progress) -> Iterator[Destination]:
    with Sandbox.attach(name) as server:
        if (node := server.membership) is not None:
            raise UsageError(
                f"{name} is a node of the cluster {node.cluster}: its rows are the cluster's",
                hint=f"use --server cluster:{node.cluster}",
            )
        left = unfinished(server)
        if left is not None and left.defaults:
            settings, arguments = dict(server.settings), list(server.arguments)
            if spec.floor is not None or spec.compare_methods:
                settings, arguments = settings_for(server.build, load_bytes, spec.floor or Floor.THROWAWAY)
            with _made_for_load(server, spec, settings, arguments, progress) as found:
                yield found
            return
        wanted = relaxed_commits(server, spec.floor or Floor.SECOND, server.storage)
        if left is not None:
            before = left.values
        else:
            ((infile,),) = server.query("SELECT @@global.local_infile")
            before = {**server.read_back([*wanted, "innodb_buffer_pool_size"]), _INFILE: int(infile)}
        with Undo() as undo:
            undo.callback(_give_back, server, before)
            begin_unfinished(server, values=before)
            server.query(_ALLOW)
            yield _own(server, spec, fast=wanted, quicken=partial(_set, server, wanted))


def _own(server: Sandbox | Cluster, spec: FillSpec, **more: Any) -> Destination:
    address = Address(endpoint=server.endpoint)
    return Destination(server=server, address=address, database=spec.database or _DATABASE, **more)


@contextmanager
def _cluster(kept: str, spec: FillSpec, progress: Progress) -> Iterator[Destination]:
    with ExitStack() as stack:
        if kept:
            cluster = stack.enter_context(Cluster.attach(kept))
        else:
            cluster = Cluster.start(_kept_server(spec, progress), progress)
            stack.enter_context(_kept_once_begun(cluster, progress))
        floor = spec.floor or (Floor.SECOND if kept else Floor.THROWAWAY)
        quicken = stack.enter_context(relaxed_cluster(cluster, floor))
        yield _own(cluster, spec, create=not kept, quicken=quicken)
        cluster.settled()


@contextmanager
def relaxed_cluster(cluster: Cluster, floor: Floor) -> Iterator[Callable[[], None]]:
    wanted = relaxed_commits(cluster, floor, cluster.storage)

    def quicken() -> None:
        for node in cluster.nodes:
            _set(node, wanted)

    with Undo() as undo:
        for node in cluster.nodes:
            left = unfinished(node)
            before = left.values if left is not None else node.read_back(wanted)
            undo.callback(_give_back, node, before)
            begin_unfinished(node, values=before)
        yield quicken


def _kept_server(spec: FillSpec, progress: Progress) -> SandboxSpec:
    basedir = Path(spec.server.basedir) if spec.server.basedir else None
    found = find_build(spec.server.build, basedir=basedir, progress=progress)
    root = DataRoot.open(Path(spec.storage.data_root) if spec.storage.data_root else None)
    return SandboxSpec(
        found,
        data_root=root,
        slow_disk=slow_disk_in(root, spec.storage.disk),
        kept=True,
        nodes=spec.server.cluster or 1,
    )


@contextmanager
def _kept_once_begun(server: Sandbox | Cluster, progress: Progress) -> Iterator[None]:
    kind = "cluster" if isinstance(server, Cluster) else "sandbox"
    try:
        yield
    except UsageError:
        server.remove()
        raise
    except BaseException:
        start = "" if server.alive() else f"flushlab server start --name {server.name} starts it again, "
        again = f"flushlab fill … --server {kind}:{server.name} --continue goes on"
        progress(f"the {kind} {server.name} is kept: {start}{again}")
        raise


def _give_back(server: Sandbox, before: Mapping[str, Value]) -> None:
    """Gives back each setting, whatever is refused; the next load gives back the rest."""
    if server.alive():
        undo_all(partial(_set, server, {name: value}) for name, value in before.items())
        end_unfinished(server)


def _set(server: Server, settings: Mapping[str, Value]) -> None:
    for name, value in settings.items():
        if name == _INFILE:
            server.query(f"SET GLOBAL {_INFILE} = {int(value)}")
        elif server.read_back([name]) != {name: value}:
            set_variable(server.query, server.identity, name, value)


def relaxed_commits(server: Server, floor: Floor, storage: Storage) -> dict[str, Value]:
    identity = server.identity
    now = server.read_back(load_catalog().names(identity.flavor, identity.version))
    for commits in _COMMITS:
        found = guarantees({**now, **commits}, identity, storage, server.launch)
        if meets(found, floor):
            return commits
    return _COMMITS[-1]


def settings_of_others(server: Server, floor: Floor, load_bytes: int) -> dict[str, Value]:
    """Not the buffer pool: how much memory the server may have cannot be seen, and a pool that is made
    smaller again throws out pages of others."""
    honest = Storage()  # its owner answers for it; what is judged is what commits give up
    commits = relaxed_commits(server, floor, honest)
    now = server.read_back([*commits, "log_bin", "innodb_log_buffer_size", *_REDO])
    names = [name for name in commits if name != "sync_binlog" or now.get("log_bin") != "OFF"]
    as_fast = _COMMITS[: _COMMITS.index(commits) + 1]
    is_fast = any(all(now[name] == one[name] for name in names) for one in as_fast)
    wanted = {} if is_fast else {name: commits[name] for name in names}
    configuration = Configuration({}, server.identity)
    for name in _REDO:
        here, size = configuration.here(name), now.get(name)
        if name == REDO_CAPACITY and here is not None:
            size = redo_capacity_in_force(server.query) or size
        if here is None or not here.dynamic or not isinstance(size, int):
            continue
        # MariaDB makes it no smaller than the log buffer while it runs: what is so could not be put back.
        fits_back = size >= int(now.get("innodb_log_buffer_size", 0))
        if fits_back and size < min(load_bytes, _MOST_REDO):
            wanted[name] = min(-(-load_bytes // _REDO_STEP) * _REDO_STEP, _MOST_REDO)
    return wanted


def settings_for(build: Build, data_bytes: int, floor: Floor) -> tuple[dict[str, Value], list[str]]:
    settings = fast_settings(build, Survey(digest="", bytes=data_bytes, sql_bytes=data_bytes, databases=()))
    settings["innodb_autoinc_lock_mode"] = 2  # else LOAD DATA of several connections is serial
    if floor is Floor.THROWAWAY:
        return settings, ["--debug-no-sync"] if build.flavor == "mariadb" else []
    for name in ("innodb_doublewrite", "innodb_flush_method", "innodb_flush_log_at_trx_commit"):
        settings.pop(name, None)
    return settings, []


_UNFINISHED = "fill.json"


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    owner: ProcessIdentity
    defaults: bool = False
    values: Mapping[str, Value] = {}

    @property
    def runs_elsewhere(self) -> bool:
        return self.owner != myself() and self.owner.alive()


def unfinished(server: Sandbox) -> Unfinished | None:
    note = _read_unfinished(server)
    return None if note is None or note.runs_elsewhere else note


def begin_unfinished(
    server: Sandbox, *, defaults: bool = False, values: Mapping[str, Value] | None = None
) -> None:
    if (note := _read_unfinished(server)) is not None and note.runs_elsewhere:
        return
    path = server.folder / _UNFINISHED
    note = Unfinished(owner=myself(), defaults=defaults, values=values or {})
    try:
        atomic.write(path, msgspec.json.encode(note), mode=0o600)
    except OSError as error:
        raise NotWritable(
            f"{path} cannot be written: {error.strerror}", hint="nothing was changed or loaded"
        ) from error


def end_unfinished(server: Sandbox) -> None:
    if (note := _read_unfinished(server)) is not None and note.owner == myself():
        (server.folder / _UNFINISHED).unlink(missing_ok=True)


def _read_unfinished(server: Sandbox) -> Unfinished | None:
    try:
        return msgspec.json.decode((server.folder / _UNFINISHED).read_bytes(), type=Unfinished)
    except (FileNotFoundError, msgspec.DecodeError):  # written by rename: another flushlab's form at worst
        return None
