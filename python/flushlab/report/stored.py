"""Stored: a campaign's row, read back as facts, as a plan and as one line of a list. Pure.

Sits in `report`. The result is decoded strictly, because reports are made from it; the plan only as far as
is shown, so that campaigns of older and newer plans can be reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from flushlab.campaign.facts import SeriesFacts, TuneFacts
from flushlab.campaign.recommended import Recommended, of_series, of_tune
from flushlab.errors import StorageError, UsageError
from flushlab.experiment.objective import Objective
from flushlab.plan.plan import BASE
from flushlab.record import CrashFacts, ProbeRecord, SourceText, Trial, Value
from flushlab.redact import without_passwords
from flushlab.settings.fit import Scaled
from flushlab.store import CampaignRow

Facts = TuneFacts | SeriesFacts


class _Timing(msgspec.Struct, frozen=True):
    seconds: float | None = None


class StoredPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a stored plan says of how to repeat it; the fields of both kinds, all of them optional.

    See `campaign.request.TuneRequest` and `campaign.series_request.SeriesRequest`.
    """

    build: str = ""
    server: str = ""
    external: str = ""
    basedir: str | None = None
    workload: str = ""
    shape: Mapping[str, Any] = {}
    threads: tuple[int, ...] = ()
    floor: str | None = None
    minutes: float | None = None
    trials: int | None = None
    original: Mapping[str, Value] = {}
    has: Mapping[str, Value] = {}
    scaled: tuple[Scaled, ...] = ()
    base_file: str | None = None
    base: Mapping[str, Any] = {}
    timing: _Timing = _Timing()
    steady_state: bool = False
    side_by_side: int = 0
    objective: Objective = "throughput"
    p99_limit: float | None = None
    standalone: bool = False
    dataset: str | None = None
    database: str | None = None
    keep: tuple[str, ...] = ()
    memory: str | None = None
    data_root: str | None = None
    disk_iops: int | None = None
    disk: str | None = None
    cluster: int | None = None
    latency_s: float | None = None
    seed: int | None = None
    plan: str = ""
    path: str = ""
    sources: tuple[SourceText, ...] = ()
    title: str = ""
    blocks: int | None = None
    servers: tuple[str, ...] = ()
    configurations: tuple[str, ...] = ()
    base_name: str = "base"
    measured_s: float | None = None
    asked_blocks: int | None = None
    precision: float | None = None
    only: tuple[str, ...] = ()
    scale: float = 1.0
    asked_threads: int | None = None
    fresh: bool = False
    crash_images: int = 0


def plan_of(row: CampaignRow) -> StoredPlan:
    """The plan, as far as it can be read; without passwords, which a command may hold."""
    try:
        plan = msgspec.json.decode(row.plan, type=StoredPlan)
    except msgspec.DecodeError:
        return StoredPlan()
    return msgspec.structs.replace(plan, workload=without_passwords(plan.workload))


def facts_of(row: CampaignRow) -> Facts | None:
    """The facts of a campaign that has come to some.

    Raises:
        StorageError: they are of a kind or a version that this flushlab does not know.
    """
    if row.result is None:
        return None
    kinds: dict[str, type[Facts]] = {"tune": TuneFacts, "series": SeriesFacts, "compare": SeriesFacts}
    try:
        return msgspec.json.decode(row.result, type=kinds[row.kind])
    except KeyError:
        raise StorageError(
            f"campaign {row.id} has kind {row.kind!r}, which this version of flushlab cannot report",
            hint="use the version that ran it",
        ) from None
    except msgspec.DecodeError as error:
        raise _other_version(row, error) from error


def probe_of(row: CampaignRow) -> ProbeRecord:
    """The record of a stored probe.

    Raises:
        StorageError: it is of a version that this flushlab does not know.
    """
    try:
        return msgspec.json.decode(row.result or b"", type=ProbeRecord)
    except msgspec.DecodeError as error:
        raise _other_version(row, error) from error


def crash_of(row: CampaignRow) -> CrashFacts:
    """The facts of a stored crash campaign.

    Raises:
        UsageError: nothing was judged yet.
        StorageError: they are of a version that this flushlab does not know.
    """
    if row.result is None:
        raise UsageError(f"campaign {row.id} has no result yet", hint="no crash of it has been judged")
    try:
        return msgspec.json.decode(row.result, type=CrashFacts)
    except msgspec.DecodeError as error:
        raise _other_version(row, error) from error


def _other_version(row: CampaignRow, error: Exception) -> StorageError:
    return StorageError(
        f"another version of flushlab stored the result of campaign {row.id}: {error}",
        hint="use the version that ran it, or run it again",
    )


def recommended(row: CampaignRow, facts: Facts | None) -> tuple[Recommended, ...]:
    """What the campaign says to change, one for each server that it recommends a change for."""
    if isinstance(facts, SeriesFacts):
        return of_series(facts)
    if isinstance(facts, TuneFacts):
        return of_tune(facts)
    return ()


def own_settings(plan: StoredPlan) -> Mapping[str, Value]:
    """What the user's option file or the plan's base sets."""
    return plan.original or plan.base.get("settings", {})


def before_change(trials: Iterable[Trial], base: str = BASE) -> Mapping[str, Value]:
    """What a server with the base reported; empty where none has run."""
    return next((trial.settings for trial in trials if trial.arm.name == base and trial.settings), {})
