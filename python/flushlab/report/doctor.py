"""Report of the doctor: a diagnosis for the terminal and as JSON. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Literal

import msgspec

from flushlab.diagnosis.diagnose import Diagnosis
from flushlab.diagnosis.doctor import Account
from flushlab.diagnosis.finding import Change, Finding, Seen, Strength
from flushlab.diagnosis.host import Host
from flushlab.diagnosis.shares import Share, Step, times
from flushlab.diagnosis.state import State
from flushlab.diagnosis.waits import ROW_LOCK, WAITS, wait_words
from flushlab.report.doctor_changes import change_lines
from flushlab.report.doctor_host import host_lines
from flushlab.report.doctor_state import restart_changes, state_lines
from flushlab.report.words import changes, grouped
from flushlab.units import counted, format_seconds

WIDTH = 80


class FoundDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A finding.

    Attributes:
        name: `commit_sync`, `row_locks`, …
        title: a line.
        strength: `binds`: a quarter of the writers' time or more; `contributes`: a tenth or more; `hint`:
            less, or without a measured share; `unmeasured`: somebody waits, and the share is unknown.
        share: of the writers' time, with a 95 % interval; null if it is not measured.
        at_most: most that the affected writers' throughput may grow to without this time, as a factor, at
            this number of connections; null if unknown.
        waits: that the share is of, or within; names as in `connections`.
        seen: evidence in the server's own numbers, with the statement that shows them.
        advice: in words.
        changes: settings to try, untested on this server.
    """

    name: str
    title: str
    strength: Strength
    share: Share | None
    at_most: float | None
    waits: tuple[str, ...]
    seen: tuple[Seen, ...]
    advice: str
    changes: tuple[Change, ...]


class CommitRate(msgspec.Struct, frozen=True, kw_only=True):
    """Commits between two answers of the server.

    Attributes:
        at_s: of the later one, in seconds since the window began.
        per_s: commits/s.
    """

    at_s: float
    per_s: float


class DoctorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A diagnosis.

    Attributes:
        schema: `flushlab.doctor/1`.
        server: `mariadb@10.11.19`.
        address: where it was reached, or the path of the files.
        files: that were read in place of a server, each with what it was read as.
        left_out: files beside them that tell nothing of a server, each with the reason.
        began: when the window began, ISO 8601, UTC; empty if it is not known.
        seconds: length of the window; 0 for files of a single moment, which have no rates.
        samples: moments at which connections were looked at.
        writers: connections that were seen to write.
        answer: what bounds writes, in a sentence.
        doubts: what keeps the answer from being sure.
        connections: mean number of writers in each wait; null if the account does not see connections.
        steps: the same over time, for plots; a step without a sample is missing.
        step_s: length of a step.
        commits: over time.
        commits_by: status variable that counts them; `handler_commit` has statements and transactions that
            only read, too, and `innodb_max_trx_id` grows by two for each, rolled back ones included. Empty if
            the server tells none.
        findings: the most binding first.
        floor: that the server meets now, and on which disk.
        guarantees: what it keeps under each failure, in words.
        not_judged: what could not be seen, and why.
        host: the server's machine during the window; null if flushlab does not run there.
        state: settings that matter to writes, where they came from, and what a restart changes.
    """

    schema: Literal["flushlab.doctor/1"] = "flushlab.doctor/1"
    server: str
    address: str
    files: tuple[str, ...]
    left_out: tuple[str, ...]
    began: str
    seconds: float
    samples: int
    writers: int
    answer: str
    doubts: tuple[str, ...]
    connections: Mapping[str, float] | None
    steps: tuple[Step, ...]
    step_s: float
    commits: tuple[CommitRate, ...]
    commits_by: str
    findings: tuple[FoundDocument, ...]
    floor: str
    guarantees: Mapping[str, str]
    not_judged: tuple[str, ...]
    host: Host | None
    state: State


def document(diagnosis: Diagnosis) -> DoctorDocument:
    """The diagnosis as `flushlab.doctor/1`."""
    evidence = diagnosis.evidence
    return DoctorDocument(
        server=evidence.server,
        address=evidence.after.key,
        files=evidence.files,
        left_out=evidence.left_out,
        began=_began(evidence.began),
        seconds=evidence.seconds,
        samples=evidence.time.samples,
        writers=evidence.time.writers,
        answer=diagnosis.answer,
        doubts=diagnosis.doubts,
        connections=None if evidence.write_time is None else evidence.write_time.connections,
        steps=evidence.time.steps,
        step_s=evidence.time.step_s,
        commits=tuple(CommitRate(at_s=at_s, per_s=rate) for at_s, rate in evidence.commit_rates),
        commits_by=evidence.commits_by,
        findings=tuple(
            FoundDocument(
                name=one.name,
                title=one.title,
                strength=one.strength,
                share=one.share,
                at_most=one.at_most,
                waits=one.waits,
                seen=one.seen,
                advice=one.advice,
                changes=one.changes,
            )
            for one in diagnosis.findings
        ),
        floor=diagnosis.floor,
        guarantees=diagnosis.guarantees,
        not_judged=diagnosis.not_judged,
        host=evidence.host,
        state=diagnosis.state,
    )


def render(diagnosis: Diagnosis, *, full: bool = False) -> str:
    """The diagnosis for people, 80 columns wide.

    Args:
        diagnosis: to show.
        full: with hints, and the statement that shows each number.
    """
    evidence = diagnosis.evidence
    lines = [
        f"{evidence.server}, {window_words(diagnosis)}",
        evidence.after.key,
        "",
        *_wrapped(diagnosis.answer),
    ]
    for doubt in diagnosis.doubts:
        lines += _wrapped(f"Doubt: {doubt}.")
    if evidence.time.writers and evidence.time.is_sample:
        lines += ["", *_where(diagnosis)]
    without_shares = bool(evidence.files) and not evidence.time.is_sample
    shown = [one for one in diagnosis.findings if full or without_shares or one.strength != "hint"]
    for one in shown:
        lines += ["", *_finding(one, diagnosis, full=full)]
    hints = [one.title for one in diagnosis.findings if one not in shown]
    if hints:
        lines += ["", *_wrapped(f"Hints (--full): {'; '.join(hints)}.")]
    if full and evidence.host is not None:
        lines += ["", "Machine"]
        for line in host_lines(evidence.host):
            lines += _wrapped(f"  {line}", "    ")
    if full and (evidence.settings or not evidence.files):
        lines += ["", "State"]
        for failures, text in grouped(diagnosis.guarantees).items():
            lines += _wrapped(f"  {failures}: {text}", "    ")
        for line in state_lines(diagnosis.state, evidence.identity):
            lines += _wrapped(f"  {line}", "    ")
    lines += ["", *_wrapped(f"Floor now: {diagnosis.floor}.")]
    if changed := restart_changes(diagnosis.state, evidence.identity):
        lines += _wrapped(f"A restart changes: {', '.join(changed)}.")
    if full and diagnosis.not_judged:
        lines += ["Not judged:", *(line for one in diagnosis.not_judged for line in _item(one))]
    elif diagnosis.not_judged:
        topics = dict.fromkeys(one.partition(":")[0] for one in diagnosis.not_judged)
        lacks = f" The account lacks {' and '.join(evidence.missing)}." if evidence.missing else ""
        lines += _wrapped(f"Not judged (--full): {'; '.join(topics)}.{lacks}")
    if full and evidence.files:
        lines += ["Files:", *(line for one in evidence.files for line in _item(one))]
    if full and evidence.left_out:
        lines += ["Files left out:", *(line for one in evidence.left_out for line in _item(one))]
    return "\n".join(lines)


def window_words(diagnosis: Diagnosis) -> str:
    """How long the server was watched, or how much of its time is in files."""
    evidence = diagnosis.evidence
    if not evidence.files:
        return f"watched for {evidence.seconds:.0f} s"
    span = f"{format_seconds(evidence.seconds)} of it" if evidence.seconds else "one moment of it"
    return f"{span} in {counted(len(evidence.files), 'file')}"


def render_account(account: Account) -> str:
    """What an account may see, for people."""
    lines = [f"{account.name} on {account.server.name}"]
    lines += _wrapped(f"sees   {', '.join(account.sees)}", "       ")
    if account.lacks:
        lines += _wrapped(f"lacks  {', '.join(account.lacks)}", "       ")
    lines += [f"grant  {text}" for text in account.grants]
    return "\n".join(lines)


def _where(diagnosis: Diagnosis) -> Iterator[str]:
    """The writers' time by wait, the most first."""
    time = diagnosis.evidence.time
    names = sorted((*WAITS, ROW_LOCK), key=lambda name: -time.connections.get(name, 0.0))
    parts = [
        f"{wait_words(name)} {percent(time.connections[name] / time.total)}"
        for name in names
        if time.connections.get(name, 0.0) >= 0.005 * time.total
    ]
    plural = "s" if time.writers != 1 else ""
    head = f"Time of {time.writers} writer{plural}, from {time.samples} samples:"
    yield from _wrapped(f"{head} {', '.join(parts)}.")


