"""Makes docs/reference/commands.md from the declaration of the command line.

.venv/bin/python scripts/commands_reference.py    # writes the page; a test fails if it is not current
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from flushlab.cli.app import COMMANDS, GOALS, make_app
from flushlab.spec.option import OUTPUT, PANELS

FILE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"

HEAD = """# Commands

Made from the declaration of the command line by `scripts/commands_reference.py`; do not edit it here.

`flushlab COMMAND --help` prints the usual options, `--help-all` all of them, and `--workload NAME --help`
also those of a workload. Every command that yields data takes `--json FILE` (`-` for stdout). Underscores in
the name of an option count as dashes.

For completion in your shell, put `eval "$(_FLUSHLAB_COMPLETE=bash_source flushlab)"` into `~/.bashrc`, or
`zsh_source` in its place into `~/.zshrc`.

[Environment variables](environment.md) and [exit codes](exit-codes.md) have pages of their own.

| goal | command | purpose |
|---|---|---|
"""

WORKLOADS = "Options of workloads are options of this command too: see [workloads](workloads.md)."

_EXAMPLE = re.compile(r"^Examples?:\n(?P<lines>(?:  .*\n?)+)", re.M)


def render() -> str:
    """The whole page."""
    app = make_app()
    with click.Context(app, info_name="flushlab") as context:
        rows = "".join(
            f"| {'' if number else goal} | [`flushlab {name}`](#flushlab-{name}) | {text} |\n"
            for goal, commands in GOALS.items()
            for number, (name, text) in enumerate(commands.items())
        )
        parts = [HEAD + rows]
        for name in COMMANDS:
            found = app.get_command(context, name)
            assert found is not None
            parts += _command(found, ("flushlab", name), 2)
    return "\n".join(parts)


def _command(command: click.Command, names: tuple[str, ...], level: int) -> Iterator[str]:
    yield f"{'#' * level} {' '.join(names)}\n"
    yield from _about(inspect.cleandoc((command.help or "").replace("\b", "")))
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=names[-1])
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _command(found, (*names, name), level + 1)
        return
    words = [*names, *command.collect_usage_pieces(click.Context(command))]
    yield f"```text\n{' '.join(words)}\n```\n"
    yield from _options(command)


def _about(text: str) -> Iterator[str]:
    """Paragraphs as they are, examples as a block."""
    found = _EXAMPLE.search(text)
    prose = text if found is None else text[: found.start()] + text[found.end() :]
    if prose.strip():
        yield f"{_with_code(prose.strip())}\n"
    if found is not None:
        lines = inspect.cleandoc(found["lines"])
        yield f"```console\n{lines}\n```\n"


def _options(command: click.Command) -> Iterator[str]:
    options = [one for one in command.params if isinstance(one, click.Option)]
    shown = [one for one in options if not getattr(one.type, "of_workload", False)]
    panels = [panel for panel in PANELS if any(getattr(one, "panel", "") == panel for one in shown)]
    for panel in panels:
        rows = [_row(one, command) for one in shown if getattr(one, "panel", "") == panel]
        title = f"**{panel}**\n\n" if panels != [OUTPUT] else ""
        yield f"{title}| option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    if len(shown) < len(options):
        yield f"{WORKLOADS}\n"


def _row(option: click.Option, command: click.Command) -> str:
    names = sorted(
        (*option.opts, *option.secondary_opts), key=lambda name: (name in option.secondary_opts, len(name))
    )
    spelled = ", ".join(f"`{name}`" for name in names)
    metavar = option.make_metavar(click.Context(command))
    words = metavar.startswith("[") and "|" in metavar
    value = ", ".join(f"`{one}`" for one in metavar.strip("[]").split("|")) if words else f"`{metavar}`"
    cell = spelled if option.is_flag else f"{spelled} {value}"
    return f"| {cell} | {_with_code(option.help or '')} |".replace("\n", " ")


def _with_code(text: str) -> str:
    """Words that Markdown would read as markup, as code."""
    parts = text.split("`")
    parts[::2] = (re.sub(r"(?<!\w)(--[a-z][\w-]*|<[\w ]+>)(?!\w)", r"`\1`", part) for part in parts[::2])
    return "`".join(parts).replace("|", "\\|").replace("*", "\\*")


def _is_argument(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument)


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
