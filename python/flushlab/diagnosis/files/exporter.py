"""Exporter: a scrape of mysqld_exporter in Prometheus' text format, with the names of the server. Pure."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping

from flushlab.diagnosis.files.told import Told, lines
from flushlab.telemetry.live.questions import FILE_CLASSES, FileEvents

_SERIES = re.compile(r"(mysql_\w+)(?:\{(.*)\})? (\S+)(?: \S+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_STATUS, _VARIABLES = "mysql_global_status_", "mysql_global_variables_"
_RENAMED = {
    "mysql_global_status_commands_total": ("command", "com_{}"),
    "mysql_global_status_handlers_total": ("handler", "handler_{}"),
    "mysql_global_status_innodb_row_ops_total": ("operation", "innodb_rows_{}"),
    "mysql_global_status_buffer_pool_pages": ("state", "innodb_buffer_pool_pages_{}"),
    "mysql_global_status_buffer_pool_page_changes_total": ("operation", "innodb_buffer_pool_pages_{}"),
}
_ALIASES = {
    "mysql_global_status_buffer_pool_dirty_pages": "innodb_buffer_pool_pages_dirty",
    "mysql_info_schema_innodb_metrics_transaction_trx_rseg_history_len": "innodb_history_list_length",
}
_EVENTS, _EVENTS_S, _EVENTS_BYTES = (
    f"mysql_perf_schema_file_events_{name}" for name in ("total", "seconds_total", "bytes_total")
)

_Sample = tuple[str, Mapping[str, str], float]


def parse(text: str) -> Told:
    scrapes = [_scrape(samples) for samples in _scrapes(text)]
    told = [scrape for scrape in scrapes if scrape[0]]
    return Told(
        statuses=tuple(status for status, _, _ in told),
        file_events=tuple(files for _, _, files in told) if any(files for _, _, files in told) else (),
        timeless=sum("uptime" not in status for status, _, _ in told),
        variables=tuple(variables for _, variables, _ in scrapes if variables),
    )


def _scrapes(text: str) -> Iterator[list[_Sample]]:
    samples: list[_Sample] = []
    known: set[tuple[str, str]] = set()
    for line in lines(text):
        match = _SERIES.fullmatch(line.rstrip()) if line.startswith("mysql_") else None
        if match is None:
            continue
        key = match[1], match[2] or ""
        if key in known:
            yield samples
            samples, known = [], set()
        known.add(key)
        with contextlib.suppress(ValueError):
            if abs(value := float(match[3])) < 1e30:
                samples.append((match[1], dict(_LABEL.findall(key[1])), value))
    if known:
        yield samples


def _scrape(
    samples: list[_Sample],
) -> tuple[dict[str, str], dict[str, str], dict[str, FileEvents]]:
    status, variables = dict[str, str](), dict[str, str]()
    events = dict[tuple[str, str, str], float]()
    for name, labels, number in samples:
        if name == "mysql_version_info":
            names = ("version", "version_comment", "innodb_version")
            variables |= {label: labels[label] for label in names if labels.get(label)}
        elif name in _RENAMED:
            label, form = _RENAMED[name]
            status[form.format(labels.get(label, ""))] = _plain(number)
        elif name in _ALIASES:
            status[_ALIASES[name]] = _plain(number)
        elif name in (_EVENTS, _EVENTS_S, _EVENTS_BYTES):
            events[name, labels.get("event_name", ""), labels.get("mode", "")] = number
        elif not labels and name.startswith(_STATUS):
            status[name.removeprefix(_STATUS)] = _plain(number)
        elif not labels and name.startswith(_VARIABLES):
            variables[name.removeprefix(_VARIABLES)] = _plain(number)
    # The exporter leaves out the sum of these states.
    states = (f"innodb_buffer_pool_pages_{kind}" for kind in ("data", "free", "misc"))
    pages = sum(float(status.get(name, "nan")) for name in states)
    if not math.isnan(pages):
        status.setdefault("innodb_buffer_pool_pages_total", _plain(pages))
    return status, variables, _files(events)


def _files(events: Mapping[tuple[str, str, str], float]) -> dict[str, FileEvents]:
    return {
        kind: FileEvents(
            syncs=int(events[_EVENTS, event, "misc"]),
            bytes_written=int(events.get((_EVENTS_BYTES, event, "write"), 0.0)),
            sync_s=events.get((_EVENTS_S, event, "misc"), 0.0),
            reads=int(events.get((_EVENTS, event, "read"), 0.0)),
            read_s=events.get((_EVENTS_S, event, "read"), 0.0),
            write_s=events.get((_EVENTS_S, event, "write")),
        )
        for event, kind in FILE_CLASSES.items()
        if (_EVENTS, event, "misc") in events
    }


def _plain(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
