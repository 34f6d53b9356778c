"""Versions: how later releases differ from the chosen one, and the releases that no source has.

Build layer; pure. `CHANGES` has the changes of the write path that flushlab measures, with sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from flushlab.build.build import Build
from flushlab.record.machine import Flavor, server_name

HOW = "give a tarball (path or URL), or --basedir"
GUIDE = "docs/how-to/production-version.md"


class Change(msgspec.Struct, frozen=True):
    flavor: Flavor
    since: tuple[int, ...]
    what: str
    source: str


CHANGES = (
    Change(
        "mysql",
        (5, 7, 25),
        "O_DIRECT_NO_FSYNC syncs file metadata",
        "https://dev.mysql.com/doc/refman/5.7/en/innodb-parameters.html#sysvar_innodb_flush_method",
    ),
    Change(
        "mysql",
        (8, 0, 20),
        "doublewrite in files of its own",
        "https://dev.mysql.com/doc/refman/8.0/en/innodb-doublewrite-buffer.html",
    ),
    Change(
        "mysql",
        (8, 0, 30),
        "redo sized by innodb_redo_log_capacity",
        "https://dev.mysql.com/doc/refman/8.0/en/innodb-redo-log.html",
    ),
    Change(
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
    """A release that no source of builds has.

    Attributes:
        name: `mysql@8.4`, or `mysql@8.0.30+` for any release of the series from that one on.
    """

    name: str
    how: str


def chosen(asked: tuple[int, ...], build: Build) -> str:
    """One line about the release that an incomplete version chose, and what later releases changed.

    Returns:
        The line; empty if the user named the release in full, or no later release changed the write path.
    """
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


def missing(known: Iterable[tuple[Flavor, tuple[int, ...]]]) -> Sequence[Missing]:
    """The releases of `SERIES` that none of these flavors and versions is of."""
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
