"""Stored: a campaign in the store, from its request to its facts.

Sits in `campaign`, around the loop. The store knows how a campaign ended whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import fields

from flushlab.campaign.facts import resuming
from flushlab.campaign.loop import Asking, Budget, Ending, Row, run
from flushlab.campaign.request import StoredRequest
from flushlab.campaign.watcher import Watcher
from flushlab.errors import FlushlabError, StorageError, UsageError
from flushlab.experiment.protocol import Request
from flushlab.process.running import live_status
from flushlab.record import OtherLoad
from flushlab.spec.parts import RemoteAccess
from flushlab.store import State, Store, new_id

R = TypeVar("R", bound=msgspec.Struct)
F = TypeVar("F", bound=msgspec.Struct)


def stored_request(store: Store, campaign_id: str, kind: str, type_: type[R]) -> R:
    """The request of a campaign that goes on.

    Raises:
        UsageError: there is no such campaign, or it is of another command.
        StorageError: its plan is of another version of flushlab.
    """
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
        if unknown := msgspec.json.decode(row.plan).keys() - {one.encode_name for one in fields(type_)}:
            raise msgspec.ValidationError(f"{unknown.pop()} is not known here")
        return msgspec.json.decode(row.plan, type=type_)
    except msgspec.ValidationError as error:
        raise StorageError(
            f"campaign {campaign_id} was planned by another version of flushlab: {error}",
            hint="start a new campaign",
        ) from error


@dataclass(frozen=True)
class Session:
    """A command that runs a campaign, or resumes it.

    Attributes:
        store: keeps the campaign.
        watcher: told what happens.
        resumed: id of the campaign that goes on; None for a new one.
        began: when the command did, on the monotonic clock, without its waiting.
        wait_for_quiet: wait until the machine is quiet.
    """

    store: Store
    watcher: Watcher
    resumed: str | None
    began: float
    wait_for_quiet: bool = False

    def after(self, others: OtherLoad | None) -> Session:
        """The same, without the time that it has waited."""
        return self if others is None else replace(self, began=self.began + others.waited_s)


class Run(NamedTuple, Generic[Row, F]):
    """What a campaign runs.

    Attributes:
        about: what is said when it starts.
        experiment: fresh.
        known: rows of earlier sessions, by the campaign's id.
        run_trial: runs one request.
        conclude: from the campaign's id and its ending to its facts.
        access: to somebody's own server that it runs on; empty for servers that flushlab starts.
        budget: over all sessions; its seconds are shown as time left, or else an estimate from the trials.
    """

    about: str
    experiment: Asking[Row]
    known: Callable[[str], Iterable[Row]]
    run_trial: Callable[[Request], Row]
    conclude: Callable[[str, Ending], F]
    access: RemoteAccess = RemoteAccess()
    budget: Budget = Budget()


def run_campaign(request: StoredRequest, key: str, session: Session, campaign: Run[Row, F]) -> F:
    """Runs a campaign and gathers its facts.

    Args:
        request: what is asked for.
        key: of the servers that it runs on now.
        session: of the command.
        campaign: what runs.

    Raises:
        FlushlabError: what no record can hold; what was measured is safe.
    """
    store, watcher, resumed = session.store, session.watcher, session.resumed
    if request.build_id != key:
        raise UsageError(
            f"the campaign ran on {request.build_id}, but {request.build} is now {key}",
            hint="start a new campaign: figures of two binaries are not comparable",
        )
    campaign_id = resumed or new_id(request.kind)
    live_status().is_about(campaign=campaign_id, server=request.build, workload=request.workload)
    with store.hold(campaign_id):
        if resumed is None:
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
