"""State: settings that matter to writes, where their values came from, and what a restart changes. Pure.

Values are the server's. Where they came from, the server says (MySQL 8.0, MariaDB); the line is that of the
option file, if flushlab runs on the server's machine and may read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from flushlab.diagnosis.evidence import Evidence
from flushlab.errors import ValueOutOfRange
from flushlab.record import Value
from flushlab.record.machine import Flavor
from flushlab.settings.catalog import SettingHere, load_catalog
from flushlab.settings.configuration import typed
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.questions import Origin, OriginKind

_SERIES: Mapping[Flavor, tuple[tuple[int, ...], ...]] = {
    "mysql": ((5, 7), (8, 0), (8, 4), (9, 7)),
    "mariadb": ((10, 6), (10, 11), (11, 4), (11, 8), (12, 3)),
}
"""With long support, ascending."""
_LAST_PATCH = 99
_DERIVED = ("innodb_buffer_pool_size", "innodb_redo_log_capacity", "innodb_log_file_size")
"""By innodb_dedicated_server (https://dev.mysql.com/doc/refman/8.0/en/innodb-dedicated-server.html)."""
_BY_VERSION = ("gtid_mode",)
"""Whose computed default depends on the version alone."""
_WRITER_THREADS_FROM_CPUS = 32
_WRITER_THREADS_FROM_CPUS_WITHOUT_BINLOG = 5


def by_itself(evidence: Evidence) -> Iterator[str]:
    """One sentence each."""
    yield from _dedicated(evidence)
    yield from _log_writer_threads(evidence)
    yield from _changed_defaults(evidence)


def _is_own(evidence: Evidence, here: SettingHere) -> bool:
    """Whether nobody chose the value."""
    told = evidence.after.origins
    if told is not None:
        return here.variable not in told or told[here.variable].kind == "computed"
    return here.same(evidence.settings[here.name], here.default)


def _dedicated(evidence: Evidence) -> Iterator[str]:
    if not evidence.is_on("innodb_dedicated_server"):
        return
    catalog, server = load_catalog(), evidence.identity
    derived = [
        f"{here.name}={here.render(evidence.settings[name])}"
        for name in _DERIVED
        if name in evidence.settings
        and (here := catalog.here(name, server.flavor, server.version)) is not None
        and _is_own(evidence, here)
    ]
    if derived:
        yield f"innodb_dedicated_server derives {', '.join(derived)} from the machine's memory"
    else:
        yield "innodb_dedicated_server is on and derives nothing: the sizes are set"


def _log_writer_threads(evidence: Evidence) -> Iterator[str]:
    """8.4 on: by the number of logical processors, and since 9.5 by the binary log."""
    server, name = evidence.identity, "innodb_log_writer_threads"
    here = load_catalog().here(name, server.flavor, server.version)
    if here is None or not here.computed or name not in evidence.settings or not _is_own(evidence, here):
        return
    if not evidence.variable("log_bin"):
        return
    has_binlog = evidence.is_on("log_bin")
    least = (
        _WRITER_THREADS_FROM_CPUS_WITHOUT_BINLOG
        if server.version >= (9, 5) and not has_binlog
        else _WRITER_THREADS_FROM_CPUS
    )
    binlog = "with a binary log" if has_binlog else "without a binary log"
    cpus = f", here {evidence.cpus}" if evidence.cpus else ""
    yield f"{name}={evidence.settings[name]}: {binlog}, ON from {least} logical CPUs on{cpus}"


def _changed_defaults(evidence: Evidence) -> Iterator[str]:
    server, catalog = evidence.identity, load_catalog()
    before = _series_before(server.flavor, server.version)
    if before is None:
        return
    series = ".".join(map(str, before))
    for name, value in sorted(evidence.settings.items()):
        here = catalog.here(name, server.flavor, server.version)
        old = catalog.here(name, server.flavor, (*before, _LAST_PATCH))
        if here is None or old is None or here.part or old.computed:
            continue
        if here.computed and name not in _BY_VERSION:
            continue
        if _is_own(evidence, here) and here.same(value, here.default) and not here.same(value, old.default):
            yield f"{name}={_shown(here, value)} by default; {series} had {_shown(old, old.default)}"


def _shown(here: SettingHere, value: Value) -> str:
    return here.render(value) or "none"


def _series_before(flavor: Flavor, version: tuple[int, ...]) -> tuple[int, ...] | None:
    earlier = [one for one in _SERIES[flavor] if one < version[:2]]
    return earlier[-1] if earlier else None


_NOT_OF_WRITES = ("service", "ddl", "cluster")
"""Groups of the catalog."""
_DEFAULT = Origin(kind="default")


class SettingState(msgspec.Struct, frozen=True, kw_only=True):
    """A setting.

    Attributes:
        name: as the server spells it.
        value: in force.
        origin: source of the value; null if the server does not tell.
        place: `FILE:LINE` of the option file that gives it; empty for others, the file alone if it cannot be
            read here.
        account: that set it at run time; empty if the server does not tell.
        at: when, in the server's time zone; empty if the server does not tell.
        at_restart: value after a restart, if it differs; null if it stays, or if that cannot be seen.
        restart_origin: source of that value; `unseen` if a value that was set at run time may be lost.
    """

    name: str
    value: Value
    origin: OriginKind | None
    place: str = ""
    account: str = ""
    at: str = ""
    at_restart: Value | None = None
    restart_origin: str = ""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A mistake in an option file.

    Attributes:
        place: `FILE:LINE`.
        text: in words.
        hint: the way out; null if there is none.
    """

    place: str
    text: str
    hint: str | None = None


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The server's state.

    Attributes:
        settings: that matter to writes.
        files: option files that were read.
        problems: of these files.
        by_itself: what this version decides without being asked, in words.
        unseen: in words.
    """

    settings: tuple[SettingState, ...] = ()
    files: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    by_itself: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def state_of(evidence: Evidence) -> State:
    """The state of the server at the window's end."""
    start = evidence.start
    return State(
        settings=tuple(_settings(evidence)),
        files=start.files if start else (),
        problems=tuple(
            Problem(place=one.place, text=f"{one.name} {one.text}".strip(), hint=one.hint)
            for one in (start.checked.findings if start else ())
            if one.severity != "note"
        ),
        by_itself=tuple(by_itself(evidence)),
        unseen=tuple(_unseen(evidence)),
    )


def _settings(evidence: Evidence) -> Iterator[SettingState]:
    catalog, server = load_catalog(), evidence.identity
    for name, value in sorted(evidence.settings.items()):
        here = catalog.here(name, server.flavor, server.version)
        if here is None or here.part or here.entry.group in _NOT_OF_WRITES:
            continue
        origin = _origin(evidence, here, value)
        place = _place(evidence, here, origin)
        after, source = _at_restart(evidence, here, value, origin)
        yield SettingState(
            name=name,
            value=value,
            origin=origin.kind if origin else None,
            place=place,
            account=origin.account if origin else "",
            at=origin.at if origin else "",
            at_restart=after,
            restart_origin=source,
        )


def _origin(evidence: Evidence, here: SettingHere, value: Value) -> Origin | None:
    """As the server says; of one that does not, by what it starts with. Files do not tell."""
    if evidence.files:
        return None
    told = evidence.after.origins
    if told is not None:
        return told.get(here.variable, _DEFAULT)
    if _same(evidence, here, here.default, value):
        return _DEFAULT
    start = evidence.start
    if start is None:
        return None
    for given, kind in (
        (_argument(evidence, here), "command line"),
        (_in_file(evidence, here), "option file"),
    ):
        if given is not None and _same(evidence, here, given, value):
            return Origin(kind="command line" if kind == "command line" else "option file")
    if here.computed:
        return Origin(kind="computed")
    return None if start.unread else Origin(kind="SET")


def _place(evidence: Evidence, here: SettingHere, origin: Origin | None) -> str:
    if origin is None or origin.kind != "option file":
        return ""
    line = _line(evidence, here)
    # The last file wins now; the server names the one that it read when it started.
    return line if line and origin.path in ("", line.rpartition(":")[0]) else origin.path


def _line(evidence: Evidence, here: SettingHere) -> str:
    lines: Mapping[str, tuple[str, int]] = evidence.start.checked.lines if evidence.start else {}
    found = lines.get(here.name) or lines.get(here.variable)
    return f"{found[0]}:{found[1]}" if found else ""


def _at_restart(
    evidence: Evidence, here: SettingHere, value: Value, origin: Origin | None
) -> tuple[Value | None, str]:
    """The value after a restart, and its source, if it differs: persisted values win over the command line,
    which wins over option files."""
    if questions.PERSISTED in evidence.after.failed:
        return None, "unseen" if origin is not None and origin.kind == "SET" else ""
    persisted = evidence.after.persisted.get(here.variable)
    if persisted is not None and evidence.variable("persisted_globals_load").upper() != "OFF":
        return _if_other(evidence, here, typed(persisted, here), value, "persisted")
    start, is_set = evidence.start, origin is not None and origin.kind == "SET"
    if start is None:
        return None, "unseen" if is_set else ""
    if (given := _argument(evidence, here)) is not None:
        return _if_other(evidence, here, given, value, "command line")
    if (given := _in_file(evidence, here)) is not None:
        return _if_other(evidence, here, given, value, _line(evidence, here))
    if here.computed or start.unread:
        return None, "unseen" if is_set else ""
    return _if_other(evidence, here, here.default, value, "default") if is_set else (None, "")


def _if_other(
    evidence: Evidence, here: SettingHere, after: Value, value: Value, source: str
) -> tuple[Value | None, str]:
    return (None, "") if _same(evidence, here, after, value) else (after, source)


def _argument(evidence: Evidence, here: SettingHere) -> Value | None:
    return evidence.start.arguments.get(here.name) if evidence.start else None


def _in_file(evidence: Evidence, here: SettingHere) -> Value | None:
    return evidence.start.checked.settings.get(here.name) if evidence.start else None


def _same(evidence: Evidence, here: SettingHere, one: Value, other: Value) -> bool:
    """As the server holds them: it rounds some."""
    try:
        return here.same(_held(evidence, here, one), _held(evidence, here, other))
    except ValueOutOfRange:
        return False


def _held(evidence: Evidence, here: SettingHere, value: Value) -> Value:
    """The value as the server holds it. It rounds the buffer pool up to whole chunks of each instance
    (https://dev.mysql.com/doc/refman/8.4/en/innodb-buffer-pool-resize.html)."""
    held = here.rounded(value)
    if here.name != "innodb_buffer_pool_size" or not isinstance(held, int):
        return held
    chunk = evidence.after.variable("innodb_buffer_pool_chunk_size") or 0
    whole = int(chunk * (evidence.after.variable("innodb_buffer_pool_instances") or 1))
    return -(-held // whole) * whole if whole else held


def _unseen(evidence: Evidence) -> Iterator[str]:
    server = evidence.identity
    if evidence.files:
        if evidence.settings:
            yield "where values came from, and what a restart changes: files do not tell"
        return
    if evidence.after.origins is None:
        old = server.flavor == "mysql" and server.version < (8, 0)
        yield f"where values came from: {'MySQL 5.7' if old else 'the server'} does not tell"
    if evidence.start is None:
        yield "option files: flushlab does not see the server's process on this machine"
    else:
        yield from (f"{path}: this user may not read it" for path in evidence.start.unread)
