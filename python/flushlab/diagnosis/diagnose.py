"""Diagnosis: the findings in order, and the answer in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from flushlab.diagnosis.counted import CANNOT, NOTHING, answer_without_shares, at_the_moment
from flushlab.diagnosis.evidence import STOPPED, Evidence
from flushlab.diagnosis.finding import Finding, guarantees_now, verdict_now, weighed
from flushlab.diagnosis.findings import FINDINGS
from flushlab.diagnosis.shares import times
from flushlab.diagnosis.state import State, state_of
from flushlab.diagnosis.waits import wait_of
from flushlab.settings.durability import describe
from flushlab.settings.option_names import AURORA
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.status import was_reset
from flushlab.units import format_seconds

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
_POOLS = ("pool-of-threads", "loaded-dynamically")
_NO_BARRIERS = {"nobarrier", "barrier=0"}
_CLOCKS_S = 10.0
"""A slow answer, or a clock that is adjusted, moves it by less."""


def service_of(variables: Mapping[str, str], version: str) -> str:
    """The cloud's service that runs the server; empty if it is none that is known here."""
    for prefix, service in _PREFIXES.items():
        if any(name.startswith(prefix) for name in variables):
            return service
    if any(variables.get(name, "").startswith("/rdsdb") for name in ("basedir", "datadir")):
        return RDS
    return CLOUD_SQL if "-google" in version else AZURE if "-azure" in version else ""


def circumstances(evidence: Evidence) -> Iterator[str]:
    """One sentence each."""
    service = service_of(evidence.after.variables, evidence.identity.version_text)
    if service:
        yield (
            f"{service} refuses SET GLOBAL for most settings and has no option file: change them in its"
            f" {PLACES[service]}"
        )
    if service == AURORA:
        yield f"{AURORA} keeps redo and pages on storage of its own: guarantees and redo are not as MySQL's"
    yield from _without_barriers(evidence)
    if evidence.between:
        yield (
            f"a proxy seems to be between ({evidence.between}): answers may come from several servers."
            " Name the server itself"
        )
    if evidence.is_on("read_only") or evidence.is_on("super_read_only"):
        yield "the server is read-only: of replication's writes, only those that have a state are seen"
    if evidence.variable("thread_handling") in _POOLS:
        yield "statements that wait for a thread of the server's thread pool look like their client's turn"
    if evidence.variable("group_replication_group_name"):
        yield "commits of Group Replication include the group's agreement: no state separates it from a sync"
    if (moved_s := _clock_moved_s(evidence)) is not None:
        yield (
            f"the server's clock moved by {moved_s:+,.0f} s in the window: ages of connections and"
            " transactions are off"
        )
    if was_reset(evidence.before, evidence.after):
        yield "FLUSH STATUS has set counters back in the window: watch again"


def _without_barriers(evidence: Evidence) -> Iterator[str]:
    """File systems whose syncs leave the disk's volatile cache as it is (mount(8), `barrier`)."""
    for place in evidence.host.places if evidence.host else ():
        if place.volatile_cache is not False and _NO_BARRIERS & set(place.options):
            yield (
                f"{place.path} is mounted without barriers: syncs do not flush the disk's cache, and the"
                " guarantees hold only if that keeps its data without power"
            )


def _clock_moved_s(evidence: Evidence) -> float | None:
    """The server tells its uptime by the clock; None if that went on as the time here did."""
    before, after = evidence.before.number("uptime"), evidence.after.number("uptime")
    if before is None or after is None or evidence.files or evidence.interrupted:
        return None
    moved_s = after - before - evidence.seconds
    return moved_s if abs(moved_s) > _CLOCKS_S else None


_ORDER = {"binds": 0, "unmeasured": 2, "contributes": 3, "hint": 4}
_CLIENTS = 2.5
"""Clients that bind are no news beside evidence of a wait in the server."""
_BUSY = 0.05
"""Writers at work at the same time, on average, below which a server counts as idle."""
_SILENT_S = 5.0
"""For the first answers, over a slow network too."""
_NOT_THE_SERVER = "Nothing in the server bounds writes: "
UNKNOWN = "unknown"
"""Floor of a server whose settings are not known."""
_RARE = 0.5
"""Statements that write per second, below which nobody writes."""
_ENOUGH = 30
"""Samples below which no share is worth a word."""

