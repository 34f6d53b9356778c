"""What people type is what is compared, and what makes no sense is refused with the way out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flushlab.campaign.configurations import Configuration, Given, read, require_settings, spelled
from flushlab.errors import StorageError, UsageError
from flushlab.record import Value
from flushlab.spec.parts import StorageSpec, WorkloadSpec

FLUSH = {"innodb_flush_log_at_trx_commit": "2"}


def change(**options: int) -> WorkloadSpec:
    """A change of the campaign's workload."""
    return WorkloadSpec(name="", options=options)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my.cnf", "new.cnf", "plain", "a=b"):
        Path(name).write_text("[mysqld]\n")
    Path("text.cnf").write_text("hello world\nthis is no option file\n")
    Path("conf").mkdir()
    for name in ("a.cnf", "b.cnf"):
        (Path("conf") / name).write_text("[mysqld]\n")
    os.mkfifo("pipe")


@pytest.mark.parametrize(
    ("words", "due"),
    [
        (
            ["base", "innodb_flush_log_at_trx_commit=2"],
            {"base": Given(), "innodb_flush_log_at_trx_commit=2": Given(None, FLUSH)},
        ),
        (["sync-binlog=0"], {"base": Given(), "sync-binlog=0": Given(None, {"sync_binlog": "0"})}),
        (["my.cnf"], {"base": Given(), "my.cnf": Given(Path("my.cnf"))}),
        (["my.cnf", "plain"], {"my.cnf": Given(Path("my.cnf")), "plain": Given(Path("plain"))}),
        (["base", "a=b"], {"base": Given(), "a=b": Given(Path("a=b"))}),
        (
            ["my.cnf", "sync_binlog=0", "new.cnf"],
            {
                "my.cnf": Given(Path("my.cnf")),
                "sync_binlog=0": Given(Path("my.cnf"), {"sync_binlog": "0"}),
                "new.cnf": Given(Path("new.cnf")),
            },
        ),
        (["my.cnf", "base"], {"my.cnf": Given(Path("my.cnf")), "defaults": Given()}),
        (
            ["a=1  b='x y'", "old: my.cnf"],
            {"a=1 b='x y'": Given(None, {"a": "1", "b": "x y"}), "old": Given(Path("my.cnf"))},
        ),
        (["base", "a-b = 2"], {"base": Given(), "a-b=2": Given(None, {"a_b": "2"})}),
        (
            ["base", "a =1 b= 'x = y' c= d=4"],
            {
                "base": Given(),
                "a=1 b='x = y' c= d=4": Given(None, {"a": "1", "b": "x = y", "c": "", "d": "4"}),
            },
        ),
        (["now: base", "fast: a=1"], {"now": Given(), "fast": Given(None, {"a": "1"})}),
        (
            ["base", "init_connect='SET x: 1'"],
            {"base": Given(), "init_connect='SET x: 1'": Given(None, {"init_connect": "SET x: 1"})},
        ),
        (
            ["base --threads=4", "--workload upsert", "new: a=1 --workload 'command: ./x.sh' --disk=gp3"],
            {
                "base --threads=4": Given(workload=change(threads=4)),
                "upsert": Given(workload=WorkloadSpec(name="upsert")),
                "new": Given(
                    None,
                    {"a": "1"},
                    WorkloadSpec(name="command: ./x.sh"),
                    StorageSpec(disk="gp3"),
                ),
            },
        ),
        (
            ["my.cnf", "--workload oltp_insert --skip-trx --sync-binlog=0"],
            {
                "my.cnf": Given(Path("my.cnf")),
                "--workload oltp_insert --skip-trx --sync-binlog=0": Given(
                    Path("my.cnf"),
                    {"sync_binlog": "0"},
                    WorkloadSpec(name="oltp_insert", options={"skip_trx": "on"}),
                ),
            },
        ),
    ],
)
def test_words_mean_the_base_files_or_settings_on_top(words: list[str], due: dict[str, Given]) -> None:
    assert read(words, None) == due


def test_a_base_file_is_what_base_stands_for_and_what_settings_are_on_top_of() -> None:
    found = read(["base", "sync_binlog=0", "new.cnf"], "my.cnf")
    assert found == {
        "base": Given(Path("my.cnf")),
        "sync_binlog=0": Given(Path("my.cnf"), {"sync_binlog": "0"}),
        "new.cnf": Given(Path("new.cnf")),
    }


@pytest.mark.parametrize(
    ("word", "settings"),
    [
        ("skip-log-bin", {"log_bin": "OFF"}),
        ("skip-log-bin sync_binlog=1", {"log_bin": "OFF", "sync_binlog": "1"}),
        ("sync_binlog=1 --disable-log-bin", {"sync_binlog": "1", "log_bin": "OFF"}),
        ("log_bin", {"log_bin": "ON"}),
    ],
)
def test_an_option_without_a_value_is_a_setting(word: str, settings: dict[str, Value]) -> None:
    found = read([word], None)
    assert found[word] == Given(None, settings)
    assert read(spelled(found, None), None) == found


