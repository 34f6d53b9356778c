"""A dump in one file: what is found in it before a server is started."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from flushlab.dataset import choose_database, open_dataset
from flushlab.dataset.dump import Dump
from flushlab.errors import StorageError, UsageError

pytestmark = pytest.mark.usefixtures("private_home")

HEADER = """-- MySQL dump 10.13  Distrib 5.7.22, for linux-glibc2.12 (x86_64)
--
-- Host: localhost    Database: {database}
-- ------------------------------------------------------
-- Server version\t{server}

/*!40101 SET NAMES utf8 */;
"""
BODY = """CREATE TABLE `item` (`id` int NOT NULL);
INSERT INTO `item` VALUES (1,'x\\nUSE `hidden`;'),(2,'DEFINER=`no');
/*!50003 CREATE*/ /*!50017 DEFINER=`clerk`@`10.%`*/ /*!50003 TRIGGER t BEFORE INSERT ON item FOR EACH ROW
SET @a=1 */;;
"""
END = "-- Dump completed on 2024-01-01 10:00:00\n"
SHOP = HEADER.format(database="shop", server="5.7.22-log") + BODY + END
TWO = (
    HEADER.format(database="", server="10.11.6-MariaDB-log")
    + "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n\n"
    + "USE `shop`;\n"
    + BODY
    + "CREATE DATABASE IF NOT EXISTS `stock-``2`;\nUSE `stock-``2`;\nUSE `mysql`;\n"
    + END
)


def dump(folder: Path, text: str, name: str = "nightly.sql") -> Dump:
    file = folder / name
    file.write_text(text)
    found = open_dataset(file)
    assert isinstance(found, Dump)
    return found


def test_dump_of_one_database_is_named_by_its_header_and_knows_its_origin(tmp_path: Path) -> None:
    survey = dump(tmp_path, SHOP).survey()
    assert (survey.databases, survey.named, survey.origin) == ((), "shop", "MySQL 5.7.22")
    assert survey.definers == (("clerk", "10.%"),)
    assert not survey.cut_off
    assert choose_database(dump(tmp_path, SHOP), None) == "shop"
    assert choose_database(dump(tmp_path, SHOP), "other") == "other", "it can be loaded into any"


def test_dump_without_a_word_about_its_database_goes_into_one_of_its_files_name(tmp_path: Path) -> None:
    assert choose_database(dump(tmp_path, BODY, "my-shop.2024.sql"), None) == "my_shop_2024"


def test_several_databases_are_listed_unless_one_is_asked_for(tmp_path: Path) -> None:
    two = dump(tmp_path, TWO)
    assert two.survey().origin == "MariaDB 10.11.6"
    with pytest.raises(UsageError, match="has 2 databases: shop, stock-`2") as refused:
        choose_database(two, None)
    assert refused.value.hint == "choose the workload's with --database NAME"
    assert choose_database(two, "stock-`2") == "stock-`2"
    with pytest.raises(UsageError, match="there is no database other in "):
        choose_database(two, "other")


@pytest.mark.parametrize(("file", "asked"), [("nightly.sql", "MySQL"), ("sys.sql", None)])
def test_dump_does_not_go_into_a_database_of_the_servers_own(
    tmp_path: Path, file: str, asked: str | None
) -> None:
    with pytest.raises(UsageError, match="is the server's own"):
        choose_database(dump(tmp_path, BODY, file), asked)


def test_dump_that_lacks_its_last_line_is_known_to_be_cut_off(tmp_path: Path) -> None:
    assert dump(tmp_path, SHOP.removesuffix(END)).survey().cut_off
    assert not dump(tmp_path, BODY).survey().cut_off, "made without comments"


COMPRESSIONS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gz", gzip.compress),
    ("zst", zstandard.compress),
    ("zst", lambda text: zstandard.compress(text[:100]) + zstandard.compress(text[100:])),
    ("xz", lzma.compress),
    ("bz2", bz2.compress),
]


@pytest.mark.parametrize(("ending", "compress"), COMPRESSIONS)
def test_compressed_dump_is_read_as_it_is(
    ending: str, compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    file = tmp_path / f"shop.sql.{ending}"
    file.write_bytes(compress(TWO.encode()))
    found = open_dataset(file)
    assert isinstance(found, Dump)
    assert found.survey().databases == ("shop", "stock-`2")
    assert found.survey().sql_bytes == len(TWO.encode()) + 1
    file.write_bytes(compress(TWO.encode())[:-9])
    with pytest.raises(StorageError, match="is cut off or damaged"):
        open_dataset(file).databases  # noqa: B018


def test_same_content_has_the_same_key_wherever_it_lies(tmp_path: Path) -> None:
    first, second = dump(tmp_path, SHOP, "a.sql"), dump(tmp_path, SHOP, "b.sql")
    assert first.key == second.key
    before = first.key
    assert dump(tmp_path, SHOP + "-- more\n", "a.sql").key != before


def test_dump_larger_than_a_piece_is_searched_across_its_pieces(tmp_path: Path) -> None:
    row = "INSERT INTO `item` VALUES (1,'" + "x" * 997 + "');\n"
    text = TWO.replace(BODY, row * 1100)
    for shift in (0, 7, 300):
        assert dump(tmp_path, "-" * 2 + " " + "x" * shift + "\n" + text).survey().databases == (
            "shop",
            "stock-`2",
        )


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "is empty"), (b"SQLite format 3\0abc", "is not an SQL dump")]
)
def test_what_is_no_dump_is_refused(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_bytes(content)
    with pytest.raises(StorageError, match=why):
        open_dataset(tmp_path / "x.sql")


def test_what_is_not_there_is_refused_with_what_is_taken(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"there is no .*nope") as refused:
        open_dataset(tmp_path / "nope")
    assert "--dataset takes an SQL dump" in str(refused.value.hint)
    with pytest.raises(StorageError, match="neither a dump nor a data directory"):
        open_dataset(tmp_path)
    (tmp_path / "shop.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(StorageError, match="is not a dump") as refused:
        open_dataset(tmp_path / "shop.zip")
    assert refused.value.hint == "an archive: unpack it with unzip, then give the folder or the file in it"


@pytest.mark.parametrize(
    "options",
    [
        "ENGINE=InnoDB DATA DIRECTORY='/srv/fast/'",
        "ENGINE=MyISAM index directory = '/srv/fast/'",
        "PARTITION BY HASH (id) (PARTITION p0 DATA DIRECTORY = '/srv/fast' ENGINE = InnoDB)",
    ],
)
def test_a_table_that_would_be_made_outside_the_sandbox_is_refused(tmp_path: Path, options: str) -> None:
    with pytest.raises(StorageError, match=r"outside its data directory: .*'/srv/fast") as raised:
        _ = dump(tmp_path, SHOP.replace("(`id` int NOT NULL)", f"(`id` int NOT NULL) {options}")).databases
    assert raised.value.hint is not None


def test_a_row_that_speaks_of_a_directory_is_a_row(tmp_path: Path) -> None:
    rows = "INSERT INTO `item` VALUES (1,'DATA DIRECTORY=\\'/srv/fast\\''),(2,'DATA DIRECTORY=''/srv''');\n"
    assert dump(tmp_path, SHOP.replace(END, rows + END)).databases == ("shop",)
