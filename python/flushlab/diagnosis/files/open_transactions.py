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
_TS = re.compile(r"^TS \d+(?:\.\d+)? (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", re.MULTILINE)


def parse(text: str) -> Told:
    """The transactions of each moment; their age takes the moment's time. Both are in the machine's time
    zone, whatever the server's (field_store_time_t in https://github.com/mysql/mysql-server/blob/8.0/storage/innobase/handler/i_s.cc)."""
    return Told(
        transactions=tuple(
            tuple(_transactions(rows, now))
            for now, part in _moments(text)
            for rows in results(part, _COLUMNS)
        )
    )


def _moments(text: str) -> Iterator[tuple[datetime | None, str]]:
    """The text between two times, with the time above it; all of it where there is none."""
    times = list(_TS.finditer(text))
    if not times:
        yield None, text
    for match, following in itertools.zip_longest(times, times[1:]):
        yield _time(match[1]), text[match.end() : following.start() if following else None]


def _transactions(rows: list[Record], now: datetime | None) -> Iterator[OpenTransaction]:
    """Without a time, it is the newest that the rows have, or later."""
    texts = (row.get(name, "") for row in rows for name in ("trx_started", "trx_wait_started"))
    now = now or max(filter(None, map(_time, texts)), default=None)
    for row in rows:
        began, thread = _time(row["trx_started"]), whole(row.get("trx_mysql_thread_id", ""))
        age_s = (now - began).total_seconds() if now is not None and began is not None else 0.0
        yield OpenTransaction(
            id=whole(row["trx_id"]),
            thread=thread,
            waits=row["trx_state"] == "LOCK WAIT",
            idle=row.get("trx_query") == "NULL",
            prepared=not thread and row["trx_state"] == "RUNNING",
            age_s=max(0, int(age_s)),
            rows_locked=whole(row.get("trx_rows_locked", "")),
            rows_modified=whole(row.get("trx_rows_modified", "")),
        )


def _time(text: str) -> datetime | None:
    try:
        return datetime.strptime(text[:19], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None


SOURCE = Source(name="INNODB_TRX", marks=("trx_state",), parse=parse)
