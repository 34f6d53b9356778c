"""Base file: a user's option file as the settings of a sandbox on this machine.

Sits in `server`, on three modules of `settings`:

- `check` reads the file as the server would;
- `admission` decides which settings of the file enter a sandbox;
- `fit` scales settings that this machine cannot hold.

The report names each setting that stays out, with the class of reason and without its value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from flushlab.build import Build
from flushlab.build.choice import Sign, of_options
from flushlab.build.inspect import refused, verbose_help
from flushlab.datadir import DataRoot
from flushlab.errors import StorageError, UsageError
from flushlab.machine import available_memory_bytes, memory_bytes
from flushlab.record import ServerIdentity, Value
from flushlab.settings.admission import LeftOut, admit, describe_left_out
from flushlab.settings.catalog import canonical, load_catalog
from flushlab.settings.check import (
    OF_A_SERVER,
    CheckedFile,
    adjusted,
    arguments,
    check,
    in_reading_order,
    refusal,
    unusable,
)
from flushlab.settings.fit import DISK_PART, MEMORY_PART, Fit, Shrunk, fit
from flushlab.settings.option_names import read_help
from flushlab.settings.optionfile import Loader, Remark, lines
from flushlab.units import format_size, parse_size

_STOPS = ("syntax", "wrong-type", "out-of-range", "refused")
"""Kinds of findings that the server does not start with; what other versions have is only left out."""
_NOT_HERE = ("not-in-version", "removed", "unknown-name", "misspelled", "wrong-group", "product")
_BOTH_READ = ("mysqld", "server")
"""Groups of MySQL and MariaDB."""
_PREFIX = re.compile(r"^.*\[ERROR\]( \[[^]]+\])* (/\S*/)?")
"""Beginning of a line of a server's error log: time, number, its own path."""

_M = 1 << 20


class BaseFile(NamedTuple):
    settings: dict[str, Value]
    notes: tuple[str, ...]


def read_base_file(file: Path, build: Build, identity: ServerIdentity) -> BaseFile:
    checked = examine(file, content(file), identity, build)
    for finding in checked.findings:
        if finding.fatal and finding.kind in _STOPS:
            hint = finding.hint or f"`flushlab settings --check {file}` explains it"
            raise UsageError(f"{finding.place}: {finding.name} {finding.text}".replace("  ", " "), hint=hint)
    others = {
        name: int(text) if text.lstrip("-").isdecimal() else text for name, text in checked.others.items()
    }
    settings, left_out = admit({**checked.settings, **others})
    return BaseFile(settings, tuple(_notes(file, checked, left_out, identity)))


def require_taken(build: Build, settings: Mapping[str, Value]) -> None:
    catalog = load_catalog()
    asked = {
        f"--{name.replace('_', '-')}={value}": name
        for name, value in settings.items()
        if name not in catalog or name == "sql_mode"
    }
    for argument, said in refused(build, list(asked)).items() if asked else ():
        name = asked[argument]
        raise UsageError(
            f"{build.name} refuses {name} = {settings[name]}: {reason(said)}",
            hint=f"correct the value of {name}",
        )


def fit_here(
    settings: Mapping[str, Value],
    identity: ServerIdentity,
    root: DataRoot,
    *,
    memory: str | None = None,
    exact: bool = False,
    connections: int = 1,
    like: Shrunk = Shrunk(),
    data_bytes: int | None = None,
) -> Fit:
    usable = parse_size(memory) if memory else memory_bytes() // MEMORY_PART
    fit_to = partial(
        fit,
        settings,
        identity,
        disk_bytes=root.free_bytes() // DISK_PART,
        connections=connections,
        like=like,
        data_bytes=data_bytes,
    )
    fitted = fit_to(memory_bytes=min(usable, available_memory_bytes()))
    if fitted.short_bytes:
        raise _too_little(fitted, fit_to)
    if exact and fitted.scaled:
        what = ", ".join(f"{one.name} = {one.yours} ({one.why})" for one in fitted.scaled)
        raise UsageError(
            f"--no-scale: this does not fit this machine: {what}",
            hint="run it on a larger machine, allow more with --memory, or remove --no-scale to scale it",
        )
    return fitted


def _too_little(fitted: Fit, fit_to: Callable[..., Fit]) -> UsageError:
    """The error that names the least memory: buffers that were scaled, too, take a part of what is added."""
    least = math.ceil(fitted.memory_bytes / _M)
    while short := fit_to(memory_bytes=least * _M).short_bytes:
        least += math.ceil(short / _M)
    available = available_memory_bytes()
    return UsageError(
        f"{format_size(fitted.memory_bytes)} of memory is too little: the server needs"
        f" {format_size(least * _M)} even with the smallest buffer pool",
        hint=f"use --memory {least}M or more"
        if least * _M <= available
        else f"only {format_size(available)} is available: run it on a larger machine",
    )


