"""A campaign from the command line: run, printed, and handed over with the files of every recommended change.

CLI layer. The page shows these files, and `--out` writes them: each server's in a folder of its own where
there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flushlab.cli.options import watched
from flushlab.cli.out_folder import OutFolder
from flushlab.cli.output import Forms, deliver, json_bytes, kept, page_bytes, writing

if TYPE_CHECKING:
    from flushlab.campaign.facts import CampaignFacts
    from flushlab.settings.floor import Floor

FOUND = ("my.cnf", "settings.sql", "verify.sql", "rollback.cnf", "rollback.sql")
"""Files for a server for which there is something to change."""

Contents = Mapping[str, Callable[[], bytes]]


def run_campaign(
    run: Callable[..., CampaignFacts],
    given: Mapping[str, Any],
    forms: Forms,
    *,
    watch: bool,
    files: Sequence[str],
    out: Path | None,
    default_out: str | None = None,
    per_machine: bool = False,
) -> CampaignFacts | None:
    forms.require_writable()
    dry_run = given.get("dry_run")
    if out is not None and not dry_run:
        OutFolder(out, files)
    with watched(watch):
        facts = run(**given)
    if out is None and default_out is not None:
        out = Path(default_out.format(id="ID" if dry_run else facts.campaign_id))
    if dry_run:
        from flushlab.report import forecast

        writes = {str(out): ", ".join(files)} if out is not None else {}
        forms.deliver(forecast.document(facts, writes), forecast.as_json(facts, writes))
        return None
    hand_over(facts, forms, out=out, per_machine=per_machine)
    if facts.ending == "interrupted":
        raise SystemExit(130)
    return facts


def hand_over(
    facts: CampaignFacts,
    forms: Forms,
    *,
    out: Path | None,
    floor: Floor | None = None,
    per_machine: bool = False,
) -> None:
    import msgspec

    from flushlab.campaign.recommended import folders
    from flushlab.report.campaign import as_json
    from flushlab.report.kinds import stored
    from flushlab.store import existing_store

    with existing_store() as store:
        campaign = stored(store, store.campaign(facts.campaign_id), floor, facts)
    contents: dict[Path, dict[str, Callable[[], bytes]]] = {}
    if out is not None:
        contents[out] = {
            f"{facts.kind}.json": lambda: json_bytes(result),
            "report.html": lambda: page_bytes(document),
        }
        texts = {one.recommended.folder: one.files for one in campaign.advice}
        for folder in folders(facts):
            own = {name: text.encode for name, text in texts.get(folder, {}).items()}
            contents.setdefault(out / folder, {}).update(own)
    files = tuple(str(folder / name) for folder, own in contents.items() for name in own)
    assert campaign.facts is not None, "these"
    campaign.facts = msgspec.structs.replace(campaign.facts, files=files)
    document, result = campaign.document(per_machine=per_machine), as_json(campaign.facts)
    forms.deliver(
        document,
        result,
        *(partial(write_files, folder, own, told=forms.is_printed) for folder, own in contents.items()),
        kept=kept(facts.campaign_id),
    )


def write_files(folder: Path, contents: Contents, *, told: bool) -> None:
    """Removes the files of an earlier campaign that are not among these."""
    if not contents and not folder.is_dir():
        return
    out = OutFolder(folder, tuple(contents))
    out.remove([name for name in FOUND if name not in contents])

    def write(name: str) -> None:
        out.write(name, contents[name]())

    deliver(*(writing(folder / name, partial(write, name), told=told) for name in contents))
