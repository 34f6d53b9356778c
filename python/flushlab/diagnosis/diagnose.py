"""Diagnosis: the findings in order, the answer in one sentence, and what limits it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from flushlab.diagnosis.evidence import STOPPED, Evidence, Monitor
from flushlab.diagnosis.finding import Finding, guarantees_now, verdict_now, weighed
from flushlab.diagnosis.findings import FINDINGS
from flushlab.diagnosis.shares import times
from flushlab.diagnosis.state import State, state_of
from flushlab.diagnosis.waits import ROW_LOCK, Wait, wait_of
from flushlab.settings.durability import describe
from flushlab.settings.option_names import AURORA
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.status import was_reset
from flushlab.units import counted, format_seconds, format_size

_ORDER = {"binds": 0, "unmeasured": 2, "contributes": 3, "hint": 4}
_CLIENTS = 2.5
"""Clients that bind are no news beside evidence of a wait in the server."""
_BUSY = 0.05
"""Writers at work at the same time, on average, below which a server counts as idle."""
_SILENT_S = 5.0
"""For the first answers, over a slow network too."""
UNKNOWN = "unknown"
"""Floor of a server whose settings are not known."""
_RARE = 0.5
"""Statements that write per second, below which nobody writes."""
_ENOUGH = 30
"""Samples below which no share is worth a word."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The most binding of `findings` comes first; `not_judged` has the privilege that each takes."""

    answer: str
    doubts: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    floor: str = ""
    guarantees: Mapping[str, str] = {}
    not_judged: tuple[str, ...] = ()
    state: State = State()
    evidence: Evidence


def diagnose(evidence: Evidence) -> Diagnosis:
    findings = in_order(weighed([found for find in FINDINGS if (found := find(evidence)) is not None]))
    return Diagnosis(
        answer=_answer(evidence, findings),
        doubts=tuple(_doubts(evidence, findings)),
        findings=tuple(findings),
        floor=str(verdict_now(evidence)) if evidence.settings else UNKNOWN,
        guarantees=describe(guarantees_now(evidence)) if evidence.settings else {},
        not_judged=tuple(_not_judged(evidence)),
        state=state_of(evidence),
        evidence=evidence,
    )


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    every = list(findings)
    is_held_up = any(one.strength == "unmeasured" for one in every)

    def strength(one: Finding) -> float:
        is_news = one.name != "client" or one.strength != "binds" or not is_held_up
        return _ORDER[one.strength] if is_news else _CLIENTS

    def rank(one: Finding) -> tuple[float, bool, bool, float, bool]:
        causes = [cause for cause in every if one.name in cause.shows_in and strength(cause) <= strength(one)]
        mids = [each.share.mid if each.share is not None else 0.0 for each in (one, *causes)]
        return strength(one), not one.is_weighed, not one.names_cause, -min(mids), bool(causes)

    return sorted(every, key=rank)


# ---- the answer

NOTHING = "Nothing bounds"
CANNOT = "What bounds writes cannot be judged"
_NOT_THE_SERVER = "Nothing in the server bounds writes: "
_DOES: Mapping[Wait | str, str] = {
    "commit": "commit",
    "metadata lock": "wait for a metadata lock",
    "semi-sync": "wait for a semi-synchronous replica",
    "certification": "wait for the cluster",
    "flow control": "wait for the cluster",
    "statement": "execute",
    ROW_LOCK: "wait for a row lock",
}


