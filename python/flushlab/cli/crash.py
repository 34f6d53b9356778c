"""`flushlab crash`: what a configuration loses when the server is killed or the power goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from flushlab.cli import options
from flushlab.cli.options import watched
from flushlab.cli.output import Forms, kept, print_warning
from flushlab.cli.progress import CampaignProgress
from flushlab.errors import NEGATIVE, UsageError
from flushlab.spec import Option
from flushlab.spec.kinds import CrashSpec

if TYPE_CHECKING:
    pass

SPEC = CrashSpec


def crash(
    given: Mapping[str, Any],
    watch: options.Watch = False,
    json: options.Json = None,
    markdown: options.Markdown = None,
    html: Annotated[str | None, Option("Write an HTML page.", metavar="FILE")] = None,
) -> None:
    """Crash a server many times and count what it loses.

    \b
    Examples:
      flushlab crash --server mysql@8.0 --set sync_binlog=1
      flushlab crash base innodb_flush_log_at_trx_commit=2 --crashes 300
      flushlab crash --failure process --server mysql@5.7
      flushlab crash --cluster 3 --nodes all --server mariadb@10.11
      flushlab crash --replica --server mysql@8.0 --set sync_binlog=0

    A run is recorded once, on a disk of its own, and cut at many points. That
    needs root, FUSE and a loop device; --failure process needs none of them.
    """
    from flushlab.campaign.crash.check import broke_guarantee
    from flushlab.campaign.crash.crash import crash as run
    from flushlab.campaign.crash.experiment import require_judged
    from flushlab.report import crash as report
    from flushlab.store import existing_store

    forms = Forms(json, markdown, html)
    forms.require_writable()
    if html == "-":
        raise UsageError(
            "--html writes a file", hint="flushlab report --html - writes the page of a campaign to stdout"
        )
    if given.get("replay") and html:
        raise UsageError("one crash alone has no page", hint="remove --html")
    with watched(watch):
        facts = run(**given, progress=CampaignProgress())
    row = None
    if facts.campaign:
        with existing_store() as store:
            row = store.campaign(facts.campaign)
    forms.deliver(
        report.document(facts, row),
        report.as_json(facts),
        kept=kept(facts.campaign) if facts.campaign else "what was found is printed above",
    )
    if facts.ending == "interrupted":
        raise SystemExit(130)
    require_judged(facts)
    if reasons := broke_guarantee(facts):
        for reason in reasons:
            print_warning(reason)
        raise SystemExit(NEGATIVE)
