"""Section: how to repeat a campaign: the command that its plan stands for, and the plan itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flushlab.plan.plan import COMPARE
from flushlab.plan.shipped import PIPED
from flushlab.report.page.parts import Section, Subject
from flushlab.report.repeat import command
from flushlab.report.stored import StoredPlan
from flushlab.store import CampaignRow


def section(subject: Subject) -> Iterator[Section]:
    """The command and the plan."""
    row, plan = subject.row, subject.plan
    from_python = plan.plan == COMPARE and not plan.configurations  # as older versions stored them
    code = [("", command(row, plan))] if plan.build and not from_python else []
    if text := plan_text(row, plan):
        code.append(("The plan" if plan.plan_text else "The plan as stored", text))
    notes = []
    if plan.plan == PIPED:
        notes.append(f"The plan came through a pipe: save it as {PIPED}.toml first.")
    if row.state != "done":
        notes.append(f"To resume it: flushlab {row.kind} --resume {row.id}")
    if code or notes:
        yield Section("repeat", "How to repeat it", code=tuple(code), notes=tuple(notes))


def plan_text(row: CampaignRow, plan: StoredPlan) -> str:
    """The plan as its author wrote it where that is stored, else as it was decided."""
    if plan.plan_text:
        return plan.plan_text
    try:
        return msgspec.json.format(row.plan, indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
