"""The printed side of `flushlab settings --check`: findings, guarantees, what the build said."""

from __future__ import annotations

import textwrap

from flushlab.cli.output import stdout
from flushlab.report.words import FAILURES
from flushlab.server.settings_check import Judged, Started
from flushlab.settings.admission import describe_left_out
from flushlab.settings.durability import FLOOR
from flushlab.settings.fit import lines

SCHEMA = "flushlab.settings-check/1"
WIDTH = 80

_LABELS = {key: words for key, words in FAILURES.items() if key != FLOOR} | {"binlog": "binary log"}


def document(judged: Judged, subject: str) -> dict[str, object]:
    """The answer as JSON."""
    return {
        "schema": SCHEMA,
        "file": subject,
        "in_force": judged.in_force,
        "server": {"flavor": judged.server.flavor, "version": judged.server.version_text},
        "build_asked": judged.asked,
        "release_assumed": judged.assumed,
        "starts": judged.starts,
        "floor": judged.floor,
        "wanted_floor": judged.wanted,
        "meets": judged.meets,
        "guarantees": judged.guarantees,
        "settings": dict(judged.checked.settings),
        "findings": judged.findings,
        "started": judged.started,
    }


def show(judged: Judged, subject: str) -> None:
    """The answer for people, 80 columns wide."""
    for finding in judged.findings:
        says = f"{finding.place}: {finding.severity}: {finding.name} {finding.text}".replace("  ", " ")
        _print(f"{says} [{finding.kind}]")
        if finding.hint:
            _print(f"hint: {finding.hint}", indent="    ")
    if judged.findings:
        stdout.print()
    counted = [
        f"{number} {severity}{'s' if number != 1 else ''}"
        for severity in ("error", "warning", "note")
        if (number := sum(one.severity == severity for one in judged.findings))
    ]
    starts = "" if judged.starts else "; the server does not start with it"
    on = ", variables of" if judged.in_force else " on"
    _print(f"{subject}{on} {judged.server.name}: {', '.join(counted) or 'no mistakes found'}{starts}.")
    if judged.started is not None:
        _show_start(judged.started, judged.starts)
    _print(f"{_subject(judged)} the floor {judged.guarantees.get(FLOOR, judged.floor)}:")
    for key, label in _LABELS.items():
        _print(f"  {label:<17} {judged.guarantees[key]}", indent=" " * 20)
    if judged.assumed:
        _print(
            f"No release was named, so {judged.server.flavor} {judged.server.version_text} was assumed."
            " SELECT VERSION() tells yours; name it in full, as in"
            f" --server {judged.server.flavor}@{judged.server.version_text}."
        )
    if not judged.asked and not judged.in_force:
        _print("The server's binary was not run; --start starts it with this file.")


def _subject(judged: Judged) -> str:
    if not judged.starts:
        return "Apart from what cannot be read, it meets"
    return "It meets" if judged.checked.lines else "The defaults meet"


def _show_start(started: Started, whole: bool) -> None:
    """What the real build said; `whole`: to all lines of the file."""
    if started.refusal:
        _print(f"{started.server} refused it: {started.refusal}")
        if started.ran:
            _print(f"Without {', '.join(started.without)} it started.")
        else:
            _print("It does not start without those settings either.")
    else:
        how = "with it" if whole else "without the lines that stop it"
        _print(f"{started.server} started {how}, on an empty data directory.")
    if started.left_out:
        _print(f"Left out for this start: {describe_left_out(started.left_out)}.", indent="  ")
    for line in (
        *lines(started.scaled, "--memory changes it"),
        *(["It wrote to its error log:"] if started.said else []),
    ):
        _print(line, indent="  ")
    for line in started.said:
        _print(f"  {line}")


def _print(text: str, *, indent: str = "    ") -> None:
    first = indent if text.startswith("hint:") else ""
    wrapped = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    stdout.print("\n".join(wrapped), soft_wrap=True)
