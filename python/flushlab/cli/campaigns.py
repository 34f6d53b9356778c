"""What commands that run campaigns share: a stored request, the base as the server has it, the run itself.

The store knows how a campaign ended whatever happens.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from flushlab.build.build import Build
from flushlab.campaign import Budget, run
from flushlab.campaign.loop import Ending
from flushlab.cli.output import print_warning
from flushlab.cli.place import Place, refusal, say
from flushlab.cli.progress import CampaignProgress
from flushlab.errors import FlushlabError, NotWritable, StartFailed, StorageError, UsageError
from flushlab.experiment.protocol import Experiment, Request
from flushlab.record import Launch, ServerIdentity, Trial, Value
from flushlab.server import Sandbox
from flushlab.store import State, Store, new_id


class Stored(Protocol):
    """A request as campaigns store it."""

    @property
    def kind(self) -> str:
        """Of the campaign."""
        ...

    @property
    def build(self) -> str:
        """Name of the build, exact version."""
        ...

    @property
    def build_id(self) -> str:
        """Its key."""
        ...


R = TypeVar("R")
F = TypeVar("F", bound=msgspec.Struct)


def stored_request(store: Store, campaign_id: str, kind: str, type_: type[R]) -> R:
    """The request of a campaign that goes on.

    Raises:
        UsageError: there is no such campaign, or it is of another command.
        StorageError: its plan is of another version of flushlab.
    """
    row = store.campaign(campaign_id)
    if row.kind != kind:
        goes_on = f"go on with: flushlab {row.kind} --resume {campaign_id}"
        raise UsageError(
            f"campaign {campaign_id} is of `flushlab {row.kind}`, not of `flushlab {kind}`",
            hint="a probe is not gone on with; run it again" if row.kind == "probe" else goes_on,
        )
    try:
        return msgspec.json.decode(row.plan, type=type_)
    except msgspec.ValidationError as error:
        raise StorageError(
            f"campaign {campaign_id} was planned by another version of flushlab: {error}",
            hint="start a new campaign",
        ) from error


def read_base(
    base: Mapping[str, Value], where: Place, launch: Launch, also: Iterable[str] = ()
) -> dict[str, Value]:
    """The catalogued settings as a server with this base has them, computed defaults included.

    Args:
        base: settings to start with.
        where: the build and the data root.
        launch: arguments of the server.
        also: names of further variables; those that the server does not have are left out.

    Raises:
        UsageError: the server refuses the base.
    """
    say(f"reading {where.build.name}'s settings back")
    known = where.catalog.names(where.build.flavor, where.build.version)
    try:
        with Sandbox.start(
            where.build, settings=base, arguments=launch.arguments, data_root=where.data_root, progress=say
        ) as server:
            return server.read_back({*known, *also})
    except StartFailed as error:
        if error.refusal is None:
            raise
        raise refusal(error.refusal, base, where.catalog, where.build) from error


def carry_out(
    request: Stored,
    where: Place,
    store: Store,
    resumed: str | None,
    *,
    about: str,
    experiment: Experiment,
    run_trial: Callable[[Request], Trial],
    budget: Budget,
    budget_s: float | None,
    conclude: Callable[[str, Ending], F],
) -> F:
    """Runs a campaign and gathers its facts.

    Args:
        request: what is asked for.
        where: the place.
        store: keeps it.
        resumed: id of the campaign that goes on; None for a new one.
        about: what is said when it starts.
        experiment: fresh.
        run_trial: runs one trial.
        budget: over all sessions.
        budget_s: shown as time left; None: estimated from the trials so far.
        conclude: from the campaign's id and its ending to its facts.

    Raises:
        FlushlabError: what no record can hold; what was measured is safe.
    """
    if request.build_id != where.build.id:
        raise UsageError(
            f"the campaign ran on {request.build_id}, but {request.build} is now {where.build.id}",
            hint="start a new campaign: figures of two binaries are not comparable",
        )
    campaign_id = resumed or new_id(request.kind)
    if resumed is None:
        store.create_campaign(campaign_id, request.kind, msgspec.json.encode(request))
    say(f"campaign {campaign_id}: {about}")
    try:
        store.set_state(campaign_id, "running")
        with CampaignProgress(budget_s) as progress:
            ending = run(
                experiment,
                run_trial,
                store=store,
                campaign_id=campaign_id,
                budget=budget,
                watcher=progress,
            )
        facts = conclude(campaign_id, ending)
    except (FlushlabError, KeyboardInterrupt) as error:
        store.set_state(campaign_id, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        if store.campaign(campaign_id).trials:
            print_warning(f"go on with: flushlab {request.kind} --resume {campaign_id}")
        raise
    state: State = "interrupted" if ending == "interrupted" else "done"
    store.set_state(campaign_id, state, msgspec.json.encode(facts))
    return facts


def require_folder(out: Path | None) -> None:
    """Makes the folder that the files go to, before anything is measured; None: the present one.

    Raises:
        NotWritable: it cannot be made, or not be written to.
    """
    folder = out or Path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotWritable(
            f"{folder} cannot be made: {error.strerror}", hint="name another with --out"
        ) from error
    if not os.access(folder, os.W_OK):
        raise NotWritable(f"{folder.absolute()} is not writable", hint="name another with --out")


def identity_of(build: Build) -> ServerIdentity:
    """Which server a build will be."""
    return ServerIdentity(
        flavor=build.flavor, version=build.version, version_text=build.version_text, build_id=build.id
    )
