"""A campaign from the command line: run, printed, and handed over with the files of every recommended change.

CLI layer. The page shows these files, and `--out` writes them: each server's in a folder of its own where
there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flushlab.cli.options import watched
from flushlab.cli.out_folder import OutFolder
from flushlab.cli.output import (
    deliver,
    deliver_result,
    emit_json,
    json_bytes,
    kept,
    require_writable,
    stdout,
    writing,
)

if TYPE_CHECKING:
    from flushlab.campaign.facts import CampaignFacts
    from flushlab.record import Trial
    from flushlab.report.page.page import Advice
    from flushlab.settings.floor import Floor
    from flushlab.store import CampaignRow

FOUND = ("my.cnf", "settings.sql", "verify.sql", "rollback.cnf", "rollback.sql")
"""Files for a server for which there is something to change."""

Contents = Mapping[str, Callable[[], bytes]]
"""What makes the content of each file, by its name."""


def run_campaign(
    run: Callable[..., CampaignFacts],
    given: Mapping[str, Any],
    *,
    watch: bool,
    files: Sequence[str],
    out: Path | None,
    json: str | None,
    default_out: str | None = None,
    more: Callable[[CampaignFacts], object] | None = None,
) -> CampaignFacts | None:
    """Runs a campaign and hands over its result; prints the forecast alone for a dry run.

    Args:
        run: the campaign, with its progress.
        given: what it is asked for.
        watch: serve a page meanwhile.
        files: that may be written to `out`.
        out: folder of the files, or None.
        json: file of the document, or None.
        default_out: in place of an `out` of None, with `{id}` for the campaign's.
        more: to print behind the result of a campaign that is done.

    Returns:
        What was found out; None for a dry run.

    Raises:
        SystemExit: 130, it was interrupted.
        NotWritable: a file cannot be written, which is found out before anything is run.
    """
    require_writable(json)
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
        deliver_result(forecast.render(facts, writes), forecast.document(facts, writes), json)
        return None
    hand_over(
        facts, out=out, json=json, more=[partial(more, facts)] if more and facts.ending == "done" else []
    )
    if facts.ending == "interrupted":
        raise SystemExit(130)
    return facts


def advised(row: CampaignRow, facts: CampaignFacts | None, trials: Sequence[Trial]) -> Iterator[Advice]:
    """What to change and how to go back, spelled for each server that a change is recommended for."""
    from flushlab.advice.option_file import tuned_option_file
    from flushlab.advice.statements import (
        lost_at_restart,
        persisted_comments,
        rollback_file,
        rollback_statements,
        set_statements,
        statements_file,
        verification,
    )
    from flushlab.campaign.recommended import cost_lines, recommended
    from flushlab.campaign.request import SeriesRequest, TuneRequest
    from flushlab.report.page.page import Advice
    from flushlab.report.stored import before_change, has_option_file, own_settings, request_of
    from flushlab.settings.catalog import load_catalog
    from flushlab.settings.optionfile import render

    request = request_of(row)
    for one in recommended(facts) if facts is not None else ():
        if not one.has_files:
            yield Advice(recommended=one)
            continue
        changes, server, comments = one.settings, one.server, one.comments
        before = before_change(trials, one.base_arm)
        own, persisted = own_settings(request, one.base_arm), list[str]()
        is_seen = has_option_file(request)
        if isinstance(request, TuneRequest | SeriesRequest) and request.spec.remote.place:
            own, persisted = before, persisted_comments(changes, request.persisted, server)
        elif not is_seen:
            own = {**before, **own}
        known = (changes, own, before, server)
        about = "".join(f"-- {line}\n" for line in comments)
        back = [f"-- {comments[0]}: back to what was there", *rollback_statements(*known)]
        option_file = render(changes, server, load_catalog(), header=[*comments, *persisted])
        ran = next((trial for trial in trials if trial.storage and trial.launch), None)
        if facts is not None and isinstance(request, TuneRequest) and ran and ran.storage and ran.launch:
            option_file = tuned_option_file(facts, request, ran.storage, ran.launch)
        yield Advice(
            recommended=one,
            option_file=option_file,
            statements="\n".join(
                [
                    *(f"-- {line}" for line in cost_lines(one.costs)),
                    *lost_at_restart(changes, server),
                    *set_statements(changes, server),
                ]
            )
            + "\n",
            statements_file=about + statements_file(changes, server),
            rollback_file=rollback_file(*known, is_seen=is_seen, comments=comments[:1]),
            rollback_statements="\n".join(back) + "\n",
            verification=verification(changes, server),
        )


def hand_over(
    facts: CampaignFacts,
    *,
    out: Path | None,
    json: str | None,
    more: Sequence[Callable[[], object]] = (),
    floor: Floor | None = None,
) -> None:
    """Prints the result of a campaign and writes its files.

    Args:
        facts: of the campaign.
        out: folder of the files, or None.
        json: file of the document, or None.
        more: to print after the result.
        floor: of a tuning, the floor whose settings are handed over, if it is not its own.

    Raises:
        NotWritable: a file cannot be written.
    """
    import msgspec

    from flushlab.cli.report import stored_page
    from flushlab.report import campaign as report

    result = f"{facts.kind}.json"
    contents: dict[Path, dict[str, Callable[[], bytes]]] = {}
    if out is not None:
        contents[out] = {
            result: lambda: json_bytes(report.document(facts)),
            "report.html": partial(stored_page, facts.campaign_id, floor),
        }
        for folder, texts in _texts(facts).items():
            contents.setdefault(out / folder, {}).update({name: text.encode for name, text in texts.items()})
        files = tuple(str(folder / name) for folder, own in contents.items() for name in own)
        facts = msgspec.structs.replace(facts, files=files)
    told = json != "-"
    prints: list[Callable[[], object]] = [partial(stdout.print, report.render(facts)), *more]
    deliver(
        *(prints if told else ()),
        partial(emit_json, report.document(facts), json),
        *(partial(write_files, folder, own, told=told) for folder, own in contents.items()),
        kept=kept(facts.campaign_id),
    )


def write_files(folder: Path, contents: Contents, *, told: bool) -> None:
    """Writes the files of a folder, and removes those of an earlier campaign that are not among them.

    Raises:
        NotWritable: the folder, or one of them, cannot be written.
    """
    if not contents and not folder.is_dir():
        return
    out = OutFolder(folder, tuple(contents))
    out.remove([name for name in FOUND if name not in contents])

    def write(name: str) -> None:
        out.write(name, contents[name]())

    deliver(*(writing(folder / name, partial(write, name), told=told) for name in contents))


def _texts(facts: CampaignFacts) -> dict[str, dict[str, str]]:
    """The files for each server, by its folder and their names; none where nothing is recommended."""
    from flushlab.campaign.recommended import folders
    from flushlab.store import existing_store

    with existing_store() as store:
        row, trials = store.campaign(facts.campaign_id), list(store.trials(facts.campaign_id))
    found: dict[str, dict[str, str]] = {folder: {} for folder in folders(facts)}
    return found | {one.recommended.folder: one.files for one in advised(row, facts, trials)}
