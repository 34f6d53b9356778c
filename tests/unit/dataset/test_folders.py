"""Folders of mydumper and MySQL Shell: what they hold, in which order it is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flushlab.dataset import choose_database, open_dataset
from flushlab.dataset.tool_folders import MydumperDump, ShellDump
from flushlab.errors import StorageError

pytestmark = pytest.mark.usefixtures("private_home")


class Recording:
    """A filling that writes down what it would load."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.at_once: list[str] = []

    def be_lenient(self, *more: str) -> None:
        self.loaded.append("lenient")

    def read(self, piece: bytes) -> None: ...

    def each(self, items: list[object], act: object) -> None:
        assert callable(act)
        first = len(self.loaded)
        for item in items:
            act(item)
        self.at_once += self.loaded[first:]

    def run(self, sql: object, name: str, *, database: str | None) -> None:
        self.loaded.append(f"{database}: {name}")

    def load_rows(self, rows: object, name: str, into: str) -> None:
        self.loaded.append(f"{name} {into}")


def loaded(data: MydumperDump | ShellDump) -> list[str]:
    recording = Recording()
    load: object = data.load
    assert callable(load)
    load(recording)
    return recording.loaded


def test_views_of_mydumper_are_loaded_one_after_the_other(tmp_path: Path) -> None:
    """A view may be of another one, which is gone for a moment while it takes its stand-in's place."""
    for name in ("shop-schema-create", "shop.t-schema", "shop.a-schema-view", "shop.b-schema-view"):
        (tmp_path / f"{name}.sql").write_text("SELECT 1;\n")
    recording = Recording()
    load: object = MydumperDump(path=str(tmp_path)).load
    assert callable(load)
    load(recording)
    assert recording.loaded[-2:] == ["shop: shop.a-schema-view.sql", "shop: shop.b-schema-view.sql"]
    assert not [one for one in recording.at_once if "view" in one]


def test_mydumpers_files_are_loaded_tables_first_and_triggers_last(tmp_path: Path) -> None:
    for name in (
        *("metadata", "shop-schema-create.sql", "shop.item-schema.sql.gz", "shop.item.00000.sql.gz"),
        *(
            "shop.item.00001.sql.gz",
            "shop.item-schema-triggers.sql",
            "shop-schema-triggers.sql",
            "shop.sold-schema.sql",
            "shop.a.sql.zst",
        ),
        *("shop.sold-schema-view.sql", "shop-schema-post.sql", "mysql.user.sql", "shop.item-metadata"),
    ):
        (tmp_path / name).write_bytes(
            b"SELECT 1;\n" if ".gz" not in name and ".zst" not in name else b"\x1f\x8b"
        )
    data = open_dataset(tmp_path)
    assert isinstance(data, MydumperDump)
    assert data.databases == ("shop",)
    assert loaded(data) == [
        "lenient",
        "None: shop-schema-create.sql",
        "shop: shop.item-schema.sql.gz",
        "shop: shop.sold-schema.sql",
        "shop: shop.a.sql.zst",
        "shop: shop.item.00000.sql.gz",
        "shop: shop.item.00001.sql.gz",
        "shop: shop-schema-post.sql",
        "shop: shop.sold-schema-view.sql",
        "shop: shop-schema-triggers.sql",
        "shop: shop.item-schema-triggers.sql",
    ]


def test_unfinished_folders_and_rows_that_are_no_sql_are_refused(tmp_path: Path) -> None:
    (tmp_path / "metadata.partial").write_text("")
    with pytest.raises(StorageError, match="unfinished dump of mydumper"):
        open_dataset(tmp_path)
    (tmp_path / "metadata").write_text("")
    (tmp_path / "shop.item.00000.dat").write_text("")
    with pytest.raises(StorageError, match=r"holds rows as shop\.item\.00000\.dat"):
        open_dataset(tmp_path).files  # noqa: B018


def test_shells_folder_is_loaded_by_what_its_files_say(tmp_path: Path) -> None:
    def write(name: str, content: object) -> None:
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))

    write("@.json", {"schemas": ["shop"], "serverVersion": "8.0.36", "basenames": {"shop": "shop"}})
    with pytest.raises(StorageError, match="unfinished dump of MySQL Shell"):
        open_dataset(tmp_path)
    write("@.done.json", {"end": "2024-01-01"})
    write("@.users.sql", "CREATE USER x;")
    write("shop.json", {"tables": ["item", "item2"], "views": ["v"], "basenames": {"item": "shop@item"}})
    write("shop.sql", "CREATE DATABASE shop;")
    write(
        "shop@item.json",
        {
            "options": {
                "columns": ["id", "picture"],
                "decodeColumns": {"picture": "FROM_BASE64"},
                "fieldsTerminatedBy": "\t",
                "fieldsEscapedBy": "\\",
                "linesTerminatedBy": "\n",
                "defaultCharacterSet": "utf8mb4",
            }
        },
    )
    parts = {"p0": "shop@item2@p0", "p 1": "shop@item2@p%201"}
    write("shop@item2.json", {"options": {"columns": ["id"]}, "basenames": parts})
    for name in ("shop@item.sql", "shop@item2.sql", "shop@item.triggers.sql", "shop@v.pre.sql", "shop@v.sql"):
        write(name, "SELECT 1;")
    for name in ("shop@item@0.tsv", "shop@item@@1.tsv", "shop@item2@p0.tsv", "shop@item2@p%201@@0.tsv"):
        write(name, "1\n")
    data = open_dataset(tmp_path)
    assert isinstance(data, ShellDump)
    assert choose_database(data, None) == "shop"
    assert data.survey().origin == "MySQL 8.0.36"
    format_ = (
        " CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ENCLOSED BY '' ESCAPED BY '\\\\'"
        " LINES TERMINATED BY '\n'"
    )
    item = f"INTO TABLE `shop`.`item`{format_} (`id`, @v1) SET `picture` = FROM_BASE64(@v1)"
    assert loaded(data) == [
        "lenient",
        "None: shop.sql",
        "shop: shop@item.sql",
        "shop: shop@item2.sql",
        "shop: shop@v.pre.sql",
        f"shop@item@0.tsv {item}",
        f"shop@item@@1.tsv {item}",
        f"shop@item2@p%201@@0.tsv INTO TABLE `shop`.`item2`{format_} (`id`)",
        f"shop@item2@p0.tsv INTO TABLE `shop`.`item2`{format_} (`id`)",
        "shop: shop@v.sql",
        "shop: shop@item.triggers.sql",
    ]
    write("shop@item3@p0.tsv", "1\n")
    with pytest.raises(StorageError, match=r"shop@item3@p0\.tsv has rows of no table"):
        loaded(ShellDump(path=str(tmp_path)))
