"""`flushlab report`: stored campaigns as a list and as pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flushlab.cli import options
from flushlab.cli.consoles import stdout
from flushlab.cli.output import (
    Forms,
    emit,
    emit_json,
    markdown_bytes,
    page_bytes,
    require_writable,
    say,
    write_file,
)
from flushlab.cli.plain import write_stdout
from flushlab.errors import UsageError
from flushlab.settings.floor import Floor
from flushlab.spec import Option

if TYPE_CHECKING:
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
    markdown: options.Markdown = None,
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

    if listed and (campaign or html or trials or markdown):
        raise UsageError(
            "--list takes no campaign, no --html, no --markdown and no --trials",
            hint="use --list alone or with --json",
        )
    if [html, json, markdown, trials].count("-") > 1:
        raise UsageError("stdout takes one output only", hint="name files for the others")
    if (out or floor) and (listed or (out and (html or trials))):
        raise UsageError(
            "--out and --floor are for the files of one campaign", hint="remove the other option"
        )
    for path in (json, markdown, trials):
        require_writable(path)
    with existing_store() as store:
        if listed:
            _list(store, json)
            return
        from flushlab.report.kinds import document_of, json_of

        row = store.as_it_stands(store.campaign(campaign) if campaign else store.latest_finished())
        if out:
            _write_again(store, row, out, Forms(json, markdown), floor)
            return
        target = html or (None if json or trials or markdown else f"flushlab-{row.id}.html")
        require_writable(target)
        page = b""
        if target or markdown:
            document = document_of(store, row, floor)
            page = page_bytes(document) if target else b""
            text = markdown_bytes(document) if markdown else b""
        if json:
            emit_json(json_of(store, row, floor), json)
            if json != "-":
                say(f"wrote {json}")
        if markdown:
            emit(lambda: text, markdown)
        if trials:
            _write_trials(store, row, trials)
    if target == "-":
        write_stdout(page)
    elif target:
        write_file(Path(target), page)
        if "-" in (json, markdown, trials):
            say(f"wrote {target}")
        else:
            stdout.print(f"wrote {target}", soft_wrap=True)


def _write_trials(store: Store, row: CampaignRow, target: str) -> None:
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


def _write_again(store: Store, row: CampaignRow, out: Path, forms: Forms, floor: Floor | None) -> None:
    from flushlab.cli.campaign import hand_over
    from flushlab.report.kinds import stored

    facts = None if row.kind in ("probe", "crash") else stored(store, row, floor).facts
    if facts is None:
        raise UsageError(f"{row.id} has no files to write", hint="--html FILE writes its page")
    hand_over(facts, forms, out=out, floor=floor)


def _list(store: Store, json: str | None) -> None:
    from flushlab.report import campaigns

    rows = [store.as_it_stands(row) for row in store.campaigns()]
    emit_json(campaigns.as_json(rows), json)
    if json != "-":
        write_stdout(campaigns.render(rows).encode())
