from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.errors import UnknownSetting, UsageError, ValueOutOfRange
from flushlab.record.machine import Flavor
from flushlab.settings.catalog import SettingHere, load_catalog, read_catalog, setting_entry

GOOD = """
[[setting]]
name = "sync_binlog"
group = "binlog"
effect = "x"
source = ["x"]
type = "integer"
minimum = 0
maximum = 10
default = 1
dynamic = true

[[setting.version]]
flavor = "mysql"
"""


def here(name: str, flavor: Flavor, *version: int) -> SettingHere:
    found = load_catalog().here(name, flavor, version)
    assert found is not None
    return found


def read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    read_catalog([file])


def test_the_packaged_catalog_loads_and_has_the_settings_of_the_main_job() -> None:
    names = load_catalog().names()
    assert len(names) >= 40
    for name in ("innodb_flush_log_at_trx_commit", "sync_binlog", "innodb_doublewrite", "performance_schema"):
        assert name in names


def test_every_setting_names_its_source_as_a_web_address() -> None:
    for entry in load_catalog().settings():
        assert entry.source
        assert all(source.startswith("https://") for source in entry.source), entry.name


def test_every_durability_key_is_the_name_of_a_rule() -> None:
    from flushlab.settings.durability import RULES

    rules = {rule.name for rule in RULES} | {"replication"}
    for entry in load_catalog().settings():
        assert set(entry.durability) <= rules, entry.name


def test_a_misspelled_key_names_file_setting_and_key(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"bad\.toml: sync_binlog: .*dynamik"):
        read(tmp_path, GOOD.replace("dynamic", "dynamik"))


def test_a_wrong_type_names_file_setting_and_key(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"bad\.toml: sync_binlog: .*dynamic"):
        read(tmp_path, GOOD.replace("dynamic = true", 'dynamic = "yes"'))


def test_a_missing_key_is_named_with_the_version_that_lacks_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"bad\.toml: sync_binlog: mysql: default is missing"):
        read(tmp_path, GOOD.replace("default = 1\n", ""))


def test_a_default_out_of_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"sync_binlog: default: .*above 10"):
        read(tmp_path, GOOD.replace("default = 1", "default = 11"))


def test_text_that_is_not_toml_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"bad\.toml is not valid TOML"):
        read(tmp_path, "[[setting")


def test_two_versions_that_hold_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two version tables of mysql hold at once"):
        read(tmp_path, GOOD + '\n[[setting.version]]\nflavor = "mysql"\nsince = "8.0"\n')


def test_a_setting_in_two_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"sync_binlog stands in bad\.toml already"):
        read(tmp_path, GOOD + GOOD)


def test_a_candidate_that_no_version_allows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="candidate: 99 is allowed by no version"):
        read(tmp_path, GOOD + '\n[[setting.candidate]]\nvalue = 99\nwhy = "x"\n')


def test_a_fixed_setting_has_no_candidates(tmp_path: Path) -> None:
    text = GOOD.replace("dynamic = true", "dynamic = true\nfixed = true")
    with pytest.raises(UsageError, match="a fixed setting has none"):
        read(tmp_path, text + '\n[[setting.candidate]]\nvalue = 2\nwhy = "x"\n')


def test_an_unknown_setting_hints_at_the_nearest() -> None:
    with pytest.raises(UnknownSetting) as caught:
        load_catalog().setting("innodb_flush_log_at_trx_comit")
    assert caught.value.hint is not None
    assert "innodb_flush_log_at_trx_commit" in caught.value.hint


def test_a_setting_that_this_version_lacks_says_where_it_exists() -> None:
    with pytest.raises(UnknownSetting, match=r"not a setting of mariadb 10\.11\.19") as caught:
        load_catalog().require("innodb_redo_log_capacity", "mariadb", (10, 11, 19))
    assert caught.value.hint == "it exists in mysql since 8.0.30"


