"""The command line: its commands, each loaded when it is named.

Heavy libraries load inside the commands: `test` and `server` are to start at once.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from flushlab.cli.declare import OptionGroup, command
from flushlab.errors import UsageError
from flushlab.version import __version__

GOALS = {
    "Make a server faster": {
        "tune": "Find the fastest settings at a durability floor, and prove them.",
        "settings": "List settings, explain one, or check an option file or a server.",
    },
    "Measure": {
        "compare": "Compare settings, option files or servers with each other.",
        "series": "Run a plan: each change by itself, then the best together.",
        "bench": "Run one workload on one configuration and print the result.",
        "probe": "Measure what this disk allows: write rates and commits/s.",
        "report": "Render a stored campaign again as a page, as JSON or as files.",
    },
    "Prove what survives a crash": {
        "crash": "Crash a server many times and count what it loses.",
        "binlog": "Check binary log files for damage.",
    },
    "Watch a running server": {
        "doctor": "Find what bounds the writes of a running server.",
        "watch": "Watch writes live: in a browser, a terminal or Prometheus.",
    },
    "Speed up tests and get test data": {
        "test": "Run a test suite on a fast sandbox, a private server.",
        "fill": "Fill tables with generated rows, fast, and verify them.",
    },
    "Manage servers, machines and saved data": {
        "server": "List and fetch builds; start and stop sandboxes.",
        "fleet": "Several machines for one campaign: start, join, look, stop.",
        "cache": "What is kept to save time: list it, or make room.",
    },
}
"""The commands by goal, each with the first line of its help."""

COMMANDS = {name: text for commands in GOALS.values() for name, text in commands.items()}
"""Each is a module here: its `app` is a group, or its function of that name the command, with the fields of
its `SPEC`."""

HELP = "How fast a MySQL or MariaDB server can write for your workload, at the durability you need."


class _Commands(OptionGroup):
    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module: Any = importlib.import_module(f"flushlab.cli.{name}")
        group: click.Command | None = getattr(module, "app", None)
        return group or command(
            name, getattr(module, name), getattr(module, "SPEC", None), **getattr(module, "CONTEXT", {})
        )

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for goal, commands in GOALS.items():
            with formatter.section(goal):
                formatter.write_dl([(f"{name:{widest}}", text) for name, text in commands.items()])

    def format_epilog(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text("`flushlab COMMAND --help` prints a command's options, with examples.")


def make_app() -> click.Group:
    app = _Commands("flushlab", HELP)
    app.callback = _begin
    app.params.append(
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Print the version.",
        )
    )
    return app


def run(words: Sequence[str]) -> int:
    for word in itertools.takewhile(lambda word: word != "--", words):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"not UTF-8: {word!r}", hint="rename the file, or pass a link to it") from None
    app = make_app()
    if "_FLUSHLAB_COMPLETE" in os.environ:
        app.main(prog_name="flushlab")  # prints what a shell asks for, and exits
    try:
        with app.make_context("flushlab", list(words)) as context:
            app.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    return 0


def _print_version(context: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"flushlab {__version__}")
        context.exit()


def _begin() -> None:
    context = click.get_current_context()
    if context.invoked_subcommand != "fill" and not {"--help", "--help-all"} & {*sys.argv}:
        _undo_left()  # `fill` itself does


def _undo_left() -> None:
    from flushlab.machine import state_path

    if any(any((state_path() / folder).glob("*.json")) for folder in ("put-back", "made-tables")):
        from flushlab.cli.output import say
        from flushlab.server.remote.made_tables import drop_left
        from flushlab.server.remote.put_back import put_back_left

        put_back_left(say)
        drop_left(say)