_LONG_S = 600.0


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What was found.

    Attributes:
        answer: what bounds writes, in a sentence.
        doubts: what keeps the answer from being sure.
        findings: the most binding first.
        floor: that the server meets now, and on which disk.
        guarantees: what it keeps under each failure, in words.
        not_judged: what could not be seen, and the privilege that it takes.
        state: settings that matter to writes, and what a restart changes.
        evidence: all that was seen.
    """

    answer: str
    doubts: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    floor: str = ""
    guarantees: Mapping[str, str] = {}
    not_judged: tuple[str, ...] = ()
    state: State = State()
    evidence: Evidence


def diagnose(evidence: Evidence) -> Diagnosis:
    """All findings on what was seen."""
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


def in_order(found: Iterable[Finding]) -> list[Finding]:
    """The most binding first; one that others explain comes behind these."""
    every = list(found)

    is_held_up = any(one.strength == "unmeasured" for one in every)

    def strength(one: Finding) -> float:
        is_news = one.name != "client" or one.strength != "binds" or not is_held_up
        return _ORDER[one.strength] if is_news else _CLIENTS

    def rank(one: Finding) -> tuple[float, bool, bool, float, bool]:
        causes = [cause for cause in every if one.name in cause.shows_in and strength(cause) <= strength(one)]
        mids = [each.share.mid if each.share is not None else 0.0 for each in (one, *causes)]
        return strength(one), not one.is_weighed, not one.names_cause, -min(mids), bool(causes)

    return sorted(every, key=rank)


def _answer(evidence: Evidence, findings: list[Finding]) -> str:
    """What bounds; beside evidence of a wait without a share, never that nothing does."""
    text = _from_shares(evidence, findings) if evidence.time.is_sample else answer_without_shares(evidence)
    held_up = [one.unmeasured for one in findings if one.strength == "unmeasured" and one.unmeasured]
    if evidence.interrupted.startswith(STOPPED):
        held_up.append(f"{STOPPED} after {evidence.seconds:.0f} s")
    if evidence.silent_s >= _SILENT_S:
        held_up.append(f"the server took {evidence.silent_s:.0f} s for its first answer")
    if not (seen := "; ".join(held_up or at_the_moment(evidence))):
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
        if not time.row_locks_known:
            return (
                f"{CANNOT}: {words}{_for_up_to(evidence)}, and no file tells whether they wait for row locks."
            )
        return f"No single wait bounds writes: {words}."
    if binding[0].name != "client":
        verb = "are" if binding[0].is_proven else "may be"
        return f"Writes {verb} bound: {binding[0].title}.{_bound(binding[0])}"
    turn = f"writers wait for their clients {time.connections['client'] / time.total:.0%} of their time."
    if len(binding) == 1:
        return f"{_NOT_THE_SERVER}{turn}"
    return f"{_sentence(turn)} In the server: {binding[1].title}.{_bound(binding[1])}"


def _for_up_to(evidence: Evidence) -> str:
    """The longest statement that writes, if it takes seconds."""
    every = evidence.longest.values()
    longest = max((one.seconds for one in every if wait_of(one, evidence.identity) == "statement"), default=0)
    return f", for up to {longest:,} s" if longest else ""


def _bound(found: Finding) -> str:
    if found.at_most is not None:
        return f" Without it, at most {times(found.at_most)}."
    return f" {found.share.unbounded}" if found.share is not None else ""


def _doubts(evidence: Evidence, findings: list[Finding]) -> list[str]:
    found = []
    if evidence.interrupted:
        found.append(f"the window ended after {evidence.seconds:.0f} s: {evidence.interrupted}")
    found += circumstances(evidence)
    samples = evidence.time.samples
    if evidence.write_time is not None and samples < _ENOUGH:
        more = "collect for longer" if evidence.files else "give it more --seconds"
        found.append(f"only {samples} sample{'s' if samples != 1 else ''} of connections: {more}")
    if evidence.files and evidence.seconds > _LONG_S:
        found.append(f"rates are means over {format_seconds(evidence.seconds)}: a stall is not seen in them")
    names = {one.name for one in findings if one.strength == "binds"}
    if "cpu" in {one.name for one in findings} and names & {"commit_sync", "row_locks"}:
        found.append(
            "the machine is short of processor time: a commit that waits for a processor looks like one"
            " that waits for a sync. An experiment on an idle machine separates the two"
        )
    if any(one.name == "cpu" and one.strength != "hint" for one in findings) and names - {"cpu"}:
        found.append(
            "a connection that waits for a processor looks like its client's turn, which makes the bounds of"
            " other waits too low"
        )
    if evidence.time.share("client") is not None and "client" in names and evidence.time.in_server >= _BUSY:
        found.append(
            "if the clients have no more work (fixed demand), less waiting in the server shortens latency and"
            " leaves throughput as it is"
        )
    return found


def _not_judged(evidence: Evidence) -> list[str]:
    if evidence.files:
        return list(evidence.untold)
    found = []
    if "PROCESS" in evidence.missing:
        found.append("open transactions and InnoDB's metrics: the account lacks PROCESS")
    if questions.TRANSACTIONS in evidence.after.spared:
        found.append(
            f"open transactions, at times: more than {questions.MOST_WAITS} connections waited for row locks,"
            " and the question would hold them up"
        )
    if any("performance_schema" in one for one in evidence.missing):
        found.append("syncs of each log: the account lacks SELECT on performance_schema")
    elif not evidence.after.files:
        found.append("time per sync of each log: performance_schema is off")
    if not evidence.checkpoint_ages:
        found.append("how full the redo log is: no source for the checkpoint age")
    if evidence.host is None:
        found.append("the machine: flushlab does not see the server's process on this one")
    else:
        found += evidence.host.unseen
    return found
