"""Past: the last hour of a campaign that runs, from the store, for a page that is opened late."""

from __future__ import annotations

import time
from contextlib import suppress

from flushlab.errors import FlushlabError
from flushlab.record import Trial
from flushlab.record.running import Running
from flushlab.store import existing_store
from flushlab.watch.ring import HOUR
from flushlab.watch.sample import Mark, Redo, RunningNow, Sample, ServerNow


def past(running: Running) -> list[Sample]:
    """A sample for each of its trials that ended within an hour; none where the store cannot be read."""
    since = time.time() - HOUR
    with suppress(FlushlabError), existing_store() as store:
        return [
            _sample(running, ended, trial)
            for ended, trial in store.dated_trials(running.campaign)
            if ended >= since
        ][-HOUR:]
    return []


def _sample(running: Running, ended: float, trial: Trial) -> Sample:
    latency = trial.load.latency_us if trial.load is not None else None
    return Sample(
        t=ended,
        server=ServerNow(up=trial.server is not None, name=trial.server.name if trial.server else ""),
        running=RunningNow(
            kind=running.kind,
            campaign=running.campaign,
            arm=trial.arm.name,
            stage=trial.stage,
            round=trial.block + 1,
            server=running.server,
            workload=running.workload,
            floor=running.floor,
        ),
        throughput=trial.figure if trial.higher_is_better else None,
        unit=trial.unit if trial.higher_is_better else "",
        p50_ms=latency.p50 / 1000 if latency else None,
        p99_ms=latency.p99 / 1000 if latency else None,
        redo=Redo(age=trial.after.checkpoint_age_bytes if trial.after else None),
        marks=(Mark(t=ended, kind="trial", text=trial.arm.name),),
    )
