"""Report of the doctor: the document of a diagnosis, and its JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Literal

import msgspec

from flushlab.diagnosis.diagnose import PLACES, Diagnosis, service_of
from flushlab.diagnosis.doctor import Account
from flushlab.diagnosis.evidence import WITH_READS
from flushlab.diagnosis.finding import Change, Finding, Seen, Strength
from flushlab.diagnosis.findings.machine import rate
from flushlab.diagnosis.host import Host, Place
from flushlab.diagnosis.shares import CommitStep, TimeShare, times
from flushlab.diagnosis.state import SettingState, State
from flushlab.diagnosis.waits import wait_words
from flushlab.machine.describe import DiskUse
from flushlab.record import ServerIdentity, Value
from flushlab.report import doctor_plots
from flushlab.report.document import Cell, Code, Document, Line, Section, Table, named
from flushlab.report.words import FAILURES, changes, extended, rounded
from flushlab.settings.catalog import SettingHere, load_catalog
from flushlab.units import counted, format_seconds, format_size


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
    share: TimeShare | None
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
    steps: tuple[CommitStep, ...]
    step_s: float
    commits: tuple[CommitRate, ...]
    commits_by: str
    findings: tuple[FoundDocument, ...]
    floor: str
    guarantees: Mapping[str, str]
    not_judged: tuple[str, ...]
    host: Host | None
    state: State


def as_json(diagnosis: Diagnosis) -> DoctorDocument:
    evidence, time = diagnosis.evidence, diagnosis.evidence.time
    began = datetime.fromtimestamp(evidence.began, UTC) if evidence.began else None
    seen = ("server", "files", "left_out", "seconds", "commits_by", "host")
    return extended(
        DoctorDocument,
        diagnosis,
        **{name: getattr(evidence, name) for name in seen},
        address=evidence.after.key,
        began=began.isoformat(timespec="seconds") if began else "",
        samples=time.samples,
        writers=time.writers,
        connections=None if evidence.write_time is None else evidence.write_time.connections,
        steps=time.steps,
        step_s=time.step_s,
        commits=tuple(CommitRate(at_s=at_s, per_s=per_s) for at_s, per_s in evidence.commit_rates),
        findings=tuple(
            extended(FoundDocument, finding, strength=finding.strength, at_most=finding.at_most)
            for finding in diagnosis.findings
        ),
    )


def document(diagnosis: Diagnosis) -> Document:
    evidence = diagnosis.evidence
    first, _, rest = diagnosis.answer.partition(". ")
    began = datetime.fromtimestamp(evidence.began, UTC) if evidence.began else None
    return Document(
        kind="doctor",
        headline=f"{first.removesuffix('.')}.",
        lead=(*([rest] if rest else []), *(f"Doubt: {doubt}." for doubt in diagnosis.doubts)),
        servers=evidence.server,
        title=f"What bounds the writes of {evidence.after.key}?",
        keys=tuple(_keys(diagnosis)),
        sections=(
            *_waits(diagnosis),
            *_findings(diagnosis),
            *_machine(diagnosis),
            *_guarantees(diagnosis),
            *_not_judged(diagnosis),
            *_files(diagnosis),
        ),
        id=evidence.after.key,
        when=f"{began:%Y-%m-%d %H:%M} UTC" if began else "",
        state="read-only",
    )


def account_words(account: Account) -> str:
    lacks = [f"lacks  {', '.join(account.lacks)}"] if account.lacks else []
    return "\n".join(
        [
            f"{account.name} on {account.server.name}",
            f"sees   {', '.join(account.sees)}",
            *lacks,
            *(f"grant  {text}" for text in account.grants),
        ]
    )


def _keys(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    evidence = diagnosis.evidence
    if not evidence.files:
        yield "watched for", f"{evidence.seconds:.0f} s"
    else:
        span = format_seconds(evidence.seconds) if evidence.seconds else "one moment"
        yield "from files", f"{span} in {counted(len(evidence.files), 'file')}"
    if evidence.time.writers:
        yield "writers", f"{evidence.time.writers:,}"
    if evidence.commits is not None:
        reads = ", reads too" if evidence.commits_by == WITH_READS else ""
        yield f"commits/s{reads}", rounded(evidence.commits)
    yield "samples", f"{evidence.time.samples:,}"
    yield "floor now", diagnosis.floor.partition(",")[0]


def _waits(diagnosis: Diagnosis) -> Iterator[Section]:
    evidence, time = diagnosis.evidence, diagnosis.evidence.time
    if not time.writers or not time.is_sample:
        return
    binding = binding_waits(diagnosis)
    stack = doctor_plots.stacking(time, binding)
    ordered = sorted(stack, key=lambda wait: -time.connections[wait])
    shares = {wait: time.connections[wait] / time.total for wait in ordered}
    rows = []
    for wait, share in shares.items():
        small = "binds" if wait in binding else ""
        rows.append(named(wait_words(wait), f"{time.connections[wait]:.2f}", f"{share:.0%}", small=small))
    title = "Writers in each wait over the window, stacked; the table has the means"
    plots = [doctor_plots.waits(time, binding, evidence.seconds, name="waits", title=title)]
    if rates := evidence.commit_rates:
        plots.append(
            doctor_plots.commits(rates, evidence.seconds, name="commits", title="Commits/s over the window")
        )
    locks = (
        "Connection states do not show row lock waits. The server's counters give their total for the"
        " window; the plot draws them as a fixed share of executing and of locking reads."
    )
    parts = (f"{wait_words(wait)} {share:.0%}" for wait, share in shares.items() if share >= 0.005)
    yield Section(
        "time",
        "Where the writers' time goes",
        "The mean number of writers in a wait is the time spent there per second. A closed loop of writers"
        " is as fast as the sum allows, the client's turn included.",
        plots=tuple(plots),
        legend=tuple((wait_words(wait), doctor_plots.INKS.get(wait, "mute")) for wait in stack),
        tables=(Table(("wait", "writers", "of the time"), rows),),
        notes=(locks,) if time.connections.get("row lock") else (),
        short=(
            f"Time of {counted(time.writers, 'writer')}, from {time.samples} samples: {', '.join(parts)}.",
        ),
    )


def binding_waits(diagnosis: Diagnosis) -> tuple[str, ...]:
    first = diagnosis.findings[0] if diagnosis.findings else None
    return first.waits if first is not None and first.strength == "binds" else ()


def _findings(diagnosis: Diagnosis) -> Iterator[Section]:
    is_short = diagnosis.evidence.time.is_sample or not diagnosis.evidence.files
    hints = [found for found in diagnosis.findings if is_short and found.strength == "hint"]
    for found in diagnosis.findings:
        short: tuple[str, ...] | None = () if found in hints else None
        if hints and found is hints[0]:
            short = (f"Hints (--full): {'; '.join(one.title for one in hints)}.",)
        to_try = tuple(
            (Cell(changes(change.settings), "name"), Cell(_cost(change, diagnosis)))
            for change in found.changes
        )
        yield Section(
            found.name.replace("_", "-"),
            found.title[0].upper() + found.title[1:],
            texts=(measured(found, diagnosis.evidence.time.writers), found.advice),
            lines=tuple(Line(seen.text, seen.sql) for seen in found.seen),
            tables=(Table(("settings", "costs"), to_try, "To try, untested on this server"),)
            if to_try
            else (),
            code=tuple(
                Code(
                    to_take(change, diagnosis),
                    f"{changes(change.settings)}: {_place(diagnosis) or 'SQL and option file'}, untested",
                )
                for change in found.changes
            ),
            short=short,
        )


def measured(found: Finding, writers: int) -> str:
    share, verb = found.share, "A hint" if found.strength == "hint" else found.strength.capitalize()
    if share is None:
        return f"{verb}: no share of the writers' time is measured."
    bound = share.unbounded
    if found.at_most is not None:
        who = "writes"
        if share.affected is not None:
            who = f"the {counted(share.affected, 'writer')} of {writers:,} that it delays"
        bound = f"Without it, {who} are at most {times(found.at_most)} as fast at this number of connections."
    mid = f"{share.mid:.0%}" if found.is_weighed else "within"
    return f"{verb}: {mid} [{share.low:.0%}, {share.high:.0%}] of the writers' time. {bound}"


def _cost(change: Change, diagnosis: Diagnosis) -> str:
    floor = diagnosis.floor.partition(",")[0]
    if change.floor != floor:
        return f"floor {change.floor} instead of {floor}"
    return "part of a guarantee" if change.costs else "no guarantee"


def to_take(change: Change, diagnosis: Diagnosis) -> str:
    server, catalog = diagnosis.evidence.identity, load_catalog()
    here = [
        (catalog.require(name, server.flavor, server.version), value)
        for name, value in change.settings.items()
    ]
    costs = [f"Costs: {line}." for line in change.costs]
    if place := _place(diagnosis):
        values = (f"{_value(one, value)}{'' if _runs(one) else '  # takes a restart'}" for one, value in here)
        head = f"# Untested on this server. Values for its {place}:"
        return "\n".join([head, *(f"# {line}" for line in costs), *values])
    sql = [f"SET GLOBAL {_value(one, value)};" for one, value in here if _runs(one)]
    options = [one.option(value) for one, value in here]
    until = ["-- Untested on this server. Until its next restart:", *sql, ""] if sql else []
    after = "To keep it after a restart" if len(sql) == len(here) else "Takes a restart"
    return "\n".join(
        [
            *(f"-- {line}" for line in costs),
            *until,
            f"# Untested on this server. {after}:",
            "[mysqld]",
            *options,
        ]
    )


def _runs(here: SettingHere) -> bool:
    return here.dynamic and not here.partly_dynamic


def _value(here: SettingHere, value: Value) -> str:
    return f"{here.variable} = {here.sql(value)}"


def _place(diagnosis: Diagnosis) -> str:
    evidence = diagnosis.evidence
    return PLACES.get(service_of(evidence.after.variables, evidence.identity.version_text), "")


def _machine(diagnosis: Diagnosis) -> Iterator[Section]:
    evidence = diagnosis.evidence
    if evidence.host is not None:
        yield Section("machine", "The server's machine", lines=_items(host_lines(evidence.host)), short=())
    lines = _items(state_lines(diagnosis.state, evidence.identity))
    restart = [
        f"{one.name} {_shown(one.name, one.value, evidence.identity)}"
        f" to {_shown(one.name, one.at_restart, evidence.identity)}"
        for one in diagnosis.state.settings
        if one.at_restart is not None
    ]
    if lines:
        short = (f"A restart changes: {', '.join(restart)}.",) if restart else ()
        yield Section("settings", "Settings, their sources, and restarts", lines=lines, short=short)


def _guarantees(diagnosis: Diagnosis) -> Iterator[Section]:
    rows = tuple(
        (Cell(words), Cell(diagnosis.guarantees[failure]))
        for failure, words in FAILURES.items()
        if failure in diagnosis.guarantees
    )
    floor = f"Floor now: {diagnosis.floor}."
    yield Section(
        "guarantees",
        "What the server guarantees now",
        "What happens to acknowledged commits in each failure, by the rules for this version."
        if rows
        else "",
        tables=(Table(("when", "what is kept"), rows, stacks=True),) if rows else (),
        notes=(floor,),
        short=(floor,),
    )


def _not_judged(diagnosis: Diagnosis) -> Iterator[Section]:
    if diagnosis.not_judged:
        topics = dict.fromkeys(text.partition(":")[0] for text in diagnosis.not_judged)
        missing = diagnosis.evidence.missing
        lacks = f" The account lacks {' and '.join(missing)}." if missing else ""
        yield Section(
            "not-judged",
            "Not judged",
            lines=_items(diagnosis.not_judged),
            short=(f"Not judged (--full): {'; '.join(topics)}.{lacks}",),
        )


def _files(diagnosis: Diagnosis) -> Iterator[Section]:
    evidence = diagnosis.evidence
    if evidence.files:
        left_out = (f"left out: {text}" for text in evidence.left_out)
        yield Section("files", "Files", lines=_items((*evidence.files, *left_out)), short=())


def _items(texts: Iterable[str]) -> tuple[Line, ...]:
    return tuple(Line(text) for text in texts)


# -- machine ---------------------------------------------------------------------------------------------

_OF_INTEREST = ("barrier", "nobarrier", "data=", "ro", "sync", "discard", "nobh", "compress", "recordsize")
"""Mount options that matter to writes, or begin so."""


def host_lines(host: Host) -> Iterator[str]:
    pressure = host.pressure
    process = "" if host.pid is None else f" (process {host.pid})"
    memory = f"{format_size(host.memory_bytes)} for the server{process}" if host.memory_bytes else ""
    parts = [", ".join(text for text in (f"{host.cpus} CPUs" if host.cpus else "", memory) if text)]
    for name, share in (
        ("CPU", pressure.cpu_pressure_share),
        ("I/O", pressure.io_pressure_share),
        ("memory", pressure.memory_pressure_share),
    ):
        if share is not None:
            parts.append(f"tasks waited for {name} {share:.0%} of the time")
    parts.append(f"{pressure.steal_share:.0%} stolen")
    yield "; ".join(filter(None, parts))
    yield from map(_place_words, host.places)
    yield from map(_disk_words, host.disks)
    if host.cpu_quota is not None:
        throttled = f", throttled in {host.cpu_throttled_share or 0.0:.0%} of the periods"
        yield f"control group: {host.cpu_quota:.1f} CPUs{throttled}"
    for limit in host.io_limits:
        yield f"control group: {limit.used:,.0f} of {limit.limit:,} {limit.unit} on {limit.disk}"
    if host.bytes_per_s is not None:
        yield f"written by the server: {format_size(host.bytes_per_s)}/s"
    for words, is_near in (("beside the data", True), ("elsewhere", False)):
        others = [
            f"{writer.name} {format_size(writer.bytes_per_s)}/s"
            for writer in host.writers
            if (writer.on_data is not False) == is_near
        ]
        if others:
            yield f"written by others, {words}: {', '.join(others)}"


def _place_words(place: Place) -> str:
    cache = {True: "volatile cache", False: "no volatile cache", None: "cache unknown"}[place.volatile_cache]
    model = f" ({place.model})" if place.model else ""
    disk = f" on {place.disk}{model}, {cache}" if place.disk else ", no disk to be seen"
    options = [option for option in place.options if option.startswith(_OF_INTEREST) and option != "rw"]
    mounted = f"; mounted {','.join(options)}" if options else ""
    return f"{', '.join(place.holds)}: {place.path}, {place.filesystem}{disk}{mounted}"


def _disk_words(use: DiskUse) -> str:
    parts = [
        text
        for name, requests in (("reads", use.reads), ("writes", use.writes), ("flushes", use.flushes))
        if requests is not None and (text := rate(name, requests))
    ]
    return f"{use.disk}: {', '.join([*parts, f'busy {use.utilisation:.0%}, queue {use.queue:.1f}'])}"


# -- state -----------------------------------------------------------------------------------------------

_ALWAYS = (
    *("innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite"),
    *("innodb_flush_method", "innodb_buffer_pool_size", "innodb_redo_log_capacity", "innodb_log_file_size"),
)
"""Shown with their defaults, too."""


def state_lines(state: State, server: ServerIdentity) -> Iterator[str]:
    for one in state.settings:
        changes_at_restart = one.at_restart is not None or bool(one.restart_origin)
        if one.name in _ALWAYS or one.origin not in ("default", "computed", None) or changes_at_restart:
            yield f"{one.name}={_shown(one.name, one.value, server)}{_origin(one)}{_restart(one, server)}"
    for problem in state.problems:
        hint = f" ({problem.hint})" if problem.hint else ""
        yield f"{problem.place}: {problem.text}{hint}"
    yield from state.by_itself
    yield from (f"not seen: {text}" for text in state.unseen)


def _origin(one: SettingState) -> str:
    if one.origin is None:
        return ""
    if one.origin == "SET":
        who = f" by {one.account}" if one.account else ""
        return f": SET GLOBAL{who}{f', {one.at}' if one.at else ''}"
    return f": {one.place or one.origin}"


def _restart(one: SettingState, server: ServerIdentity) -> str:
    if one.at_restart is not None:
        return f"; after a restart {_shown(one.name, one.at_restart, server)} ({one.restart_origin})"
    return "; a restart loses it, unless an option file has it" if one.restart_origin else ""


def _shown(name: str, value: Value, server: ServerIdentity) -> str:
    here = load_catalog().require(name, server.flavor, server.version)
    return here.render(value) if here.same(value, value) else str(value)