def _answer(evidence: Evidence, findings: list[Finding]) -> str:
    text = _from_shares(evidence, findings) if evidence.time.is_sample else _without_shares(evidence)
    held_up = [one.unmeasured for one in findings if one.strength == "unmeasured" and one.unmeasured]
    if evidence.interrupted.startswith(STOPPED):
        held_up.append(f"{STOPPED} after {evidence.seconds:.0f} s")
    if evidence.silent_s >= _SILENT_S:
        held_up.append(f"the server took {evidence.silent_s:.0f} s for its first answer")
    if not (seen := "; ".join(held_up) or _at_the_moment(evidence)):
        return text
    if text.startswith(NOTHING):
        who = "The files show" if evidence.files else "The doctor saw"
        writers = "few writers" if evidence.time.writers else "no writer"
        return f"{who} {writers} at work, but {seen}."
    if text.startswith(CANNOT):
        return f"{_sentence(seen)}. {text}"
    return f"{_sentence(text.removeprefix(_NOT_THE_SERVER))} Besides: {seen}."


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _from_shares(evidence: Evidence, findings: list[Finding]) -> str:
    time = evidence.time
    if not time.writers:
        if (rate := evidence.write_statements or 0.0) < _RARE:
            return f"{NOTHING} writes: no connection wrote."
        return (
            f"{_NOT_THE_SERVER}{rate:,.0f} statements/s write, each too short to be seen in"
            f" {time.samples} samples."
        )
    if time.in_server < _BUSY:
        return f"{NOTHING} writes: the server is idle, {time.in_server:.2f} writers at work on average."
    binding = [one for one in findings if one.strength == "binds"]
    if not binding and (maybe := next((one for one in findings if not one.is_weighed), None)):
        return f"Writes may be bound: {maybe.title}. How much of the time this takes is not known."
    if not binding:
        executing = time.connections.get("statement", 0.0) / time.total
        words = f"writers execute statements {executing:.0%} of their time"
        if time.row_locks_known:
            return f"No single wait bounds writes: {words}."
        every = evidence.longest.values()
        waits = [one.seconds for one in every if wait_of(one, evidence.identity) == "statement"]
        longest = f", for up to {max(waits):,} s" if any(waits) else ""
        return f"{CANNOT}: {words}{longest}, and no file tells whether they wait for row locks."
    if binding[0].name != "client":
        verb = "are" if binding[0].is_proven else "may be"
        return f"Writes {verb} bound: {binding[0].title}.{_bound(binding[0])}"
    turn = f"writers wait for their clients {time.connections['client'] / time.total:.0%} of their time."
    if len(binding) == 1:
        return f"{_NOT_THE_SERVER}{turn}"
    return f"{_sentence(turn)} In the server: {binding[1].title}.{_bound(binding[1])}"


def _bound(finding: Finding) -> str:
    if finding.at_most is not None:
        return f" Without it, at most {times(finding.at_most)}."
    return f" {finding.share.unbounded}" if finding.share is not None else ""


# Connections may be seen too rarely for a share, or not at all. Counters tell whether anything wrote. They do
# not tell where its time went; a list of connections tells what they did at its moment.

_IDLE_PER_S = 1.0
"""Statements or rows per second below which a server without anything else at work is idle."""
_OWN = 1.0
"""The connection that asks for the status is at work itself."""
_QUIET_REDO_PER_S = 4096.0
"""Bytes that a server writes by itself."""


def _without_shares(evidence: Evidence) -> str:
    if evidence.write_time is None and not evidence.files:
        return f"{CANNOT}: the account does not see the connections of others."
    samples = evidence.time.samples
    if not evidence.files:
        return f"{CANNOT}: only {counted(samples, 'sample')} of connections."
    lists = f"only {counted(samples, 'list')} of connections" if samples else "no lists of connections"
    if (rate := evidence.write_statements) is not None:
        return _from_rate(evidence, rate, lists)
    for monitor in evidence.monitors[-1:]:
        if monitor.rows_per_s is not None and monitor.averaged_s:
            return _from_rows(monitor, monitor.rows_per_s, lists)
    return f"{CANNOT}: the files have no rates and {lists}."


def _at_the_moment(evidence: Evidence) -> str:
    time, longest = evidence.time, dict[str, int]()
    for one in evidence.longest.values():
        wait = wait_of(one, evidence.identity) or ""
        longest[wait] = max(one.seconds, longest.get(wait, 0))
    doing = [
        time.told(_DOES[wait], wait) + (f", for up to {longest[wait]:,} s" if wait in longest else "")
        for wait, mean in sorted(time.connections.items(), key=lambda one: -one[1])
        if wait in _DOES and mean > 0
    ]
    if not doing or time.is_sample:
        return ""
    what = "list" if evidence.files else "sample"
    return f"in {counted(time.samples, what)} of connections, {', '.join(doing[:2])}"


