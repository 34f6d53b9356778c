"""`flushlab report`: stored campaigns as a list and as pages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flushlab.cli.output import emit_json, require_writable, say, stdout, write_file, write_stdout
from flushlab.errors import StorageError, UsageError
from flushlab.settings.floor import Floor
from flushlab.spec import Option

if TYPE_CHECKING:
    from flushlab.campaign.facts import CampaignFacts
    from flushlab.record import Trial
    from flushlab.report.page.parts import Section
    from flushlab.store import CampaignRow, Store


def report(
    campaign: Annotated[
        str | None,
        Option("A campaign's id; default: the latest finished one.", positional=True, metavar="[ID]"),
    ] = None,
    html: Annotated[
        str | None,
        Option("File for the page; default: flushlab-ID.html, if no other output is named.", metavar="FILE"),
    ] = None,
    out: Annotated[
        Path | None,
        Option("Write the files of the campaign again: page, JSON, and its option file and statements."),
    ] = None,
    floor: Annotated[
        Floor | None,
        Option("Hand over the settings of this floor, as far as the tuning has measured it."),
    ] = None,
    listed: Annotated[bool, Option("List stored campaigns, latest first.", flag="list")] = False,
    json: Annotated[
        str | None,
        Option("Write the list or the result as JSON; - is stdout.", metavar="FILE"),
    ] = None,
    trials: Annotated[
        str | None,
        Option(
            "Write every trial or crash: a JSON object per line; a table if FILE ends in .csv; - is stdout.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Render a stored campaign again as a page, as JSON or as files.

    \b
    Examples:
      flushlab report tune-20261121-104206-79a6 --html report.html
      flushlab report tune-20261121-104206-79a6 --json - | jq .recommended
      flushlab report tune-20261121-104206-79a6 --trials trials.csv
    """
    from flushlab.store import existing_store

    if listed and (campaign or html or trials):
        raise UsageError(
            "--list takes no campaign, no --html and no --trials", hint="use --list alone or with --json"
        )
    if [html, json, trials].count("-") > 1:
        raise UsageError("stdout takes one output only", hint="name files for the others")
    if (out or floor) and (listed or (out and (html or trials))):
        raise UsageError(
            "--out and --floor are for the files of one campaign", hint="remove the other option"
        )
    require_writable(json)
    require_writable(trials)
    with existing_store() as store:
        if listed:
            _list(store, json)
            return
        row = store.as_it_stands(store.campaign(campaign) if campaign else store.latest_finished())
        if out:
            _write_again(store, row, out, json, floor)
            return
        target = html or (None if json or trials else f"flushlab-{row.id}.html")
        require_writable(target)
        page = page_of(store, row, floor) if target else b""
        _emit_facts(store, row, json, floor)
        if json not in (None, "-"):
            say(f"wrote {json}")
        if trials:
            _write_trials(store, row, trials)
    if target == "-":
        write_stdout(page)
    elif target:
        write_file(Path(target), page)
        say(f"wrote {target}") if "-" in (json, trials) else stdout.print(f"wrote {target}", soft_wrap=True)


def _write_trials(store: Store, row: CampaignRow, target: str) -> None:
    """Writes what a campaign measured, a row each.

    Raises:
        UsageError: it has measured nothing yet.
    """
    from flushlab.store.store import as_csv, as_json_lines, whole

    rows = list(whole(store, row))
    if not rows:
        raise UsageError(f"campaign {row.id} has no trials yet", hint="flushlab report --list lists others")
    text = as_csv(rows) if target.lower().endswith(".csv") else as_json_lines(rows)
    if target == "-":
        write_stdout(text)
        return
    write_file(Path(target), text)
    say(f"wrote {target}")


def _write_again(store: Store, row: CampaignRow, out: Path, json: str | None, floor: Floor | None) -> None:
    """Prints a campaign's result and writes its files, without measuring again.

    Raises:
        UsageError: it is of another kind, or has no result yet.
    """
    from flushlab.cli.campaign import hand_over

    facts = None if row.kind in ("probe", "crash") else _facts(row, list(store.trials(row.id)), floor)
    if facts is None:
        raise UsageError(f"{row.id} has no files to write", hint="--html FILE writes its page")
    hand_over(facts, out=out, json=json, floor=floor)


def page_of(store: Store, row: CampaignRow, floor: Floor | None = None) -> bytes:
    """A campaign's page, complete.

    Raises:
        UsageError: nothing of a campaign of crashes was judged yet.
        StorageError: the campaign was stored by another version of flushlab.
    """
    import logging

    from flushlab.machine.home import home_path

    # matplotlib would print a warning if it looks for fonts for more than five seconds
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    # matplotlib asks for a writable $HOME otherwise
    os.environ.setdefault("MPLCONFIGDIR", str(home_path() / "matplotlib"))
    from flushlab.report import stored

    if row.kind == "probe":
        from flushlab.report import probe_page

        return probe_page.render(stored.probe_of(row), row.id).encode()
    if row.kind == "crash":
        from flushlab.report import crash_page

        return crash_page.render(row, stored.crash_of(row, store.crashes(row.id))).encode()
    from flushlab.cli.campaign import advised
    from flushlab.report.page import page

    trials = list(store.trials(row.id))
    facts = _facts(row, trials, floor)
    advice = [*advised(row, facts, trials)]
    return page.render(row, facts, trials, advice, _beside(store, row, trials)).encode()


def _facts(row: CampaignRow, trials: Sequence[Trial], floor: Floor | None = None) -> CampaignFacts | None:
    """The facts of a campaign, or those so far, with the settings of a floor; None: nothing is proven."""
    from flushlab.report.stored import facts_of

    facts = facts_of(row)
    if facts is None:
        from flushlab.campaign.so_far import facts_so_far  # it replays the experiment, and that takes scipy

        facts = facts_so_far(row, trials)
    if floor is None or facts is None:
        return facts
    from flushlab.campaign.recommended import at_floor

    return at_floor(facts, floor)


def stored_page(campaign_id: str, floor: Floor | None = None) -> bytes:
    """The page of a campaign that has just run; see `page_of`."""
    from flushlab.store import existing_store

    with existing_store() as store:
        return page_of(store, store.campaign(campaign_id), floor)


def _beside(store: Store, row: CampaignRow, trials: Sequence[Trial]) -> Sequence[Section]:
    """Comparison of the arms with the latest probe of the same disk; empty without a probe."""
    from flushlab.report.probe_page import beside
    from flushlab.report.stored import probe_of

    for probed in store.finished("probe"):
        try:
            record = probe_of(probed)
        except StorageError:
            continue  # of another version
        if sections := list(beside(record, probed.id, row, trials)):
            return sections
    return ()


def _list(store: Store, json: str | None) -> None:
    from flushlab.report import campaigns

    rows = [store.as_it_stands(row) for row in store.campaigns()]
    emit_json(campaigns.document(rows), json)
    if json != "-":
        write_stdout(campaigns.render(rows).encode())


def _emit_facts(store: Store, row: CampaignRow, json: str | None, floor: Floor | None) -> None:
    if json is None:
        return
    from flushlab.report import campaign, crash, probe, stored

    if row.kind == "probe":
        emit_json(probe.document(stored.probe_of(row)), json)
    elif row.kind == "crash":
        emit_json(crash.document(stored.crash_of(row, store.crashes(row.id))), json)
    elif (facts := _facts(row, list(store.trials(row.id)), floor)) is not None:
        emit_json(campaign.document(facts), json)
    else:
        raise UsageError(
            f"campaign {row.id} has no result yet", hint="without --json, the page shows the trials so far"
        )
