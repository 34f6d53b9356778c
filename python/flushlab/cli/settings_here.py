"""The body of `flushlab settings --server`: what one server has, and what may be tried on it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import msgspec

from flushlab.campaign.pool.target import open_servers
from flushlab.cli.output import say, stdout
from flushlab.machine import available_memory_bytes
from flushlab.record import ServerIdentity, Value
from flushlab.server import DataDirectory, Sandbox, Server
from flushlab.settings.candidates import Candidate, propose
from flushlab.settings.catalog import Catalog, SettingHere, load_catalog
from flushlab.settings.durability import FLOOR, described, guarantees, level
from flushlab.settings.floor import Floor
from flushlab.spec.parts import ServerSpec

SCHEMA = "flushlab.settings-here/1"
WIDTH = 80
_NAME, _VALUE = 39, 15
"""Columns; with the marks and the values to try a line has at most 80."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one server has."""

    server: ServerIdentity
    floor: Floor
    values: Mapping[str, Value]
    candidates: tuple[Candidate, ...]
    guarantees: Mapping[str, str]


def survey(name: str, *, basedir: str | None, floor: Floor | None, only: str | None = None) -> ServerSettings:
    """Reads the settings of a kept sandbox, or of a sandbox that is started for it.

    Args:
        name: a build or `sandbox:NAME`.
        basedir: where the build is, if it is none of the known ones.
        floor: of the values to try; None: the floor that the server meets.
        only: one setting in place of all.

    Raises:
        BelowFloor: the server itself is below the floor.
        UnknownSetting: `only` is not a setting of that server.
        BuildNotFound, ServerError: as their makers say.
    """
    if name.startswith("sandbox:"):
        return _read(Sandbox.attach(name.removeprefix("sandbox:")), floor, only)
    if only is not None:
        load_catalog().setting(only)  # an unknown name shall not cost the start of a server
    with open_servers(ServerSpec(server=name, basedir=basedir), progress=say) as target:
        say(f"reading {target.build.name}'s settings")
        with Sandbox.start(target.build, data=DataDirectory(target.volume.data_root), progress=say) as server:
            return _read(server, floor, only)


def document(here: ServerSettings) -> dict[str, object]:
    """The list as JSON."""
    catalog = load_catalog()
    return {
        "schema": SCHEMA,
        "server": {"flavor": here.server.flavor, "version": here.server.version_text},
        "floor": here.floor,
        "guarantees": here.guarantees,
        "settings": [_one(name, value, here, catalog) for name, value in here.values.items()],
    }


def show(here: ServerSettings) -> None:
    """The list for people, 80 columns wide."""
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


def _line(name: str, here: ServerSettings, catalog: Catalog) -> str:
    setting = catalog.require(name, here.server.flavor, here.server.version)
    value = here.values[name]
    mark = "*" if _differs(setting, value) else " "
    tries = ", ".join(_try(one, name, catalog, here) for one in _of(name, here))
    tries = tries or ("contract" if setting.entry.contract else "")
    text = setting.render(value) or "(empty)"
    text = text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"
    first = f"  {name:<{_NAME}}{mark} {text:<{_VALUE}}  "
    return textwrap.fill(
        first + tries, WIDTH, subsequent_indent=" " * len(first), drop_whitespace=True
    ).rstrip()


def _differs(setting: SettingHere, value: Value) -> bool:
    return not setting.computed and not setting.same(value, setting.default)


def _read(server: Server, floor: Floor | None, only: str | None) -> ServerSettings:
    catalog = load_catalog()
    identity = server.identity
    shown = catalog.require(only, identity.flavor, identity.version).name if only else None
    values = server.read_back(catalog.names(identity.flavor, identity.version))
    kept = guarantees(values, identity, server.storage, server.launch)
    wanted = floor or level(kept)
    return ServerSettings(
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


def _of(name: str, here: ServerSettings) -> list[Candidate]:
    """The candidates whose own setting this is; it stands last among what changes together."""
    return [one for one in here.candidates if list(one.settings)[-1] == name]


def _try(one: Candidate, name: str, catalog: Catalog, here: ServerSettings) -> str:
    setting = catalog.require(name, here.server.flavor, here.server.version)
    marks = ("+" if one.needs_steady_state else "") + ("&" if len(one.settings) > 1 else "")
    return f"{setting.render(one.settings[name])}{marks}"


def _one(name: str, value: Value, here: ServerSettings, catalog: Catalog) -> dict[str, object]:
    setting = catalog.require(name, here.server.flavor, here.server.version)
    return {
        "name": name,
        "group": setting.entry.group,
        "value": value,
        "default": setting.default,
        "differs": _differs(setting, value),
        "dynamic": setting.dynamic,
        "contract": setting.entry.contract,
        "deprecated": setting.deprecated,
        "candidates": [
            {"settings": dict(one.settings), "why": one.why, "needs_steady_state": one.needs_steady_state}
            for one in _of(name, here)
        ],
    }
