"""Text that is not flushlab's (names, labels, messages of servers, lines of files) is printed as it is:
on a terminal, rich would take `[red]` for a style and `:100:` for an emoji."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import flushlab

PACKAGE = Path(flushlab.__file__).parent
CONSOLES = "cli/consoles.py"
"""The one module that makes consoles."""
KNOWN = tuple(f"rich.{name}." for name in ("console", "live", "padding", "progress", "table", "text"))
"""Modules that print through a console, or take text as it is; `rich.print` makes a console of its own."""

ODD = "[red]x[/red] :smile: l100.cnf:100: [/] \\[b] 'text' 100"
_CONCERNED = re.compile(r"\brich\b|Console|Typer\(|markup|emoji|highlight")
_STYLES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")

EVERY_DOOR = """
import sys
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from flushlab.cli import consoles, output
from flushlab.cli.progress import LiveTable
from flushlab.cli.progress import LiveBar
from flushlab.errors import UsageError

odd = sys.argv[1]
table = Table(odd, title=odd, caption=odd, box=None)
table.add_row(odd)
for console in (consoles.stdout, consoles.console):
    console.print(odd)
    console.print(odd, style="dim", soft_wrap=True)
    console.print(Group(odd, Padding(odd, 1), Text(odd)), table)
output.say(odd)
output.print_warning(odd)
output.print_error(UsageError(odd, hint=odd))
with LiveBar() as bar:
    bar.show(1, 2, odd)
shown = LiveTable()
shown.names({"base": "base", odd: odd})
with shown.campaign(1.0):
    pass
"""


def on_a_terminal(*words: str) -> str:
    """Everything that a command prints on a terminal of 200 columns, without styles."""
    ours, its = os.openpty()
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
        env={**variables, "TERM": "xterm-256color", "COLUMNS": "200"},
    ) as child:
        os.close(its)
        printed = bytearray()
        while piece := _read(ours):
            printed += piece
        os.close(ours)
    assert child.returncode == 0, printed.decode()
    return _STYLES.sub("", printed.decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # nobody has it open any more
        return b""


def test_the_line_of_a_finding_is_a_number_on_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "l100.cnf"
    file.write_text("[mysqld]\n" + "\n" * 98 + "sync_binlgo=1\n")
    words = ("settings", "--check", str(file), "--server", "mysql@8.0.36", "--static")
    said = "".join(on_a_terminal("-m", "flushlab", *words).split())
    assert "l100.cnf:100:error:sync_binlgo" in said


def test_every_way_to_a_terminal_prints_text_as_it_is() -> None:
    said = on_a_terminal("-c", EVERY_DOOR, ODD)
    strings_and_texts, titles_heads_captions_and_cells = 2 * (2 + 3), 2 * 4
    progress, error_and_hint = 2, 2
    at_least = strings_and_texts + titles_heads_captions_and_cells + progress + error_and_hint
    assert said.count(ODD) > at_least, said  # more: the bar and the table are drawn at least once


def test_styles_still_reach_a_terminal() -> None:
    ours = "from flushlab.cli.consoles import console; console.print('x', style='red')"
    assert on_a_terminal("-c", ours) == "x\r\n"


@functools.cache
def package() -> list[tuple[str, ast.AST]]:
    """Calls and imports of modules that know of rich, consoles or typer's groups, with their places."""
    return [
        (f"{file.relative_to(PACKAGE)}:{node.lineno}", node)
        for file in PACKAGE.rglob("*.py")
        if _CONCERNED.search(text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call | ast.Import | ast.ImportFrom)
    ]


def calls(*words: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The calls of these: where they are, and what they are given by name."""
    for place, node in package():
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in words:
            yield place, {one.arg or "**": ast.unparse(one.value) for one in node.keywords}


def of_rich() -> Iterator[tuple[str, str]]:
    """Every name that the package takes from rich: where, and its name in full."""
    for place, node in package():
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        else:
            continue
        yield from ((place, name) for name in names if name.partition(".")[0] == "rich")


def test_consoles_are_made_in_one_module() -> None:
    assert {place.partition(":")[0] for place, name in of_rich() if name.endswith(".Console")} == {CONSOLES}
    made = {place for place, _ in calls("Console", "PlainConsole", "_Stdout")}
    assert {place.partition(":")[0] for place in made} == {CONSOLES}
    drawn = list(calls("Live", "Bar", "Progress", "Status"))
    rich_makes_none = {place for place, given in drawn if given.get("console") in ("console", "stdout")}
    drawing = {
        place.partition(":")[0]
        for place, name in of_rich()
        if name.startswith(("rich.live", "rich.progress"))
    }
    assert {place.partition(":")[0] for place in rich_makes_none} == drawing


def test_nobody_asks_rich_for_markup() -> None:
    asked = {
        (place.partition(":")[0], one.arg, ast.unparse(one.value))
        for place, node in package()
        if isinstance(node, ast.Call)
        for one in node.keywords
        if one.arg in ("markup", "emoji", "highlight")
    }
    never = {(CONSOLES, name, "False") for name in ("markup", "emoji", "highlight")}
    assert asked == never | {("cli/progress.py", "markup", "False")}
    assert all("markup" in given for _, given in calls("TextColumn")), (
        "a column of a bar has a say of its own"
    )
    assert not list(calls("from_markup", "render_markup"))
    assert not [name for _, name in of_rich() if not name.startswith(KNOWN)]
