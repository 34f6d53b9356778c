"""From a workload's name and options to a Workload; the registry of workloads."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.server.sql import require_not_system
from flushlab.spec.option import flag
from flushlab.spec.parts import WorkloadSpec
from flushlab.workload import command, data, oltp, protocol, sql, txn, upsert
from flushlab.workload.command import CommandWorkload
from flushlab.workload.data import DataWorkload
from flushlab.workload.data.workload import require_shares
from flushlab.workload.oltp import OltpWorkload
from flushlab.workload.options import OptionInfo, Spelling, check_schedule, check_tls, settle
from flushlab.workload.protocol import OwnLoad, Timing, Workload
from flushlab.workload.sql import SqlWorkload
from flushlab.workload.txn import TxnWorkload
from flushlab.workload.upsert import UpsertWorkload

_CONNECTION = "flushlab starts the server itself: choose it with --server"

NOT_TAKEN: Mapping[str, str] = {
    "time": "the length of the measurement is --duration; of a window, in tune, series and plans: window",
    "events": "a measurement has a length in seconds: --duration or --window",
    "warmup_time": "flushlab warms up until throughput is level",
    "percentile": "p50, p95, p99, p99.9 and the maximum are always reported",
    "histogram": "p50, p95, p99, p99.9 and the maximum are always reported; --json has them",
    "report_interval": "the throughput of each second is in --json under per_second",
    "report_checkpoints": "the throughput of each second is in --json under per_second",
    "rand_seed": "the generators have a fixed seed: the same rows and draws every time",
    "validate": "every response is checked; errors are counted by number",
    "forced_shutdown": "a load ends at the end of its window",
    "thread_init_timeout": "connections that cannot be made are reported at once",
    "thread_stack_size": "there is no stack per connection to size",
    "debug": "errors are reported with their numbers and messages",
    "verbosity": "data goes to stdout, progress to stderr",
    "luajit_cmd": "Lua is not supported; use --workload txn:FILE, or 'command: sysbench …'",
    "db_driver": "flushlab supports only MySQL and MariaDB",
    "db_ps_mode": "statements are prepared, as sysbench does by default",
    "db_debug": "errors are reported with their numbers and messages",
    "mysql_host": _CONNECTION,
    "mysql_port": _CONNECTION,
    "mysql_socket": _CONNECTION,
    "mysql_user": _CONNECTION,
    "mysql_password": _CONNECTION,
    "mysql_db": "OLTP tables are in the database sbtest",
    "mysql_ssl": _CONNECTION,
    "mysql_ssl_cipher": _CONNECTION,
    "mysql_ssl_key": _CONNECTION,
    "mysql_ssl_cert": _CONNECTION,
    "mysql_ssl_ca": _CONNECTION,
    "mysql_compression": "the protocol is not compressed",
    "mysql_debug": "errors are reported with their numbers and messages",
    "mysql_dry_run": "flushlab always asks a real server",
    "mysql_ignore_errors": "1213, 1020 and 1205 are ignored and counted; txn:FILE can name others",
    "mysql_storage_engine": "flushlab measures InnoDB tables",
    "pgsql_variant": "flushlab supports only MySQL and MariaDB",
}
"""Options of sysbench that no workload takes, as a plan would spell them, and the way out."""


MIN_SECONDS, MAX_SECONDS = 0.1, 86_400.0
_OPTIONS: Mapping[str, tuple[OptionInfo, ...]] = {
    **dict.fromkeys(oltp.NAMES, oltp.OPTIONS),
    data.NAME: data.OPTIONS,
    upsert.NAME: upsert.OPTIONS,
    txn.PREFIX: txn.OPTIONS,
    sql.PREFIX: sql.OPTIONS,
    command.PREFIX: command.OPTIONS,
    protocol.OWN_LOAD: (),
}
"""Every workload, or the prefix of its name, with the options that it takes."""


def settled(workload: WorkloadSpec) -> WorkloadSpec:
    """A workload as campaigns keep it: files by their absolute paths, since it may be resumed from elsewhere.

    Raises:
        UsageError: there is no such workload.
    """
    options = dict(workload.options)
    if options.get("ssl_ca"):
        options["ssl_ca"] = str(Path(str(options["ssl_ca"])).expanduser().absolute())
    return msgspec.structs.replace(workload, name=settled_name(workload.name), options=options)


def parse_timing(seconds: float) -> Timing:
    """The timing of a window of this length.

    Raises:
        UsageError: no window, or one longer than a day.
    """
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise UsageError(
            f"a window of {seconds:g} s is out of range",
            hint=f"it takes {MIN_SECONDS:g} to {MAX_SECONDS:g} s",
        )
    return Timing().with_window(seconds)


def changed(workload: WorkloadSpec, change: WorkloadSpec) -> WorkloadSpec:
    """A workload with a change. Another workload keeps the options that it takes, too.

    Args:
        workload: to change.
        change: its name is empty where the workload stays; its options are those that change.

    Raises:
        UsageError: there is no such workload.
    """
    if change.name in ("", workload.name):
        return WorkloadSpec(name=workload.name, options={**workload.options, **change.options})
    taken = workload_options(change.name)
    kept = {name: value for name, value in workload.options.items() if name in taken}
    return WorkloadSpec(name=change.name, options={**kept, **change.options})


_SYSBENCH = (
    "--workload 'command: sysbench {script} --mysql-socket=$FLUSHLAB_SOCKET --mysql-user=$FLUSHLAB_USER"
    " --mysql-password=$FLUSHLAB_PASSWORD --mysql-db=$FLUSHLAB_DATABASE run'"
)


def workload_options(name: str) -> Mapping[str, OptionInfo]:
    """The options that a workload takes, by their names.

    Raises:
        UsageError: there is no such workload.
    """
    return {option.name: option for option in _OPTIONS[_kind(name)]}


def workload_names() -> tuple[str, ...]:
    """The names of workloads that take no file and no command, of those that flushlab drives."""
    return tuple(name for name in _OPTIONS if not name.endswith(":") and name != protocol.OWN_LOAD)


def all_options() -> Mapping[str, OptionInfo]:
    """The options of all workloads, by their names."""
    return {option.name: option for options in _OPTIONS.values() for option in options}


def defaults_of(name: str) -> set[Value]:
    """The defaults of an option, which may differ between workloads."""
    return {one.default for options in _OPTIONS.values() for one in options if one.name == name}


def build_workload(
    name: str, options: Mapping[str, Value], *, folder: Path | None = None, spelling: Spelling = str
) -> Workload:
    """A workload by its name, with its options.

    Args:
        name: as it stands in a plan or behind `--workload`.
        options: by their names; what is absent has its default.
        folder: what the name of a script is relative to, and where a command runs; None: the present one.
        spelling: how messages spell an option.

    Raises:
        UsageError: no such workload, an option that it does not take, a value that an option does not, or
            a script that cannot be read.
    """
    kind = _kind(name)
    for option in options:
        if option in NOT_TAKEN:
            raise UsageError(f"sysbench's option {spelling(option)} is not supported", hint=NOT_TAKEN[option])
    settled = settle(kind.removesuffix(":"), _OPTIONS[kind], options, spelling)
    if kind == protocol.OWN_LOAD:
        return OwnLoad()
    if kind == command.PREFIX:
        return CommandWorkload.read(name, folder, settled)
    if settled["ssl_ca"]:
        settled["ssl_ca"] = str((folder or Path()) / Path(str(settled["ssl_ca"])).expanduser())
    check_tls(settled, spelling)
    if "profile" in settled:
        check_schedule(settled)
    if kind == sql.PREFIX:
        return SqlWorkload.read(name, folder or Path(), settled)
    if kind == txn.PREFIX:
        return TxnWorkload.read(name, folder or Path(), settled)
    if kind == data.NAME:
        require_shares(settled, spelling)
        return msgspec.convert(settled, DataWorkload)
    if kind == upsert.NAME:
        upsert.parse_commit(str(settled["commit"]), spelling)
        return msgspec.convert(settled, UpsertWorkload)
    return _oltp(name, settled)


def parse_workload(
    name: str, options: Mapping[str, Value] | None = None, folder: Path | None = None
) -> Workload:
    """The workload behind `--workload`, with the options that the command line gives it.

    Args:
        name: of the workload.
        options: by their names; those that are absent have their defaults.
        folder: working directory of a command; None: the present one.

    Raises:
        UsageError: no such workload, or options that make no sense.
    """
    return build_workload(name, options or {}, folder=folder, spelling=flag)


def settled_name(name: str) -> str:
    """The workload's name as a stored request keeps it: a file by its absolute path, since a campaign may
    be resumed from another directory."""
    kind = _kind(name)
    if kind not in (sql.PREFIX, txn.PREFIX):
        return name
    file = Path(name.removeprefix(kind).strip()).expanduser()
    return f"{kind}{file.absolute()}"


def command_of(name: str) -> str:
    """The shell command in a workload's name; empty: flushlab itself makes the load."""
    return name.removeprefix(command.PREFIX).strip() if name.startswith(command.PREFIX) else ""


