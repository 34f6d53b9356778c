"""The loop: ask, run, save, tell; until the experiment is done, the budget is spent or Ctrl-C.

The loop saves a record before it reports the record to the experiment. It reports stored records before the
first question, so a campaign that was killed goes on where it was. kill -9 costs at most the trial that ran.
The store knows how a campaign ended, whatever happens.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec.structs import fields

from flushlab.campaign.analysis import too_busy
from flushlab.campaign.arms import BoundArm
from flushlab.campaign.facts import resuming
from flushlab.campaign.request import CampaignRequest
from flushlab.campaign.watcher import Spent, Watcher
from flushlab.errors import FlushlabError, MeasurementError, StorageError, UsageError
from flushlab.experiment.protocol import Experiment, Request
from flushlab.machine import pressure
from flushlab.process.running import live_status
from flushlab.record import CrashRow, OtherLoad, Trial
from flushlab.spec.parts import RemoteAccess
from flushlab.store import State, Store, unreadable
from flushlab.trial.measurement import DISCARD_FOREIGN_CPU_SHARE, DISCARD_STEAL_SHARE
from flushlab.undo import signal_of
from flushlab.units import format_seconds

Ending = Literal["done", "budget spent", "interrupted", "dry run"]
Row = TypeVar("Row", Trial, CrashRow)
R = TypeVar("R", bound=msgspec.Struct)
F = TypeVar("F", bound=msgspec.Struct)


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float | None = None
    trials: int | None = None

    def is_spent(self, seconds: float, trials: int) -> bool:
        return (self.seconds is not None and seconds >= self.seconds) or (
            self.trials is not None and trials >= self.trials
        )


def run(
    experiment: Experiment[Row],
    run_trial: Callable[[Request], Row],
    *,
    known: Callable[[str], Iterable[Row]],
    store: Store,
    campaign_id: str,
    budget: Budget,
    watcher: Watcher,
    began: float | None = None,
) -> Ending:
    spent = Spent()
    status = live_status()
    status.names(watcher.called)
    since, gap = time.monotonic() if began is None else began, "before"
    try:
        for row in known(campaign_id):
            experiment.tell(row)
            watcher.known(row)
            spent = spent.and_of(row)
        while (request := experiment.ask()) is not None:
            if budget.is_spent(spent.seconds, spent.trials):
                return "budget spent"
            standing, so_far = experiment.standing, spent.until_now(since)
            watcher.starting(request, standing, so_far)
            status.trial(
                stage=request.stage,
                block=request.block + 1,
                arm=request.arm.name,
                left_s=watcher.left_s(standing, so_far, standing.done),
            )
            row = run_trial(request)
            now = time.monotonic()
            beside_s = now - since - row.spent_s
            if not row.machine:
                beside_s = max(0.0, beside_s)
            row = msgspec.structs.replace(row, seconds={**row.seconds, gap: beside_s})
            since, gap = now, "between"
            store.save(campaign_id, row)
            spent = spent.and_of(row)
            if isinstance(row, CrashRow):
                watcher.crashed(row, experiment.standing, spent)
            else:
                watcher.ended(row, experiment.standing, spent)
                watcher.look_around(row)
            experiment.tell(row)
            if isinstance(row, Trial) and row.outcome == "measured" and row.result is not None:
                status.result(row.arm.name, row.result)
            standing = experiment.standing
            ratios = {arm: one.ratio for arm, one in standing.found.items()}
            if standing.best is not None and not ratios:
                ratios = {"best so far": standing.best}
            status.ratios(ratios, standing.objective, early=standing.stage is not None)
    except KeyboardInterrupt as error:
        watcher.say(f"ending: {signal_of(error)}")
        return "interrupted"
    return "done"


@dataclass(frozen=True)
class CampaignSession:
    """`began`: on the monotonic clock, without its waiting."""

    store: Store
    watcher: Watcher
    campaign_id: str
    began: float
    resumes: bool = False
    wait_for_quiet: bool = False

    def after(self, others: OtherLoad | None) -> CampaignSession:
        return self if others is None else replace(self, began=self.began + others.waited_s)


class Run(NamedTuple, Generic[Row, F]):
    """`known`: rows of earlier sessions, by the campaign's id; `access`: to the user's own server, else
    empty."""

    about: str
    experiment: Experiment[Row]
    known: Callable[[str], Iterable[Row]]
    run_trial: Callable[[Request], Row]
    conclude: Callable[[str, Ending], F]
    access: RemoteAccess = RemoteAccess()
    budget: Budget = Budget()


def stored_request(store: Store, campaign_id: str, kind: str, type_: type[R]) -> R:
    row = store.campaign(campaign_id)
    if row.kind != kind:
        goes_on = f"resume it with: flushlab {row.kind} --resume {campaign_id}"
        raise UsageError(
            f"campaign {campaign_id} was run by `flushlab {row.kind}`, not `flushlab {kind}`",
            hint="a probe cannot be resumed; run it again" if row.kind == "probe" else goes_on,
        )
    with store.hold(campaign_id):
        pass  # it is held while it runs; found out here, before a server is looked for
    try:
        request = msgspec.json.decode(row.plan, type=type_)
        known = {field.encode_name for field in fields(type_)} | {type_.__struct_config__.tag_field}
        if unknown := msgspec.json.decode(row.plan).keys() - known:
            raise msgspec.ValidationError(f"{unknown.pop()} is not known here")
        return request
    except msgspec.DecodeError as error:
        raise unreadable(row) from error


def require_same_build(request: CampaignRequest | BoundArm, key: str) -> None:
    if request.build_id != key:
        raise UsageError(
            f"the campaign ran on {request.build_id}, but {request.build} is now {key}",
            hint="start a new campaign: results of two binaries are not comparable",
        )


def run_campaign(request: CampaignRequest, key: str, session: CampaignSession, campaign: Run[Row, F]) -> F:
    store, watcher, campaign_id = session.store, session.watcher, session.campaign_id
    require_same_build(request, key)
    live_status().is_about(campaign=campaign_id, server=request.build, workload=request.workload)
    with store.hold(campaign_id):
        if not session.resumes:
            store.create_campaign(campaign_id, request.kind, msgspec.json.encode(request))
        watcher.say(f"campaign {campaign_id}: {campaign.about}")
        try:
            store.set_state(campaign_id, "running")
            with watcher.campaign(campaign.budget.seconds):
                ending = run(
                    campaign.experiment,
                    campaign.run_trial,
                    known=campaign.known,
                    store=store,
                    campaign_id=campaign_id,
                    budget=campaign.budget,
                    watcher=watcher,
                    began=session.began,
                )
            try:
                facts = campaign.conclude(campaign_id, ending)
            except KeyboardInterrupt:  # what was proven is told all the same
                ending = "interrupted"
                facts = campaign.conclude(campaign_id, ending)
        except (FlushlabError, KeyboardInterrupt) as error:
            store.set_state(campaign_id, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
            if store.campaign(campaign_id).trials and not isinstance(error, UsageError):
                watcher.warn(f"resume it with: {resuming(request.kind, campaign_id, campaign.access)}")
            raise
        state: State = "interrupted" if ending == "interrupted" else "done"
        try:
            store.set_state(campaign_id, state, msgspec.json.encode(facts))
        except StorageError as error:  # the facts are for whoever waits for them, all the same
            watcher.warn(f"the result is not stored: {error.message}; {error.hint}")
        return facts


WATCH_S = 3.0
PAUSE_S = 5.0
"""Seconds between two samples while waiting: a sample uses CPU time that others leave."""
MOST_WAIT_S = 1800.0
TELL_S = 60.0
"""So often it is said that the machine is still busy."""
BUSY_DISK_SHARE = 0.25
"""A disk that others keep busy for more of the time than this slows commits down visibly."""
SWITCH = "FLUSHLAB_QUIET_CHECK"

Watch = Callable[[float, Path], OtherLoad]


def check_other_load(
    data_root: Path, watcher: Watcher, *, wait: bool, watch: Watch = pressure.watch
) -> OtherLoad | None:
    if not wait and os.environ.get(SWITCH) == "off":
        return None
    began = said_s = time.monotonic()
    seen = watch(WATCH_S, data_root)
    if not (busy := reasons(seen)):
        watcher.say(f"machine: quiet ({seen.words})")
        return seen
    if not wait:
        watcher.warn(f"the machine is busy: {busy}. --wait-for-quiet waits until it is quiet.")
        return seen
    watcher.say(f"waiting for a quiet machine, at most {format_seconds(MOST_WAIT_S)}: {busy}")
    while busy:
        now = time.monotonic()
        if now - began > MOST_WAIT_S:
            raise MeasurementError(
                f"the machine was not quiet within {format_seconds(MOST_WAIT_S)}: {busy}",
                hint="try later, or measure anyway without --wait-for-quiet",
            )
        if now - said_s > TELL_S:
            said_s = now
            watcher.say(f"still waiting after {format_seconds(now - began)}: {busy}")
        time.sleep(PAUSE_S)
        seen = watch(WATCH_S, data_root)
        busy = reasons(seen)
    waited_s = time.monotonic() - began
    watcher.say(f"machine: quiet after {format_seconds(waited_s)} ({seen.words})")
    return msgspec.structs.replace(seen, waited_s=waited_s)


def reasons(seen: OtherLoad, *, past: bool = False) -> str:
    use, is_busy, takes = ("used", "was", "took") if past else ("use", "is", "takes")
    found = []
    if seen.cpu_share > DISCARD_FOREIGN_CPU_SHARE:
        found.append(f"other programs {use} {seen.cpu_share:.0%} of the CPU time")
    if (seen.disk_share or 0.0) > BUSY_DISK_SHARE:
        found.append(f"the disk {is_busy} busy for {seen.disk_share:.0%} of the time")
    if seen.steal_share > DISCARD_STEAL_SHARE:
        found.append(f"the hypervisor {takes} {seen.steal_share:.0%} of the CPU time")
    return ", ".join(found)


def blame(trials: int, disturbed: int, before: OtherLoad | None) -> str:
    if (busy := too_busy(trials, disturbed)) or before is None:
        return busy
    found = reasons(before, past=True)
    return f"The machine was busy before the first trial: {found}" if found else ""
