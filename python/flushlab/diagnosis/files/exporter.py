"""Source: a scrape of mysqld_exporter in Prometheus' text format, with the names of the server. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from flushlab.diagnosis.files.told import Source, Told, lines
from flushlab.telemetry.live.questions import FILE_CLASSES, FileEvents

_SAMPLE = re.compile(r"(mysql_\w+)(?:\{(.*)\})? (\S+)(?: \S+)?")
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

Sample = tuple[str, Mapping[str, str], str]
"""Name, labels, value."""


def parse(text: str) -> Told:
    """The scrapes of a text: a new one begins where a sample comes again."""
    scrapes = [_scrape(samples) for samples in _scrapes(text)]
    told = [one for one in scrapes if one[0]]
    return Told(
        statuses=tuple(status for status, _, _ in told),
        file_events=tuple(files for _, _, files in told) if any(files for _, _, files in told) else (),
        timeless=sum("uptime" not in status for status, _, _ in told),
        variables=tuple(variables for _, variables, _ in scrapes if variables),
    )


def _scrapes(text: str) -> Iterator[list[Sample]]:
    samples: list[Sample] = []
    known: set[tuple[str, str]] = set()
    for line in lines(text):
        match = _SAMPLE.fullmatch(line.rstrip()) if line.startswith("mysql_") else None
        if match is None:
            continue
        if (match[1], match[2] or "") in known:
            yield samples
            samples, known = [], set()
        known.add((match[1], match[2] or ""))
        samples.append((match[1], dict(_LABEL.findall(match[2] or "")), match[3]))
    if samples:
        yield samples


def _scrape(
    samples: list[Sample],
) -> tuple[dict[str, str], dict[str, str], dict[str, FileEvents]]:
    """Status, variables and files."""
    status, variables = dict[str, str](), dict[str, str]()
    events = dict[tuple[str, str, str], float]()
    for name, labels, value in samples:
        number = _number(value)
        if number is None:
            continue
        if name == "mysql_version_info":
            for label in ("version", "version_comment", "innodb_version"):
                variables |= {label: labels[label]} if labels.get(label) else {}
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
    pages = [status.get(f"innodb_buffer_pool_pages_{kind}") for kind in ("data", "free", "misc")]
    if None not in pages:  # the exporter leaves out what other states add up to
        total = sum(float(one) for one in pages if one is not None)
        status.setdefault("innodb_buffer_pool_pages_total", _plain(total))
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


def _number(text: str) -> float | None:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e30 else None


def _plain(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


SOURCE = Source(name="mysqld_exporter", marks=(_STATUS, _VARIABLES), parse=parse)
