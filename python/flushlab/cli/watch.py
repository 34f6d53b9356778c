"""`flushlab watch`: the writes while they happen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from flushlab.cli import options
from flushlab.cli.output import say, stdout
from flushlab.spec import Option


def watch(
    server: Annotated[
        str | None,
        Option(
            "A kept sandbox (sandbox:NAME), or a build (mariadb, mysql@8.0), started for as long as you"
            " watch it."
        ),
    ] = None,
    dsn: options.Dsn = None,
    defaults_file: options.DefaultsFile = None,
    campaign: Annotated[
        str | None,
        Option("Which campaign to show, if several are running.", metavar="ID"),
    ] = None,
    host: Annotated[
        str,
        Option("Address to listen on; any but loopback needs the token in the URL."),
    ] = "127.0.0.1",
    port: options.WatchPort = None,
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
    if print_grafana or print_prometheus:
        _write_files(print_grafana, print_prometheus, f"{host}:{port or 9194}")
        return
    from flushlab.cli.watch_table import follow
    from flushlab.watch import watching

    with watching(
        server=server,
        dsn=dsn,
        defaults_file=defaults_file,
        campaign=campaign,
        host=host,
        port=port,
        page=not terminal,
        progress=say,
    ) as watch:
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
