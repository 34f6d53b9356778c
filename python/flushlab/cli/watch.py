"""`flushlab watch`: the writes while they happen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from flushlab.cli.output import say, stdout
from flushlab.spec import Option
from flushlab.spec.build import build
from flushlab.spec.commands import WatchSpec

SPEC = WatchSpec


def watch(
    given: Mapping[str, Any],
    terminal: Annotated[bool, Option("Show the essentials here; serve no page.")] = False,
    print_grafana: Annotated[
        Path | None,
        Option("Write dashboards and provisioning files for Grafana; watch nothing.", metavar="DIR"),
    ] = None,
    print_prometheus: Annotated[
        Path | None,
        Option("Write a scrape file and alerts for Prometheus; watch nothing.", metavar="DIR"),
    ] = None,
) -> None:
    """Watch writes live: in a browser, a terminal or Prometheus.

    \b
    Examples:
      flushlab watch
      flushlab watch --server sandbox:demo --terminal
      flushlab watch --defaults-file ~/.my.cnf

    Without a server it shows what flushlab runs on this machine: tune,
    series, compare, bench, fill, crash and test, started before or after it.
    """
    spec = build(WatchSpec, given)
    if print_grafana or print_prometheus:
        _write_files(print_grafana, print_prometheus, f"{spec.host}:{spec.port or 9194}")
        return
    from flushlab.cli.watch_table import follow
    from flushlab.watch import watching

    with watching(page=not terminal, progress=say, **given) as watch:
        if not terminal:
            base = watch.url.partition("?")[0]
            stdout.print(f"page     {watch.url}\nmetrics  {base}metrics", soft_wrap=True)
            say("stop with Ctrl-C" if watch.is_busy else "nothing is running yet: waiting; stop with Ctrl-C")
        follow(watch, shown=terminal)


def _write_files(for_grafana: Path | None, for_prometheus: Path | None, target: str) -> None:
    from flushlab.watch import grafana, prometheus_files

    written: list[Path] = []
    if for_grafana:
        written += prometheus_files.write(for_grafana, grafana.files(for_grafana))
    if for_prometheus:
        written += prometheus_files.write(for_prometheus, prometheus_files.files(target))
    for path in written:
        stdout.print(str(path), soft_wrap=True)
