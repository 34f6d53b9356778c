"""What in SQL only some servers take: found where it stands, and not where it means something else."""

from __future__ import annotations

import pytest

from flushlab.settings.words import find_words, load_entries


def found(text: str) -> list[str]:
    return [word.says for word in find_words(text)]


@pytest.mark.parametrize("entry", load_entries(), ids=lambda entry: entry.says or entry.names[0])
def test_each_word_is_found_in_its_own_example(entry: object) -> None:
    (wanted,) = [one for one in load_entries() if one is entry]
    for word in wanted.words():
        if word.pattern.pattern != "(?!)":
            assert word.says in found(wanted.try_)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE TABLE t (\n  `id` uuid NOT NULL,\n  `uuid` char(36)\n)", "the type uuid"),
        ("INSERT INTO t (a)\nVALUES (1)\nRETURNING id;", "RETURNING"),
        ("ALTER TABLE t\n  ADD COLUMN IF NOT EXISTS c INT;", "IF NOT EXISTS of columns and indexes"),
        ("CREATE UNIQUE INDEX u ON t ((LOWER(a)))", "an index of an expression"),
        ("KEY k ((cast(json_extract(`j`,_utf8mb4'$') as decimal(10,2) array)))", "a multi-valued index"),
        ("  `j` json GENERATED ALWAYS AS (`d`->>'$.x')", "the operator ->"),
        ("SET NAMES utf8; /*!80023 ALTER */", "comments /*!80…"),
    ],
)
def test_words_are_found_over_lines_and_in_dumps(text: str, says: str) -> None:
    assert says in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "-- BIN_TO_UUID(id) would be shorter\nSELECT 1",
        "# CREATE SEQUENCE s\nSELECT 1",
        "/* utf8mb4_0900_ai_ci */ SELECT 1",
        "INSERT INTO notes VALUES ('CREATE SEQUENCE s', 'it''s utf8mb4_0900_ai_ci', \"RETURNING id\")",
        "CREATE TABLE t (`uuid` char(36) NOT NULL, KEY uuid (uuid), PRIMARY KEY (id, uuid))",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "DROP TABLE IF EXISTS t; CREATE TABLE IF NOT EXISTS t (a INT DEFAULT 0, b TEXT DEFAULT NULL)",
        "CREATE DATABASE d /*!80016 DEFAULT ENCRYPTION='N' */",
        "SELECT sequence, returning, lateral FROM t",
    ],
)
def test_comments_texts_and_other_meanings_are_no_words(text: str) -> None:
    assert [one for one in found(text) if not one.startswith("comments")] == []


def test_a_program_has_only_words_that_mean_nothing_else_there() -> None:
    source = 'op.execute("CREATE SEQUENCE s"); op.execute("SELECT BIN_TO_UUID(id)")'
    assert [word.says for word in find_words(source, "source")] == ["BIN_TO_UUID"]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("ERROR 1305 (42000) at line 2: FUNCTION app.BIN_TO_UUID does not exist", ["BIN_TO_UUID"]),
        ("ERROR 1273 (HY000): Unknown collation: 'utf8mb4_0900_ai_ci'", ["utf8mb4_0900"]),
        ("ERROR 1101 (42000): BLOB … column 'a' can't have a default", ["a DEFAULT of TEXT, BLOB or JSON"]),
        ("ERROR 1901 (HY000): Function or expression 'AUTO_INCREMENT' cannot be used", []),
        ("ERROR 1064 (42000): You have an error near 'IGNORE INTO t'", []),
    ],
)
def test_a_servers_message_names_the_word(message: str, says: list[str]) -> None:
    assert [word.says for word in find_words(message, "message")] == says
