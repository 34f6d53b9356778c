"""Samples: one evidence of all that files tell, and what they do not tell. Pure.

Statuses count in the order of the files and of the texts. The window is from the first to the last, by the
server's own Uptime.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from flushlab.diagnosis.evidence import Evidence, Monitor
from flushlab.diagnosis.files.folder import FoundFiles
from flushlab.diagnosis.files.machine import host_of
from flushlab.diagnosis.files.recording import evidence_of_recording
from flushlab.diagnosis.files.told import Told
from flushlab.diagnosis.shares import LEAST_SAMPLES, step_of
from flushlab.diagnosis.window import Window
from flushlab.errors import SamplesDisagree
from flushlab.record import ServerIdentity
from flushlab.record.machine import Flavor
from flushlab.settings.in_force import identity_of
from flushlab.telemetry.live.status import ServerStatus
from flushlab.units import counted, format_seconds

_OTHER_FOLDER = "put the files of one server and one time into a folder of their own"
_NEVER_FALL = (
    *("bytes_received", "connections", "innodb_data_read", "innodb_data_written"),
    *("innodb_log_write_requests", "innodb_os_log_written", "innodb_pages_created", "queries"),
)
_SO_MANY = 2
_ALIKE = 0.9
"""Part of the names that two statuses of a server have in common."""


def evidence_of(found: FoundFiles) -> Evidence:
    """Raises SamplesDisagree if files are of different servers, or of two runs of one."""
    every = found.told
    files = tuple(
        f"{name}: {', '.join(_times(source, told) for source, told in sources.items())}"
        for name, sources in found.files.items()
    )
    if any(told.head for told in every):
        return _recorded(found, files)
    variables = _variables(found)
    monitors = [monitor for told in every for monitor in told.monitors]
    statuses = list(_statuses(found, variables))
    lists = [moment for told in every for moment in told.moments]
    first, *others = _from_first_to_last(statuses, monitors)
    window = Window(first, step_of(max(1, len(lists))))
    for status in others:
        window.note_status(msgspec.structs.replace(status, states=lists[-1] if lists else None))
    for at, states in enumerate(lists):
        window.note_states(at, states)
    for told in every:
        for moment in told.transactions:
            window.note_transactions(0.0, moment)
    for monitor in monitors:
        if monitor.transactions or not monitor.absent:
            window.note_transactions(0.0, monitor.transactions)
    ages = (monitor.checkpoint_age for monitor in monitors)
    running = (status.number("threads_running") for status in statuses)
    evidence = window.evidence(
        found.key,
        from_files=True,
        host=host_of(every, variables.get("datadir", "")),
        files=files,
        left_out=found.left_out,
        running=tuple(count for count in running if count is not None),
        monitors=tuple(monitors),
    )
    evidence = msgspec.structs.replace(
        evidence, checkpoint_ages=(*evidence.checkpoint_ages, *(age for age in ages if age is not None))
    )
    return msgspec.structs.replace(evidence, untold=tuple(_untold(evidence, found)))


def _recorded(found: FoundFiles, files: tuple[str, ...]) -> Evidence:
    if len(found.files) > 1:
        raise SamplesDisagree(
            f"a recording of flushlab watch is judged alone, and there are {len(found.files)} files:"
            f" {', '.join(found.files)}",
            hint="name one recording",
        )
    told = next(told for told in found.told if told.head)
    if told.head is None or not told.stretches:
        raise SamplesDisagree(
            f"{next(iter(found.files))} has no stretch of time",
            hint="record for 10 s at least: flushlab watch --record",
        )
    evidence = evidence_of_recording(found.key, told.head, told.stretches, files)
    return msgspec.structs.replace(evidence, left_out=found.left_out)


def _variables(found: FoundFiles) -> dict[str, str]:
    every = [
        (file, variables)
        for file, sources in found.files.items()
        for told in sources.values()
        for variables in told.variables
    ]
    for name in ("server_uuid", "hostname", "port", "version", "datadir"):
        files = {variables[name]: file for file, variables in every if name in variables}
        if len(files) > 1:
            (value, file), (other, other_file), *_ = files.items()
            raise SamplesDisagree(
                f"files of different servers: {name} is {value} in {file}, and {other} in {other_file}",
                hint=_OTHER_FOLDER,
            )
    every.sort(key=lambda one: len(one[1]))
    return {name: value for _, variables in every for name, value in variables.items()}


def _statuses(found: FoundFiles, variables: Mapping[str, str]) -> Iterator[ServerStatus]:
    every = [
        (file, status, events)
        for file, sources in found.files.items()
        for told in sources.values()
        for status, events in zip(told.statuses, told.file_events or ({},) * len(told.statuses), strict=True)
    ]
    every = [one for one in every if "uptime" in one[1]] or every
    identity = _identity(found, variables, every[-1][1] if every else variables)
    statuses = [
        ServerStatus(key=found.key, identity=identity, status=status, variables=variables, files=events)
        for _, status, events in every or [("", {}, {})]
    ]
    statuses = [msgspec.structs.replace(one, at_s=one.number("uptime") or 0.0) for one in statuses]
    for (file, before), (other, after) in pairwise(zip((file for file, *_ in every), statuses, strict=False)):
        _require_one_run(file, before, other, after)
    yield from statuses


def _require_one_run(file: str, before: ServerStatus, other: str, after: ServerStatus) -> None:
    if after.at_s < before.at_s:
        raise SamplesDisagree(
            f"Uptime falls from {before.at_s:,.0f} s in {file} to {after.at_s:,.0f} s in {other}",
            hint="files count in the order of their names: rename them, leave out those before a restart"
            " of the server, or take them again without mysqladmin --relative",
        )
    names, others = before.status.keys(), after.status.keys()
    both = names & others
    fell = [name for name in _NEVER_FALL if (after.growth(before, name) or 0.0) < 0]
    if len(both) < _ALIKE * min(len(names), len(others)) or len(fell) >= _SO_MANY:
        why = f"{fell[0]} falls" if len(fell) >= _SO_MANY else "they have different variables"
        raise SamplesDisagree(
            f"{file} and {other} are statuses of different servers: {why}", hint=_OTHER_FOLDER
        )


def _identity(found: FoundFiles, variables: Mapping[str, str], names: Iterable[str]) -> ServerIdentity:
    """The server; a version of () where the files do not tell it: names of its variables tell the flavor."""
    alone = [told.version for told in found.told if told.version]
    # MariaDB before 11 pretends so in the protocol, and some tools keep it.
    version = variables.get("version", alone[-1] if alone else "").removeprefix("5.5.5-")
    known = identity_of({**variables, "version": version})
    if known is not None:
        return known
    is_mariadb = any(name.startswith(("aria_", "feature_", "binlog_group_commit")) for name in names)
    is_mariadb |= "mariadb" in version.lower() or any(told.is_mariadb for told in found.told)
    flavor: Flavor = "mariadb" if is_mariadb else "mysql"
    return ServerIdentity(flavor=flavor, version=(), version_text=version)


def _from_first_to_last(statuses: Sequence[ServerStatus], monitors: Sequence[Monitor]) -> list[ServerStatus]:
    """Of a single one, the first is empty: counters since the start are no growth. The ends have also what
    InnoDB's monitor tells under the names of status variables, which not every version has."""
    first, last = statuses[0], statuses[-1]
    every = list(statuses)
    if len(every) < 2 or (last.at_s <= first.at_s and "uptime" in last.status):
        every = [msgspec.structs.replace(last, status={"uptime": str(last.at_s)}, files={}), *every]
    for at in (0, -1) if monitors else ():
        monitor = monitors[at]
        told = {
            "innodb_checkpoint_max_age": monitor.checkpoint_max_age,
            "innodb_history_list_length": monitor.history_length,
            "innodb_buffer_pool_pages_total": monitor.pages,
            "innodb_buffer_pool_pages_dirty": monitor.dirty_pages,
            "innodb_buffer_pool_pages_free": monitor.free_pages,
        }
        known = {name: str(value) for name, value in told.items() if value is not None}
        every[at] = msgspec.structs.replace(every[at], status={**known, **every[at].status})
    return every


