"""The command line: mounts the commands.

Only the command that is named is loaded and mounted, and heavy libraries load inside it: `test` and `server`
are to start at once. Without a name that is known (`--help`, a typing mistake) all are.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flushlab.version import __version__

COMMANDS = (
    *(
        "tune",
        "series",
        "compare",
        "bench",
        "test",
        "probe",
        "crash",
        "fill",
        "watch",
        "binlog",
        "server",
        "settings",
        "report",
    ),
    "cache",
)
"""Each is a module here; its function of that name is the command, or its `app` the group of them."""

CONTEXT = {"help_option_names": ["-h", "--help"]}


def make_app(named: str | None = None) -> typer.Typer:
    """The command line with one command, or with all if none is named that there is."""
    app = typer.Typer(
        name="flushlab",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=CONTEXT,
        help="How fast a MySQL or MariaDB server can write for your workload, at the durability you need.",
    )
    app.callback()(_root)
    for name in (named,) if named in COMMANDS else COMMANDS:
        module: Any = importlib.import_module(f"flushlab.cli.{name}")
        group = getattr(module, "app", None)
        if group is not None:
            app.add_typer(group, name=name)
        else:
            more: Mapping[str, Any] = getattr(module, "CONTEXT", {})
            app.command(name, context_settings=dict(more))(getattr(module, name))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flushlab {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """How fast a MySQL or MariaDB server can write for your workload, at the durability you need."""
    if context.invoked_subcommand != "fill" and not {*CONTEXT["help_option_names"]} & {*sys.argv}:
        _undo_left()  # `fill` itself does


def _undo_left() -> None:
    """Undoes what a killed command has left on somebody's server: changed settings, and tables."""
    from flushlab.machine import state_path

    if any(any((state_path() / folder).glob("*.json")) for folder in ("put-back", "made-tables")):
        from flushlab.cli.output import say
        from flushlab.server.made_tables import drop_left
        from flushlab.server.put_back import put_back_left

        put_back_left(say)
        drop_left(say)
