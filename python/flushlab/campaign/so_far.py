"""Facts of a campaign that has none stored: it runs, or it was killed.

Sits in `campaign`. An experiment is a pure function of its plan and the trials it was told, so telling them
again gives what is proven so far, and nothing more. Which server it was, where its data lay, and the settings
of somebody's own server are taken from the trials; the machine is the one that asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from flushlab.campaign.bound_series import BoundSeries
from flushlab.campaign.facts import CampaignFacts, CampaignRun
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.series_request import SeriesRequest
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.errors import FlushlabError
from flushlab.experiment.protocol import Experiment
from flushlab.machine import describe, describe_client
from flushlab.machine.home import home_path
from flushlab.record import Machine, Trial, Value
from flushlab.settings.catalog import load_catalog
from flushlab.spec.kinds import CompareSpec, SeriesSpec, TuneSpec
from flushlab.store import CampaignRow


def facts_so_far(row: CampaignRow, trials: Sequence[Trial]) -> CampaignFacts | None:
    """What the stored trials prove; None where they prove nothing, or where another flushlab planned them."""
    started = next((trial for trial in trials if trial.server and trial.storage and trial.launch), None)
    if started is None or row.kind not in ("tune", "series", "compare"):
        return None
    try:
        found = _tune(row, trials, started) if row.kind == "tune" else _series(row, trials, started)
    except (FlushlabError, msgspec.DecodeError):
        return None
    proven = found.tuning.frontier if found.tuning else any(arm.comparison for arm in found.arms)
    return found if proven else None


def _tune(row: CampaignRow, trials: Sequence[Trial], started: Trial) -> CampaignFacts:
    assert started.server and started.storage and started.launch
    request = msgspec.json.decode(row.plan, type=TuneRequest)
    tuning = TuneAnalysis(request, started.server, started.storage, started.launch)
    experiment = tuning.experiment()
    _tell(experiment, trials)
    return tuning.conclude(experiment, trials, _run(row, request.spec))


def _series(row: CampaignRow, trials: Sequence[Trial], started: Trial) -> CampaignFacts:
    assert started.server and started.storage
    request = msgspec.json.decode(row.plan, type=SeriesRequest)
    theirs = _theirs(started) if request.spec.remote.place else {}
    series = BoundSeries(request, started.server, started.storage, load_catalog(), theirs)
    experiment = series.experiment()
    _tell(experiment, trials)
    return series.conclude(experiment, trials, _run(row, request.spec))


def _run(row: CampaignRow, spec: TuneSpec | SeriesSpec | CompareSpec) -> CampaignRun:
    return CampaignRun(campaign_id=row.id, ending="interrupted", machine=_machine(spec))


def _machine(spec: TuneSpec | SeriesSpec | CompareSpec) -> Machine:
    if spec.remote.place:
        return describe_client()
    place = Path(spec.storage.data_root) if spec.storage.data_root else home_path()
    return describe(place if place.is_dir() else Path())


def _theirs(started: Trial) -> dict[str, Value]:
    """Settings of somebody's own server that nobody asked for."""
    return {name: value for name, value in started.settings.items() if name not in started.arm.settings}


def _tell(experiment: Experiment, trials: Sequence[Trial]) -> None:
    for trial in trials:
        experiment.tell(trial)