def _times(source: str, told: Told) -> str:
    parts = (told.statuses, told.variables, told.monitors, told.moments, told.transactions)
    count = max(1, *map(len, (*parts, told.disks, told.cpu_times)))
    return source if count == 1 else f"{source} ({count})"


_ASSUMED = (
    *("innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite"),
    "innodb_flush_method",
)
"""Settings of durability. mysqld_exporter has none that are no numbers; some people list only InnoDB's."""
_NO_MONITOR = "no SHOW ENGINE INNODB STATUS"
_TOLD_BY_COUNTERS = {
    "innodb_buffer_pool_wait_free": "waits for a free page",
    "innodb_log_waits": "waits for the log buffer",
    "innodb_row_lock_waits": "waits for row locks",
    "binlog_cache_disk_use": "transactions larger than binlog_cache_size",
}


def _untold(evidence: Evidence, found: FoundFiles) -> Iterator[str]:
    after, monitors = evidence.after, evidence.monitors
    if not evidence.seconds:
        yield f"rates: {_no_rates(after)}"
    if not evidence.time.is_sample:
        yield (
            "where writers spend their time: commits, metadata locks, semi-sync, clients. It takes"
            f" {LEAST_SAMPLES} lists of connections or more, as pt-stalk collects them every second"
        )
    if not evidence.checkpoint_ages:
        yield f"how full the redo log is: {'the section LOG is missing' if monitors else _NO_MONITOR}"
    elif not (after.redo.capacity or after.number("innodb_checkpoint_max_age")):
        yield "how full the redo log is: no SHOW GLOBAL VARIABLES shows its size"
    if not monitors and not any(told.transactions for told in found.told):
        yield f"row locks, open transactions and InnoDB's latches: {_NO_MONITOR}"
    if not evidence.identity.version:
        yield "settings and guarantees: no SHOW GLOBAL VARIABLES shows the server's version"
    elif not evidence.settings:
        yield "settings and guarantees: no SHOW GLOBAL VARIABLES"
    if evidence.settings and (missing := [name for name in _ASSUMED if name not in after.variables]):
        yield f"{', '.join(missing)}: no file has their values, so the guarantees are those of the defaults"
    if evidence.host is None:
        yield "the machine: its side is in pt-stalk's samples"
    else:
        yield from evidence.host.unseen
    timeless = sum(told.timeless for told in found.told)
    if timeless and evidence.seconds:
        yield f"{counted(timeless, 'status')}: without Uptime, as if cut short"
    if absent := dict.fromkeys(name for monitor in monitors for name in monitor.absent):
        yield f"parts of SHOW ENGINE INNODB STATUS: {', '.join(absent)}, cut off"
    if found.left_out:
        yield f"{counted(len(found.left_out), 'file')}: they tell nothing of a server"


def _no_rates(after: ServerStatus) -> str:
    uptime = after.number("uptime")
    if not uptime:
        what = "no status has Uptime, so nothing tells the time between two" if after.status else ""
        return f"{what or 'no SHOW GLOBAL STATUS'}; take two in whole, some seconds apart"
    known = ((after.number(name), words) for name, words in _TOLD_BY_COUNTERS.items())
    counts = [f"{count:,.0f} {words}" for count, words in known if count]
    since = f". Since its start {format_seconds(uptime)} before, the server counted {', '.join(counts)}"
    return (
        "they need two SHOW GLOBAL STATUS; take a second, some seconds later"
        f"{since + '; whether they go on is not told' if counts else ''}"
    )
