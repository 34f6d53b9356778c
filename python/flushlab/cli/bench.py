"""`flushlab bench`: one workload, one configuration."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from flushlab.cli import options
from flushlab.cli.options import watched
from flushlab.cli.output import Forms, deliver, print_document, require_writable, say
from flushlab.errors import MeasurementError, NotWritable
from flushlab.record import LoadResult, Trial
from flushlab.spec.kinds import BenchSpec

SPEC = BenchSpec
ABOVE = "free some space and name another file next time; what was measured is printed above"


def bench(
    given: Mapping[str, Any],
    watch: options.Watch = False,
    json: options.Json = None,
    markdown: options.Markdown = None,
) -> None:
    """Run one workload on one configuration and print the result.

    \b
    Examples:
      flushlab bench --server mariadb@10.11 --set sync_binlog=1
      flushlab bench --workload upsert --rows 10 --commit '1 s'
      flushlab bench --cluster 3 --set innodb_flush_log_at_trx_commit=2
      flushlab bench -h db1 -u me -p --allow-writes
      flushlab bench --workload oltp_read_write --point-selects 5 --skip-trx
      flushlab bench --server mysql@8.0 --fleet 10.0.0.5

    Exits with 4 if other load disturbed the window (discarded).
    """
    from flushlab.campaign.bench import bench as run
    from flushlab.campaign.bench import is_for_each
    from flushlab.report import bench as report
    from flushlab.workload.engine import LoadInterrupted

    forms = Forms(json, markdown)
    forms.require_writable()
    for path in (given.get("hdr_log"), given.get("per_second")):
        require_writable(path)
    if is_for_each(given, say):
        _bench_on_fleet(given, watch, forms)
        return
    try:
        with watched(watch):
            trial = run(**given, progress=say)
    except LoadInterrupted as interrupted:
        shown = report.interrupted_document(interrupted.result, interrupted.unit)
        deliver(partial(print_document, shown), partial(_require_seconds, interrupted.result), kept=ABOVE)
        raise SystemExit(130) from None
    forms.deliver(
        report.document(trial),
        report.as_json(trial),
        partial(_require_seconds, trial.load),
        partial(_require_counted, trial),
        kept=ABOVE,
        is_stored=False,
    )


def _bench_on_fleet(given: Mapping[str, Any], watch: bool, forms: Forms) -> None:
    from flushlab.campaign.bench import bench_on_fleet
    from flushlab.report import bench as report

    with watched(watch):
        found = bench_on_fleet(**given, progress=say)
    forms.deliver(report.fleet_document(found), report.fleet_as_json(found), kept=ABOVE, is_stored=False)
    if not found.fastest:
        raise MeasurementError("other load disturbed every machine", hint="see `flushlab fleet status`")


def _require_counted(trial: Trial) -> None:
    if trial.outcome == "discarded":
        raise MeasurementError(f"discarded: {trial.reason}", hint="--wait-for-quiet waits until it is quiet")


def _require_seconds(load: LoadResult | None) -> None:
    if load is not None and load.unwritten:
        raise NotWritable(load.unwritten)
