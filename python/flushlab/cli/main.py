"""The command line: mounts the commands, turns errors into messages and exit codes.

Heavy libraries load inside the commands that need them: `--help` and `server` stay quick.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, NoReturn

import typer

from flushlab.cli import bench, report, series, server, settings, tune
from flushlab.cli.output import print_error
from flushlab.errors import FlushlabError
from flushlab.version import __version__

app = typer.Typer(
    name="flushlab",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="How fast a MySQL or MariaDB server can write for your workload, at the durability you need.",
)
app.command("tune")(tune.tune)
app.command("series")(series.series)
app.command("bench")(bench.bench)
app.add_typer(server.app, name="server")
app.command("settings")(settings.settings)
app.command("report")(report.report)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flushlab {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """How fast a MySQL or MariaDB server can write for your workload, at the durability you need."""


def _terminate(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt("SIGTERM")


def main() -> NoReturn:
    """Runs flushlab and exits: 0, an error's code, or 130 after Ctrl-C and SIGTERM."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except FlushlabError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    sys.exit(0)


if __name__ == "__main__":
    main()
