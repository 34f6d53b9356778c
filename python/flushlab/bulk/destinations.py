"""Destinations: the servers that rows go to, as fast as their floor allows while they come.

Sits in `bulk`. A new sandbox starts with the fastest settings of its floor and ends with its defaults, after
an orderly stop; a kept one has its commits relaxed for the load only, even if that is killed and goes on
later; what is not a sandbox is left as it is unless its owner asks for the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec

from flushlab.build import Build, Progress
from flushlab.bulk import unfinished
from flushlab.dataset.loaded import fast_settings
from flushlab.dataset.survey import Survey
from flushlab.errors import UsageError
from flushlab.record import Storage, Value
from flushlab.server import DataDirectory, Instance, Sandbox
from flushlab.server.galera.cluster import Cluster
from flushlab.server.protocol import Server
from flushlab.server.variables import set_variable
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import guarantees, meets
from flushlab.settings.floor import Floor
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


def relaxed_commits(server: Server, floor: Floor, storage: Storage) -> dict[str, Value]:
    """The fastest commits that the floor allows on a server as it is, on that storage; those of `strict` if
    none does."""
    identity = server.identity
    now = server.read_back(load_catalog().names(identity.flavor, identity.version))
    for commits in _COMMITS:
        found = guarantees({**now, **commits}, identity, storage, server.launch)
        if meets(found, floor):
            return commits
    return _COMMITS[-1]


def settings_of_others(server: Server, floor: Floor, load_bytes: int) -> dict[str, Value]:
    """What makes a load faster on a server that is not a sandbox, within the floor, and is put back easily.

    Commits, and a redo log that holds the load, up to 1 GiB. Not the buffer pool: how much memory the server
    may have cannot be seen, and a pool that is made smaller again throws out pages of others.
    """
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
        if here is None or not here.dynamic or not isinstance(size, int):
            continue
        # MariaDB makes it no smaller than the log buffer while it runs: what is so could not be put back.
        fits_back = size >= int(now.get("innodb_log_buffer_size", 0))
        if fits_back and size < min(load_bytes, _MOST_REDO):
            wanted[name] = min(-(-load_bytes // _REDO_STEP) * _REDO_STEP, _MOST_REDO)
    return wanted


def settings_for(build: Build, data_bytes: int, floor: Floor) -> tuple[dict[str, Value], list[str]]:
    """How a new sandbox runs while it is loaded: settings, and words of its command line."""
    settings = fast_settings(build, Survey(digest="", bytes=data_bytes, sql_bytes=data_bytes, databases=()))
    settings["innodb_autoinc_lock_mode"] = 2  # else LOAD DATA of several connections takes turns
    if floor is Floor.THROWAWAY:
        return settings, ["--debug-no-sync"] if build.flavor == "mariadb" else []
    for name in ("innodb_doublewrite", "innodb_flush_method", "innodb_flush_log_at_trx_commit"):
        settings.pop(name, None)
    return settings, []


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox that takes rows.

    Attributes:
        server: target of the rows.
        fast: settings that its floor allows while rows come, and words of its command line.
        new: it was made for these rows: it may be restarted.
    """

    server: Sandbox
    fast: tuple[dict[str, Value], list[str]]
    new: bool

    def quicken(self) -> None:
        """From now on it runs with the fastest settings that the floor allows."""
        settings, arguments = self.fast
        if not self.new:
            for name, value in settings.items():
                set_variable(self.server.query, self.server.identity, name, value)
            return
        if dict(self.server.settings) != settings:
            self.server.stop()
            self.server.set_before_start(settings, arguments)
            self.server.start_again()
        self.server.query(_ALLOW)


_INFILE = "local_infile"
_ALLOW = f"SET GLOBAL {_INFILE} = 1"


@contextmanager
def new_sandbox(
    build: Build, data_bytes: int, floor: Floor, data: DataDirectory, progress: Progress, *, slow: bool
) -> Iterator[Destination]:
    """A new sandbox that is kept; with its defaults once all went well, and gone if the request was wrong.

    Args:
        build: of the server.
        data_bytes: of the rows, about.
        floor: until all rows are there.
        data: its data directory.
        progress: takes a line at a time.
        slow: start with the server's defaults.
    """
    fast = settings_for(build, data_bytes, floor)
    server = Sandbox.start(
        build,
        settings={} if slow else fast[0],
        arguments=[] if slow else fast[1],
        data=data,
        instance=Instance(kept=True),
        progress=progress,
    )
    try:
        unfinished.begin(server, unfinished.Before(defaults=True))
        progress(f"rows go to the new sandbox {server.name}")
        server.query(_ALLOW)
        yield Destination(server=server, fast=fast, new=True)
    except UsageError:
        server.remove()
        raise
    except BaseException:
        progress(_how_to_go_on("sandbox", server))
        raise
    _restart_with_defaults(server, progress)


