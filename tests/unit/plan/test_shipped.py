"""The plans that come with flushlab, the example, and how plans are found."""

from __future__ import annotations

import os
import re
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flushlab.errors import StorageError, UsageError
from flushlab.plan.parse import (
    PIPED,
    _Arm,
    _Base,
    _File,
    _Requirement,
    example,
    find_plan,
    parse_plan,
    read_plan,
    shipped,
    shipped_names,
)
from flushlab.plan.plan import Claim, Plan
from flushlab.plan.toml import positions, read_toml
from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import canonical, load_catalog
from flushlab.workload.parse import build_workload, changed
from tests.unit.settings.servers import ALL, MARIADB1011, MYSQL57, MYSQL80, MYSQL97

ROOT = Path(__file__).parents[3]
GALERA = ("galera-binlog-flush", "galera-binlog-flush-write-only")
NAMES = (
    *("binlog-parallel-flush", *GALERA, "insert-on-duplicate", "persist-binlog-to-redo"),
    *("test-server", "throwaway"),
)
CATALOG = load_catalog()
KEYS = {key for table in (_File, _Base, _Arm, Claim, _Requirement) for key in table.__struct_fields__}
FORKS_ONLY = {"binlog_parallel_flush", "persist_binlog_to_redo"}
"""Settings of forks, which the catalog does not know."""

TEXTS = {name: find_plan(name).read_text(encoding="utf-8") for name in NAMES} | {"example": example()}


def plan(name: str) -> Plan:
    return parse_plan(TEXTS[name], path=f"{name}.toml")


def all_settings(name: str) -> list[tuple[str, Value]]:
    there = plan(name)
    tables = [there.base, *(part for arm in there.arms for part in (arm.settings, *arm.instead))]
    return [item for table in tables for item in table.items()]


def checked_keys(name: str) -> list[str]:
    """Paths of the keys that the parser knows: all but the options of workloads."""
    option = re.compile(r"(?:arm\.\d+\.)?workload\.(?!name$).*")
    return [
        path
        for path in positions(read_toml(TEXTS[name], path=name))
        if not option.fullmatch(path)
        and not path.split(".")[-1].isdecimal()
        and path.split(".")[-1] not in FORKS_ONLY
    ]


@st.composite
def typos(draw: st.DrawFn) -> tuple[str, int, int, str]:
    """A plan's text with one letter of a key wrong, where that key stands, and what it has become."""
    name = draw(st.sampled_from(sorted(TEXTS)))
    path = draw(st.sampled_from(checked_keys(name)))
    line, column = positions(read_toml(TEXTS[name], path=name))[path]
    key = path.split(".")[-1]
    at = draw(st.integers(0, len(key) - 1))
    letter = draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz0123456789_-"))
    wrong = draw(
        st.sampled_from(
            [
                key[:at] + letter + key[at:],
                key[:at] + letter + key[at + 1 :],
                key[:at] + key[at + 1 :],
                key[:at] + key[at : at + 2][::-1] + key[at + 2 :],
            ]
        )
    )
    valid = {other.split(".")[-1] for text in TEXTS for other in checked_keys(text)}
    assume(wrong and canonical(wrong) not in valid and wrong not in CATALOG)
    lines = TEXTS[name].split("\n")
    before, after = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
    assert after.startswith(key)
    lines[line - 1] = before + wrong + after[len(key) :]
    return "\n".join(lines), line, column, wrong


@given(typos())
def test_a_typo_in_any_key_is_reported_where_it_stands(typo: tuple[str, int, int, str]) -> None:
    text, line, column, wrong = typo
    with pytest.raises(UsageError) as caught:
        parse_plan(text, path="x.toml")
    assert caught.value.message.startswith(f"x.toml:{line}:{column}: "), caught.value.message
    assert wrong in caught.value.message
    assert caught.value.hint


def test_the_shipped_plans_are_all_there() -> None:
    assert shipped_names() == NAMES
    assert all((ROOT / "plans" / f"{name}.toml").samefile(find_plan(name)) for name in NAMES)


def test_a_plan_may_come_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=[TEXTS["throwaway"]])
    writer.start()
    piped = read_plan(find_plan(str(pipe)))
    writer.join()
    assert (piped.name, piped.arms) == (PIPED, plan("throwaway").arms)