def examine(
    file: Path, text: str, identity: ServerIdentity, build: Build | None, *, suffix: str = ""
) -> CheckedFile:
    known = read_help(verbose_help(build).text) if build is not None else None
    checked = check(text, identity, path=str(file), loader=loader(file), known=known, suffix=suffix)
    asked = arguments(checked)
    if build is None or not asked:
        return checked
    answer = verbose_help(build, list(asked.values()))
    found = list(adjusted(checked, read_help(answer.text), answer.complaints))
    fatal = {one.name: one for one in checked.findings if one.fatal}
    complaints = refused(build, list(asked.values())) if answer.refuses else {}
    bare = dict[str, str]()
    for name, argument in asked.items():
        if argument not in complaints:
            continue
        if (value := _bare(build, name, argument)) is not None:
            bare[name] = value
            continue
        told = fatal.get(name)
        if told is None or told.kind == "contradiction":  # the server's own words, and the way out
            said = refusal(checked, name, reason(complaints[argument]))
            found.append(msgspec.structs.replace(said, hint=told.hint if told else None))
    again = {one.name for one in found if one.kind == "refused"}
    kept = [one for one in checked.findings if one.kind != "contradiction" or one.name not in again]
    return msgspec.structs.replace(
        checked, others={**checked.others, **bare}, findings=in_reading_order((*kept, *found))
    )


def _bare(build: Build, name: str, argument: str) -> str | None:
    """Value of an option without one, where that is not ON; None if the server refuses it so, too."""
    option, _, value = argument.partition("=")
    if value != "ON":
        return None
    answer = verbose_help(build, [option])
    return None if answer.refuses else read_help(answer.text).values.get(name, value)


def refusals(checked: CheckedFile, reasons: Mapping[str, str]) -> Iterator[Remark]:
    yield from (refusal(checked, name, why) for name, why in reasons.items() if name in checked.lines)


def reason(complaints: str) -> str:
    found = [line for line in complaints.splitlines() if "[ERROR]" in line]
    lines = [line for line in found if not line.endswith("Aborting")] or found
    return _PREFIX.sub("", lines[0]) if lines else "it gave no reason"


def _notes(
    file: Path, checked: CheckedFile, left_out: Sequence[LeftOut], identity: ServerIdentity
) -> Iterator[str]:
    absent = {one.name for one in checked.findings if one.kind in _NOT_HERE and one.name not in checked.lines}
    left = [*left_out, *(LeftOut(name=name, why=f"not an option of {identity.name}") for name in absent)]
    if left:
        yield f"{file}: left out: {describe_left_out(left)}"
    worth_saying = ("out-of-range", "wrong-type", "not-a-switch", "include")
    said = (
        one
        for one in checked.findings
        if (one.kind in worth_saying and one.severity != "note")
        or (one.kind == "contradiction" and one.fatal)
    )
    for one in (*said, *nothing_read(file, checked)):
        yield f"{one.place}: {one.name} {one.text}".replace(":  ", ": ")


def nothing_read(file: Path, checked: CheckedFile) -> Iterator[Remark]:
    if not checked.lines and checked.starts:
        says = "the file sets nothing for this server: its defaults hold"
        yield Remark("not-read", "note", "", str(file), 0, says)


def content(file: Path) -> str:
    text = text_of(file)
    require_option_file(text, file)
    return text


def whole(file: Path) -> dict[str, str]:
    found, load = {str(file): text_of(file)}, loader(file)
    unread = list(found)
    while unread:
        path = unread.pop(0)
        for line in lines(found[path], path):
            if not line.include:
                continue
            with suppress(OSError):  # a server goes on without it, or says so
                included = dict(load(line.include, line.is_directory))
                unread += included.keys() - found.keys()
                found |= included
    return found


def signs(file: Path) -> list[Sign]:
    if not file.is_file():
        return []
    read = [line for path, text in whole(file).items() for line in lines(text, path)]
    names = [canonical(line.name) for line in read if line.group in _BOTH_READ and line.name]
    headings = {line.group for line in read if line.heading and OF_A_SERVER.fullmatch(line.group)}
    mariadb = any(group.startswith(("mariadb", "client-server", "galera")) for group in headings)
    return list(of_options(file.name, names, mariadb=mariadb))


def text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StorageError(
            f"{file} cannot be read: {error.strerror}", hint="give an option file, for example /etc/my.cnf"
        ) from error


def require_option_file(text: str, file: Path) -> None:
    if found := unusable(text):
        raise UsageError(f"{file} {found[0]}", hint=found[1])


def loader(file: Path) -> Loader:
    def load(target: str, directory: bool) -> Iterator[tuple[str, str]]:
        path = file.parent / target
        own = (one for one in path.iterdir() if one.name.endswith(".cnf") and not one.is_dir())
        paths = sorted(own) if directory else [path]
        for one in paths:
            yield str(one), one.read_text(encoding="utf-8", errors="replace")

    return load