def test_an_option_by_name_is_a_setting_too() -> None:
    by_name: dict[str, Configuration] = {"a": {"skip_log_bin": 1}, "b": "new.cnf"}
    assert read(by_name, None)["a"] == Given(None, {"log_bin": "OFF"})


def test_configurations_by_name_are_whole_unless_there_is_a_base() -> None:
    by_name: dict[str, Configuration] = {"a": {"sync_binlog": 1}, "b": "new.cnf"}
    assert read(by_name, None) == {"a": Given(None, {"sync_binlog": 1}), "b": Given(Path("new.cnf"))}
    assert read(by_name, "my.cnf")["a"] == Given(Path("my.cnf"), {"sync_binlog": 1})


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["base", "txn:a.toml"], "'txn:a.toml' is a workload", "--workload txn:a.toml"),
        (["base", "upsert"], "'upsert' is a workload", "--workload upsert"),
        (["base", "--workload"], "--workload requires an argument", "--workload txn:new.toml"),
        (["base", "--threads many"], "--threads is 'many'; it takes a whole number", "1 to 4096"),
        (["base", "--workload upsert --server mysql"], "--server is the same for all", "beside"),
        ([], "nothing to compare", "name configurations, for example: base"),
        (["base"], "nothing to compare", "name configurations, for example: base"),
        (["text.cnf"], "text.cnf is not an option file", "my.cnf"),
        (["pipe"], "option file pipe is a pipe", "my.cnf"),
        (["sync-binlog"], "neither `base` nor", "give it a value: sync_binlog="),
        (["a=1 b"], "'b' is neither", "quote"),
        (
            ["base", "base a=1"],
            "base stands among settings: base a=1",
            "leave out base; settings go on top of it: a=1",
        ),
        (["my.cnf", "my.cnf a=1 b='x y'"], "my.cnf stands among", "is --base: a=1 'b=x y'"),
        (["a='1"], "quotation mark", "close it"),
        (["  "], "is empty", "`base`"),
        (["a=1 a=2"], "sets a twice", "once"),
        (["a=1", "a=1"], "given twice", "label"),
        (["base", "sync-binlog=0", "sync_binlog=0"], "'sync_binlog=0' is given twice", "label"),
        (["base", "base"], "'base' is given twice", "label"),
        (["my.cnf", "control: a=1"], "cannot be called 'control'", "another name"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_way_out(
    words: list[str], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as raised:
        read(words, None)
    assert message in raised.value.message
    assert hint in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("file", "why"), [("nope.cnf", "No such file or directory"), ("./", "Is a directory")]
)
def test_an_option_file_that_cannot_be_read_is_an_error_of_storage(file: str, why: str) -> None:
    for words, base in (([file, "a=1"], None), (["base", "a=1"], file)):
        with pytest.raises(StorageError, match=f"cannot be read: {why}"):
            read(words, base)


@pytest.mark.parametrize(
    ("words", "base"),
    [
        (["base", "sync_binlog=0", "long name: a='x y' b=1"], None),
        (["sync_binlog=0"], "my.cnf"),
        (["base", "sync-binlog = 0"], None),
        (["my.cnf", "sync_binlog=0", "new.cnf", "base"], None),
        (["my.cnf", "sync_binlog=0"], "new.cnf"),
        (["conf/a.cnf", "conf/b.cnf"], None),
        (["a: --workload upsert --rows 5", "upsert: --workload oltp_insert --skip-trx", "base"], None),
        (["base --workload upsert", "base --workload 'command: ./a.sh'", "txn:a: --workload txn:/a"], None),
        (["base", "sync_binlog=0 --workload upsert", "slow: a=1 --disk gp3"], "my.cnf"),
        (["my.cnf", "n: new.cnf --threads 4", "more: --threads 8", "base --threads 2"], None),
    ],
)
def test_they_are_spelled_so_that_they_can_be_read_again_from_any_folder(
    words: list[str], base: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read(words, base)
    again = spelled(found, Path(base) if base else None)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    under = tmp_path / base if base else None

    def absolute(one: Given) -> Given:
        return one._replace(file=(tmp_path / one.file) if one.file else None)

    assert read(again, under) == {name: absolute(one) for name, one in found.items()}


def test_an_option_file_that_is_not_to_be_seen_is_an_error_of_storage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hidden(self: Path, **_: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", hidden)
    with pytest.raises(StorageError, match="cannot be read"):
        read(["base", "nope.cnf"], None)


def test_crashes_take_settings_only() -> None:
    require_settings(read(["base", "sync_binlog=0"], None), "crash")
    with pytest.raises(UsageError, match="crash takes configurations of settings only"):
        require_settings(read(["base", "new: --workload upsert"], None), "crash")