@contextmanager
def kept_sandbox(
    name: str, data_bytes: int, floor: Floor | None, progress: Progress, *, slow: bool
) -> Iterator[Destination]:
    """A kept sandbox, with its commits relaxed down to the floor once it is quickened; as it was behind it.

    One that was made for a load that was cut short goes on as it began, and ends as it would have.

    Args:
        name: of the sandbox.
        data_bytes: of the rows, about.
        floor: until all rows are there; None: `second`, or what an interrupted load began with.
        progress: takes a line at a time.
        slow: restore the state before an interrupted load.
    """
    with Sandbox.attach(name) as server:
        left = unfinished.left(server)
        if left is not None and left.defaults:
            fast = (dict(server.settings), list(server.arguments))
            if floor is not None or slow:
                fast = settings_for(server.build, data_bytes, floor or Floor.THROWAWAY)
            unfinished.begin(server, left)
            if slow:
                _restart_with_defaults(server, progress, ended=False)
            server.query(_ALLOW)
            yield Destination(server=server, fast=fast, new=True)
            _restart_with_defaults(server, progress)
            return
        wanted = relaxed_commits(server, floor or Floor.SECOND, server.storage)
        before = left.values if left is not None else _values(server, [*wanted, "innodb_buffer_pool_size"])
        with Undo() as undo:
            undo.callback(_give_back, server, before)
            unfinished.begin(server, unfinished.Before(values=before))
            server.query(_ALLOW)
            yield Destination(server=server, fast=(wanted, []), new=False)


def _give_back(server: Sandbox, before: Mapping[str, Value]) -> None:
    """Gives back each setting, whatever is refused; the next load gives back what could not be."""
    if server.alive():
        undo_all(partial(_set, server, {name: value}) for name, value in before.items())
        unfinished.end(server)


def _values(server: Sandbox, names: Sequence[str]) -> dict[str, Value]:
    ((infile,),) = server.query("SELECT @@global.local_infile")
    return {**server.read_back(names), _INFILE: int(infile)}


def _restart_with_defaults(server: Sandbox, progress: Progress, *, ended: bool = True) -> None:
    progress(f"restarting {server.name} with its defaults")
    server.stop()
    server.set_before_start({}, [])
    server.start_again()
    if ended:
        unfinished.end(server)


def _how_to_go_on(kind: str, server: Sandbox | Cluster) -> str:
    """What is said of a new sandbox or cluster whose load was cut short."""
    start = "" if server.alive() else f"flushlab server start --name {server.name} starts it again, "
    again = f"flushlab fill … --server {kind}:{server.name} --resume goes on"
    return f"the {kind} {server.name} is kept: {start}{again}"


@contextmanager
def new_cluster(build: Build, size: int, data: DataDirectory, progress: Progress) -> Iterator[Cluster]:
    """A new cluster that is kept; gone if the request was wrong.

    Args:
        build: of its nodes.
        size: how many.
        data: the nodes' data directories.
        progress: takes a line at a time.
    """
    cluster = Cluster.start(
        build,
        size=size,
        data=data,
        instance=Instance(kept=True),
        progress=progress,
    )
    try:
        yield cluster
    except UsageError:
        cluster.remove()
        raise
    except BaseException:
        progress(_how_to_go_on("cluster", cluster))
        raise


@contextmanager
def relaxed_cluster(cluster: Cluster, floor: Floor) -> Iterator[Callable[[], None]]:
    """What relaxes a cluster's commits down to the floor, on every node; they are as they were behind it."""
    wanted = relaxed_commits(cluster, floor, cluster.storage)

    def quicken() -> None:
        for node in cluster.nodes:
            _set(node, wanted)

    with Undo() as undo:
        for node in cluster.nodes:
            left = unfinished.left(node)
            before = left.values if left is not None else node.read_back(wanted)
            undo.callback(_give_back, node, before)
            unfinished.begin(node, unfinished.Before(values=before))
        yield quicken


def _set(server: Server, settings: Mapping[str, Value]) -> None:
    for name, value in settings.items():
        if name == _INFILE:
            server.query(f"SET GLOBAL {_INFILE} = {int(value)}")
        elif server.read_back([name]) != {name: value}:
            set_variable(server.query, server.identity, name, value)
