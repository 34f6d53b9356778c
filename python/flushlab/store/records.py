"""Records: the trials of a stored campaign as flat rows, for pandas and spreadsheets. Sits in `store`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from flushlab.record import Value
from flushlab.store.location import existing_store
from flushlab.store.store import Store

Row = dict[str, Value | bool | None]
"""A trial; names of fields within fields are joined by dots: `load.latency_us.p99`."""


def records(campaign: str | None = None, *, store: Path | str | None = None) -> list[Row]:
    """The trials of a campaign, a row each: `pandas.DataFrame(flushlab.records())`.

    Args:
        campaign: its id; the latest finished one if None.
        store: the file; flushlab's own if None.

    Returns:
        Rows in the order in which the trials ended. Columns are the fields of `flushlab.record.Trial`, those
        of its parts behind a dot (`arm.settings.sync_binlog`, `load.latency_us.p99`, `settings.…` as read
        back), with `campaign` and `number` before them; lists are left out.

    Raises:
        UsageError: there is no such campaign.
    """
    with Store.existing(Path(store)) if store else existing_store() as opened:
        row = opened.campaign(campaign) if campaign else opened.latest_finished()
        return [
            {"campaign": row.id, "number": number, **dict(_flat(msgspec.to_builtins(trial)))}
            for number, trial in enumerate(opened.trials(row.id), 1)
        ]


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Value | bool | None]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            yield prefix + name, value
