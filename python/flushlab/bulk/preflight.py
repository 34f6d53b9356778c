"""Preflight: limits of a server and its disk that would stop or slow a load, and connections that sleep.

Sits in `bulk`. Reads variables, status and one look at the process list; changes nothing. What a row takes in
InnoDB is not known beforehand: numbers take less than as text, keys and page headers more. So only rows that
cannot fit on the disk by far are refused, and those that may not fit get a caveat.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from flushlab.errors import ServerError, UsageError
from flushlab.record import Warning
from flushlab.server.control import StatementFailed
from flushlab.server.protocol import Server
from flushlab.settings.configuration import LOST_AT_RESTART
from flushlab.units import counted, format_seconds, format_size

_VARIABLES = (
    *("max_connections", "max_allowed_packet", "local_infile", "read_only", "super_read_only"),
    *("table_open_cache", "wait_timeout", "interactive_timeout", "log_bin", "innodb_redo_log_capacity"),
    *("innodb_log_file_size", "innodb_log_files_in_group", "innodb_buffer_pool_size"),
    *("wsrep_on", "wsrep_load_data_splitting"),
)
_SLEEPERS_SHARE = 0.25
"""Of max_connections: from here on sleeping connections matter."""
_SHORTER_S = 600
"""A wait_timeout that pools live with well: they test or renew connections."""
_TOLD = 4
_AT_LEAST = 1 / 4
"""Of a row's bytes as it is sent: what it takes in the table at least."""
_USUALLY = 1.7
"""Sysbench's rows with their index, and users with their two, took 1.2 to 1.7 times what was sent."""


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """`sleepers` and `replicas` are empty or 0 where they cannot be seen."""

    variables: Mapping[str, str]
    connected: int
    sleepers: tuple[tuple[str, str, int], ...] = ()
    replicas: int = 0

    def number(self, name: str, default: int = 0) -> int:
        text = self.variables.get(name, "")
        return int(text) if text.isdigit() else default

    def is_on(self, name: str) -> bool:
        return self.variables.get(name, "").upper() in ("ON", "1")

    @property
    def splits_load_data(self) -> bool:
        """A Galera node that commits LOAD DATA every 10,000 rows: no note would tell how far it is."""
        return self.is_on("wsrep_on") and self.is_on("wsrep_load_data_splitting")

    @property
    def redo_bytes(self) -> int:
        files = self.number("innodb_log_files_in_group", 1)
        return self.number("innodb_redo_log_capacity") or self.number("innodb_log_file_size") * files


