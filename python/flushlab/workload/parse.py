"""From a workload's name and options to a Workload; the unit of work that it counts, its texts."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from flushlab.errors import UsageError, nearest
from flushlab.record import OltpSpec, SourceKind, SourceText, TxnSpec, TxnStatement, Value
from flushlab.redact import option_file_without_passwords, without_passwords
from flushlab.server.sql import require_not_system
from flushlab.spec.option import Field, flag
from flushlab.spec.parts import WorkloadSpec
from flushlab.workload import command, data, sql
from flushlab.workload.command import CommandWorkload, files_named
from flushlab.workload.data import DataWorkload
from flushlab.workload.engine import Connected
from flushlab.workload.options import EngineOptions, Spelling, check_tls, options_of, settle
from flushlab.workload.protocol import OWN_LOAD, OWN_LOAD_UNIT, OwnLoad, Timing, Workload
from flushlab.workload.sql import SQL, TXN, SqlWorkload, TxnWorkload
from flushlab.workload.tables import OLTP_NAMES, UPSERT, WRITES, OltpWorkload, UpsertWorkload

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
    if change.name in ("", workload.name):
        return WorkloadSpec(name=workload.name, options={**workload.options, **change.options})
    taken = workload_options(change.name)
    kept = {name: value for name, value in workload.options.items() if name in taken}
    return WorkloadSpec(name=change.name, options={**kept, **change.options})


_SYSBENCH = (
    "--workload 'command: sysbench {script} --mysql-socket=$FLUSHLAB_SOCKET --mysql-user=$FLUSHLAB_USER"
    " --mysql-password=$FLUSHLAB_PASSWORD --mysql-db=$FLUSHLAB_DATABASE run'"
)


def workload_options(name: str) -> Mapping[str, Field]:
    kind = _kind(name)
    return options_of(_WORKLOADS[kind]) if kind != OWN_LOAD else {}


def workload_names() -> tuple[str, ...]:
    return tuple(name for name in _WORKLOADS if not name.endswith(":"))


def all_options() -> Mapping[str, Field]:
    return {name: option for one in _WORKLOADS.values() for name, option in options_of(one).items()}


def defaults_of(name: str) -> set[Value]:
    known = map(options_of, _WORKLOADS.values())
    return {options[name].default for options in known if name in options}


def build_workload(
    name: str, options: Mapping[str, Value], *, folder: Path | None = None, spelling: Spelling = str
) -> Workload:
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


def fingerprint(workload: Workload) -> str:
    return hashlib.sha256(msgspec.json.encode(workload)).hexdigest()


LEAST_FACTOR = 1.1
"""Events whose rows differ by less count as the same work."""

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`")
_VALUES = re.compile(r"\bVALUES?\s*(?=\(|ROW\b)", re.IGNORECASE)
_SELECTING = re.compile(r"\b(?:INSERT|REPLACE)\b.*\bSELECT\b", re.IGNORECASE | re.DOTALL)


class Event(NamedTuple):
    unit: str
    rows: float | None = None

    @property
    def words(self) -> str:
        if self.rows is None or self.unit == "rows/s":
            return self.unit
        return f"{self.unit} of {self.rows:.4g} row{'' if self.rows == 1 else 's'} each"

    def differs(self, other: Event) -> bool:
        if self.unit != other.unit:
            return True
        if not self.rows or not other.rows:
            return bool(self.rows) != bool(other.rows) and None not in (self.rows, other.rows)
        return max(self.rows, other.rows) >= LEAST_FACTOR * min(self.rows, other.rows)


def event_of(workload: Workload) -> Event:
    if isinstance(workload, CommandWorkload | SqlWorkload):
        return Event("s")
    if isinstance(workload, OwnLoad):
        return Event(OWN_LOAD_UNIT)
    if isinstance(workload, UpsertWorkload):
        return Event("rows/s", 1)
    if isinstance(workload, OltpWorkload):
        return Event("transactions/s", _oltp_rows(workload.name, workload.statements))
    if isinstance(workload, DataWorkload):
        shares = workload.shares
        return Event("transactions/s", 1 + shares["delete"] / sum(shares.values()))
    assert isinstance(workload, TxnWorkload), "every workload counts something"
    return Event("transactions/s", _txn_rows(workload.spec))


def _oltp_rows(name: str, statements: OltpSpec) -> float:
    if len(WRITES[name]) < 2:
        return len(WRITES[name])
    return statements.index_updates + statements.non_index_updates + 2 * statements.delete_inserts


def _txn_rows(spec: TxnSpec) -> float | None:
    total = 0.0
    for kind in spec.transactions:
        for statement in kind.statements:
            rows = rows_of(statement)
            if rows is None:
                return None
            total += kind.weight * statement.repeat * rows
    return total / sum(kind.weight for kind in spec.transactions)


def rows_of(statement: TxnStatement) -> int | None:
    """An UPDATE or a DELETE counts as one row, whatever its WHERE finds; None: a SELECT."""
    if not statement.writes:
        return 0
    code = _QUOTED.sub("''", statement.sql)
    if (values := _VALUES.search(code)) is None:
        return None if _SELECTING.search(code) else 1
    rows = depth = 0
    for character in code[values.end() :]:
        if character == "(":
            rows += depth == 0
            depth += 1
        elif character == ")":
            depth -= 1
        elif depth == 0 and not (character.isspace() or character in ",ROWrow"):
            break
    return rows


MOST_BYTES = 128 << 10
"""Longer texts are not stored: a page and a JSON document are read by people and sent around."""

_MOST_SCRIPTS = 8
_SCRIPTS = frozenset(
    f".{one}"
    for one in ("bash", "groovy", "jmx", "js", "lua", "php", "pl", "py", "rb", "sh", "sql", "tcl", "ts")
)
"""Of shells, languages and load generators: names of files that hold what runs."""


def source_text(kind: SourceKind, name: str, content: bytes) -> SourceText:
    try:
        text = content.decode() if len(content) <= MOST_BYTES and b"\0" not in content else None
    except UnicodeDecodeError:
        text = None
    hide = option_file_without_passwords if kind == "option file" else without_passwords
    shown = None if text is None else hide(text)
    # A digest of the whole would let whoever reads the rest try out passwords.
    digested = content if shown in (None, text) else (shown or "").encode()
    return SourceText(
        kind=kind, name=name, size_bytes=len(content), sha256=hashlib.sha256(digested).hexdigest(), text=shown
    )


def sources_of(workload: Workload) -> tuple[SourceText, ...]:
    return tuple(_sources(workload))


def _sources(workload: Workload) -> Iterator[SourceText]:
    if isinstance(workload, TxnWorkload):
        yield source_text("transactions", workload.name.removeprefix(TXN).strip(), workload.source.encode())
        if workload.setup_file:
            yield source_text("setup", workload.setup_file, workload.setup.encode())
    elif isinstance(workload, SqlWorkload):
        yield source_text("script", workload.name.removeprefix(SQL).strip(), workload.script)
    elif isinstance(workload, CommandWorkload):
        yield from _scripts(workload)


def _scripts(workload: CommandWorkload) -> Iterator[SourceText]:
    # What an option or a redirection gets is data, and may be a secret.
    whole = [named for named in files_named(workload.command, Path(workload.folder)) if named[0].is_whole]
    small = ((word.text, path) for word, path in whole if path.stat().st_size <= MOST_BYTES)
    # A program by its name or its mode: other files are data, too.
    found = (
        (name, path.read_bytes())
        for name, path in small
        if os.access(path, os.R_OK) and (path.suffix.lower() in _SCRIPTS or os.access(path, os.X_OK))
    )
    for name, content in islice(found, _MOST_SCRIPTS):
        if (source := source_text("script", name, content)).text:
            yield source