def test_a_file_behind_standard_input_is_found_where_it_lies(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(TEXTS["throwaway"])
    with file.open() as opened:
        assert find_plan(f"/dev/fd/{opened.fileno()}") == file


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_plan_is_found_by_name_and_read(name: str) -> None:
    assert find_plan(name) == shipped(name)
    there = read_plan(find_plan(name))
    assert there.name == name
    assert there.text and there.base_text, "a shipped plan says what it asks and what it compares with"


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_the_workload_of_every_arm_can_be_built(name: str) -> None:
    there = plan(name)
    folder = find_plan("test-server").parent
    for workload in (there.workload, *(changed(there.workload, arm.workload) for arm in there.arms)):
        assert build_workload(workload.name, workload.options, folder=folder).name == workload.name


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_every_setting_is_known_and_takes_its_value_somewhere(name: str) -> None:
    for setting, value in all_settings(name):
        if setting in FORKS_ONLY:
            continue
        heres = [CATALOG.here(setting, server.flavor, server.version) for server in ALL]
        fits = [here for here in heres if here is not None and here.same(value, value)]
        assert fits, f"{setting} = {value} fits no server"


def test_the_story_of_insert_on_duplicate_is_complete() -> None:
    there = plan("insert-on-duplicate")
    assert [arm.name[:2].strip() for arm in there.arms] == [*"ABCDFGHI", "J", "J2", *"KLMNOP"]
    assert there.base["innodb_doublewrite"] == "ON", "H is compared with a base that has it on"
    assert "H" in there.base_text
    assert there.best
    assert len(there.claims) == 7
    zfs = next(arm for arm in there.arms if arm.name.startswith("J "))
    assert (zfs.file_system, zfs.record_size, zfs.data_root) == ("zfs", 16384, "${FLUSHLAB_ZFS_ROOT}")


@pytest.mark.parametrize("server", [MYSQL57, MYSQL80, MYSQL97, MARIADB1011])
def test_half_the_redo_log_is_half_of_the_bases_on_every_server(server: ServerIdentity) -> None:
    there = plan("insert-on-duplicate")
    arm = next(arm for arm in there.arms if arm.name.startswith("I "))
    for settings in (arm.settings, *arm.instead):
        here = [CATALOG.here(name, server.flavor, server.version) for name in settings]
        if None not in here:
            break
    else:
        pytest.fail("no server is without a redo log")
    for one in here:
        assert one is not None
        assert int(one.parse(there.base[one.name])) == 2 * int(one.parse(settings[one.name]))


def test_the_steps_of_test_server_build_on_each_other() -> None:
    there = plan("test-server")
    chain = there.arms[:5]
    assert [arm.on for arm in chain] == ["base", *(arm.name for arm in chain[:4])]
    assert all(arm.on == "base" for arm in there.arms[5:])
    alone = [arm.settings for arm in there.arms[5:]]
    assert alone == [arm.settings for arm in chain[1:]], "each step is tried alone with the same values"
    assert [(claim.arm, claim.expected) for claim in there.claims] == [(chain[-1].name, 3.3)]


def test_the_forks_features_are_told_apart_and_name_what_they_need() -> None:
    published, cousin = plan("binlog-parallel-flush"), plan("persist-binlog-to-redo")
    assert published.alternate
    assert [(one.setting, one.values, one.not_values) for one in published.requires] == [
        ("binlog_parallel_flush", (), ()),
        ("log_bin", ("ON",), ()),
        ("sync_binlog", (), (1,)),
    ]
    assert [(claim.at_least, claim.at_most) for claim in published.claims] == [(1.1, None), (None, 1.3)]
    assert {one.setting: (*one.values, *one.not_values) for one in cousin.requires} == {
        "persist_binlog_to_redo": (),
        "log_bin": ("ON",),
        "sync_binlog": (1,),
        "binlog_order_commits": ("OFF",),
        "replica_preserve_commit_order": ("OFF",),
    }
    assert "not Binlog Parallel Flush" in cousin.title
    assert not cousin.claims, "nobody published a result"


def test_the_migrations_are_a_history_of_at_least_200_statements() -> None:
    script = (find_plan("test-server").parent / "migrations.sql").read_text(encoding="utf-8")
    code = "\n".join(line for line in script.split("\n") if not line.startswith("--"))
    statements = [part.strip() for part in re.split(r";\n", code) if part.strip()]
    assert len(statements) >= 200
    kinds = {" ".join(statement.split()[:2]) for statement in statements}
    assert {"CREATE TABLE", "ALTER TABLE", "CREATE INDEX", "INSERT INTO", "CREATE VIEW"} <= kinds
    assert sum("FOREIGN KEY" in statement for statement in statements) >= 20


def test_a_plan_is_found_by_path_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test-server").write_text(example(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert find_plan("test-server") == Path("test-server")
    assert find_plan("insert-on-duplicate") == shipped("insert-on-duplicate")


def test_a_misspelled_plan_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="there is no plan insert-on-duplicat") as caught:
        find_plan("insert-on-duplicat.toml")
    assert caught.value.hint is not None
    assert "did you mean insert-on-duplicate?" in caught.value.hint


def test_a_file_that_is_no_text_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b"title = 'x'\n\xff")
    with pytest.raises(UsageError, match=r"x\.toml:2: this is not UTF-8"):
        read_plan(file)


def test_a_file_that_is_too_large_or_cannot_be_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(UsageError, match="more than 1 MiB"):
        read_plan(file)
    with pytest.raises(StorageError, match="cannot be read"):
        read_plan(tmp_path)


def test_what_the_example_has_commented_out_can_be_commented_in() -> None:
    text = re.sub(r"^# (?=\w+ = |\[\[)", "", example(), flags=re.MULTILINE)
    there = parse_plan(text, path="x.toml")
    assert (len(plan("example").arms), len(there.arms), len(there.requires)) == (4, 6 + 3, 1)
    keys = {path.split(".")[-1] for path in there.positions}
    assert keys >= KEYS - {"expected", "at_most", "values"}


def test_the_guide_explains_every_key() -> None:
    guide = (ROOT / "docs" / "how-to" / "series.md").read_text(encoding="utf-8")
    assert not {key for key in KEYS if f"`{key}`" not in guide}


def test_plans_in_the_guide_are_plans() -> None:
    guide = (ROOT / "docs" / "how-to" / "series.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        assert parse_plan(block, path="x.toml").arms