def read_server_state(server: Server) -> ServerState:
    marks = ", ".join(["%s"] * len(_VARIABLES))
    rows = server.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", _VARIABLES)
    connected = server.query("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
    try:
        processes = server.query(
            "SELECT command, user, host, time FROM information_schema.processlist WHERE id <> CONNECTION_ID()"
            " AND (command = 'Sleep' OR command LIKE 'Binlog Dump%')"
        )
    except StatementFailed:
        processes = []
    return ServerState(
        variables={str(name).lower(): str(value) for name, value in rows},
        connected=int(connected[0][1]) if connected else 0,
        sleepers=tuple(
            (str(user), re.sub(r"(?<=.):\d+$", "", str(host)), int(time or 0))
            for command, user, host, time in processes
            if command == "Sleep"
        ),
        replicas=sum(command != "Sleep" for command, *_ in processes),
    )


def require_connections(seen: ServerState, connections: int) -> None:
    if seen.is_on("super_read_only") or seen.is_on("read_only"):
        name = "super_read_only" if seen.is_on("super_read_only") else "read_only"
        raise ServerError(
            f"the server is read-only: {name}=ON", hint="it may be a replica: load the primary instead"
        )
    left = seen.number("max_connections", 1 << 30) - seen.connected
    if left < connections + 1:
        raise UsageError(
            f"{counted(connections + 1, 'connection')} are needed, but only {left} of"
            f" max_connections={seen.number('max_connections')} are left",
            hint="\n".join(["take fewer --threads, or close connections", *sleeping(seen, needed=True)]),
        )


def load_warnings(
    seen: ServerState, connections: int, load_bytes: int, *, ours: bool, waits: bool = False
) -> list[Warning]:
    redo, packet, tables = seen.redo_bytes, seen.number("max_allowed_packet", 1 << 30), "table_open_cache"
    coming = format_size(load_bytes)
    found = (
        (
            "local-infile",
            not ours and not seen.is_on("local_infile"),
            "local_infile is OFF: rows go as INSERT, which is slower; SET GLOBAL local_infile = ON would"
            f" allow LOAD DATA LOCAL ({LOST_AT_RESTART})",
        ),
        (
            "wsrep-load-data-splitting",
            not ours and seen.splits_load_data,
            "wsrep_load_data_splitting is ON: rows go as INSERT, since the server would commit LOAD DATA"
            " every 10,000 rows, and --continue could not tell how far it is",
        ),
        (
            "max-allowed-packet",
            packet < 1 << 20,
            f"max_allowed_packet is {format_size(packet)}: packets are as small",
        ),
        (
            "table-open-cache",
            seen.number(tables, 1 << 30) < connections + 4,
            f"{tables}={seen.number(tables)} is less than the load's {connections} connections need: tables"
            " are closed and reopened all the time",
        ),
        (
            "redo-capacity",
            redo and load_bytes > 2 * redo,
            f"about {coming} of rows go through {format_size(redo)} of redo log: the server has to flush"
            " pages as fast as rows come; a larger redo log would let it write less",
        ),
        (
            "binlog-growth",
            not ours and seen.is_on("log_bin"),
            f"the binary log will grow by about {coming}; replicas apply it",
        ),
        (
            "replicas",
            not ours and seen.replicas and not waits,
            f"{counted(seen.replicas, 'replica')} may fall behind: with --replica, the load waits for the"
            " servers named",
        ),
    )
    warnings = [Warning(slug, text) for slug, holds, text in found if holds]
    told = sleeping(seen)
    return [*warnings, Warning("sleeping-connections", "; ".join(told))] if told else warnings


def sleeping(seen: ServerState, *, needed: bool = False) -> list[str]:
    most = seen.number("max_connections", 1 << 30)
    if not seen.sleepers or not (needed or len(seen.sleepers) >= _SLEEPERS_SHARE * most):
        return []
    ages: dict[tuple[str, str], list[int]] = defaultdict(list)
    for user, host, age in seen.sleepers:
        ages[user, host].append(age)
    groups = sorted(ages.items(), key=lambda one: -len(one[1]))
    who = [
        f"{len(found)} of {user}@{host} (oldest {format_seconds(max(found))})"
        for (user, host), found in groups
    ]
    more = [f"{len(who) - _TOLD} others"] if len(who) > _TOLD else []
    told = [f"{len(seen.sleepers)} of {most} possible connections sleep: {', '.join(who[:_TOLD] + more)}"]
    for name in ("wait_timeout", "interactive_timeout"):
        limit = seen.number(name)
        closed = sum(1 for *_, age in seen.sleepers if age >= _SHORTER_S)
        if limit > _SHORTER_S and closed:
            which = "clients that are programs" if name == "wait_timeout" else "terminals"
            told.append(
                f"{name}={limit} lets {which} sleep for {format_seconds(limit)}; at {_SHORTER_S} it would"
                " close up to"
                f" {closed} of them (it holds for connections made after the change)"
            )
    return told


def space_warning(server: Server, load_bytes: int) -> Warning | None:
    if server.pid is None:
        return None
    ((path,),) = server.query("SELECT @@datadir")
    try:
        facts = os.statvfs(f"/proc/{server.pid}/root{path}")
    except OSError:
        return None
    free_bytes = facts.f_bavail * facts.f_frsize
    coming, free = format_size(load_bytes), format_size(free_bytes)
    text = f"about {coming} of rows are to come, and {free} are free in {path}"
    if load_bytes * _AT_LEAST > free_bytes:
        hint = "take fewer --rows, or a disk with more room (--data-root for a new sandbox)"
        raise UsageError(text, hint=hint)
    too_large = load_bytes * _USUALLY > free_bytes
    return Warning("disk-space", f"{text}: they may not fit") if too_large else None
