"""The body of `flushlab settings` with a server or an option file: values, candidates, findings."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import msgspec

from flushlab.campaign.target import open_servers
from flushlab.cli.consoles import stdout
from flushlab.cli.output import say
from flushlab.machine import available_memory_bytes
from flushlab.record import ServerIdentity, Value
from flushlab.report.words import FAILURES
from flushlab.server import Sandbox, SandboxSpec, Server
from flushlab.server.settings_check import Judged, Started
from flushlab.settings.admission import describe_left_out
from flushlab.settings.candidates import Candidate, propose
from flushlab.settings.catalog import Catalog, SettingHere, load_catalog
from flushlab.settings.durability import FLOOR, described, guarantees, level
from flushlab.settings.fit import lines
from flushlab.settings.floor import Floor
from flushlab.settings.option_names import load_option_names
from flushlab.spec.parts import ServerSpec

WIDTH = 80
_NAME, _VALUE = 39, 15
"""Columns; with the marks and the values to try a line has at most 80."""

_LABELS = {key: words for key, words in FAILURES.items() if key != FLOOR} | {"binlog": "binary log"}


def document(judged: Judged, subject: str) -> dict[str, object]:
    return {
        "schema": "flushlab.settings-check/1",
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
    wide = max(map(len, _LABELS.values()))
    for key, label in _LABELS.items():
        _print(f"  {label:<{wide}}  {judged.guarantees[key]}", indent=" " * (wide + 4))
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
    if started.refusal:
        _print(f"{started.server} refused it: {started.refusal}")
        if started.ran and not started.without:
            _print("It started with the values that flushlab reads in those lines.")
        elif started.ran:
            _print(f"Without {', '.join(started.without)} it started.")
        else:
            _print("It does not start without those settings either.")
    else:
        how = "with it" if whole else "without the lines that stop it"
        _print(f"{started.server} started {how}, on an empty data directory.")
    if started.left_out:
        _print(f"Left out for this start: {describe_left_out(started.left_out)}.", indent="  ")
    if started.moved:
        _print(f"Tried with a path in the sandbox: {', '.join(started.moved)}.", indent="  ")
    if not started.confined:
        _print(
            "This kernel has no Landlock (Linux 5.19 or newer): only flushlab's list of options kept the"
            " server inside the sandbox.",
            indent="  ",
        )
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


class AskedServer(msgspec.Struct, frozen=True, kw_only=True):
    server: ServerIdentity
    floor: Floor
    values: Mapping[str, Value]
    candidates: tuple[Candidate, ...]
    guarantees: Mapping[str, str]


def survey(name: str, *, basedir: str | None, floor: Floor | None, only: str | None = None) -> AskedServer:
    if name.startswith("sandbox:"):
        return _read(Sandbox.attach(name.removeprefix("sandbox:")), floor, only)
    if only is not None:
        load_catalog().setting(only)  # an unknown name shall not cost the start of a server
    with open_servers(ServerSpec(server=name, basedir=basedir), progress=say) as target:
        say(f"reading {target.build.name}'s settings")
        with Sandbox.start(SandboxSpec(target.build, data_root=target.volume.data_root), say) as server:
            return _read(server, floor, only)


def document_here(here: AskedServer) -> dict[str, object]:
    catalog = load_catalog()
    return {
        "schema": "flushlab.settings-here/1",
        "server": {"flavor": here.server.flavor, "version": here.server.version_text},
        "floor": here.floor,
        "guarantees": here.guarantees,
        "settings": [_one(name, value, here, catalog) for name, value in here.values.items()],
    }


def show_here(here: AskedServer) -> None:
    catalog = load_catalog()
    stdout.print(f"{here.server.name}: settings, their values, and what may be tried at floor {here.floor}")
    if FLOOR in here.guarantees:
        stdout.print(f"The settings meet {here.guarantees[FLOOR]}.", soft_wrap=True)
    stdout.print("(* not the default, + only in long windows, & together with another setting)")
    groups: dict[str, list[str]] = {}
    for name in here.values:
        groups.setdefault(catalog.setting(name).group, []).append(name)
    for group, names in groups.items():
        stdout.print(f"\n{group}")
        for name in names:
            stdout.print(_line(name, here, catalog), soft_wrap=True)


def _line(name: str, here: AskedServer, catalog: Catalog) -> str:
    setting = catalog.require(name, here.server.flavor, here.server.version)
    value = here.values[name]
    mark = "*" if _differs(setting, value) else " "
    tries = ", ".join(_try(one, name, catalog, here) for one in _of(name, here))
    tries = tries or ("fixed" if setting.entry.fixed else "")
    text = setting.render(value) or "(empty)"
    text = text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"
    first = f"  {name:<{_NAME}}{mark} {text:<{_VALUE}}  "
    return textwrap.fill(
        first + tries, WIDTH, subsequent_indent=" " * len(first), drop_whitespace=True
    ).rstrip()


def _differs(setting: SettingHere, value: Value) -> bool:
    return not setting.computed and not setting.same(value, setting.default)


def _read(server: Server, floor: Floor | None, only: str | None) -> AskedServer:
    catalog = load_catalog()
    identity = server.identity
    shown = catalog.require(only, identity.flavor, identity.version).name if only else None
    values = server.read_back(catalog.names(identity.flavor, identity.version))
    kept = guarantees(values, identity, server.storage, server.launch)
    wanted = floor or level(kept)
    return AskedServer(
        server=identity,
        floor=wanted,
        values=values if shown is None else {shown: values[shown]},
        candidates=propose(
            identity,
            base=values,
            floor=wanted,
            storage=server.storage,
            launch=server.launch,
            memory_bytes=available_memory_bytes(),
        ),
        guarantees=described(values, identity, server.storage, server.launch),
    )


def _of(name: str, here: AskedServer) -> list[Candidate]:
    return [one for one in here.candidates if list(one.settings)[-1] == name]


def _try(one: Candidate, name: str, catalog: Catalog, here: AskedServer) -> str:
    setting = catalog.require(name, here.server.flavor, here.server.version)
    marks = ("+" if one.needs_steady_state else "") + ("&" if len(one.settings) > 1 else "")
    return f"{setting.render(one.settings[name])}{marks}"


def _one(name: str, value: Value, here: AskedServer, catalog: Catalog) -> dict[str, object]:
    flavor, version = here.server.flavor, here.server.version
    setting = catalog.require(name, flavor, version)
    deprecation = load_option_names().deprecation(name, flavor, version)
    return {
        "name": name,
        "group": setting.entry.group,
        "value": value,
        "default": setting.default,
        "differs": _differs(setting, value),
        "dynamic": setting.dynamic,
        "fixed": setting.entry.fixed,
        "deprecated": deprecation.removeprefix("deprecated "),
        "candidates": [
            {"settings": dict(one.settings), "why": one.why, "needs_steady_state": one.needs_steady_state}
            for one in _of(name, here)
        ],
    }
