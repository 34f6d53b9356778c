"""Places: the servers that rows go to, as fast as their floor allows while they come.

Sits in `bulk`. A new sandbox starts with the fastest settings of its floor and ends with its defaults, after
an orderly stop; a kept one has its commits relaxed for the load only; what is not a sandbox is left as it is
unless its owner asks for the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from flushlab.build import Build, Progress
from flushlab.datadir import DataRoot
from flushlab.dataset.loaded import fast_settings
from flushlab.dataset.survey import Survey
from flushlab.errors import UsageError
from flushlab.record import Storage, Value
from flushlab.server import Sandbox
from flushlab.server.protocol import Server
from flushlab.server.variables import set_variable
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import guarantees, meets
from flushlab.settings.floor import Floor

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


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox that takes rows.

    Attributes:
        server: it.
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


_ALLOW = "SET GLOBAL local_infile = 1"


@contextmanager
def new_sandbox(
    build: Build, data_bytes: int, floor: Floor, data_root: Path | None, progress: Progress, *, slow: bool
) -> Iterator[Place]:
    """A new sandbox that is kept; with its defaults once all went well, and gone if the request was wrong.

    Args:
        build: whose it is.
        data_bytes: of the rows, about.
        floor: until all rows are there.
        data_root: where its data directory goes.
        progress: takes a line at a time.
        slow: it starts with its defaults.
    """
    fast = settings_for(build, data_bytes, floor)
    server = Sandbox.start(
        build,
        settings={} if slow else fast[0],
        arguments=[] if slow else fast[1],
        data_root=DataRoot.open(data_root),
        kept=True,
        progress=progress,
    )
    try:
        server.query(_ALLOW)
        yield Place(server=server, fast=fast, new=True)
    except UsageError:
        server.remove()
        raise
    except BaseException:
        again = f"flushlab fill … --server sandbox:{server.name} --resume"
        progress(f"the sandbox {server.name} is kept: {again} goes on")
        raise
    progress(f"restarting {server.name} with its defaults")
    server.stop()
    server.set_before_start({}, [])
    server.start_again()


@contextmanager
def kept_sandbox(name: str, floor: Floor) -> Iterator[Place]:
    """A kept sandbox, with its commits relaxed down to the floor once it is quickened; as it was behind
    it."""
    with Sandbox.attach(name) as server:
        wanted = relaxed_commits(server, floor, server.storage)
        before = server.read_back([*wanted, "innodb_buffer_pool_size"])
        ((infile,),) = server.query("SELECT @@global.local_infile")
        try:
            server.query(_ALLOW)
            yield Place(server=server, fast=(wanted, []), new=False)
        finally:
            if server.alive():
                server.query(f"SET GLOBAL local_infile = {int(infile)}")
                for setting, value in before.items():
                    if server.read_back([setting]) != {setting: value}:
                        set_variable(server.query, server.identity, setting, value)
