"""Recording: what a recording of `flushlab watch --record` tells, and its evidence. Pure.

It has the connections' time in write statements and in commits, and no client's turn. Shares are of the time
in the server: bounds are larger than with the client's turn, and hold. Waits for row locks are not told
apart from statements, so that a bound of commits has statements in it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec

from flushlab.diagnosis.evidence import COUNTERS, Evidence
from flushlab.diagnosis.files.told import Told, lines
from flushlab.diagnosis.load import STRETCH_S, Head, Stretch
from flushlab.diagnosis.shares import CommitStep, WriteTime
from flushlab.record import ObservedLoad, together
from flushlab.settings.catalog import load_catalog
from flushlab.telemetry.live.status import ServerStatus


def parse(text: str) -> Told:
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
    return Told(head=head, stretches=tuple(stretches))


_UNTOLD = (
    "the client's turn: a recording has the time in the server only, and shares are of that",
    "waits inside a statement, the redo log, the buffer pool, open transactions: a recording has no counters"
    " of them",
    "the machine: its side is in pt-stalk's samples",
)


def evidence_of_recording(
    key: str, head: Head, stretches: Sequence[Stretch], files: tuple[str, ...]
) -> Evidence:
    loads = [stretch.load for stretch in stretches]
    whole, first, catalog, server = together(loads), stretches[0], load_catalog(), head.server
    settings = {**head.settings, **stretches[-1].changed}
    variables = {
        here.variable: here.render(value)
        for name, value in settings.items()
        if (here := catalog.here(name, server.flavor, server.version)) is not None
    }
    counter = whole.commits_by.lower()
    per_commit = 1 / COUNTERS.get(counter, 1.0)
    counters = {
        counter: whole.commits * per_commit,
        "innodb_os_log_written": whole.redo_bytes,
        "innodb_os_log_fsyncs": whole.syncs.get("redo"),
    }
    status = {name: str(value) for name, value in counters.items() if name and value is not None}
    ends = ((0.0, dict.fromkeys(status, "0")), (whole.seconds, status))
    before, after = (
        ServerStatus(key=key, identity=server, at_s=at_s, status=status, variables=variables)
        for at_s, status in ends
    )
    seconds = itertools.accumulate((load.seconds for load in loads), initial=0.0)
    commits = itertools.accumulate((load.commits for load in loads), initial=0)
    changed = sorted({name for stretch in stretches for name in stretch.changed})
    return Evidence(
        began=max(0.0, first.ended_at.timestamp() - first.load.seconds),
        seconds=whole.seconds,
        before=before,
        after=after,
        commit_counts=tuple(
            (at_s, {counter: count * per_commit}) for at_s, count in zip(seconds, commits, strict=True)
        ),
        write_time=_write_time(loads, whole),
        settings=settings,
        files=files,
        untold=(*_UNTOLD, *([f"{', '.join(changed)}: changed during the recording"] if changed else [])),
    )


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
            CommitStep(at_s=at * STRETCH_S, connections=_connections(one))
            for at, one in enumerate(loads)
            if one.seconds > 0
        ),
        step_s=STRETCH_S,
        row_locks_known=False,
    )


def _connections(load: ObservedLoad) -> dict[str, float]:
    commit_s, seconds = load.commit_s or 0.0, max(load.seconds, 1e-9)
    write_s = load.write_s or load.sampled_s or 0.0
    found = {"commit": commit_s / seconds, "statement": max(0.0, write_s - commit_s) / seconds}
    return {wait: mean for wait, mean in found.items() if mean > 0}
