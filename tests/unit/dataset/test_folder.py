"""Folders of SQL files as graphical clients export them: databases, and the order of loading."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from flushlab.dataset import choose_database, open_dataset
from flushlab.dataset.dump import SqlFolder
from flushlab.errors import DumpRefused, StorageError, UsageError

pytestmark = pytest.mark.usefixtures("private_home")

MYSQLDUMP = """-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
--
-- Host: localhost    Database: shop
-- ------------------------------------------------------
-- Server version\t8.0.36
"""
DONE = "-- Dump completed on 2024-01-01 10:00:00\n"
PHPMYADMIN = """-- phpMyAdmin SQL Dump
-- version 5.2.1
-- Host: 127.0.0.1
-- Server version: 10.4.32-MariaDB
SET SQL_MODE = "NO_AUTO_VALUE_ON_ZERO";
--
-- Database: `shop`
--
"""
SEQUEL_ACE = """# ************************************************************
# Sequel Ace SQL dump
# Version 20062
#
# {host}: 127.0.0.1 (MySQL 8.0.32)
# {database}: shop
# ************************************************************
"""
TABLE = "CREATE TABLE `item` (`id` int NOT NULL);\n"
ROWS = "INSERT INTO `item` VALUES (1);\n"


class Recording:
    """A filling that writes down what it would load."""

    database = "asked"

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.left_out: dict[str, int] = {}
        self.refuse: list[str] = []
        """Files that the server refuses once each, because they need one that is not there."""

    def be_lenient(self, *more: str) -> None:
        self.loaded.append("lenient")

    def read(self, piece: bytes) -> None: ...

    def create(self, database: str) -> None:
        self.loaded.append(f"create {database}")

    def run(
        self,
        sql: object,
        name: str,
        *,
        database: str | None,
        alone: bool,
        script: Path,
        followed: Collection[Path],
    ) -> None:
        if name in self.refuse:
            self.refuse.remove(name)
            absent = RuntimeError()
            absent.errno = 1146  # type: ignore[attr-defined]
            raise DumpRefused(f"{name}: no such table") from absent
        self.loaded.append(f"{database}: {name}")


def folder(path: Path, **files: str) -> SqlFolder:
    for name, text in files.items():
        (path / f"{name}.sql").write_text(text)
    found = open_dataset(path)
    assert isinstance(found, SqlFolder)
    return found


def loaded(data: SqlFolder, recording: Recording | None = None) -> list[str]:
    recording = recording or Recording()
    load: object = data.load
    assert callable(load)
    load(recording)
    return recording.loaded


def test_workbenchs_project_folder_is_loaded_tables_first_and_views_after_routines(tmp_path: Path) -> None:
    view = f"{MYSQLDUMP}/*!50001 CREATE VIEW `a_view` AS SELECT 1 AS `id`*/;\n{DONE}"
    data = folder(
        tmp_path,
        shop_a_view=view,
        shop_item=MYSQLDUMP + TABLE + ROWS + DONE,
        shop_line=MYSQLDUMP + TABLE.replace("item", "line") + DONE,
        shop_routines=f"{MYSQLDUMP}DELIMITER ;;\nCREATE PROCEDURE p() SELECT 1;;\nDELIMITER ;\n{DONE}",
    )
    assert (data.databases, choose_database(data, None)) == (("shop",), "shop")
    assert data.survey().origin == "MySQL 8.0.36"
    assert loaded(data) == [
        "lenient",
        *(
            "asked: shop_item.sql",
            "asked: shop_line.sql",
            "asked: shop_routines.sql",
            "asked: shop_a_view.sql",
        ),
    ]


def test_views_wait_for_the_views_that_they_are_of(tmp_path: Path) -> None:
    views = {name: f"CREATE VIEW `{name}` AS SELECT 1;\n" for name in ("a", "b", "c")}
    recording = Recording()
    recording.refuse = ["a.sql", "b.sql", "a.sql"]
    due = ["lenient", "asked: c.sql", "asked: b.sql", "asked: a.sql"]
    assert loaded(folder(tmp_path, **views), recording) == due
    recording.refuse = ["a.sql", "b.sql", "c.sql"] * 2
    with pytest.raises(DumpRefused, match=r"a\.sql: no such table"):
        loaded(folder(tmp_path, **views), recording)


def test_schemas_come_first_and_rows_before_triggers(tmp_path: Path) -> None:
    data = folder(
        tmp_path,
        a_triggers="USE shop;\nCREATE TRIGGER t BEFORE INSERT ON item FOR EACH ROW SET @a = 1;\n",
        b_rows=f"USE shop;\n{ROWS}",
        c_table=f"USE shop;\n{TABLE}",
        d_schema="CREATE DATABASE shop CHARACTER SET latin1;\n",
    )
    names = ["d_schema", "c_table", "b_rows", "a_triggers"]
    assert loaded(data) == ["lenient", *(f"None: {name}.sql" for name in names)]


def test_numbered_files_are_loaded_by_their_numbers(tmp_path: Path) -> None:
    data = folder(tmp_path, V1__rows=TABLE, V10__b="CREATE TABLE c (x int);\n", V2__a=ROWS)
    assert loaded(data) == ["lenient", "asked: V1__rows.sql", "asked: V2__a.sql", "asked: V10__b.sql"]


def test_several_databases_each_go_into_their_own(tmp_path: Path) -> None:
    stock = PHPMYADMIN.replace("shop", "stock")
    data = folder(tmp_path, shop=PHPMYADMIN + TABLE, stock=f"{stock}{TABLE}")
    with pytest.raises(UsageError, match="has 2 databases: shop, stock"):
        choose_database(data, None)
    assert loaded(data) == ["lenient", "shop: shop.sql", "stock: stock.sql"]
    (tmp_path / "heidi" / "crm").mkdir(parents=True)
    (tmp_path / "heidi" / "crm" / "item.sql").write_text(TABLE)
    heidi = open_dataset(tmp_path / "heidi")
    assert heidi.databases == ("crm",)


def test_files_of_the_servers_own_databases_are_left_out(tmp_path: Path) -> None:
    recording = Recording()
    data = folder(
        tmp_path, item=MYSQLDUMP + TABLE + DONE, user=MYSQLDUMP.replace("shop", "mysql") + TABLE + DONE
    )
    assert data.databases == ("shop",)
    assert loaded(data, recording) == ["lenient", "asked: item.sql"]
    assert recording.left_out == {"database mysql": 1}
    (tmp_path / "x.sql").write_text(f"{PHPMYADMIN.replace('shop', 'mysql')}{TABLE}USE `stock`;\n{TABLE}")
    assert open_dataset(tmp_path / "x.sql").databases == ("stock",)


def test_phpmyadmin_file_that_uses_only_its_second_database_has_two(tmp_path: Path) -> None:
    (tmp_path / "both.sql").write_text(
        f"{PHPMYADMIN}{TABLE}{ROWS}--\n-- Database: `stock`\n--\nUSE `stock`;\n{TABLE}"
    )
    data = open_dataset(tmp_path / "both.sql")
    assert data.databases == ("shop", "stock")
    recording = Recording()
    load: object = getattr(data, "load")  # noqa: B009
    assert callable(load)
    load(recording)
    assert recording.loaded == ["create stock", "shop: both.sql"]


@pytest.mark.parametrize(
    ("host", "database"), [("Host", "Database"), ("Hôte", "Base de données"), ("主机", "数据库")]
)
def test_sequel_aces_header_names_the_database_in_any_language(
    tmp_path: Path, host: str, database: str
) -> None:
    (tmp_path / "x.sql").write_text(SEQUEL_ACE.format(host=host, database=database) + TABLE)
    data = open_dataset(tmp_path / "x.sql")
    assert data.databases == ("shop",)
    survey: object = getattr(data, "survey")  # noqa: B009
    assert callable(survey)
    assert survey().origin == "MySQL 8.0.32"


def test_a_folder_of_scripts_that_read_others_is_its_first_script_or_asks_for_it(tmp_path: Path) -> None:
    data = folder(tmp_path, main="USE shop;\nsource item.sql\n", item=TABLE)
    assert loaded(data) == ["lenient", "create shop", "None: main.sql"]
    with pytest.raises(
        StorageError, match=r"holds 2 scripts, of which main\.sql reads other files"
    ) as refused:
        _ = folder(tmp_path, another=TABLE).key
    assert refused.value.hint == f"give the one to load: --dataset {tmp_path / 'main.sql'}"


def test_rows_beside_the_files_in_another_form_are_not_left_out_in_silence(tmp_path: Path) -> None:
    (tmp_path / "item.txt").write_text("1\n")
    with pytest.raises(StorageError, match=r"holds rows as item\.txt, not as SQL"):
        folder(tmp_path, item=TABLE)


def test_the_key_changes_with_each_file(tmp_path: Path) -> None:
    before = folder(tmp_path, item=TABLE, line=TABLE).key
    assert folder(tmp_path, item=TABLE, line=TABLE).key == before
    assert folder(tmp_path, line=TABLE + ROWS).key != before


def test_files_of_folders_go_into_one_database_if_it_is_none_of_theirs(tmp_path: Path) -> None:
    for name in ("orders", "users"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ddl.sql").write_text(TABLE.replace("item", name))
    data = open_dataset(tmp_path)
    assert isinstance(data, SqlFolder)
    with pytest.raises(UsageError, match="has 2 databases: orders, users") as error:
        choose_database(data, None)
    assert error.value.hint is not None
    assert "another NAME loads all files into one database" in error.value.hint
    assert choose_database(data, "asked") == "asked"
    assert loaded(data) == ["lenient", "asked: ddl.sql", "asked: ddl.sql"]
    recording = Recording()
    recording.database = choose_database(data, "users")
    assert loaded(data, recording) == ["lenient", "orders: ddl.sql", "users: ddl.sql"]
