from __future__ import annotations

import itertools
import runpy
from pathlib import Path

import msgspec
import pytest

from flushlab.errors import UnknownSetting, ValueOutOfRange
from flushlab.record.machine import Flavor
from flushlab.settings.catalog import SettingHere, load_catalog, read_entries, setting_entry, version_of


def here(name: str, flavor: Flavor, *version: int) -> SettingHere:
    found = load_catalog().here(name, flavor, version)
    assert found is not None
    return found


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


def test_a_misspelled_key_or_a_wrong_type_is_refused() -> None:
    text = '[[setting]]\nname = "x"\ngroup = "x"\neffect = "x"\nsource = []\nversion = []\n'
    for line, problem in (("dynamik = true", "dynamik"), ('dynamic = "yes"', "dynamic")):
        with pytest.raises(msgspec.ValidationError, match=problem):
            read_entries(text + line)


def test_every_name_stands_in_the_catalog_once() -> None:
    names = [name for entry in load_catalog().settings() for name in (entry.name, *entry.aliases)]
    assert sorted(names) == sorted(set(names))


def test_no_two_versions_of_a_setting_hold_at_once() -> None:
    for entry in load_catalog().settings():
        spans = [
            (one.flavor, version_of(one.since or "0"), version_of(one.until or "9999"))
            for one in entry.version
        ]
        for (flavor, since, until), (other, later, end) in itertools.combinations(spans, 2):
            assert flavor != other or until <= later or end <= since, entry.name


def test_every_setting_has_a_type_a_default_in_range_and_values_on_each_of_its_versions() -> None:
    for entry in load_catalog().settings():
        for one in entry.version:
            there = here(entry.name, one.flavor, *version_of(one.since or "0"))
            assert there.same(there.default, there.default), entry.name
            assert there.values or there.type != "enumeration", entry.name


def test_candidates_are_complete_and_allowed_by_some_version() -> None:
    catalog = load_catalog()
    for entry in catalog.settings():
        heres = [here(entry.name, one.flavor, *version_of(one.since or "5.7")) for one in entry.version]
        for one in entry.candidate:
            assert not entry.fixed, entry.name
            assert (one.value is None) != (one.memory_share is None), entry.name
            assert one.value is None or any(there.same(one.value, one.value) for there in heres), entry.name
            assert all(name in catalog for name in one.settings_with), entry.name
        assert all(name in catalog for name in entry.successor), entry.name


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


ROOT = Path(__file__).parents[3]


def test_the_settings_reference_is_what_the_catalog_says() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "settings_reference.py"))["render"]()
    written = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert written == page, "run .venv/bin/python scripts/settings_reference.py"
