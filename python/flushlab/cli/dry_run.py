"""What `--dry-run` prints, whatever the command."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flushlab.cli.output import deliver, emit_json, stdout

if TYPE_CHECKING:
    from flushlab.campaign.facts import CampaignFacts


def tell(facts: CampaignFacts, out: Path | None, files: Sequence[str], json: str | None) -> None:
    """Prints the outlook; `out` is where the command would write `files`, None if it would not."""
    from flushlab.report import outlook

    writes = {str(out): ", ".join(files)} if out is not None else {}
    deliver(
        *([partial(stdout.print, outlook.render(facts, writes))] if json != "-" else []),
        partial(emit_json, outlook.document(facts, writes), json),
    )