def _from_rate(evidence: Evidence, rate: float, lists: str) -> str:
    span, running = format_seconds(evidence.seconds), evidence.running
    redo = evidence.per_s("innodb_os_log_written", "innodb_lsn_current") or 0.0
    if rate == 0 and redo > _QUIET_REDO_PER_S:
        return (
            f"{CANNOT}: no statement of a client wrote in {span}, but {format_size(redo)}/s of redo were"
            f" written, as by a replica's applier, and the files have {lists}."
        )
    # Connections at work at every status, that ended fewer statements than one a second each.
    stuck = int(min(running, default=_OWN) - _OWN)
    if rate == 0 and stuck > 0 and (evidence.per_s("questions") or 0.0) < stuck + _OWN:
        return (
            f"{CANNOT}: no statement that writes began in {span}, but {stuck:,} or more connections were at"
            f" work at every status, and the files have {lists}."
        )
    if rate == 0:
        return f"{NOTHING} writes: no statement wrote in {span}."
    words = f"{rate:,.1f} write statements/s"
    if rate < _IDLE_PER_S and len(running) >= 5 and sum(running) <= _OWN * len(running):
        return (
            f"{NOTHING} writes: the server is idle, {words} in {span}, and nothing but the client that"
            f" asked was at work in {counted(len(running), 'status')}."
        )
    return f"{CANNOT}: {words} in {span}, and the files have {lists}."


def _from_rows(monitor: Monitor, rate: float, lists: str) -> str:
    before = f"in the {monitor.averaged_s} s before SHOW ENGINE INNODB STATUS"
    at_work = sum(not (one.idle or one.waits or one.prepared) for one in monitor.transactions)
    if rate < _IDLE_PER_S and at_work:
        what = f"{counted(at_work, 'transaction')} with a statement at work"
        return f"{CANNOT}: InnoDB changed {rate:.3g} rows/s {before}, but lists {what}."
    if rate == 0:
        return f"{NOTHING} writes: InnoDB changed no row {before}."
    if rate < _IDLE_PER_S:
        return f"{NOTHING} writes: InnoDB changed {rate:.2f} rows/s {before}."
    return f"{CANNOT}: InnoDB changed {rate:,.0f} rows/s {before}, and the files have {lists}."


# ---- doubts

RDS, AZURE, CLOUD_SQL = "Amazon RDS", "Azure Database for MySQL", "Google Cloud SQL"
_PREFIXES = {"aurora_": AURORA, "rds_": RDS, "azure_": AZURE, "cloudsql_": CLOUD_SQL}
"""Of variables, the first that fits."""
PLACES = {
    AURORA: "parameter group",
    RDS: "parameter group",
    AZURE: "server parameters",
    CLOUD_SQL: "database flags",
}
"""Where a service has its settings."""
_CLOCKS_S = 10.0
"""A slow answer, or a clock that is adjusted, moves it by less."""
_LONG_S = 600.0


def service_of(variables: Mapping[str, str], version: str) -> str:
    for prefix, service in _PREFIXES.items():
        if any(name.startswith(prefix) for name in variables):
            return service
    if any(variables.get(name, "").startswith("/rdsdb") for name in ("basedir", "datadir")):
        return RDS
    return CLOUD_SQL if "-google" in version else AZURE if "-azure" in version else ""


