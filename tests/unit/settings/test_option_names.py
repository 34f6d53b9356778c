from __future__ import annotations

import runpy
from importlib import resources
from pathlib import Path

import pytest

from flushlab.record import Value
from flushlab.settings.option_names import (
    OptionNames,
    Release,
    load_option_names,
    read_help,
    setting_of,
)

_SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "option_names.py"))
listed, render, read_ignored = (_SCRIPT[name] for name in ("listed", "render", "read_ignored"))
OLD, NEW = Release("mysql", (5, 7, 22)), Release("mysql", (8, 0, 15))
OTHER = Release("mariadb", (10, 11, 19))
NAMES = OptionNames(
    (OLD, NEW, OTHER),
    {
        "both": frozenset({OLD, NEW}),
        "gone": frozenset({OLD}),
        "new": frozenset({NEW}),
        "odd": frozenset({OTHER}),
    },
)


def test_a_listed_release_is_known_exactly() -> None:
    assert NAMES.knows("gone", "mysql", (5, 7, 22)) is True
    assert NAMES.knows("gone", "mysql", (8, 0, 15)) is False
    assert NAMES.knows("odd", "mysql", (8, 0, 15)) is False


def test_a_release_between_two_has_what_both_have_and_lacks_what_neither_has() -> None:
    between = (8, 0, 3)
    assert NAMES.knows("both", "mysql", between) is True
    assert NAMES.knows("odd", "mysql", between) is False
    assert NAMES.knows("gone", "mysql", between) is None
    assert NAMES.knows("new", "mysql", between) is None


def test_a_release_after_all_may_have_anything() -> None:
    assert NAMES.knows("new", "mysql", (9, 0, 0)) is True
    assert NAMES.knows("whatever", "mysql", (9, 0, 0)) is None


def test_where_and_near_name_what_there_is() -> None:
    assert NAMES.where("both") == "mysql 5.7, mysql 8.0"
    assert NAMES.where("nowhere") == ""
    assert NAMES.near("boths", "mysql", (8, 0, 15)) == "both"
    assert NAMES.near("gones", "mysql", (8, 0, 15)) is None
    assert NAMES.starting_with("ne", "mysql", (8, 0, 15)) == ("new",)


def test_a_release_ignores_what_the_one_before_it_ignores() -> None:
    names = OptionNames((OLD, NEW), {"new": frozenset({NEW})}, {"old": frozenset({NEW})})
    assert names.ignores("old", "mysql", (8, 0, 36))
    assert not names.ignores("old", "mysql", (8, 0, 3))
    assert not names.ignores("new", "mysql", (8, 0, 36))
    assert names.where("old") == ""
    assert names.names() == {"new", "old"}


def test_the_packaged_list_is_rendered_as_it_was_read() -> None:
    known = load_option_names()
    assert len(known.releases) >= 5
    assert known.knows("innodb_flush_log_at_trx_commit", "mysql", (5, 7, 22))
    text = render(
        {release: known.of(release) for release in known.releases},
        listed(known.ignorers),
        listed(known.limited),
    )
    assert text == (resources.files("flushlab.settings") / "option_names.txt").read_text(encoding="utf-8")


def test_a_release_older_than_all_that_are_listed_ignores_what_the_first_one_does() -> None:
    known = load_option_names()
    assert known.ignores("innodb_buffer_pool_instances", "mariadb", (10, 6, 26))
    assert not known.ignores("innodb_flush_log_at_trx_commit", "mariadb", (10, 6, 26))
    assert not known.ignores("frobnicate", "mariadb", (10, 6, 26))


def test_mariadb_says_which_options_do_nothing() -> None:
    said = (
        "2026-01-01 [Warning] 'innodb-page-cleaners' was removed. It does nothing now and exists only for"
        " compatibility with old my.cnf files.\n"
        "2026-01-01 [Warning] 'log-raw' is MySQL 5.6 / 5.7 compatible option. Not used.\n"
        "2026-01-01 [Warning] unknown variable 'loose-frobnicate=1'\n"
    )
    assert read_ignored(said) == {"innodb_page_cleaners", "log_raw"}


def test_help_text_gives_options_and_the_values_that_were_read() -> None:
    told = read_help(
        "mysqld  Ver 8.0.15\n\nUsage: mysqld [OPTIONS]\n\n"
        "  -b, --basedir=name  Path to installation directory.\n"
        "  --innodb-io-capacity=# \n                      Number of IOPs\n"
        "  --log-bin[=name]    Configures the name prefix\n\n"
        "Variables (--variable-name=value)\n"
        "and boolean options {FALSE|TRUE}                             Value (after reading options)\n"
        "------------------------------------------------------------ -------------\n"
        "basedir                                                      /usr/\n"
        "innodb-io-capacity                                           200\n"
        "log-bin                                                      (No default value)\n\n"
        "To see what values a running MySQL server is using, type\n"
    )
    assert told.names == {"basedir", "innodb_io_capacity", "log_bin"}
    assert told.values == {"basedir": "/usr/", "innodb_io_capacity": "200", "log_bin": "(No default value)"}


@pytest.mark.parametrize(
    ("word", "value", "setting"),
    [
        ("skip-log-bin", None, ("log_bin", "OFF")),
        ("skip_log_bin", "1", ("log_bin", "OFF")),
        ("skip_log_bin", "0", ("log_bin", "ON")),
        ("disable-innodb-doublewrite", None, ("innodb_doublewrite", "OFF")),
        ("enable-log-bin", None, ("log_bin", "ON")),
        ("loose-skip-log-bin", None, ("log_bin", "OFF")),
        ("log-bin", None, ("log_bin", "ON")),
        ("innodb_file_per_table", None, ("innodb_file_per_table", "ON")),
        ("skip-sync-binlog", None, ("sync_binlog", 0)),
        ("skip-performance-schema", None, ("performance_schema", "OFF")),
        ("skip-name-resolve", None, ("skip_name_resolve", "ON")),
        ("loose_sync_binlog", "1", ("sync_binlog", "1")),
        ("log-bin", "/var/log/mysql/bin", ("log_bin", "/var/log/mysql/bin")),
        ("sync_binlog", None, ("sync_binlog", None)),
        ("skip_foo", None, ("skip_foo", None)),
        ("skip_foo", "1", ("skip_foo", "1")),
    ],
)
def test_an_option_stands_for_a_setting_as_the_servers_take_it(
    word: str, value: Value | None, setting: tuple[str, Value | None]
) -> None:
    assert setting_of(word, value) == setting
