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

_NOT_OF_WRITES = ("service", "ddl", "cluster")
"""Groups of the catalog."""
_DEFAULT, _COMMAND_LINE, _OPTION_FILE = (
    Origin(kind="default"),
    Origin(kind="command line"),
    Origin(kind="option file"),
)


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
    catalog, server, start = load_catalog(), evidence.identity, evidence.start
    for name, value in sorted(evidence.settings.items()):
        here = catalog.here(name, server.flavor, server.version)
        if here is None or here.part or here.entry.group in _NOT_OF_WRITES:
            continue
        origin = _origin(evidence, here, value)
        lines = start.checked.lines if start else {}
        line = lines.get(name) or lines.get(here.variable)
        place = f"{line[0]}:{line[1]}" if line else ""
        after, source = _at_restart(evidence, here, place, is_set=origin is not None and origin.kind == "SET")
        is_kept = after is None or _same(evidence, here, after, value)
        from_file = origin is not None and origin.kind == "option file"
        # The last file wins now; the server names the one that it read when it started.
        is_here = line is not None and origin is not None and origin.path in ("", line[0])
        yield SettingState(
            name=name,
            value=value,
            origin=origin.kind if origin else None,
            place=(place if is_here else origin.path) if origin is not None and from_file else "",
            account=origin.account if origin else "",
            at=origin.at if origin else "",
            at_restart=None if is_kept else after,
            restart_origin=source if after is None or not is_kept else "",
        )


def _origin(evidence: Evidence, here: SettingHere, value: Value) -> Origin | None:
    start, origins = evidence.start, evidence.after.origins
    if evidence.files:
        return None
    if origins is not None:
        return origins.get(here.variable, _DEFAULT)
    if _same(evidence, here, here.default, value):
        return _DEFAULT
    if start is None:
        return None
    for given, kind in ((start.arguments, _COMMAND_LINE), (start.checked.settings, _OPTION_FILE)):
        if here.name in given and _same(evidence, here, given[here.name], value):
            return kind
    if here.computed:
        return Origin(kind="computed")
    return None if start.unread else Origin(kind="SET")


def _at_restart(
    evidence: Evidence, here: SettingHere, line: str, *, is_set: bool
) -> tuple[Value | None, str]:
    """The value after a restart, None if that cannot be seen, and its source: persisted values win over the
    command line, which wins over option files."""
    start, unseen = evidence.start, "unseen" if is_set else ""
    if questions.PERSISTED in evidence.after.failed:
        return None, unseen
    persisted = evidence.after.persisted.get(here.variable)
    if persisted is not None and evidence.variable("persisted_globals_load").upper() != "OFF":
        return typed(persisted, here), "persisted"
    if start is None:
        return None, unseen
    if here.name in start.arguments:
        return start.arguments[here.name], "command line"
    if here.name in start.checked.settings:
        return start.checked.settings[here.name], line
    if here.computed or start.unread:
        return None, unseen
    return (here.default, "default") if is_set else (None, "")


def _same(evidence: Evidence, here: SettingHere, one: Value, other: Value) -> bool:
    """As the server holds them: it rounds some, the buffer pool up to whole chunks of each instance
    (https://dev.mysql.com/doc/refman/8.4/en/innodb-buffer-pool-resize.html)."""

    def held(value: Value) -> Value:
        rounded = here.rounded(value)
        if here.name != "innodb_buffer_pool_size" or not isinstance(rounded, int):
            return rounded
        chunk = evidence.after.variable("innodb_buffer_pool_chunk_size") or 0
        whole = int(chunk * (evidence.after.variable("innodb_buffer_pool_instances") or 1))
        return -(-rounded // whole) * whole if whole else rounded

    try:
        return here.same(held(one), held(other))
    except ValueOutOfRange:
        return False


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


_SERIES: Mapping[Flavor, tuple[tuple[int, ...], ...]] = {
    "mysql": ((5, 7), (8, 0), (8, 4), (9, 7)),
    "mariadb": ((10, 6), (10, 11), (11, 4), (11, 8), (12, 3)),
}
"""With long support, ascending."""
_DERIVED = ("innodb_buffer_pool_size", "innodb_redo_log_capacity", "innodb_log_file_size")
"""By innodb_dedicated_server (https://dev.mysql.com/doc/refman/8.0/en/innodb-dedicated-server.html)."""
_BY_VERSION = ("gtid_mode",)
"""Whose computed default depends on the version alone."""


def by_itself(evidence: Evidence) -> Iterator[str]:
    catalog, server, settings = load_catalog(), evidence.identity, evidence.settings
    known = {
        name: here
        for name in sorted(settings)
        if (here := catalog.here(name, server.flavor, server.version)) is not None
    }
    origins = evidence.after.origins
    own = [  # nobody chose the value
        name
        for name, here in known.items()
        if (
            here.same(settings[name], here.default)
            if origins is None
            else here.variable not in origins or origins[here.variable].kind == "computed"
        )
    ]
    if evidence.is_on("innodb_dedicated_server"):
        derived = [f"{name}={known[name].render(settings[name])}" for name in _DERIVED if name in own]
        if derived:
            yield f"innodb_dedicated_server derives {', '.join(derived)} from the machine's memory"
        else:
            yield "innodb_dedicated_server is on and derives nothing: the sizes are set"
    # 8.4 on: by the number of logical processors, and since 9.5 by the binary log.
    name = "innodb_log_writer_threads"
    if name in own and known[name].computed and evidence.variable("log_bin"):
        has_binlog = evidence.is_on("log_bin")
        least = 5 if server.version >= (9, 5) and not has_binlog else 32
        binlog = "with a binary log" if has_binlog else "without a binary log"
        cpus = f", here {evidence.cpus}" if evidence.cpus else ""
        yield f"{name}={settings[name]}: {binlog}, ON from {least} logical CPUs on{cpus}"
    earlier = [series for series in _SERIES[server.flavor] if series < server.version[:2]]
    for name in own if earlier else ():
        here, old = known[name], catalog.here(name, server.flavor, (*earlier[-1], 99))
        if old is None or here.part or old.computed or (here.computed and name not in _BY_VERSION):
            continue
        value = settings[name]
        if here.same(value, here.default) and not here.same(value, old.default):
            now, then = here.render(value) or "none", old.render(old.default) or "none"
            yield f"{name}={now} by default; {'.'.join(map(str, earlier[-1]))} had {then}"
