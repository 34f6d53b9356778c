"""Base file: a user's option file as the base of a campaign.

Sits in `campaign`, on `settings.check`, which reads the file as the server would, and on
`settings.admission`, which decides what of it enters a sandbox. What stays out is named, with the class of
reason and without its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from flushlab.build import Build
from flushlab.build.verbose_help import refused, verbose_help
from flushlab.errors import StorageError, UsageError
from flushlab.record import ServerIdentity, Value
from flushlab.settings.admission import LeftOut, admit, told
from flushlab.settings.check import Checked, adjusted, arguments, check, in_reading_order, refusal
from flushlab.settings.finding import Finding
from flushlab.settings.helptext import read_help
from flushlab.settings.optionfile import Loader

_STOPS = ("syntax", "wrong-type", "out-of-range")
"""Kinds of findings that no server starts with, whichever its version."""
_NOT_HERE = ("not-in-version", "removed", "unknown-name", "misspelled", "wrong-group")
_PREFIX = re.compile(r"^.*\[ERROR\]( \[[^]]+\])* (\S*/)?")
"""What precedes the reason in a line of a server's error log: time, number, its own path."""


class BaseFile(NamedTuple):
    """A base that may run in a sandbox, and what should be said of the file."""

    settings: dict[str, Value]
    notes: tuple[str, ...]


def read_base_file(file: Path, build: Build, identity: ServerIdentity) -> BaseFile:
    """The settings of an option file that may enter a sandbox of this build.

    Raises:
        UsageError: the file has a line that no server starts with; names its place.
        StorageError: it cannot be read.
    """
    checked = examine(file, identity, build)
    for finding in checked.findings:
        if finding.fatal and finding.kind in _STOPS:
            hint = finding.hint or f"`flushlab settings --check {file}` explains it"
            raise UsageError(f"{finding.place}: {finding.name} {finding.text}".replace("  ", " "), hint=hint)
    refusals = [one.name for one in checked.findings if one.kind == "refused"]
    found = admit({**checked.settings, **{name: _plain(text) for name, text in checked.others.items()}})
    settings = {name: value for name, value in found.settings.items() if name not in refusals}
    left_out = [
        *found.left_out,
        *(LeftOut(name=name, why=f"refused by {identity.name}") for name in refusals),
    ]
    return BaseFile(settings, tuple(_notes(file, checked, left_out, identity)))


def examine(file: Path, identity: ServerIdentity, build: Build | None) -> Checked:
    """What an option file means to a server; its build is asked too, unless it is not here.

    Raises:
        StorageError: the file cannot be read.
        ServerError: the build cannot be executed.
    """
    known = read_help(verbose_help(build).text) if build is not None else None
    checked = check(content(file), identity, path=str(file), loader=loader(file), known=known)
    asked = arguments(checked)
    if build is None or not asked:
        return checked
    answer = verbose_help(build, list(asked.values()))
    found = list(adjusted(checked, read_help(answer.text), answer.complaints))
    if answer.refuses:
        complaints = refused(build, list(asked.values()))
        found += [
            refusal(checked, name, reason(complaints[argument]))
            for name, argument in asked.items()
            if argument in complaints
        ]
    return msgspec.structs.replace(checked, findings=in_reading_order((*checked.findings, *found)))


def refusals(checked: Checked, reasons: Mapping[str, str]) -> Iterator[Finding]:
    """What a server refused, as findings at the lines of the file."""
    yield from (refusal(checked, name, why) for name, why in reasons.items() if name in checked.lines)


def reason(complaints: str) -> str:
    """Why a server refused an argument, from what it wrote on standard error."""
    lines = [line for line in complaints.splitlines() if "[ERROR]" in line]
    return _PREFIX.sub("", lines[0]) if lines else "it gave no reason"


def _notes(
    file: Path, checked: Checked, left_out: Sequence[LeftOut], identity: ServerIdentity
) -> Iterator[str]:
    absent = {one.name for one in checked.findings if one.kind in _NOT_HERE and one.name not in checked.lines}
    left = [*left_out, *(LeftOut(name=name, why=f"not an option of {identity.name}") for name in absent)]
    if left:
        yield f"{file}: left out: {told(left)}"
    yield from (f"{one.place}: {one.text}" for one in checked.findings if _worth_saying(one))


def _worth_saying(finding: Finding) -> bool:
    return finding.kind == "include" or (finding.kind == "contradiction" and finding.fatal)


def _plain(text: str) -> Value:
    return int(text) if text.lstrip("-").isdecimal() else text


def content(file: Path) -> str:
    """The text of an option file; what is no UTF-8 is replaced.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StorageError(
            f"{file} cannot be read: {error.strerror}", hint="give an option file, for example /etc/my.cnf"
        ) from error


def loader(file: Path) -> Loader:
    """Reads what an option file includes, relative to it; a directory's `*.cnf` by name, as servers do."""

    def load(target: str, directory: bool) -> Iterator[tuple[str, str]]:
        path = file.parent / target
        paths = sorted(one for one in path.iterdir() if one.suffix == ".cnf") if directory else [path]
        for one in paths:
            yield str(one), one.read_text(encoding="utf-8", errors="replace")

    return load
