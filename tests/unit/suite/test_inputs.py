"""Inputs of a prepare command: which, in which order, and what counts as the same beginning."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.errors import UsageError
from flushlab.suite.templates import Input, chain, changes, natural_order, read_inputs, read_scripts, signs_in


def files(folder: Path, **contents: str) -> None:
    for name, content in contents.items():
        path = folder / f"{name}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def paths(inputs: tuple[Input, ...]) -> list[str]:
    return [one.path for one in inputs]


def test_a_name_that_no_template_can_record_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.sql")).write_text("")
    with pytest.raises(UsageError, match="is not UTF-8"):
        read_inputs(["*.sql"], tmp_path)


def test_numbers_count_as_numbers(tmp_path: Path) -> None:
    files(tmp_path, V10__c="c", V9__b="b", V1__a="a")
    assert paths(read_inputs(["*.sql"], tmp_path)) == ["V1__a.sql", "V9__b.sql", "V10__c.sql"]


def test_a_folder_means_every_file_below_it(tmp_path: Path) -> None:
    (tmp_path / "db/more").mkdir(parents=True)
    (tmp_path / "db/1.sql").write_text("1")
    (tmp_path / "db/more/2.sql").write_text("2")
    expected = ["db/1.sql", "db/more/2.sql"]
    assert paths(read_inputs(["db"], tmp_path)) == expected
    assert paths(read_inputs(["db/**"], tmp_path)) == expected
    assert paths(read_inputs(["db/**/*.sql", "db/1.sql"], tmp_path)) == expected


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for pattern in ("*.sql", "nowhere/V1.sql", "empty"):
        with pytest.raises(UsageError, match="matches no file") as raised:
            read_inputs([pattern], tmp_path)
        assert raised.value.hint is not None


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("db/**.sql", "write 'db/**/*.sql' to look in every folder below, 'db/*.sql' not to"),
        ("db/V**/*.sql", "write 'db/**/V*/*.sql' to look"),
    ],
)
def test_two_asterisks_beside_other_characters_are_refused_whatever_python_makes_of_them(
    pattern: str, hint: str, tmp_path: Path
) -> None:
    (tmp_path / "db/more").mkdir(parents=True)
    files(tmp_path / "db", one="1")
    files(tmp_path / "db/more", two="2")
    with pytest.raises(UsageError, match="only alone between slashes") as refused:
        read_inputs([pattern], tmp_path)
    assert str(refused.value.hint).startswith(hint)
    (tmp_path / "db/**.sql").write_text("3")
    assert paths(read_inputs(["db/**.sql"], tmp_path)) == ["db/**.sql"], "a file of that name"


def test_a_home_of_nobody_matches_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="matches no file"):
        read_inputs(["~no-such-user/*.sql"], tmp_path)


def test_one_pattern_of_two_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    files(tmp_path, V1="a")
    with pytest.raises(UsageError, match=r"'\*\.xml' matches no file"):
        read_inputs(["*.sql", "*.xml"], tmp_path)


def test_an_appended_file_leaves_the_beginning_as_it_was(tmp_path: Path) -> None:
    files(tmp_path, V1="a", V2="b")
    before = chain(read_inputs(["*.sql"], tmp_path))
    files(tmp_path, V10="c")
    after = chain(read_inputs(["*.sql"], tmp_path))
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1


def test_whether_a_file_can_be_executed_is_part_of_it(tmp_path: Path) -> None:
    script = tmp_path / "migrate.sh"
    script.write_text("#!/bin/sh\n")
    found = []
    for mode in (0o755, 0o750, 0o644):
        script.chmod(mode)
        found += [chain(read_scripts("./migrate.sh", tmp_path)), chain(read_inputs(["*.sh"], tmp_path))]
    runs, runs_too, does_not = (found[i : i + 2] for i in (0, 2, 4))
    assert runs == runs_too
    assert all(one != other for one, other in zip(runs, does_not, strict=True))


@pytest.mark.parametrize("change", ["content", "rename", "insert", "remove"])
def test_any_other_change_is_another_beginning(tmp_path: Path, change: str) -> None:
    files(tmp_path, V1="a", V2="b", V3="c")
    before = chain(read_inputs(["*.sql"], tmp_path))
    if change == "content":
        files(tmp_path, V2="other")
    elif change == "rename":
        (tmp_path / "V2.sql").rename(tmp_path / "V2__x.sql")
    elif change == "insert":
        files(tmp_path, V1_5="between")
    else:
        (tmp_path / "V2.sql").unlink()
    after = chain(read_inputs(["*.sql"], tmp_path))
    assert before[-1] not in after
    assert after[-1] not in before


@given(st.lists(st.text("V0123456789_.ab/", min_size=1, max_size=12)))
def test_any_names_can_be_put_in_order(names: list[str]) -> None:
    once = sorted(names, key=natural_order)
    assert all(natural_order(one) <= natural_order(other) for one, other in pairwise(once))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("./migrate.sh", ["migrate.sh"]),
        ("sh migrate.sh; sh 'with blank.sh'", ["migrate.sh", "with blank.sh"]),
        ("cd db && ./seed.py", ["db/seed.py"]),
        ("python -m tool --config=db/app.yml", ["db/app.yml"]),
        ("mysql app<db/app.sql", ["db/app.sql"]),
        ("it's ./migrate.sh", ["migrate.sh"]),
        ("/bin/sh -c true # ./none", []),
        ("alembic upgrade head", []),
        (f"python -c '{'long ' * 1000}'", []),
    ],
)
def test_files_that_a_command_names_are_its_scripts(
    command: str, expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "db").mkdir()
    for name in ("migrate.sh", "with blank.sh", "db/seed.py", "db/app.yml", "db/app.sql"):
        (tmp_path / name).write_text("#!/bin/sh\n")
    assert paths(read_scripts(command, tmp_path)) == expected


def test_edited_script_is_another_one(tmp_path: Path) -> None:
    script = tmp_path / "migrate.sh"
    script.write_text("one")
    before = read_scripts(str(script), tmp_path)
    script.write_text("two")
    assert read_scripts(str(script), tmp_path) != before


def test_machine_code_is_no_script(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"\x7fELF\x02\x01")
    assert read_scripts("./tool", tmp_path) == ()


def test_changed_added_and_removed_files_are_told_in_the_order_of_their_numbers() -> None:
    before = [Input(path=name, sha256=name) for name in ("V1", "V2", "V9", "V11")]
    now = [Input(path="V1", sha256="new"), *before[1:3], Input(path="V10", sha256="x")]
    assert changes(before, now) == ["V1 was changed", "V10 was added", "V11 was removed"]
    assert changes(before, before) == []
    assert changes([before[1]], [Input(path="V2", sha256="V2", executable=True)]) == ["V2 was changed"]


def signs(folder: Path, command: str = "") -> list[str]:
    return [one.text for one in signs_in(read_inputs(["."], folder), command, folder)]


def test_files_say_which_server_they_are_for_each_word_at_its_first_place(tmp_path: Path) -> None:
    files(tmp_path, V1="SELECT 1;", V2="SELECT BIN_TO_UUID(id) FROM t;", V3="SELECT BIN_TO_UUID(id) FROM u;")
    (tmp_path / "V4.py").write_text('run("SELECT NVL(a, b)")  # CREATE SEQUENCE')
    assert signs(tmp_path, "mysql -e 'SELECT ANY_VALUE(a) FROM t'") == [
        "V2.sql has BIN_TO_UUID (MySQL 8.0 and later)",
        "V4.py has NVL (MariaDB 10.3 and later)",
        "the prepare command has ANY_VALUE (MySQL 5.7.5 and later)",
    ]


def test_the_header_of_a_dump_among_the_inputs_names_its_server(tmp_path: Path) -> None:
    files(tmp_path, schema="-- MySQL dump 10.13  Distrib 8.0.36, for Linux\n-- Server version\t8.0.36-log\n")
    assert signs(tmp_path) == ["schema.sql comes from MySQL 8.0.36"]


def test_migrations_of_other_database_systems_beside_them_say_nothing(tmp_path: Path) -> None:
    files(
        tmp_path,
        **{"postgresql/V1": "CREATE SEQUENCE s;", "V1_sqlite": "INSERT INTO t VALUES (1) RETURNING a"},
    )
    assert signs(tmp_path) == []
