"""Source: information_schema.INNODB_TRX, as pt-stalk prints it once a second. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from flushlab.diagnosis.files.records import Record, results
from flushlab.diagnosis.files.told import Source, Told, whole
from flushlab.telemetry.live.questions import OpenTransaction

_COLUMNS = frozenset(("trx_id", "trx_state", "trx_started"))
_TS = re.compile(r"^TS (\d{1,12})(?:\.\d+)? (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", re.MULTILINE)
_OFFSET = re.compile(r"([+-])(\d\d?):(\d\d)")


def zone_s(time_zone: str, system: int) -> int | None:
    """Seconds by which a time zone is ahead of UTC; None for a name that takes a table.

    Args:
        time_zone: as the server's variable has it.
        system: for `SYSTEM`, and where nothing tells the variable.
    """
    if time_zone.upper() in ("", "SYSTEM"):
        return system
    if time_zone.upper() in ("UTC", "GMT"):
        return 0
    if (match := _OFFSET.fullmatch(time_zone)) is None:
        return None
    return (int(match[2]) * 3600 + int(match[3]) * 60) * (-1 if match[1] == "-" else 1)


def parse(text: str) -> Told:
    """The transactions of each moment; their age takes the moment's time, as the client's clock shows it."""
    first = _TS.search(text)
    shown = _time(first[2]) if first is not None else None
    return Told(
        transactions=tuple(
            tuple(_transactions(rows, now))
            for now, part in _moments(text)
            for rows in results(part, _COLUMNS)
        ),
        zone_s=round(shown.timestamp()) - int(first[1]) if first is not None and shown is not None else 0,
    )


def _moments(text: str) -> Iterator[tuple[datetime | None, str]]:
    """The text between two times, with the time above it; all of it where there is none."""
    times = list(_TS.finditer(text))
    if not times:
        yield None, text
    for match, following in itertools.zip_longest(times, times[1:]):
        yield _time(match[2]), text[match.end() : following.start() if following else None]


def _transactions(rows: list[Record], now: datetime | None) -> Iterator[OpenTransaction]:
    for row in rows:
        began = _time(row["trx_started"])
        age_s = (now - began).total_seconds() if now is not None and began is not None else 0.0
        yield OpenTransaction(
            thread=whole(row.get("trx_mysql_thread_id", "")),
            waits=row["trx_state"] == "LOCK WAIT",
            age_s=int(age_s),
            rows_locked=whole(row.get("trx_rows_locked", "")),
            rows_modified=whole(row.get("trx_rows_modified", "")),
        )


def _time(text: str) -> datetime | None:
    try:
        return datetime.strptime(text[:19], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None


SOURCE = Source(name="INNODB_TRX", marks=("trx_state",), parse=parse)
