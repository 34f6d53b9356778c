"""Section: how to repeat a campaign: the command, the texts that it names, how to resume it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flushlab.campaign.facts import resuming
from flushlab.campaign.request import SeriesRequest, TuneRequest
from flushlab.plan.parse import PIPED
from flushlab.redact import HIDDEN, values_without_passwords
from flushlab.report.document import Code, Section
from flushlab.report.stored import Request, command, workload_of
from flushlab.spec.parts import RemoteAccess
from flushlab.store import CampaignRow
from flushlab.units import format_size

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
