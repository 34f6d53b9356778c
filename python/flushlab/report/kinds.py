"""Kinds of stored records: of each, its document and its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from flushlab.advice.handed_over import Advice, advised
from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.recommended import at_floor
from flushlab.campaign.request import SeriesRequest, TuneRequest
from flushlab.errors import StorageError, UsageError
from flushlab.record import Trial
from flushlab.report import campaign, crash, probe
from flushlab.report.document import Document, Section
from flushlab.report.stored import crash_of, facts_of, probe_of, request_of
from flushlab.settings.floor import Floor
from flushlab.store import CampaignRow, Store


class Stored(msgspec.Struct):
    row: CampaignRow
    trials: list[Trial]
    facts: CampaignFacts | None
    advice: tuple[Advice, ...]
    beside: tuple[Section, ...]

    def document(self, *, per_machine: bool = False) -> Document:
        return campaign.document(
            self.facts,
            self.row,
            self.trials,
            advice=self.advice,
            beside=self.beside,
            per_machine=per_machine,
        )


def stored(
    store: Store, row: CampaignRow, floor: Floor | None = None, facts: CampaignFacts | None = None
) -> Stored:
    trials = list(store.trials(row.id))
    facts = facts or facts_of(row)
    if facts is None:
        from flushlab.campaign.so_far import facts_so_far  # it replays the experiment, and that takes scipy

        facts = facts_so_far(row, trials)
    if floor is not None and facts is not None:
        facts = at_floor(facts, floor)
    request = request_of(row)
    asked = request if isinstance(request, TuneRequest | SeriesRequest) else None
    advice = advised(facts, asked, trials)
    return Stored(row, trials, facts, advice, tuple(_beside(store, row, trials)))


def document_of(store: Store, row: CampaignRow, floor: Floor | None = None) -> Document:
    """Raises UsageError if it has no result yet, StorageError if another version of flushlab stored it."""
    if row.kind == "probe":
        return probe.document(probe_of(row), row.id)
    if row.kind == "crash":
        return crash.document(crash_of(row, store.crashes(row.id)), row)
    return stored(store, row, floor).document()


def json_of(store: Store, row: CampaignRow, floor: Floor | None = None) -> msgspec.Struct:
    if row.kind == "probe":
        return probe.as_json(probe_of(row))
    if row.kind == "crash":
        return crash.as_json(crash_of(row, store.crashes(row.id)))
    if (facts := stored(store, row, floor).facts) is None:
        raise UsageError(
            f"campaign {row.id} has no result yet", hint="without --json, the page shows the trials so far"
        )
    return campaign.as_json(facts)


def _beside(store: Store, row: CampaignRow, trials: Sequence[Trial]) -> Iterator[Section]:
    for probed in store.finished("probe"):
        try:
            record = probe_of(probed)
        except StorageError:
            continue  # of another version
        if sections := list(probe.beside(record, probed.id, row, trials)):
            yield from sections
            return
