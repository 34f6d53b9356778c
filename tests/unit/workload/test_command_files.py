"""Which files a command line names."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.workload.command import CommandWord, files_named, words_of


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("./load.sh --table t", ["./load.sh", "--table", "t"]),
        ("sh load.sh < in.sql; true", ["sh", "load.sh", "<", "in.sql;", "in.sql", "true"]),
        ("load --file=in.sql <in.sql", ["load", "--file=in.sql", "in.sql", "<in.sql", "in.sql"]),
        ("echo 'a", ["echo", "'a"]),
        ("sh -c 'db <in.sql'", ["sh", "-c", "db <in.sql", "db", "<in.sql", "in.sql"]),
    ],
)
def test_words_that_may_be_files(line: str, words: list[str]) -> None:
    assert [one.text for one in words_of(line)] == words


def test_files_that_are_there_are_named_once_whatever_the_other_words_are(tmp_path: Path) -> None:
    file = tmp_path / "in.sql"
    file.write_text("SELECT 1;\n")
    program = "print(1);" * 40
    line = f"python3 -c '{program}' ~nobody-of-this-name/x; db <in.sql; db <in.sql {tmp_path}/none"
    assert [*files_named(line, tmp_path)] == [(CommandWord("in.sql", is_whole=False), file)]
