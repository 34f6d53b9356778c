"""Records: what a stored campaign measured as flat rows, for pandas and spreadsheets. Sits in `store`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        found = [
            *_cells(row),
            *(_flat(msgspec.to_builtins(trial)) for trial in opened.trials(row.id)),
            *(_crash(msgspec.to_builtins(crash)) for crash in opened.crashes(row.id)),
        ]
    return [{"campaign": row.id, "number": number, **dict(one)} for number, one in enumerate(found, 1)]


def _cells(row: CampaignRow) -> Iterator[Fields]:
    """Rows of a probe, which runs no trials: from its result."""
    result = msgspec.json.decode(row.result) if row.kind == "probe" and row.result else {}
    for part in _CELLS:
        yield from (chain([("part", part)], _flat(cell)) for cell in result.get(part, ()))


def _crash(row: Mapping[str, Any]) -> Fields:
    return chain(_flat(row["arm"], "arm."), _flat(row["crash"]))


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Fields:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            yield prefix + name, value
