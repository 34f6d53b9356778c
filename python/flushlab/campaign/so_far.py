"""Facts of a campaign that has none stored: it runs, or it was killed.

Sits in `campaign`. An experiment is a pure function of its plan and its trials. So reporting the stored
trials again gives the results so far, and nothing more. Server and storage are those of the trials.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from flushlab.campaign.facts import CampaignFacts, CampaignRun
from flushlab.campaign.request import SeriesRequest, TuneRequest
from flushlab.campaign.series_analysis import SeriesAnalysis
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.errors import FlushlabError
from flushlab.record import Trial
from flushlab.store import CampaignRow


def facts_so_far(row: CampaignRow, trials: Sequence[Trial]) -> CampaignFacts | None:
    """None where they prove nothing, or where another flushlab planned them."""
    try:
        found = _told(row, trials)
    except (FlushlabError, msgspec.DecodeError):
        return None
    if found is None:
        return None
    proven = found.tuning.frontier if found.tuning else any(arm.comparison for arm in found.arms)
    return found if proven else None


def _told(row: CampaignRow, trials: Sequence[Trial]) -> CampaignFacts | None:
    for trial in trials:
        if trial.server and trial.storage and trial.launch:
            break
    else:
        return None
    bound: TuneAnalysis | SeriesAnalysis
    if row.kind == "tune":
        tuning = msgspec.json.decode(row.plan, type=TuneRequest)
        bound = TuneAnalysis(tuning, trial.server, trial.storage)
    elif row.kind in ("series", "compare"):
        series = msgspec.json.decode(row.plan, type=SeriesRequest)
        bound = SeriesAnalysis(series, trial.server, trial.storage)
    else:
        return None
    run = CampaignRun(campaign_id=row.id, ending="interrupted", machine=bound.request.machine)
    return bound.retold(trials, run)
