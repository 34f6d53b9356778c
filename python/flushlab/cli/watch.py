"""`flushlab watch`: the writes while they happen."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from flushlab.cli import options
from flushlab.cli.output import say, stdout


def watch(
    context: typer.Context,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            help="A kept sandbox (sandbox:NAME), or a build (mariadb, mysql@8.0), started for as long as you"
            " watch it.",
            show_default=False,
        ),
    ] = None,
    dsn: Annotated[
        str | None,
        typer.Option("--dsn", help="Your own server: mysql://USER:PASSWORD@HOST:PORT.", show_default=False),
    ] = None,
    defaults_file: Annotated[
        Path | None,
        typer.Option(
            "--defaults-file", help="Your own server, by an option file's [client] group.", show_default=False
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option("--host", help="Address to listen on; any but loopback needs the token in the URL."),
    ] = "127.0.0.1",
    port: options.WatchPort = None,
) -> None:
    """Watch writes live: in a browser, a terminal or Prometheus.

    \b
    Examples:
      flushlab watch --server sandbox:demo
      flushlab watch --dsn mysql://me:secret@db:3306
    """
    from flushlab.watch import watching

    with watching(**options.given(context), progress=say) as found:
        stdout.print(f"page     {found.url}", soft_wrap=True)
        base = found.url.partition("?")[0]
        stdout.print(f"metrics  {base}metrics", soft_wrap=True)
        say("Ctrl-C ends it")
        signal.pause()
