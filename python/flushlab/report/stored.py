"""Stored: a campaign's row, read back as facts and as a request, and the section that repeats it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args

import msgspec

from flushlab.campaign.crash.experiment import CrashRequest, facts_of_campaign
from flushlab.campaign.facts import CampaignFacts, Kind, resuming
from flushlab.campaign.request import SeriesRequest, TuneRequest
from flushlab.errors import StorageError, UsageError
from flushlab.plan.parse import PIPED
from flushlab.probe.against import Connections
from flushlab.record import CrashFacts, CrashRow, ProbeRecord, Trial
from flushlab.redact import HIDDEN, values_without_passwords, without_passwords
from flushlab.report.document import Code, Section
from flushlab.spec.build import words
from flushlab.spec.parts import RemoteAccess
from flushlab.store import CampaignRow, unreadable
from flushlab.units import format_size

T = TypeVar("T")

Request = TuneRequest | SeriesRequest | CrashRequest

_REQUESTS: Mapping[str, type[Request]] = {
    "tune": TuneRequest,
    "series": SeriesRequest,
    "compare": SeriesRequest,
    "crash": CrashRequest,
}


def request_of(row: CampaignRow) -> Request | None:
    """None for a probe, and where another version of flushlab stored it."""
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
    """None: it has come to none. Raises StorageError if another version of flushlab stored them."""
    if row.result is None:
        return None
    if row.kind not in get_args(Kind):
        raise StorageError(
            f"campaign {row.id} has kind {row.kind!r}, which this version of flushlab cannot report",
            hint="use the version that ran it",
        )
    return _decoded(row, CampaignFacts)


def probe_of(row: CampaignRow) -> ProbeRecord:
    return _decoded(row, ProbeRecord)


def crash_of(row: CampaignRow, crashes: Iterable[CrashRow]) -> CrashFacts:
    """UsageError if nothing was judged yet."""
    try:
        request = msgspec.json.decode(row.plan, type=CrashRequest)
        ending = "done" if row.state == "done" else "interrupted"
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


# -- how to repeat it ------------------------------------------------------------------------------------

_TITLES = {
    "option file": "The option file",
    "plan": "The plan",
    "transactions": "The transactions",
    "setup": "The setup",
    "script": "The script",
}


def repeat(row: CampaignRow, request: Request | None, *notes: str) -> Iterator[Section]:
    code = [] if request is None else [Code(command(request), shown="page")]
    sources = [source for source in (request.sources if request else ()) if source.text is not None]
    code += [Code(source.text or "", f"{_TITLES[source.kind]}: {source.name}") for source in sources]
    if not any(source.kind == "plan" for source in sources) and (text := plan_text(row)):
        code.append(Code(text, "The plan as stored"))
    said = [*notes, *(_notes(request) if request is not None else ())]
    if row.state != "done":
        remote = RemoteAccess()
        if isinstance(request, TuneRequest | SeriesRequest):
            remote = request.spec.remote
        said.append(f"To resume it: {resuming(row.kind, row.id, remote)}")
    if code or said:
        yield Section("repeat", "How to repeat it", code=tuple(code), notes=tuple(said), short=())


def when(row: CampaignRow) -> str:
    return f"{row.created_at[:16].replace('T', ' ')} UTC"


def foot(row: CampaignRow) -> dict[str, Any]:
    known = {"kind": row.kind, "id": row.id, "state": row.state, "flushlab": row.flushlab}
    return known | {"when": when(row)}


def _notes(request: Request) -> Iterator[str]:
    sources = request.sources
    if isinstance(request, SeriesRequest) and request.plan == PIPED:
        yield f"The plan came through a pipe: save it as {PIPED}.toml first."
    option_files = [source for source in sources if source.kind == "option file"]
    has_settings = isinstance(request, TuneRequest)
    if any(source.text is not None and not (has_settings and source in option_files) for source in sources):
        yield "Elsewhere, save each text as a file first and name that file in the command."
    if has_settings and option_files:
        yield "The command sets what flushlab took from the option file."
    for source in sources:
        if source.text is None:
            size = format_size(source.size_bytes)
            yield f"{source.name} is not shown: it has {size} or is no text. SHA-256: {source.sha256}"
    if any(HIDDEN in text for text in (workload_of(request), *(source.text or "" for source in sources))):
        yield f"{HIDDEN} stands for a password."


def plan_text(row: CampaignRow) -> str:
    """The request as it was decided, without passwords, and without the texts: they stand by themselves."""
    try:
        request = msgspec.json.decode(row.plan)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    if isinstance(request, dict):
        request.pop("sources", None)
    return msgspec.json.format(msgspec.json.encode(values_without_passwords(request)), indent=2).decode()
