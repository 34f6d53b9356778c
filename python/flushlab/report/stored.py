"""Stored: a campaign's row, read back as facts, as a plan, and as the command line to repeat it. Pure.

Sits in `report`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar, get_args

import msgspec

from flushlab.campaign.crash.experiment import CrashRequest, facts_of_campaign
from flushlab.campaign.facts import CampaignFacts, Kind
from flushlab.campaign.request import SeriesRequest, TuneRequest
from flushlab.errors import StorageError, UsageError
from flushlab.probe.against import Connections
from flushlab.record import CrashFacts, CrashRow, ProbeRecord, Trial
from flushlab.redact import without_passwords
from flushlab.spec.build import words
from flushlab.store import CampaignRow, unreadable

T = TypeVar("T")

Request = TuneRequest | SeriesRequest | CrashRequest
"""What a campaign was asked for, as it is stored."""

_REQUESTS: Mapping[str, type[Request]] = {
    "tune": TuneRequest,
    "series": SeriesRequest,
    "compare": SeriesRequest,
    "crash": CrashRequest,
}


def request_of(row: CampaignRow) -> Request | None:
    """What a campaign was asked for; None for a probe, and where another version of flushlab stored it."""
    try:
        return msgspec.json.decode(row.plan, type=_REQUESTS[row.kind])
    except (KeyError, msgspec.DecodeError):
        return None


def workload_of(request: Request | None) -> str:
    """The workload that was asked for, without passwords, which a command may hold; empty if not known."""
    if request is None:
        return ""
    name = request.spec.workload.name if isinstance(request, CrashRequest) else request.workload
    return without_passwords(name)


def floor_of(request: Request | None) -> str:
    if isinstance(request, TuneRequest):
        return request.spec.floor.value
    return request.floor or "" if isinstance(request, SeriesRequest) else ""


def facts_of(row: CampaignRow) -> CampaignFacts | None:
    """The facts of a campaign that has come to some.

    Raises:
        StorageError: they are of a kind or a version that this flushlab does not know.
    """
    if row.result is None:
        return None
    if row.kind not in get_args(Kind):
        raise StorageError(
            f"campaign {row.id} has kind {row.kind!r}, which this version of flushlab cannot report",
            hint="use the version that ran it",
        )
    return _decoded(row, CampaignFacts)


def probe_of(row: CampaignRow) -> ProbeRecord:
    """The record of a stored probe.

    Raises:
        StorageError: it is of a version that this flushlab does not know.
    """
    return _decoded(row, ProbeRecord)


def crash_of(row: CampaignRow, crashes: Iterable[CrashRow]) -> CrashFacts:
    """What the crashes of a campaign come to so far.

    Raises:
        UsageError: nothing was judged yet.
        StorageError: they are of a version that this flushlab does not know.
    """
    try:
        request = msgspec.json.decode(row.plan, type=CrashRequest)
        ending: Literal["done", "interrupted"] = "done" if row.state == "done" else "interrupted"
        facts = facts_of_campaign(request, crashes, ending, row.id)
    except msgspec.DecodeError as error:
        raise unreadable(row) from error
    if not facts.arms:
        raise UsageError(f"campaign {row.id} has no result yet", hint="no crash of it has been judged")
    return facts


def _decoded(row: CampaignRow, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(row.result or b"", type=kind)
    except msgspec.DecodeError as error:
        raise unreadable(row) from error


def connections_of(request: Request | None) -> Connections:
    """The connections of a campaign's trials: of a tuning by variant, of a series by arm."""

    def found(trial: Trial) -> int | None:
        if isinstance(request, TuneRequest):
            threads = request.spec.threads
            return threads[trial.variant] if trial.variant < len(threads) else None
        if not isinstance(request, SeriesRequest):
            return None
        arm = next((one for one in request.arms if one.name == trial.arm.name), request.base)
        count = arm.workload.options.get("threads")
        return count if isinstance(count, int) else None

    return found


def command(request: Request) -> str:
    spec = request.spec
    if (workload := getattr(spec, "workload", None)) is not None:
        hidden = msgspec.structs.replace(workload, name=without_passwords(workload.name))
        spec = msgspec.structs.replace(spec, workload=hidden)
    remote = getattr(spec, "remote", None)
    if remote is not None and remote.has_flags:  # they name the account, which the address lacks
        spec = msgspec.structs.replace(spec, remote=msgspec.structs.replace(remote, dsn=None))
    run = getattr(spec, "run", None)
    if run is not None and (fleet := getattr(request, "fleet", "")):
        clients = getattr(request, "clients", ())
        spec = msgspec.structs.replace(spec, run=msgspec.structs.replace(run, fleet=fleet, client=clients))
    return " \\\n  ".join([f"flushlab {spec.kind}", *words(spec)])
