"""What is said of the release that an incomplete name chooses, and of releases that nobody has."""

from __future__ import annotations

import pytest

from flushlab.build import find
from flushlab.record.machine import Flavor
from tests.unit.builds import build


@pytest.mark.parametrize(
    ("asked", "has", "line"),
    [
        (
            (8, 0),
            (8, 0, 15),
            "mysql@8.0 is 8.0.15; later releases changed: doublewrite in files of its own (8.0.20), redo"
            " sized by innodb_redo_log_capacity (8.0.30), new InnoDB defaults (8.4)",
        ),
        ((8, 0), (8, 0, 36), "mysql@8.0 is 8.0.36; later releases changed: new InnoDB defaults (8.4)"),
        ((8, 0, 15), (8, 0, 15), ""),
        ((9,), (9, 7, 4), ""),
    ],
)
def test_a_line_tells_the_release_and_what_changed_later(
    asked: tuple[int, ...], has: tuple[int, ...], line: str
) -> None:
    assert find.chosen(asked, build("mysql", *has)) == line


def test_the_old_release_of_5_7_is_told() -> None:
    line = find.chosen((5, 7), build("mysql", 5, 7, 22))
    assert line.startswith(
        "mysql@5.7 is 5.7.22; later releases changed: O_DIRECT_NO_FSYNC syncs file metadata"
    )


def test_mariadb_has_no_such_line() -> None:
    assert find.chosen((), build("mariadb", 10, 11, 19)) == ""


def test_every_change_has_a_source() -> None:
    assert all(one.source.startswith("https://") for one in find.CHANGES)


def test_releases_that_no_source_has_are_missing() -> None:
    known: list[tuple[Flavor, tuple[int, ...]]] = [
        ("mysql", (8, 0, 15)),
        ("mysql", (9, 7, 4)),
        ("mariadb", (11, 8)),
    ]
    assert [one.name for one in find.missing_releases(known)] == [
        "mariadb@11.4",
        "mysql@8.0.30+",
        "mysql@8.4",
    ]
    assert [
        one.name for one in find.missing_releases([*known, ("mysql", (8, 0, 36)), ("mysql", (8, 4, 6))])
    ] == ["mariadb@11.4"]
