"""Section: how to repeat a campaign: the command of its plan, and the texts that it ran. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from flushlab.plan.plan import COMPARE
from flushlab.plan.shipped import PIPED
from flushlab.record import SourceText
from flushlab.redact import HIDDEN, values_without_passwords
from flushlab.report.page.parts import Section, Subject
from flushlab.report.repeat import command
from flushlab.store import CampaignRow
from flushlab.units import format_size

_TITLES = {
    "plan": "The plan",
    "transactions": "The transactions",
    "setup": "The setup",
    "script": "The script",
}


def section(subject: Subject) -> Iterator[Section]:
    """The command and the texts that it names."""
    row, plan = subject.row, subject.plan
    from_python = plan.plan == COMPARE and not plan.configurations  # as older versions stored them
    code = [("", command(row, plan))] if plan.build and not from_python else []
    piped = [f"The plan came through a pipe: save it as {PIPED}.toml first."] if plan.plan == PIPED else []
    yield from repeating(row, code, plan.sources, plan.workload, piped)


def repeating(
    row: CampaignRow,
    commands: Sequence[tuple[str, str]],
    sources: Sequence[SourceText],
    workload: str,
    notes: Sequence[str] = (),
) -> Iterator[Section]:
    """Commands, the texts that they name, the plan as stored if none of these is the plan, and how to resume.

    Args:
        row: of the campaign.
        commands: each with its title.
        sources: the texts that were run.
        workload: in words, without passwords.
        notes: that come first.
    """
    shown = [source for source in sources if source.text is not None]
    code = [*commands, *((f"{_TITLES[source.kind]}: {source.name}", source.text or "") for source in shown)]
    if not any(source.kind == "plan" for source in shown) and (text := plan_text(row)):
        code.append(("The plan as stored", text))
    said = [*notes, *_notes(sources, workload)]
    if row.state != "done":
        said.append(f"To resume it: flushlab {row.kind} --resume {row.id}")
    if code or said:
        yield Section("repeat", "How to repeat it", code=tuple(code), notes=tuple(said))


def _notes(sources: Sequence[SourceText], workload: str) -> Iterator[str]:
    if any(source.text is not None for source in sources):
        yield "Elsewhere, save each text as a file first and name that file in the command."
    for source in sources:
        if source.text is None:
            size = format_size(source.size_bytes)
            yield f"{source.name} is not shown: it has {size} or is no text. SHA-256: {source.sha256}"
    if any(HIDDEN in text for text in (workload, *(source.text or "" for source in sources))):
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