def _kind(name: str) -> str:
    """The key of `_OPTIONS` for a workload."""
    if name.endswith(".lua") and not name.startswith(command.PREFIX):
        script = name.removeprefix(txn.PREFIX).removeprefix(sql.PREFIX)
        known = f"--workload {Path(script).stem}, " if Path(script).stem in oltp.NAMES else ""
        raise UsageError(
            f"{script} is a Lua script, which flushlab does not run",
            hint=f"use {known}--workload txn:FILE for your own transactions (docs/how-to/transactions.md),"
            f" or sysbench itself: {_SYSBENCH.format(script=script)}",
        )
    for kind in _OPTIONS:
        if name == kind or (kind.endswith(":") and name.startswith(kind)):
            return kind
    near = difflib.get_close_matches(name, _OPTIONS, n=1)
    raise UsageError(
        f"there is no workload {name!r}",
        hint=(f"did you mean {near[0]}? " if near else "")
        + f"available: {', '.join(workload_names())}, txn:FILE, sql:FILE and 'command: …'",
    )


def _oltp(name: str, settled: Mapping[str, Value]) -> OltpWorkload:
    options = {option.name for option in oltp.STATEMENTS}
    plain = {option: value for option, value in settled.items() if option not in options}
    statements = {
        option.name: settled[option.name] == "on" if option.kind == "switch" else settled[option.name]
        for option in oltp.STATEMENTS
    }
    return msgspec.convert({"name": name, "statements": statements, **plain}, OltpWorkload)


ON_DATA = (command.PREFIX, sql.PREFIX, txn.PREFIX, data.NAME)
"""Beginnings of the names of workloads that run on the user's data."""


def on_data(workload: Workload, database: str) -> Workload:
    """The workload on a database of the user's data; one that makes its own tables keeps its own database.

    Raises:
        UsageError: the database is the server's own.
    """
    if isinstance(workload, (CommandWorkload, DataWorkload, SqlWorkload, TxnWorkload)):
        return msgspec.structs.replace(workload, database=require_not_system(database))
    return workload


def fingerprint(workload: Workload, root: str = "") -> str:
    """Changes with anything that the workload is made of, the content of its file included.

    Args:
        workload: read from its files.
        root: folder that its absolute paths begin with here, and not where the fingerprint was first made.
    """
    made_of = msgspec.json.encode(workload)
    return hashlib.sha256(made_of.replace(root.encode(), b"") if root else made_of).hexdigest()