def test_dashes_capitals_and_aliases_find_the_setting() -> None:
    assert load_catalog().setting("Sync-Binlog").name == "sync_binlog"
    assert load_catalog().setting("tx_isolation").name == "transaction_isolation"


def test_the_variable_of_the_isolation_level_differs_by_version() -> None:
    assert here("transaction_isolation", "mariadb", 10, 11, 19).variable == "tx_isolation"
    assert here("transaction_isolation", "mariadb", 11, 8, 9).variable == "transaction_isolation"
    assert here("transaction_isolation", "mysql", 5, 7, 22).variable == "transaction_isolation"


def test_ten_eleven_is_later_than_ten_six() -> None:
    assert here("innodb_flush_method", "mariadb", 10, 11).default == "O_DIRECT"
    assert here("innodb_flush_method", "mariadb", 10, 5).default == "fsync"


@pytest.mark.parametrize("given", [1, "1", "ON", "on", "true", "YES"])
def test_booleans_become_on(given: int | str) -> None:
    assert here("log_bin", "mysql", 8, 0, 15).parse(given) == "ON"
    assert here("log_bin", "mysql", 8, 0, 15).parse(True) == "ON"


def test_sizes_become_bytes_and_are_rendered_with_a_suffix() -> None:
    buffer = here("innodb_log_buffer_size", "mariadb", 10, 11, 19)
    assert buffer.parse("64M") == 67108864
    assert buffer.render("67108864") == "64M"
    assert buffer.option("64M") == "innodb_log_buffer_size = 64M"
    assert buffer.same("64M", 67108864)


def test_enumerations_are_taken_by_name_number_or_spelling() -> None:
    method = here("innodb_flush_method", "mysql", 5, 7, 22)
    assert method.parse("o_direct") == "O_DIRECT"
    assert method.parse(0) == "fsync"
    assert method.parse("") == "fsync"
    assert method.parse(None) == "fsync"
    assert here("innodb_doublewrite", "mysql", 9, 7, 4).parse("TRUE") == "ON"
    assert here("innodb_doublewrite", "mysql", 9, 7, 4).parse(3) == "DETECT_AND_RECOVER"


def test_floats_read_back_with_zeros_are_the_same() -> None:
    dirty = here("innodb_max_dirty_pages_pct", "mariadb", 10, 11, 19)
    assert dirty.same("90.000000", 90)
    assert dirty.render(90.0) == "90"


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("innodb_flush_log_at_trx_commit", 3, "is above 2"),
        ("innodb_flush_log_at_trx_commit", -1, "is below 0"),
        ("sync_binlog", "often", "is not a whole number"),
        ("innodb_log_buffer_size", "a lot", "is not a size"),
        ("innodb_file_per_table", "maybe", "is not a boolean"),
        ("innodb_flush_method", "magic", "is not one of its values"),
        ("innodb_max_dirty_pages_pct", "much", "is not a number"),
        ("sync_binlog", "1.5", "is not a whole number"),
    ],
)
def test_a_value_out_of_range_names_setting_value_and_rule(name: str, value: int | str, rule: str) -> None:
    with pytest.raises(ValueOutOfRange) as caught:
        here(name, "mysql", 8, 0, 15).parse(value)
    assert name in caught.value.message
    assert repr(str(value)) in caught.value.message
    assert rule in caught.value.message
    assert "mysql 8.0.15 allows" in caught.value.message


def test_flush_policy_three_exists_on_mariadb_only() -> None:
    assert here("innodb_flush_log_at_trx_commit", "mariadb", 10, 11, 19).parse(3) == 3


def test_the_pool_is_rounded_as_mariadb_rounds_it() -> None:
    assert here("innodb_buffer_pool_size", "mariadb", 10, 11, 19).rounded(200_000_000) == 199229440


def test_the_binary_log_is_a_switch_in_option_files() -> None:
    log_bin = here("log_bin", "mysql", 8, 0, 15)
    assert log_bin.option("ON") == "log_bin"
    assert log_bin.option("OFF") == "skip_log_bin"


