"""From a workload's name and options to a Workload; the registry of workloads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.errors import UsageError, nearest
from flushlab.record import Value
from flushlab.server.sql import require_not_system
from flushlab.spec.option import flag
from flushlab.spec.parts import WorkloadSpec
from flushlab.workload import command, data, sql
from flushlab.workload.command import CommandWorkload
from flushlab.workload.data import DataWorkload
from flushlab.workload.engine import Connected
from flushlab.workload.options import EngineOptions, OptionInfo, Spelling, check_tls, options_of, settle
from flushlab.workload.protocol import OWN_LOAD, OwnLoad, Timing, Workload
from flushlab.workload.sql import SqlWorkload, TxnWorkload
from flushlab.workload.tables import OLTP_NAMES, UPSERT, OltpWorkload, UpsertWorkload

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
_Drivable = OltpWorkload | DataWorkload | UpsertWorkload | TxnWorkload | SqlWorkload | CommandWorkload
_WORKLOADS: Mapping[str, type[_Drivable]] = {
    **dict.fromkeys(OLTP_NAMES, OltpWorkload),
    data.NAME: DataWorkload,
    UPSERT: UpsertWorkload,
    sql.TXN: TxnWorkload,
    sql.SQL: SqlWorkload,
    command.PREFIX: CommandWorkload,
}
"""Every workload that flushlab drives, by its name or its name's beginning."""
ON_DATA = (command.PREFIX, sql.SQL, sql.TXN, data.NAME)
"""Beginnings of the names of workloads that run on the user's data."""


def settled(workload: WorkloadSpec) -> WorkloadSpec:
    """A workload as campaigns keep it: with absolute paths, since it may be resumed from elsewhere."""
    options = dict(workload.options)
    if options.get("ssl_ca"):
        options["ssl_ca"] = str(Path(str(options["ssl_ca"])).expanduser().absolute())
    return msgspec.structs.replace(workload, name=settled_name(workload.name), options=options)


def parse_timing(seconds: float) -> Timing:
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise UsageError(
            f"a window of {seconds:g} s is out of range",
            hint=f"it takes {MIN_SECONDS:g} to {MAX_SECONDS:g} s",
        )
    return Timing().with_window(seconds)


def changed(workload: WorkloadSpec, change: WorkloadSpec) -> WorkloadSpec:
    """A workload with a change, whose name may be empty; another workload keeps the options that it takes."""
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
    kind = _kind(name)
    return options_of(_WORKLOADS[kind]) if kind != OWN_LOAD else {}


def workload_names() -> tuple[str, ...]:
    return tuple(name for name in _WORKLOADS if not name.endswith(":"))


def all_options() -> Mapping[str, OptionInfo]:
    return {name: option for one in _WORKLOADS.values() for name, option in options_of(one).items()}


def defaults_of(name: str) -> set[Value]:
    known = map(options_of, _WORKLOADS.values())
    return {options[name].default for options in known if name in options}


def build_workload(
    name: str, options: Mapping[str, Value], *, folder: Path | None = None, spelling: Spelling = str
) -> Workload:
    """A workload with its options; a script is relative to the folder, and a command runs there."""
    kind = _kind(name)
    for option in options:
        if option in NOT_TAKEN:
            raise UsageError(f"sysbench's option {spelling(option)} is not supported", hint=NOT_TAKEN[option])
    settled = settle(kind.removesuffix(":"), workload_options(name), options, spelling)
    if kind == OWN_LOAD:
        return OwnLoad()
    if "ssl_ca" in settled:
        if file := str(settled["ssl_ca"]):
            settled["ssl_ca"] = str((folder or Path()) / Path(file).expanduser())
        check_tls(msgspec.convert(settled, Connected), spelling)
    workload = _WORKLOADS[kind].read(name, folder, settled)
    if isinstance(workload, EngineOptions):
        workload.check(spelling)
    return workload


def parse_workload(
    name: str, options: Mapping[str, Value] | None = None, folder: Path | None = None
) -> Workload:
    return build_workload(name, options or {}, folder=folder, spelling=flag)


def settled_name(name: str) -> str:
    """The workload's name as a stored request keeps it: a file by its absolute path, since a campaign may
    be resumed from another directory."""
    kind = _kind(name)
    if kind not in (sql.SQL, sql.TXN):
        return name
    file = Path(name.removeprefix(kind).strip()).expanduser()
    return f"{kind}{file.absolute()}"


def command_of(name: str) -> str:
    return name.removeprefix(command.PREFIX).strip() if name.startswith(command.PREFIX) else ""


def _kind(name: str) -> str:
    if name.endswith(".lua") and not name.startswith(command.PREFIX):
        script = name.removeprefix(sql.TXN).removeprefix(sql.SQL)
        known = f"--workload {Path(script).stem}, " if Path(script).stem in OLTP_NAMES else ""
        raise UsageError(
            f"{script} is a Lua script, which flushlab does not run",
            hint=f"use {known}--workload txn:FILE for your own transactions (docs/how-to/transactions.md),"
            f" or sysbench itself: {_SYSBENCH.format(script=script)}",
        )
    names = (*_WORKLOADS, OWN_LOAD)
    for kind in names:
        if name == kind or (kind.endswith(":") and name.startswith(kind)):
            return kind
    near = nearest(name, names, most=1)
    raise UsageError(
        f"there is no workload {name!r}",
        hint=(f"did you mean {near[0]}? " if near else "")
        + f"available: {', '.join(workload_names())}, txn:FILE, sql:FILE and 'command: …'",
    )


def on_data(workload: Workload, database: str) -> Workload:
    if isinstance(workload, (CommandWorkload, DataWorkload, SqlWorkload, TxnWorkload)):
        return msgspec.structs.replace(workload, database=require_not_system(database))
    return workload


def fingerprint(workload: Workload, root: str = "") -> str:
    """Changes with the workload and its file. `root`: begins its absolute paths here, and not where it was
    made first."""
    made_of = msgspec.json.encode(workload)
    return hashlib.sha256(made_of.replace(root.encode(), b"") if root else made_of).hexdigest()
