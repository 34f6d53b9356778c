"""Option files of distributions, images and people, against four servers; each finding was reviewed.

The settings stand in `tests/data/option_files/*.cnf` (facts, with their source on the first line), what is
said of them in the `.txt` beside each. After a change that is meant, set FLUSHLAB_WRITE_GOLDEN=1 and read the
diff.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from flushlab.record import ServerIdentity, Storage
from flushlab.settings.check import at_risk, check, in_reading_order, too_large
from flushlab.settings.durability import level
from tests.unit.settings.servers import MARIADB1011, server

FILES = sorted((Path(__file__).parents[1] / "data" / "option_files").glob("*.cnf"))
SERVERS = (server("mysql", 5, 7, 44), server("mysql", 8, 0, 46), server("mysql", 8, 4, 9), MARIADB1011)
MEMORY_BYTES = 16 << 30
WRITE = "FLUSHLAB_WRITE_GOLDEN"
"""Set it to write what is said now."""


def nothing(target: str, directory: bool) -> Iterable[tuple[str, str]]:
    """Files that are included are not here."""
    return []


def said(file: Path, identity: ServerIdentity) -> list[str]:
    checked = check(file.read_text(), identity, path="", loader=nothing)
    disk = Storage()
    findings = in_reading_order(
        [
            *checked.findings,
            *at_risk(checked, "", identity, disk),
            *too_large(checked, "", identity, MEMORY_BYTES),
        ]
    )
    starts = "starts" if checked.starts else "does not start"
    told = [f"{one.line} {one.severity} {one.name}: {one.text} [{one.kind}]" for one in findings]
    return [f"== {identity.name} {starts}, {level(checked.guarantees(identity, disk))}", *told]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_said_of_real_option_files(file: Path) -> None:
    text = "\n".join(line for identity in SERVERS for line in said(file, identity)) + "\n"
    golden = file.with_suffix(".txt")
    if os.environ.get(WRITE):
        golden.write_text(text)
    assert text == golden.read_text()


def test_there_are_those_of_distributions_and_thirty_of_people() -> None:
    names = {file.stem for file in FILES}
    assert {"deb-mysql-8.0", "ubuntu-mysql-8.0", "docker-mysql-8.0", "xampp", "percona-8.0"} <= names
    assert len(names) >= 40
