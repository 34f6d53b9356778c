"""Section: how to repeat a campaign: the command of its plan, and the texts that it ran. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flushlab.campaign.facts import resuming
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.series_request import SeriesRequest
from flushlab.plan.shipped import PIPED
from flushlab.record import SourceText
from flushlab.redact import HIDDEN, values_without_passwords
from flushlab.report.page.parts import Section, Subject
from flushlab.report.repeat import command
from flushlab.report.stored import Request, workload_of
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


def section(subject: Subject) -> Iterator[Section]:
    """The command and the texts that it names."""
    yield from repeating(subject.row, subject.request)


def repeating(row: CampaignRow, request: Request | None, *notes: str) -> Iterator[Section]:
    """The command, the texts that it names, the plan as stored where none of these is it, how to resume.

    Args:
        row: of the campaign.
        request: what it was asked for; None: another version of flushlab stored it.
        notes: that come first.
    """
    code = [] if request is None else [("", command(request))]
    shown = [source for source in (request.sources if request else ()) if source.text is not None]
    code += [(f"{_TITLES[source.kind]}: {source.name}", source.text or "") for source in shown]
    if not any(source.kind == "plan" for source in shown) and (text := plan_text(row)):
        code.append(("The plan as stored", text))
    said = [*notes, *(_notes(request) if request is not None else ())]
    if row.state != "done":
        remote = RemoteAccess()
        if isinstance(request, TuneRequest | SeriesRequest):
            remote = request.spec.remote
        said.append(f"To resume it: {resuming(row.kind, row.id, remote)}")
    if code or said:
        yield Section("repeat", "How to repeat it", code=tuple(code), notes=tuple(said))


def _notes(request: Request) -> Iterator[str]:
    sources = request.sources
    if isinstance(request, SeriesRequest) and request.plan == PIPED:
        yield f"The plan came through a pipe: save it as {PIPED}.toml first."
    has_settings = isinstance(request, TuneRequest)
    if any(source.text is not None and not (has_settings and _is_option_file(source)) for source in sources):
        yield "Elsewhere, save each text as a file first and name that file in the command."
    if has_settings and any(map(_is_option_file, sources)):
        yield "The command sets what flushlab took from the option file."
    for source in sources:
        if source.text is None:
            size = format_size(source.size_bytes)
            yield f"{source.name} is not shown: it has {size} or is no text. SHA-256: {source.sha256}"
    if any(HIDDEN in text for text in (workload_of(request), *(source.text or "" for source in sources))):
        yield f"{HIDDEN} stands for a password."


def _is_option_file(source: SourceText) -> bool:
    return source.kind == "option file"


def plan_text(row: CampaignRow) -> str:
    """The request as it was decided, without passwords, and without the texts: they stand by themselves."""
    try:
        request = msgspec.json.decode(row.plan)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    if isinstance(request, dict):
        request.pop("sources", None)
    return msgspec.json.format(msgspec.json.encode(values_without_passwords(request)), indent=2).decode()