def began_words(diagnosis: Diagnosis) -> str:
    """When the window began: `2026-11-21 10:42 UTC`; empty if files do not tell."""
    if not diagnosis.evidence.began:
        return ""
    return f"{datetime.fromtimestamp(diagnosis.evidence.began, UTC):%Y-%m-%d %H:%M} UTC"


_STRENGTHS = {
    "binds": "Binds",
    "unmeasured": "Unmeasured",
    "contributes": "Contributes",
    "hint": "A hint",
}


def measured(found: Finding) -> str:
    """Strength, share and bound of a finding in a sentence."""
    share = found.share
    if share is None:
        return f"{_STRENGTHS[found.strength]}: no share of the writers' time is measured."
    verb = _STRENGTHS[found.strength]
    bound = share.unbounded
    if found.at_most is not None:
        who = (
            "writes" if share.affected is None else f"the {counted(share.affected, 'writer')} that it delays"
        )
        bound = f"Without it, {who} are at most {times(found.at_most)} as fast at this number of connections."
    low, mid, high = percent(share.low), percent(share.mid), percent(share.high)
    return f"{verb}: {mid if found.is_weighed else 'within'} [{low}, {high}] of the writers' time. {bound}"


def settings_text(change: Change) -> str:
    """The settings of a change, as people read them."""
    return changes(change.settings)


def _finding(found: Finding, diagnosis: Diagnosis, *, full: bool) -> Iterator[str]:
    share = found.share
    said = ""
    if share is not None:
        ends = f"{percent(share.low)}, {percent(share.high)}"
        said = (
            f": {percent(share.mid)} [{ends}] of the time"
            if found.is_weighed
            else f": within [{ends}] of the time"
        )
        said += f", at most {times(found.at_most)}" if found.at_most is not None else ", no bound"
        if found.at_most is not None and share.affected is not None:
            said += f" for {share.affected} of {counted(diagnosis.evidence.time.writers, 'writer')}"
    yield from _wrapped(f"{found.strength.upper()}  {found.title}{said}", "  ")
    for seen in found.seen:
        yield from _wrapped(f"  - {seen.text}", "    ")
        if full and seen.sql:
            yield f"      {seen.sql}"
    yield from _wrapped(f"  {found.advice}", "  ")
    for one in found.changes:
        yield from _wrapped(f"  try (untested): {changes(one.settings)}", "    ")
        more = " (--full)" if not full and cost(one, diagnosis) == _PART else ""
        yield from _wrapped(f"    costs: {cost(one, diagnosis)}{more}", "      ")
        if full:
            for text in one.costs:
                yield from _wrapped(f"    - {text}", "      ")
            yield from (f"      {line}" for line in change_lines(one, diagnosis))


def cost(change: Change, diagnosis: Diagnosis) -> str:
    """The guarantee that a change gives up, in words."""
    floor = diagnosis.floor.partition(",")[0]
    if change.floor != floor:
        return f"floor {change.floor} instead of {floor}"
    return _PART if change.costs else "no guarantee"


_PART = "part of a guarantee"


def _began(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else ""


def _item(text: str) -> list[str]:
    return _wrapped(f"  - {text}", "    ")


def percent(share: float) -> str:
    """A share: `89%`."""
    return f"{share:.0%}"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
