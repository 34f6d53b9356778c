"""The user's own data as the start of every trial: dumps and data directories of stopped servers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.datadir import DataRoot, Snapshots
from flushlab.errors import HarnessError, MeasurementError, StorageError
from flushlab.server import Sandbox
from flushlab.settings.catalog import load_catalog
from flushlab.trial import Dataset, Preparation
from flushlab.workload import CommandWorkload
from tests.conftest import StartSandbox

DUMP = """
CREATE DATABASE shop;
USE shop;
CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40)) ENGINE=InnoDB;
INSERT INTO item VALUES (1, 'one'), (2, 'two; with a semicolon'), (3, 'drei – ü');
"""
WORKLOAD = CommandWorkload(command="true")

pytestmark = pytest.mark.usefixtures("private_home_with_builds")


def preparation(build: Build, dataset: Dataset) -> Preparation:
    return Preparation(
        build=build,
        catalog=load_catalog(),
        data_root=DataRoot.open(),
        dataset=dataset,
        snapshots=Snapshots(),
        progress=lambda text: None,
    )


def rows_of(build: Build, dataset: Dataset) -> list[tuple[object, ...]]:
    snapshot = preparation(build, dataset).snapshot(WORKLOAD, {})
    with Sandbox.start(build, snapshot=snapshot) as server:
        return server.query("SELECT id, name FROM shop.item ORDER BY id")


@pytest.mark.parametrize("name", ["mariadb@10.11", "mysql@5.7"])
def test_a_dump_is_in_every_snapshot(name: str, build: Callable[[str], Build], tmp_path: Path) -> None:
    found = build(name)
    build("mariadb@10.11")  # brings the client
    dump = tmp_path / "shop.sql"
    dump.write_text(DUMP)
    try:
        dataset = Dataset.open(dump, found)
    except HarnessError:
        client = build("mariadb@10.11").client
        dataset = Dataset(path=str(dump), is_directory=False, client=client)
    rows = rows_of(found, dataset)
    assert rows == [(1, "one"), (2, "two; with a semicolon"), (3, "drei – ü")]


def test_a_broken_dump_tells_the_servers_words(build: Callable[[str], Build], tmp_path: Path) -> None:
    found = build("mariadb@10.11")
    dump = tmp_path / "broken.sql"
    dump.write_text("CREATE DATABASE shop; USE shop; INSERT INTO nowhere VALUES (1);")
    with pytest.raises(MeasurementError, match=r"(?s)broken\.sql did not load.*nowhere"):
        rows_of(found, Dataset.open(dump, found))


def test_a_changed_dump_makes_a_new_snapshot(build: Callable[[str], Build], tmp_path: Path) -> None:
    found = build("mariadb@10.11")
    dump = tmp_path / "shop.sql"
    dump.write_text(DUMP)
    assert len(rows_of(found, Dataset.open(dump, found))) == 3
    dump.write_text(DUMP + "INSERT INTO item VALUES (4, 'four');\n")
    assert len(rows_of(found, Dataset.open(dump, found))) == 4


def test_a_stopped_servers_data_directory_is_copied_and_only_read(
    build: Callable[[str], Build], sandbox: StartSandbox, tmp_path: Path
) -> None:
    found = build("mariadb@10.11")
    server = sandbox("mariadb@10.11")
    for statement in DUMP.strip().split(";\n"):
        server.query(statement)
    with pytest.raises(StorageError, match="is in use by process"):
        Dataset.open(server.datadir, found)
    server.stop()
    datadir = tmp_path / "their-data"
    shutil.copytree(server.datadir, datadir)
    before = {file: file.stat().st_mtime_ns for file in datadir.rglob("*")}
    rows = rows_of(found, Dataset.open(datadir, found))
    assert [name for _, name in rows] == ["one", "two; with a semicolon", "drei – ü"]
    assert {file: file.stat().st_mtime_ns for file in datadir.rglob("*")} == before


def test_what_is_no_data_set_is_refused_with_a_hint(build: Callable[[str], Build], tmp_path: Path) -> None:
    found = build("mariadb@10.11")
    with pytest.raises(StorageError, match="ibdata1"):
        Dataset.open(tmp_path, found)
    with pytest.raises(StorageError, match="there is no"):
        Dataset.open(tmp_path / "nothing.sql", found)
