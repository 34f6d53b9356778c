"""Source: a recording of `flushlab watch --record`. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from flushlab.diagnosis.evidence import COUNTED, COUNTERS, CommitCount, Evidence
from flushlab.diagnosis.files.told import Recorded, Source, Told, lines
from flushlab.diagnosis.recording import SCHEMA, STRETCH_S, Head, Stretch
from flushlab.diagnosis.shares import Step, WriteTime
from flushlab.record import ObservedLoad, Value, together
from flushlab.settings.catalog import load_catalog
from flushlab.telemetry.live.status import ServerStatus


def parse(text: str) -> Told:
    """The recording of a text; a line that a kill has cut is left out."""
    first, *rest = [*lines(text)] or [""]
    try:
        head = msgspec.json.decode(first, type=Head)
    except msgspec.DecodeError:
        return Told()
    stretches = []
    for line in rest:
        try:
            stretches.append(msgspec.json.decode(line, type=Stretch))
        except msgspec.DecodeError:
            break
    return Told(recordings=(Recorded(head=head, stretches=tuple(stretches)),))


SOURCE = Source(name="flushlab watch --record", marks=(SCHEMA,), parse=parse)


_UNTOLD = (
    "the client's turn: a recording has the time in the server only, and shares are of that",
    "waits inside a statement, the redo log, the buffer pool, open transactions: a recording has no counters"
    " of them",
    "the machine: its side is in pt-stalk's samples",
)


def evidence_of_recording(key: str, recorded: Recorded, files: tuple[str, ...]) -> Evidence:
    """The evidence of all its stretches.

    Args:
        key: path of the recording.
        recorded: with a stretch at least.
        files: as the evidence has them.
    """
    loads = [one.load for one in recorded.stretches]
    whole, first, last = together(loads), recorded.stretches[0], recorded.stretches[-1]
    settings = {**recorded.head.settings, **last.changed}
    changed = sorted({name for one in recorded.stretches for name in one.changed})
    before, after = (
        ServerStatus(
            key=key,
            identity=recorded.head.server,
            at_s=at_s,
            status=status,
            variables=_variables(recorded, settings),
        )
        for at_s, status in ((0.0, dict.fromkeys(_counters(whole), "0")), (whole.seconds, _counters(whole)))
    )
    return Evidence(
        began=max(0.0, first.ended_at.timestamp() - first.load.seconds),
        seconds=whole.seconds,
        before=before,
        after=after,
        commit_counts=tuple(_commit_counts(loads)),
        write_time=_write_time(loads, whole),
        settings=settings,
        files=files,
        untold=(*_UNTOLD, *([f"{', '.join(changed)}: changed during the recording"] if changed else [])),
    )


def _counters(load: ObservedLoad) -> dict[str, str]:
    """Of the whole recording, under the names of the server."""
    counter = load.commits_by.lower()
    found = {counter: load.commits / COUNTERS.get(counter, 1.0), "innodb_os_log_written": load.redo_bytes}
    found["innodb_os_log_fsyncs"] = load.syncs.get("redo")
    return {name: str(value) for name, value in found.items() if name and value is not None}


def _variables(recorded: Recorded, settings: Mapping[str, Value]) -> Mapping[str, str]:
    catalog, server = load_catalog(), recorded.head.server
    return {
        here.variable: here.render(value)
        for name, value in settings.items()
        if (here := catalog.here(name, server.flavor, server.version)) is not None
    }


def _commit_counts(loads: Sequence[ObservedLoad]) -> Iterator[CommitCount]:
    at_s, commits = 0.0, 0
    yield CommitCount(at_s=0.0, counts=_counted(loads[0], 0))
    for load in loads:
        at_s, commits = at_s + load.seconds, commits + load.commits
        yield CommitCount(at_s=at_s, counts=_counted(load, commits))


def _counted(load: ObservedLoad, commits: int) -> tuple[float | None, ...]:
    counter = load.commits_by.lower()
    return tuple(commits / COUNTERS.get(name, 1.0) if name == counter else None for name in COUNTED)


def _write_time(loads: Sequence[ObservedLoad], whole: ObservedLoad) -> WriteTime | None:
    """None if the account saw no connection, and so no commit apart from its statement."""
    if whole.commit_s is None:
        return None
    connections = _connections(whole)
    return WriteTime(
        samples=whole.samples,
        writers=math.ceil(sum(connections.values())),
        connections=connections,
        stretches=tuple(_connections(one) for one in loads if one.seconds > 0),
        steps=tuple(
            Step(at_s=at * STRETCH_S, connections=_connections(one))
            for at, one in enumerate(loads)
            if one.seconds > 0
        ),
        step_s=STRETCH_S,
        row_locks_known=False,
    )


def _connections(load: ObservedLoad) -> dict[str, float]:
    """Mean numbers, by Little's law."""
    commit_s, seconds = load.commit_s or 0.0, max(load.seconds, 1e-9)
    write_s = load.write_s or load.sampled_s or 0.0
    found = {"commit": commit_s / seconds, "statement": max(0.0, write_s - commit_s) / seconds}
    return {wait: mean for wait, mean in found.items() if mean > 0}
