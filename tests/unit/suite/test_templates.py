"""Templates: keys, prefixes, capture, eviction, the compressed cache."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.datadir import SnapshotKey
from flushlab.errors import SnapshotDamaged, UsageError
from flushlab.machine import ownership
from flushlab.suite.templates import (
    FACTS,
    Facts,
    History,
    Input,
    Recipe,
    Templates,
    archive_name,
    chain,
    changes,
    export_archive,
    import_archive,
    is_ours,
    natural_order,
    read_facts,
    read_inputs,
    read_scripts,
    signs_in,
)
from tests.trees import tree
from tests.unit.builds import MARIADB, MYSQL57

HISTORY = History(schema="app", table="flyway_schema_history", rows=2, checksum=7)
GOOD = Facts(histories=(HISTORY,), rerunnable=True, prepare_seconds=1.5)


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="flt-", dir="/tmp"))
    folder.chmod(0o755)
    monkeypatch.setenv("FLUSHLAB_HOME", str(folder))
    yield folder
    for sealed in [path for path in folder.rglob("*") if path.is_dir()]:
        sealed.chmod(0o700)
    shutil.rmtree(folder)


@pytest.fixture
def datadir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "app").mkdir(parents=True)
    (folder / "app/t.ibd").write_bytes(b"page" * 5000)
    (folder / "auto.cnf").write_text("[auto]\nserver-uuid=1\n")
    (folder / "private_key.pem").write_text("key")
    (folder / "#innodb_temp").mkdir()
    (folder / "#innodb_temp/temp_1.ibt").write_bytes(b"x")
    with (folder / "ib_logfile0").open("wb") as redo:
        redo.write(bytes(8 << 20))
    return folder


def inputs(*contents: str) -> tuple[Input, ...]:
    return tuple(Input(path=f"V{i}.sql", sha256=text) for i, text in enumerate(contents))


def recipe(*contents: str, **changes: object) -> Recipe:
    one = Recipe(
        build=MARIADB, settings={"innodb_log_file_size": "16M"}, database="app", prepare="migrate",
        inputs=inputs(*contents),
    )  # fmt: skip
    return msgspec.structs.replace(one, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"build": MYSQL57},
        {"settings": {"innodb_log_file_size": "32M"}},
        {"database": "other"},
        {"prepare": "migrate --more"},
        {"templates": {"A": "{host}"}},
        {"inputs": inputs("a")},
    ],
)
def test_whatever_shapes_the_content_is_in_the_key(changes: dict[str, object]) -> None:
    assert recipe("a", "b", **changes).key.digest != recipe("a", "b").key.digest


def test_a_template_is_what_lay_there_before_its_facts_were_looked_for(datadir: Path) -> None:
    def find_facts() -> Facts:
        (datadir / "again").write_text("left by a second run")
        return GOOD

    made = Templates().capture(recipe("a"), datadir, find_facts)
    assert not (made.path / "again").exists()
    assert read_facts(made) == GOOD


def test_a_capture_is_found_again_without_what_is_one_servers_own(datadir: Path) -> None:
    templates = Templates()
    assert templates.find(recipe("a")) is None
    templates.capture(recipe("a"), datadir, lambda: GOOD)
    found = Templates().find(recipe("a"))
    assert found is not None
    saved = {file.path for file in found.manifest.files}
    assert saved == {"app/t.ibd", "private_key.pem", "ib_logfile0", FACTS}
    assert read_facts(found) == GOOD
    assert found.allocated_bytes < 1 << 20, "zeros are saved as holes"


def test_longest_prefix_that_may_be_built_upon(datadir: Path) -> None:
    templates = Templates()
    for contents in (("a",), ("a", "b")):
        templates.capture(
            recipe(*contents), datadir, partial(msgspec.structs.replace, GOOD, inputs=inputs(*contents))
        )
    found = templates.find_prefix(recipe("a", "b", "c", "d"))
    assert found is not None
    assert found[1].inputs == inputs("a", "b")
    assert templates.find_prefix(recipe("x", "b", "c")) is None
    assert templates.find_prefix(recipe("a")) is None, "nothing shorter than one input"


def test_the_last_template_of_the_same_folder_tells_what_has_changed(datadir: Path, tmp_path: Path) -> None:
    templates = Templates()
    for folder, contents in (("here", ("a", "b")), ("there", ("c", "d"))):
        own = recipe(*contents)
        facts = msgspec.structs.replace(GOOD, inputs=own.inputs, folder=folder)
        templates.capture(own, datadir, partial(msgspec.structs.replace, facts))
    last = templates.find_last(recipe("x", "b"), Path("here"))
    assert last is not None
    assert last.inputs == inputs("a", "b")
    assert templates.find_last(recipe("x", "b", database="other"), Path("here")) is None
    assert templates.find_last(recipe("x", "b"), tmp_path) is None


def test_least_recently_used_go_first_and_the_newest_never(datadir: Path) -> None:
    templates = Templates(limit_bytes=75_000)  # each takes some 30 kB
    first, second = recipe("a"), recipe("b")
    templates.capture(first, datadir, lambda: GOOD)
    templates.capture(second, datadir, lambda: GOOD)
    os.utime(templates.snapshots.directory / first.key.digest / ownership.MARK, (2e9, 2e9))  # used last
    templates.capture(recipe("c"), datadir, lambda: GOOD)
    assert templates.find(second) is None
    assert templates.find(first) is not None
    small = Templates(limit_bytes=1)
    small.capture(recipe("d"), datadir, lambda: GOOD)
    assert small.find(recipe("d")) is not None
    assert small.find(first) is None


def test_cache_brings_a_template_to_another_machine(
    datadir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    made = Templates(cache).capture(recipe("a"), datadir, lambda: GOOD)
    (archive,) = cache.iterdir()
    assert archive.stat().st_size < 50_000
    templates = Templates(cache)
    templates.snapshots.remove(made.key)
    found = templates.find(recipe("a"))
    assert found is not None
    assert found.manifest.files[0].crc32 == made.manifest.files[0].crc32
    assert {file.path: file.crc32 for file in found.manifest.files} == {
        file.path: file.crc32 for file in made.manifest.files
    }
    assert read_facts(found) == GOOD


@pytest.mark.parametrize("damage", ["cut", "bytes", "other key", "no archive"])
def test_a_damaged_archive_is_no_template(datadir: Path, tmp_path: Path, damage: str) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    templates = Templates(cache)
    made = templates.capture(recipe("a"), datadir, lambda: GOOD)
    (archive,) = cache.iterdir()
    content = archive.read_bytes()
    if damage == "cut":
        archive.write_bytes(content[: len(content) // 2])
    elif damage == "bytes":
        at = content.index(b"t.ibd") + 20
        archive.write_bytes(content[:at] + bytes(8) + content[at + 8 :])
    elif damage == "other key":
        archive.rename(cache / f"flushlab-{recipe('b').key.digest}.zip")
    else:
        archive.write_bytes(b"not a zip file")
    templates.snapshots.remove(made.key)
    wanted = recipe("b") if damage == "other key" else recipe("a")
    (archive,) = cache.iterdir()
    content = archive.read_bytes()
    assert templates.find(wanted) is None
    if damage == "bytes":
        assert list(cache.iterdir()) == [], "its manifest still says that it is ours"
    else:
        templates.capture(wanted, datadir, lambda: GOOD)
        assert archive.read_bytes() == content, "nothing proves that it is ours"


@pytest.mark.parametrize("path", ["../evil", "/tmp/evil", "app/../../evil"])
def test_an_archive_that_leads_outside_is_refused(datadir: Path, tmp_path: Path, path: str) -> None:
    made = Templates().capture(recipe("a"), datadir, lambda: GOOD)
    evil = msgspec.structs.replace(
        made.manifest, files=(msgspec.structs.replace(made.manifest.files[0], path=path),)
    )
    archive = tmp_path / "evil.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("manifest.json", msgspec.json.encode(evil))
        file.writestr(f"data/{path}", b"x")
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(SnapshotDamaged, match="outside"):
        import_archive(archive, made.key, target)
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("at", range(0, 46, 2))
def test_an_archive_with_a_damaged_directory_is_made_anew(datadir: Path, tmp_path: Path, at: int) -> None:
    made = Templates().capture(recipe("a"), datadir, lambda: GOOD)
    archive = tmp_path / archive_name(made.key)
    export_archive(made, archive)
    content = bytearray(archive.read_bytes())
    for place in (content.rindex(b"PK\x01\x02") + at, content.index(b"PK\x01\x02") + at):
        content[place] ^= 0xFF
    archive.write_bytes(content)
    is_ours(archive)
    target = tmp_path / "target"
    target.mkdir()
    with suppress(SnapshotDamaged):
        import_archive(archive, made.key, target)


def test_an_archive_appears_whole_or_not_at_all(
    datadir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Templates().capture(recipe("a"), datadir, lambda: GOOD)
    archive = tmp_path / "t.zip"

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        export_archive(made, archive)
    assert list(tmp_path.glob("*t.zip*")) == []


def test_a_key_says_how_many_inputs() -> None:
    keys = recipe("a", "b").keys()
    assert [key.parts["count"] for key in keys] == ["0", "1", "2"]
    assert recipe("a", "b", prepare="", inputs=()).key == SnapshotKey(dict(recipe().unprepared.key.parts))


def test_archives_of_others_are_neither_evicted_nor_replaced(datadir: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "flushlab-mine.zip").write_bytes(b"precious" * 1000)
    (cache / archive_name(recipe("a").key)).symlink_to("flushlab-mine.zip")
    before = tree(cache)
    templates = Templates(cache, limit_bytes=1)
    templates.capture(recipe("a"), datadir, lambda: GOOD)
    templates.capture(recipe("b"), datadir, lambda: GOOD)
    templates.capture(recipe("c"), datadir, lambda: GOOD)
    after = tree(cache)
    assert {name: after.pop(name) for name in before} == before
    assert list(after) == [archive_name(recipe("c").key)], "of ours, only the latest fits"


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
    files(tmp_path, V1="a")
    for pattern in ("*.xml", "nowhere/V1.sql", "empty", "~no-such-user/*.sql"):
        with pytest.raises(UsageError, match=f"'{re.escape(pattern)}' matches no file") as raised:
            read_inputs(["*.sql", pattern], tmp_path)
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