@pytest.mark.parametrize("path", ["/var/log/mysql/bin", "mysql-bin", "maybe"])
def test_a_file_name_for_the_binary_log_means_that_it_is_on(path: str) -> None:
    assert here("log_bin", "mysql", 8, 0, 15).parse(path) == "ON"
    assert here("log_bin", "mysql", 8, 0, 15).parse("off") == "OFF"


def test_sizes_are_written_as_every_version_takes_them() -> None:
    assert here("innodb_log_file_size", "mysql", 5, 7, 22).option(1 << 40) == "innodb_log_file_size = 1024G"


def test_where_a_setting_exists_joins_versions_that_follow_each_other() -> None:
    catalog = load_catalog()
    assert catalog.where("innodb_log_file_size") == "mysql before 9.3; mariadb"
    assert (
        catalog.where("innodb_change_buffering") == "mysql before 8.5; mysql since 9.0; mariadb before 11.0"
    )


def test_a_successor_is_named_where_the_server_has_it() -> None:
    catalog = load_catalog()
    assert catalog.successor("innodb_log_files_in_group", "mysql", (9, 7, 4)) == ("innodb_redo_log_capacity",)
    assert catalog.successor("innodb_log_files_in_group", "mariadb", (10, 11, 19)) == (
        "innodb_log_file_size",
    )
    assert len(catalog.successor("innodb_flush_method", "mariadb", (11, 8, 6))) == 4


def test_a_successor_that_is_not_in_the_catalog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="successor: nowhere is not in the catalog"):
        read(tmp_path, GOOD.replace('group = "binlog"', 'group = "binlog"\nsuccessor = ["nowhere"]'))


def test_names_of_one_server_leave_out_what_it_lacks() -> None:
    names = load_catalog().names("mariadb", (10, 11, 19))
    assert "innodb_page_cleaners" not in names
    assert "innodb_log_file_buffering" in names
    assert "innodb_log_file_write_through" not in names


def test_what_initialisation_decides_is_marked_as_layout() -> None:
    layout = {entry.name for entry in load_catalog().settings() if entry.layout}
    assert layout == {"innodb_page_size", "innodb_undo_tablespaces", "innodb_file_per_table"}


def test_text_with_spaces_is_quoted_in_an_option_file() -> None:
    engine = here("binlog_storage_engine", "mariadb", 13, 0, 1)
    assert engine.option("a b") == 'binlog_storage_engine = "a b"'
    assert engine.option("innodb") == "binlog_storage_engine = innodb"


def test_a_set_is_held_in_the_servers_order_with_each_member_once() -> None:
    mode = here("sql_mode", "mysql", 8, 0, 15)
    assert mode.parse("no_engine_sub,STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION") == (
        "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"
    )
    assert (mode.parse("0"), mode.parse(""), mode.parse("NEW_MODE,ANSI")) == ("", "", "ANSI,NEW_MODE")


def test_a_set_means_the_same_with_what_its_combined_members_stand_for() -> None:
    mode = here("sql_mode", "mysql", 8, 0, 15)
    shown = "REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ONLY_FULL_GROUP_BY,ANSI"
    assert mode.same("ANSI", shown) and mode.same(shown, "ANSI")
    assert not mode.same("ANSI_QUOTES", shown) and not mode.same("ANSI", f"{shown},TRADITIONAL")
    assert not mode.same("NO_ZERO_DATE", "")


def test_an_entry_that_is_read_alone_is_the_catalogs() -> None:
    for entry in load_catalog().settings():
        for name in (entry.name, entry.name.replace("_", "-").upper(), *entry.aliases):
            assert setting_entry(name) == entry
    with pytest.raises(UnknownSetting) as caught:
        setting_entry("sync_binlogs")
    assert caught.value.hint == "did you mean sync_binlog?"
