"""Builds that exist on paper only."""

from __future__ import annotations

from flushlab.build import Build
from flushlab.record.machine import Flavor


def build(flavor: Flavor, *version: int) -> Build:
    text = ".".join(map(str, version))
    return Build(
        flavor=flavor,
        version=version,
        version_text=text,
        source="path",
        prefix="/opt/it",
        mysqld="/opt/it/bin/mysqld",
        share="/opt/it/share",
        id=f"{flavor}-{text}-0123456789ab",
    )


MARIADB = build("mariadb", 10, 11, 19)
MYSQL57 = build("mysql", 5, 7, 22)
MYSQL80 = build("mysql", 8, 0, 15)
MYSQL97 = build("mysql", 9, 7, 4)
