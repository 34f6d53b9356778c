"""Samples: one evidence of all that files tell. Pure.

Statuses count in the order of the files and of the texts. The window is from the first to the last, by the
server's own Uptime.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from flushlab.diagnosis.evidence import COUNTED, CommitCount, Evidence, Monitor, settings_of
from flushlab.diagnosis.files.folder import Found, Read
from flushlab.diagnosis.files.machine import host_of
from flushlab.diagnosis.files.recording import evidence_of_recording
from flushlab.diagnosis.files.told import Recorded, Told
from flushlab.diagnosis.shares import LEAST_SAMPLES, Tally, WriteTime, is_group_held, step_of
from flushlab.diagnosis.waits import Longest
from flushlab.errors import SamplesDisagree
from flushlab.record import ServerIdentity
from flushlab.record.machine import Flavor
from flushlab.settings.in_force import identity_of
from flushlab.telemetry.live.questions import FileEvents, OpenTransaction, ThreadState
from flushlab.telemetry.live.status import ServerStatus, waiting_for_rows
from flushlab.units import counted, format_seconds

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


def untold(evidence: Evidence, found: Found) -> Iterator[str]:
    """Each thing that could not be judged: the thing, then the reason behind a colon."""
    after, monitors = evidence.after, evidence.monitors
    every = [told for file in found.files for told in file.told.values()]
    if not evidence.seconds:
        yield from _rates(evidence)
    if not evidence.time.is_sample:
        yield (
            "where writers spend their time: commits, metadata locks, semi-sync, clients. It takes"
            f" {LEAST_SAMPLES} lists of connections or more, as pt-stalk collects them every second"
        )
    if not evidence.checkpoint_ages:
        yield f"how full the redo log is: {'the section LOG is missing' if monitors else _NO_MONITOR}"
    elif not (after.redo.capacity or after.number("innodb_checkpoint_max_age")):
        yield "how full the redo log is: no SHOW GLOBAL VARIABLES shows its size"
    if not monitors and not any(told.transactions for told in every):
        yield f"row locks, open transactions and InnoDB's latches: {_NO_MONITOR}"
    if not evidence.identity.version:
        yield "settings and guarantees: no SHOW GLOBAL VARIABLES shows the server's version"
    elif not evidence.settings:
        yield "settings and guarantees: no SHOW GLOBAL VARIABLES"
    if evidence.settings and (missing := [one for one in _ASSUMED if one not in after.variables]):
        yield f"{', '.join(missing)}: no file has their values, so the guarantees are those of the defaults"
    if evidence.host is None:
        yield "the machine: its side is in pt-stalk's samples"
    else:
        yield from evidence.host.unseen
    timeless = sum(told.timeless for told in every)
    if timeless and evidence.seconds:
        yield f"{counted(timeless, 'status')}: without Uptime, as if cut short"
    absent = dict.fromkeys(name for one in monitors for name in one.absent)
    if absent:
        yield f"parts of SHOW ENGINE INNODB STATUS: {', '.join(absent)}, cut off"
    if found.left_out:
        yield f"{counted(len(found.left_out), 'file')}: they tell nothing of a server"


def _rates(evidence: Evidence) -> Iterator[str]:
    """Counters of a single status: whether they grow now is not told."""
    uptime = evidence.after.number("uptime")
    if not uptime:
        what = "no status has Uptime, so nothing tells the time between two" if evidence.after.status else ""
        yield f"rates: {what or 'no SHOW GLOBAL STATUS'}; take two in whole, some seconds apart"
        return
    counts = [
        f"{count:,.0f} {words}"
        for name, words in _TOLD_BY_COUNTERS.items()
        if (count := evidence.after.number(name))
    ]
    since = f". Since its start {format_seconds(uptime)} before, the server counted {', '.join(counts)}"
    yield (
        "rates: they need two SHOW GLOBAL STATUS; take a second, some seconds later"
        f"{since + '; whether they go on is not told' if counts else ''}"
    )


_IDENTITIES = ("server_uuid", "hostname", "port", "version", "datadir")
_NEVER_FALL = (
    *(
        "bytes_received",
        "connections",
        "innodb_data_read",
        "innodb_data_written",
        "innodb_log_write_requests",
    ),
    *("innodb_os_log_written", "innodb_pages_created", "queries"),
)
_SO_MANY = 2
_ALIKE = 0.9
"""Part of the names that two statuses of a server have in common."""
_PREFIX = "5.5.5-"
"""MariaDB before 11 pretends so in the protocol, and some tools keep it."""


class _Moment(msgspec.Struct, frozen=True):
    """A status, and where it was read."""

    name: str
    status: Mapping[str, str]
    files: Mapping[str, FileEvents]

    @property
    def uptime(self) -> float:
        """0 if the status lacks it."""
        return _number(self.status.get("uptime", ""))


def evidence_of(found: Found) -> Evidence:
    """The evidence.

    Raises:
        SamplesDisagree: files of different servers, or of two runs of one.
    """
    if (recorded := _recorded(found.files)) is not None:
        evidence = evidence_of_recording(found.key, recorded, tuple(map(_read_as, found.files)))
        return msgspec.structs.replace(evidence, left_out=found.left_out)
    variables = _variables(found.files)
    every = list(_moments(found.files))
    moments = [one for one in every if "uptime" in one.status] or every
    _require_one_run(moments)
    monitors = [one for told in _told(found.files) for one in told.monitors]
    versions = [told.version for told in _told(found.files) if told.version]
    identity = _identity({**({"version": versions[-1]} if versions else {}), **variables}, moments)
    if not identity.version and any(told.is_mariadb for told in _told(found.files)):
        identity = msgspec.structs.replace(identity, flavor="mariadb")
    transactions = list(_transactions(found.files, monitors))
    first, last = _ends(found.key, identity, variables, moments, monitors)
    seconds = last.at_s - first.at_s
    lists = [moment for told in _told(found.files) for moment in told.moments]
    write_time = _write_time(lists, identity, variables, moments, transactions, seconds)
    longest, asleep = Longest(), Longest(asleep=True)
    for moment in lists:
        longest.note(0.0, moment)
        asleep.note(0.0, moment)
    evidence = Evidence(
        seconds=seconds,
        before=first,
        after=last,
        commit_counts=tuple(_commits(moments)),
        checkpoint_ages=tuple(_ages(identity, variables, moments, monitors)),
        write_time=write_time,
        transactions={one.key: one for moment in transactions for one in moment},
        longest=longest.found,
        asleep=asleep.found,
        settings=settings_of(last, found.key) if identity.version and variables else {},
        host=host_of(_told(found.files), variables.get("datadir", "")),
        files=tuple(map(_read_as, found.files)),
        left_out=found.left_out,
        running=tuple(
            _number(one.status["threads_running"]) for one in moments if "threads_running" in one.status
        ),
        monitors=tuple(monitors),
    )
    return msgspec.structs.replace(evidence, untold=tuple(untold(evidence, found)))


def _recorded(files: Sequence[Read]) -> Recorded | None:
    """The recording, if the files are one.

    Raises:
        SamplesDisagree: there is something else beside it, or nothing in it.
    """
    every = [one for told in _told(files) for one in told.recordings]
    if not every:
        return None
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise SamplesDisagree(
            f"a recording of flushlab watch is judged alone, and there are {len(files)} files: {names}",
            hint="name one recording",
        )
    if not every[0].stretches:
        raise SamplesDisagree(
            f"{files[0].name} has no stretch of time",
            hint="record for 10 s at least: flushlab watch --record",
        )
    return every[0]


def _told(files: Iterable[Read]) -> Iterator[Told]:
    for file in files:
        yield from file.told.values()


def _variables(files: Iterable[Read]) -> dict[str, str]:
    """Of all files, the last of a name; those of a scrape have numbers only, so others go before them."""
    every = [(file.name, one) for file in files for told in file.told.values() for one in told.variables]
    for name in _IDENTITIES:
        values = {one[name]: file for file, one in every if name in one}
        if len(values) > 1:
            (first, one), (second, other), *_ = values.items()
            raise SamplesDisagree(
                f"files of different servers: {name} is {first} in {one}, and {second} in {other}",
                hint="put the files of one server and one time into a folder of their own",
            )
    every.sort(key=lambda one: len(one[1]))
    return {name: value for _, one in every for name, value in one.items()}


def _moments(files: Iterable[Read]) -> Iterator[_Moment]:
    for file in files:
        for told in file.told.values():
            events = told.file_events or ({},) * len(told.statuses)
            for status, of_files in zip(told.statuses, events, strict=True):
                yield _Moment(file.name, status, of_files)


def _require_one_run(moments: Sequence[_Moment]) -> None:
    """Refuses statuses that are not of one run of one server.

    Raises:
        SamplesDisagree: they are not.
    """
    for before, after in pairwise(moments):
        if after.uptime < before.uptime:
            raise SamplesDisagree(
                f"Uptime falls from {before.uptime:,.0f} s in {before.name} to {after.uptime:,.0f} s in"
                f" {after.name}",
                hint="files count in the order of their names: rename them, leave out those before a restart"
                " of the server, or take them again without mysqladmin --relative",
            )
        names, others = before.status.keys(), after.status.keys()
        fell = [
            name
            for name in _NEVER_FALL
            if name in names and name in others and _number(after.status[name]) < _number(before.status[name])
        ]
        if len(names & others) < _ALIKE * min(len(names), len(others)) or len(fell) >= _SO_MANY:
            why = f"{fell[0]} falls" if len(fell) >= _SO_MANY else "they have different variables"
            raise SamplesDisagree(
                f"{before.name} and {after.name} are statuses of different servers: {why}",
                hint="put the files of one server and one time into a folder of their own",
            )


def _identity(variables: Mapping[str, str], moments: Sequence[_Moment]) -> ServerIdentity:
    """The server; a version of () where the files do not tell it."""
    version = variables.get("version", "").removeprefix(_PREFIX)
    known = identity_of({**variables, "version": version})
    if known is not None:
        return known
    names = moments[-1].status.keys() if moments else variables.keys()
    is_mariadb = any(name.startswith(("aria_", "feature_", "binlog_group_commit")) for name in names)
    flavor: Flavor = "mariadb" if is_mariadb or "mariadb" in version.lower() else "mysql"
    return ServerIdentity(flavor=flavor, version=(), version_text=version)


def _ends(
    key: str,
    identity: ServerIdentity,
    variables: Mapping[str, str],
    moments: Sequence[_Moment],
    monitors: Sequence[Monitor],
) -> tuple[ServerStatus, ServerStatus]:
    """The first status and the last; of a single one, the first is empty: counters since the start are no
    growth."""
    last = moments[-1] if moments else _Moment("", {}, {})
    is_window = len(moments) > 1 and (last.uptime > moments[0].uptime or "uptime" not in last.status)
    first = moments[0] if is_window else _Moment("", {"uptime": str(last.uptime)}, {})
    ends = [
        ServerStatus(
            key=key,
            identity=identity,
            at_s=one.uptime,
            status={**(_as_status(monitors[at]) if monitors else {}), **one.status},
            variables=variables,
            files=one.files,
        )
        for at, one in ((0, first), (-1, last))
    ]
    return ends[0], ends[1]


def _as_status(monitor: Monitor) -> dict[str, str]:
    """What InnoDB's monitor tells under the names of status variables, which not every version has."""
    found = {
        "innodb_checkpoint_max_age": monitor.checkpoint_max_age,
        "innodb_history_list_length": monitor.history_length,
        "innodb_buffer_pool_pages_total": monitor.pages,
        "innodb_buffer_pool_pages_dirty": monitor.dirty_pages,
        "innodb_buffer_pool_pages_free": monitor.free_pages,
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def _commits(moments: Sequence[_Moment]) -> Iterator[CommitCount]:
    for one in moments:
        counts = tuple(_number(one.status[name]) if name in one.status else None for name in COUNTED)
        yield CommitCount(at_s=one.uptime - moments[0].uptime, counts=counts)


def _ages(
    identity: ServerIdentity,
    variables: Mapping[str, str],
    moments: Sequence[_Moment],
    monitors: Sequence[Monitor],
) -> Iterator[int]:
    for one in moments:
        seen = ServerStatus(key="", identity=identity, status=one.status, variables=variables)
        if (age := seen.redo.checkpoint_age) is not None:
            yield age
    yield from (one.checkpoint_age for one in monitors if one.checkpoint_age is not None)


def _transactions(
    files: Iterable[Read], monitors: Iterable[Monitor]
) -> Iterator[tuple[OpenTransaction, ...]]:
    yield from (moment for told in _told(files) for moment in told.transactions)
    yield from (one.transactions for one in monitors if one.transactions or one.whole)


def _write_time(
    lists: Sequence[Sequence[ThreadState]],
    identity: ServerIdentity,
    variables: Mapping[str, str],
    moments: Sequence[_Moment],
    transactions: Sequence[Sequence[OpenTransaction]],
    seconds: float,
) -> WriteTime | None:
    """From the lists of connections; None without any."""
    if not lists:
        return None
    tally = Tally(identity, step_of(len(lists)), held=is_group_held(identity, variables))
    for at, states in enumerate(lists):
        tally.add(at, states)
    waiting = [float(sum(one.waits for one in moment)) for moment in transactions]
    current = [waiting_for_rows(one.status) for one in moments]
    waiting += [one for one in current if one is not None]
    waited_ms = 0.0
    if seconds > 0:
        first, last = (
            _number(one.status.get("innodb_row_lock_time", "")) for one in (moments[0], moments[-1])
        )
        waited_ms = max(0.0, last - first)
    if not waiting:
        return tally.write_time(None)
    return tally.write_time(
        max(sum(waiting) / len(waiting), waited_ms / 1000 / seconds if seconds > 0 else 0.0)
    )


def _read_as(file: Read) -> str:
    """`status.txt: SHOW GLOBAL STATUS (2)`."""
    return f"{file.name}: {', '.join(_counted(name, told) for name, told in file.told.items())}"


def _counted(name: str, told: Told) -> str:
    parts = (told.variables, told.monitors, told.moments, told.transactions, told.recordings)
    machine = (told.disks, told.cpu_times)
    count = max(1, len(told.statuses), *map(len, (*parts, *machine)))
    return name if count == 1 else f"{name} ({count})"


def _number(text: str) -> float:
    """A number; 0 for none."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if abs(value) < 1e30 else 0.0
