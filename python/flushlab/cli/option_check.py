"""The body of `flushlab settings --check`: reads the file, asks the build if it is here, prints findings."""

from __future__ import annotations

import stat
import textwrap
from pathlib import Path

import msgspec

from flushlab.build import find_build, list_builds
from flushlab.build.build import Build
from flushlab.build.find import Wanted, parse_name
from flushlab.campaign.base_file import examine
from flushlab.cli.output import stdout
from flushlab.datadir import storage_of
from flushlab.errors import UsageError
from flushlab.record import ServerIdentity, Storage
from flushlab.record.server import Flavor
from flushlab.settings.check import Checked, Finding, below, in_reading_order
from flushlab.settings.durability import describe, level, meets
from flushlab.settings.durability.rules.locations import LOCATIONS
from flushlab.settings.floor import Floor

SCHEMA = "flushlab.settings-check/1"
WIDTH = 80

_NEWEST: dict[tuple[str, tuple[int, ...]], int] = {
    ("mysql", (5, 7)): 44,
    ("mysql", (8, 0)): 46,
    ("mysql", (8, 4)): 9,
    ("mysql", (9, 7)): 4,
    ("mariadb", (10, 6)): 26,
    ("mariadb", (10, 11)): 19,
    ("mariadb", (11, 4)): 11,
    ("mariadb", (11, 8)): 9,
    ("mariadb", (12, 3)): 2,
}
"""A release to stand for a series of which no build is here: a late one, as servers that are kept are."""

_FAILURES = {
    "process_crash": "mysqld is killed",
    "os_crash": "the OS crashes",
    "power_loss": "the power fails",
    "torn_page": "a page is torn",
    "binlog": "binary log",
    "replication": "replicas",
}


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A check's answer."""

    server: ServerIdentity
    asked: bool
    checked: Checked
    findings: tuple[Finding, ...]
    floor: Floor
    wanted: Floor | None
    meets: bool | None
    guarantees: dict[str, str]

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)


def judge(
    file: Path, server: str, *, basedir: Path | None, floor: Floor | None, static: bool = False
) -> Judged:
    """What the file means to the server.

    Args:
        file: the option file.
        server: a build's name, or `flavor@version` of a server that is not here.
        basedir: where the build is, if it is none of the known ones.
        floor: also say what keeps the file below it.
        static: judge by the packaged lists alone, even where the build is here.

    Raises:
        StorageError: the file cannot be read.
        BuildNotFound: the name says neither a build that is here nor a version.
    """
    identity, build = _server(server, basedir)
    asked = None if static else build
    checked = examine(file, identity, asked)
    found = [*_ignored(file), *checked.findings]
    disk = Storage(in_memory_files=_in_memory(checked))
    kept = checked.guarantees(identity, disk)
    if floor is not None:
        found += below(checked, identity, disk, floor)
    return Judged(
        server=identity,
        asked=asked is not None,
        checked=checked,
        findings=in_reading_order(found),
        floor=level(kept),
        wanted=floor,
        meets=None if floor is None else meets(kept, floor),
        guarantees=describe(kept),
    )


def document(judged: Judged, file: Path) -> dict[str, object]:
    """The answer as JSON."""
    return {
        "schema": SCHEMA,
        "file": str(file),
        "server": {"flavor": judged.server.flavor, "version": judged.server.version_text},
        "build_asked": judged.asked,
        "starts": judged.checked.starts,
        "floor": judged.floor,
        "wanted_floor": judged.wanted,
        "meets": judged.meets,
        "guarantees": judged.guarantees,
        "settings": dict(judged.checked.settings),
        "findings": judged.findings,
    }


def show(judged: Judged, file: Path) -> None:
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
    starts = "" if judged.checked.starts else "; the server does not start with it"
    _print(f"{file} on {judged.server.name}: {', '.join(counted) or 'nothing found'}{starts}.")
    it = "It meets" if judged.checked.starts else "Apart from what cannot be read, it meets"
    _print(f"{it} the floor {judged.floor} if the disk is honest:")
    for key, label in _FAILURES.items():
        _print(f"  {label:<17} {judged.guarantees[key]}", indent=" " * 20)
    if not judged.asked:
        _print("Checked against the catalog only; the build's binary was not asked.")


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
    stdout.print("\n".join(wrapped), markup=False, soft_wrap=True)


def _server(name: str, basedir: Path | None) -> tuple[ServerIdentity, Build | None]:
    """The server that a name means: a build that is here, or the version that the name says."""
    wanted = parse_name(name)
    here = basedir is not None or any(
        wanted.matches(build.flavor, build.version, build.id) for build in list_builds()
    )
    if not here and wanted.flavor and (version := _release(wanted)):
        flavor: Flavor = "mariadb" if wanted.flavor == "mariadb" else "mysql"
        text = ".".join(map(str, version))
        return ServerIdentity(flavor=flavor, version=version, version_text=text), None
    build = find_build(name, basedir=basedir, get=False)
    identity = ServerIdentity(
        flavor=build.flavor, version=build.version, version_text=build.version_text, build_id=build.id
    )
    return identity, build


def _release(wanted: Wanted) -> tuple[int, ...]:
    """The release that a name says, or the one that stands for its series; empty if it says too little."""
    if len(wanted.version) >= 3:
        return wanted.version
    newest = _NEWEST.get((wanted.flavor, wanted.version))
    return () if newest is None else (*wanted.version, newest)


def _in_memory(checked: Checked) -> tuple[str, ...]:
    """What the file puts into memory, as far as its folders are on this machine."""
    places = {name: Path(str(place)) for name in LOCATIONS if (place := checked.given.get(name))}
    seen = {name: place if place.is_dir() else place.parent for name, place in places.items()}
    return tuple(
        name
        for name, place in seen.items()
        if place.is_absolute() and place.is_dir() and storage_of(place).in_memory
    )


def _ignored(file: Path) -> list[Finding]:
    """A file that anybody may write to is not read by the servers."""
    if not stat.S_IMODE(file.stat().st_mode) & stat.S_IWOTH:
        return []
    says = "is world-writable: the server does not read it"
    hint = f"chmod o-w {file}"
    return [
        Finding(kind="ignored-file", severity="error", name="", path=str(file), line=0, text=says, hint=hint)
    ]


def require_server(server: str) -> None:
    """Refuses names that a file cannot be checked against.

    Raises:
        UsageError: a sandbox; its build's name is what is needed.
    """
    if server.startswith("sandbox:"):
        raise UsageError(
            f"--check takes a build or flavor@version, not {server}", hint="for example --server mysql@8.0"
        )
