"""Find: from a build's name to the build, fetching it if need be; how later releases differ from it.

Build layer. Names: `mariadb`, `mariadb@10.11`, `mysql@5.7`, `mysql@8.0.15`, a build's id, or the path or URL
of a tarball. A name without a series stands for one series, whatever is installed (`STANDS_FOR`). Of a
series, the newest installed release wins; if none is installed, one is fetched. What remains ambiguous is an
error that lists what there is, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from flushlab.build import debian, maven
from flushlab.build.build import Build
from flushlab.build.prefix import BuildSource, FoundBuild, Obtainable
from flushlab.build.tarball import BASEDIR, ON_PATH, TARBALL, build_from, build_in, is_address
from flushlab.errors import BuildNotFound, UsageError
from flushlab.progress import Progress, silent
from flushlab.record.machine import Flavor, server_name

HOW = "give a tarball (path or URL), or --basedir"
GUIDE = "docs/how-to/production-version.md"


class BuildChange(msgspec.Struct, frozen=True):
    flavor: Flavor
    since: tuple[int, ...]
    what: str
    source: str


CHANGES = (
    BuildChange(
        "mysql",
        (5, 7, 25),
        "O_DIRECT_NO_FSYNC syncs file metadata",
        "https://dev.mysql.com/doc/refman/5.7/en/innodb-parameters.html#sysvar_innodb_flush_method",
    ),
    BuildChange(
        "mysql",
        (8, 0, 20),
        "doublewrite in files of its own",
        "https://dev.mysql.com/doc/refman/8.0/en/innodb-doublewrite-buffer.html",
    ),
    BuildChange(
        "mysql",
        (8, 0, 30),
        "redo sized by innodb_redo_log_capacity",
        "https://dev.mysql.com/doc/refman/8.0/en/innodb-redo-log.html",
    ),
    BuildChange(
        "mysql",
        (8, 4),
        "new InnoDB defaults",
        "https://dev.mysql.com/doc/refman/8.4/en/mysql-nutshell.html",
    ),
)
SERIES: tuple[tuple[Flavor, tuple[int, ...]], ...] = (
    ("mariadb", (11, 4)),
    ("mysql", (8, 0, 30)),
    ("mysql", (8, 4)),
)
"""Releases of production servers: a series, or the first release of a series that differs from the rest."""


class Missing(msgspec.Struct, frozen=True):
    """`mysql@8.4`, or `mysql@8.0.30+` for any release of the series from that one on."""

    name: str
    how: str


def chosen(asked: tuple[int, ...], build: Build) -> str:
    """One line about the release that an incomplete version chose; empty if later ones write alike."""
    if len(asked) >= len(build.version):
        return ""
    later = [
        f"{one.what} ({'.'.join(map(str, one.since))})"
        for one in CHANGES
        if one.flavor == build.flavor and one.since > build.version
    ]
    if not later:
        return ""
    number = ".".join(map(str, build.version))
    return f"{server_name(build.flavor, asked)} is {number}; later releases changed: {', '.join(later)}"


def missing_releases(known: Iterable[tuple[Flavor, tuple[int, ...]]]) -> Sequence[Missing]:
    there = list(known)
    found = []
    for flavor, version in SERIES:
        is_series = len(version) == 2
        if not any(
            one == flavor and has[:2] == version[:2] and (is_series or has >= version) for one, has in there
        ):
            text = ".".join(map(str, version))
            found.append(Missing(f"{flavor}@{text}{'' if is_series else '+'}", HOW))
    return found


DEFAULT = "mariadb"
SOURCES: tuple[BuildSource, ...] = (BASEDIR, ON_PATH, debian.SOURCE, maven.SOURCE, TARBALL)
"""Earlier ones win when two hold the very same binary."""

STANDS_FOR: Mapping[tuple[str, tuple[int, ...]], tuple[int, ...]] = {
    ("mariadb", ()): (10, 11),
    ("mariadb", (10,)): (10, 11),
    ("mariadb", (11,)): (11, 8),
    ("mariadb", (12,)): (12, 3),
    ("mysql", ()): (8, 0),
    ("mysql", (5,)): (5, 7),
    ("mysql", (8,)): (8, 0),
    ("mysql", (9,)): (9, 7),
}
"""The series of a name that leaves the series open."""

_NAME = re.compile(r"(?P<flavor>mariadb|mysql)(?:@(?P<version>\d+(?:\.\d+)*))?")


class WantedBuild(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    flavor: str = ""
    version: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return server_name(self.flavor, self.version)

    def matches(self, flavor: str, version: tuple[int, ...], build_id: str = "") -> bool:
        if not self.flavor:
            return build_id == self.text
        return flavor == self.flavor and version[: len(self.version)] == self.version


def parse_name(name: str) -> WantedBuild:
    match = _NAME.fullmatch(name.strip().lower())
    if match is None:
        return WantedBuild(text=name.strip())
    numbers = tuple(int(part) for part in match["version"].split(".")) if match["version"] else ()
    return WantedBuild(text=name.strip(), flavor=match["flavor"], version=numbers)


def resolved(wanted: WantedBuild) -> WantedBuild:
    version = STANDS_FOR.get((wanted.flavor, wanted.version), wanted.version)
    return msgspec.structs.replace(wanted, version=version)


def survey() -> FoundBuild:
    here = [source.installed() for source in SOURCES]
    by_id = dict[str, Build]()
    for build in (build for found in here for build in found.builds):
        by_id.setdefault(build.id, build)
    builds = sorted(by_id.values(), key=lambda build: build.version, reverse=True)
    builds.sort(key=lambda build: build.flavor)
    return FoundBuild(tuple(builds), tuple(problem for found in here for problem in found.problems))


def list_builds() -> list[Build]:
    return list(survey().builds)


def obtainable() -> list[Obtainable]:
    return [one for source in SOURCES for one in source.obtainable()]


def find_build(
    name: str = DEFAULT, *, basedir: str | Path | None = None, get: bool = True, progress: Progress = silent
) -> Build:
    """The build of `flavor`, `flavor@version`, an id, or a tarball's path or URL with `#sha256=…`."""
    if basedir is None and is_address(name):
        return build_from(name, progress, get=get)
    if name.startswith("sandbox:"):
        raise UsageError(
            f"{name} is a running server; this command starts its own",
            hint="name a build, for example mysql@8.0",
        )
    asked = parse_name(name)
    if basedir is not None:
        return _fitting(build_in(Path(basedir)), asked)
    wanted = resolved(asked)
    here = survey()
    matching = [one for one in here.builds if wanted.matches(one.flavor, one.version, one.id)]
    if matching:
        return _told(_newest(matching, wanted), asked, progress)
    fetchable = obtainable()
    # While package lists are not fetched yet, a version may be unknown or known in part only.
    choice = [
        one
        for one in fetchable
        if wanted.matches(one.flavor, one.version)
        or (
            one.flavor == wanted.flavor
            and len(one.version) < 3
            and wanted.version[: len(one.version)] == one.version
        )
    ]
    if get and len(choice) == 1:
        source = next(source for source in SOURCES if source.name == choice[0].source)
        return _told(_fitting(source.get(choice[0], progress), wanted), asked, progress)
    if not choice and here.problems and not here.builds:
        raise here.problems[0]
    stands = "" if wanted == asked else f", which stands for {wanted.name},"
    absence = "is not available"
    hint = "use one of these, a tarball by its path or URL, or an unpacked server with --basedir"
    if len(choice) > 1:
        absence, hint = "could mean several builds", f"give the version, for example {choice[0].name}"
    elif choice:
        absence, hint = "is not installed yet", f"run: flushlab server get {choice[0].name}"
    message = f"the build {name!r}{stands} {absence}; {describe(here.builds, fetchable)}"
    raise BuildNotFound(message, hint=hint)