def circumstances(evidence: Evidence) -> Iterator[str]:
    service = service_of(evidence.after.variables, evidence.identity.version_text)
    if service:
        yield (
            f"{service} refuses SET GLOBAL for most settings and has no option file: change them in its"
            f" {PLACES[service]}"
        )
    if service == AURORA:
        yield f"{AURORA} keeps redo and pages on storage of its own: guarantees and redo are not as MySQL's"
    for place in evidence.host.places if evidence.host else ():  # mount(8), `barrier`
        if place.volatile_cache is not False and {"nobarrier", "barrier=0"} & set(place.options):
            yield (
                f"{place.path} is mounted without barriers: syncs do not flush the disk's cache, and the"
                " guarantees hold only if that keeps its data without power"
            )
    if evidence.between:
        yield (
            f"a proxy seems to be between ({evidence.between}): answers may come from several servers."
            " Name the server itself"
        )
    if evidence.is_on("read_only") or evidence.is_on("super_read_only"):
        yield "the server is read-only: of replication's writes, only those that have a state are seen"
    if evidence.variable("thread_handling") in ("pool-of-threads", "loaded-dynamically"):
        yield "statements that wait for a thread of the server's thread pool look like their client's turn"
    if evidence.variable("group_replication_group_name"):
        yield "commits of Group Replication include the group's agreement: no state separates it from a sync"
    # The server tells its uptime by the clock.
    uptime_s = evidence.after.growth(evidence.before, "uptime")
    moved_s = 0.0 if uptime_s is None else uptime_s - evidence.seconds
    if abs(moved_s) > _CLOCKS_S and not evidence.files and not evidence.interrupted:
        yield (
            f"the server's clock moved by {moved_s:+,.0f} s in the window: ages of connections and"
            " transactions are off"
        )
    if was_reset(evidence.before, evidence.after):
        yield "FLUSH STATUS has set counters back in the window: watch again"


def _doubts(evidence: Evidence, findings: list[Finding]) -> Iterator[str]:
    if evidence.interrupted:
        yield f"the window ended after {evidence.seconds:.0f} s: {evidence.interrupted}"
    yield from circumstances(evidence)
    samples = evidence.time.samples
    if evidence.write_time is not None and samples < _ENOUGH:
        more = "collect for longer" if evidence.files else "give it more --seconds"
        yield f"only {samples} sample{'s' if samples != 1 else ''} of connections: {more}"
    if evidence.files and evidence.seconds > _LONG_S:
        yield f"rates are means over {format_seconds(evidence.seconds)}: a stall is not seen in them"
    binding = {one.name for one in findings if one.strength == "binds"}
    cpu = next((one for one in findings if one.name == "cpu"), None)
    if cpu is not None and binding & {"commit_sync", "row_locks"}:
        yield (
            "the machine is short of processor time: a commit that waits for a processor looks like one"
            " that waits for a sync. An experiment on an idle machine separates the two"
        )
    if cpu is not None and cpu.strength != "hint" and binding - {"cpu"}:
        yield (
            "a connection that waits for a processor looks like its client's turn, which makes the bounds of"
            " other waits too low"
        )
    is_known = evidence.time.share("client") is not None
    if is_known and "client" in binding and evidence.time.in_server >= _BUSY:
        yield (
            "if the clients have no more work (fixed demand), less waiting in the server shortens latency and"
            " leaves throughput as it is"
        )


def _not_judged(evidence: Evidence) -> Iterator[str]:
    if evidence.files:
        yield from evidence.untold
        return
    if "PROCESS" in evidence.missing:
        yield "open transactions and InnoDB's metrics: the account lacks PROCESS"
    if questions.TRANSACTIONS in evidence.after.spared:
        yield (
            f"open transactions, at times: more than {questions.MOST_WAITS} connections waited for row locks,"
            " and the question would hold them up"
        )
    if any("performance_schema" in privilege for privilege in evidence.missing):
        yield "syncs of each log: the account lacks SELECT on performance_schema"
    elif not evidence.after.files:
        yield "time per sync of each log: performance_schema is off"
    if not evidence.checkpoint_ages:
        yield "how full the redo log is: no source for the checkpoint age"
    if evidence.host is None:
        yield "the machine: flushlab does not see the server's process on this one"
    else:
        yield from evidence.host.unseen
