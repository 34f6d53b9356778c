"""Records: what a stored campaign measured as flat rows, for pandas and spreadsheets. Sits in `store`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from flushlab.record import Value
from flushlab.store.store import CampaignRow, Store, existing_store

Row = dict[str, Value | bool | None]
"""A trial, a cell or a crash; names of fields within fields are joined by dots: `load.latency_us.p99`."""
Fields = Iterator[tuple[str, Value | bool | None]]

_CELLS = ("disk", "ceilings", "switches", "against")
"""Fields of a probe's record that have a row for each of their entries."""


def records(campaign: str | None = None, *, store: Path | str | None = None) -> list[Row]:
    """What a campaign measured, a row each: `pandas.DataFrame(flushlab.records())`.

    Args:
        campaign: its id; the latest finished one if None.
        store: the file; flushlab's own if None.

    Returns:
        Rows in the order in which they were measured. Columns are `campaign`, `number`, and the fields of a
        `flushlab.record.Trial`, those of its parts behind a dot (`arm.settings.sync_binlog`,
        `load.latency_us.p99`, `settings.…` as read back); lists are left out. A crash is a row, too: a
        `Crash`, with its configuration's columns `arm.…`. Of a probe, a row is an entry of the field
        `part` (`disk`, `ceilings`, `switches`, `against`) of its `ProbeRecord`.

    Raises:
        UsageError: there is no such campaign.
    """
    with Store.existing(Path(store)) if store else existing_store() as opened:
        row = opened.campaign(campaign) if campaign else opened.latest_finished()
        return [dict(_flat(one)) for one in whole(opened, row)]


def whole(store: Store, row: CampaignRow) -> Iterator[dict[str, Any]]:
    """The same rows complete: fields within fields as objects, and the lists.

    Args:
        store: that has the campaign.
        row: the campaign.
    """
    found = chain(
        _cells(row),
        (msgspec.to_builtins(trial) for trial in store.trials(row.id)),
        (_crash(msgspec.to_builtins(crash)) for crash in store.crashes(row.id)),
    )
    for number, one in enumerate(found, 1):
        yield {"campaign": row.id, "number": number, **one}


def as_json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """A line per row."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def as_csv(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """A table of the flat rows; a cell is empty where its row lacks the column or the value is None."""
    flat = [dict(_flat(row)) for row in rows]
    text = io.StringIO()
    table = csv.DictWriter(text, [*dict.fromkeys(name for row in flat for name in row)], lineterminator="\n")
    table.writeheader()
    table.writerows(flat)
    return text.getvalue().encode()


def _cells(row: CampaignRow) -> Iterator[dict[str, Any]]:
    """Rows of a probe, which runs no trials: from its result."""
    result = msgspec.json.decode(row.result) if row.kind == "probe" and row.result else {}
    for part in _CELLS:
        yield from ({"part": part, **cell} for cell in result.get(part, ()))


def _crash(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"arm": row["arm"], **row["crash"]}


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Fields:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            yield prefix + name, value