def _told(build: Build, asked: WantedBuild, progress: Progress) -> Build:
    if asked.flavor and (line := chosen(asked.version, build)):
        progress(line)
    return build


def describe(builds: Sequence[Build], fetchable: Iterable[Obtainable]) -> str:
    here = ", ".join(f"{one.name} ({one.source})" for one in builds) or "none"
    absent = [
        one
        for one in fetchable
        if not any(parse_name(one.name).matches(here.flavor, here.version) for here in builds)
    ]
    more = ", ".join(f"{one.name} ({one.source})" for one in absent) or "nothing more"
    return f"installed: {here}; can be fetched: {more}"


def _fitting(build: Build, wanted: WantedBuild) -> Build:
    if wanted.text == DEFAULT or wanted.matches(build.flavor, build.version, build.id):
        return build
    raise BuildNotFound(
        f"{build.prefix} contains {build.name}, not {wanted.text}",
        hint=f"use {build.name}, or another build",
    )


def _newest(matching: list[Build], wanted: WantedBuild) -> Build:
    newest = [one for one in matching if one.version == matching[0].version]
    if len(newest) > 1:
        ids = ", ".join(f"{one.id} ({one.mysqld})" for one in newest)
        raise BuildNotFound(
            f"the name {wanted.text!r} matches {len(newest)} different binaries of the same version: {ids}",
            hint=f"use an id, for example --server {newest[0].id}",
        )
    return newest[0]
