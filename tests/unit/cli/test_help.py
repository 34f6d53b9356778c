"""--help: the usual options by section; --help-all: every option."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from flushlab.cli.app import COMMANDS, GOALS, make_app


def leaves(group: click.Group, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The names of all commands that are no groups."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from leaves(found, (*names, name))
        else:
            yield (*names, name)


def command_of(names: tuple[str, ...]) -> click.Command:
    found: click.Command = make_app()
    for name in names:
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), name)
        assert inner is not None
        found = inner
    return found


def printed(*words: str) -> str:
    done = CliRunner().invoke(make_app(), [*words], terminal_width=80)
    assert done.exit_code == 0, done.output
    return done.stdout


def listed(text: str) -> set[str]:
    """The long options at the beginnings of lines."""
    starts = (line.split() for line in text.splitlines() if line.startswith("  -"))
    return {word.rstrip(",") for words in starts for word in words[:3] if word.startswith("--")}


LEAVES = list(leaves(make_app()))


@pytest.mark.parametrize("names", LEAVES, ids=" ".join)
def test_help_fits_80_lines_of_80_columns(names: tuple[str, ...]) -> None:
    lines = printed(*names, "--help").splitlines()
    assert len(lines) <= 80
    assert max(map(len, lines)) <= 80
    assert "--help-all" in listed("\n".join(lines))


@pytest.mark.parametrize("names", LEAVES, ids=" ".join)
def test_help_all_lists_every_option_once(names: tuple[str, ...]) -> None:
    text = printed(*names, "--help-all")
    options = [one for one in command_of(names).params if isinstance(one, click.Option)]
    assert {one.opts[0] for one in options} <= listed(text)
    starts = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    assert len(starts) == len(set(starts))


@pytest.mark.parametrize("name", ["tune", "compare", "bench", "crash"])
def test_options_of_a_workload_are_listed_where_the_workload_is_named(name: str) -> None:
    plain = listed(printed(name, "--help"))
    assert not {"--hit-ratio", "--table-size", "--ssl-mode"} & plain
    assert "--workload NAME --help" in " ".join(printed(name, "--help").split())
    named = printed(name, "--workload", "upsert", "--help")
    assert "Options of upsert:" in named
    assert listed(named) >= plain | {"--hit-ratio", "--key", "--commit", "--table-size"}
    assert not {"--point-selects", "--warm-up-runs"} & listed(named)
    assert "--warm-up-runs" in listed(printed(name, "--help", "--workload=command: ./load.sh"))


def test_an_unknown_workload_does_not_hinder_help() -> None:
    assert listed(printed("bench", "--workload", "upset", "--help")) == listed(printed("bench", "--help"))


def test_the_overview_lists_every_command_once_by_goal_on_one_screen() -> None:
    lines = printed("--help").splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert [line.removesuffix(":") for line in lines if line.removesuffix(":") in GOALS] == [*GOALS]
    named = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in COMMANDS]
    assert named == [*COMMANDS]


@pytest.mark.parametrize(("name", "text"), COMMANDS.items())
def test_the_overview_has_the_first_line_of_each_help(name: str, text: str) -> None:
    assert (command_of((name,)).help or "").partition("\n")[0] == text


def test_sections_come_in_one_order() -> None:
    text = printed("tune", "--help")
    titles = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "What to run:",
        "Which server:",
        "How long and how sure:",
        "Where the data live:",
        "Output:",
    ]
    assert "\nOptions:\n" in printed("cache", "prune", "--help")
