"""Facts of a campaign that has none stored: it runs, or it was killed.

Sits in `campaign`. An experiment is a pure function of its plan and its trials. So reporting the stored
trials again gives the results so far, and nothing more. Server and storage are those of the trials.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from flushlab.campaign.campaign import AnyRequest, analysis_of
from flushlab.campaign.facts import CampaignFacts, CampaignRun
from flushlab.errors import FlushlabError
from flushlab.record import Trial
from flushlab.store import CampaignRow


def facts_so_far(row: CampaignRow, trials: Sequence[Trial]) -> CampaignFacts | None:
    """None where they prove nothing, or where another flushlab planned them."""
    first = next((one for one in trials if one.server and one.storage and one.launch), None)
    if first is None or first.server is None or first.storage is None:
        return None
    try:
        request = msgspec.json.decode(row.plan, type=AnyRequest)
        if request.kind != row.kind:
            return None
        run = CampaignRun(campaign_id=row.id, ending="interrupted", machine=request.machine)
        found = analysis_of(request, first.server, first.storage).retold(trials, run)
    except (FlushlabError, msgspec.DecodeError):
        return None
    proven = found.tuning.frontier if found.tuning else any(arm.comparison for arm in found.arms)
    return found if proven else None
