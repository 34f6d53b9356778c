from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.errors import UnknownSetting, UsageError
from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import load_catalog
from flushlab.settings.optionfile import Include, OptionFile, parse, render, typed
from tests.unit.settings.servers import ALL, MARIADB1011, MYSQL57, MYSQL80

CATALOG = load_catalog()


def read(text: str, identity: ServerIdentity = MARIADB1011) -> OptionFile:
    return parse(text, identity, CATALOG, path="my.cnf")


def values(text: str, identity: ServerIdentity = MARIADB1011) -> dict[str, Value]:
    return dict(typed(read(text, identity), identity, CATALOG).settings)


def test_the_last_value_wins_across_the_groups_that_a_server_reads() -> None:
    text = "[mysqld]\nsync_binlog=1\n[client]\nsync_binlog=5\n[mariadb-10.11]\nsync-binlog = 7\n[server]\n"
    assert values(text) == {"sync_binlog": 7}
    assert values(text, MYSQL80) == {"sync_binlog": 1}
    assert read(text).last()["sync_binlog"].line == 6


def test_groups_of_another_version_are_not_read() -> None:
    assert values("[mysqld-5.7]\nsync_binlog=3\n", MYSQL57) == {"sync_binlog": 3}
    assert values("[mysqld-5.7]\nsync_binlog=3\n", MYSQL80) == {}


def test_dashes_quotes_sizes_and_comments_are_understood() -> None:
    text = (
        "# top\n; also\n[mysqld]\n  innodb-log-buffer-size = '64M'   # in bytes\n"
        'innodb_flush_method="O_DIRECT"\ninnodb_max_dirty_pages_pct=80.5#without a space too\n'
        "log_bin # = off\n"
    )
    assert values(text) == {
        "innodb_log_buffer_size": 67108864,
        "innodb_flush_method": "O_DIRECT",
        "innodb_max_dirty_pages_pct": 80.5,
        "log_bin": "ON",
    }


@pytest.mark.parametrize("text", ["'a#b'", '"a#b"', "x 'a#b'", '"a#b" # c'])
def test_a_hash_in_quotes_begins_no_comment(text: str) -> None:
    assert (
        "a#b"
        in typed(read(f"[mysqld]\ninit_connect = {text}\n"), MARIADB1011, CATALOG).others["init_connect"]
    )


def test_switches_take_skip_disable_and_enable() -> None:
    assert values("[mysqld]\nskip-log-bin\n") == {"log_bin": "OFF"}
    assert values("[mysqld]\ndisable_log_bin\n", MYSQL80) == {"log_bin": "OFF"}
    assert values("[mysqld]\nskip-innodb-doublewrite\n") == {"innodb_doublewrite": "OFF"}
    assert values("[mysqld]\nenable-innodb-doublewrite\n") == {"innodb_doublewrite": "ON"}
    assert values("[mysqld]\nskip_log_bin=0\n") == {"log_bin": "ON"}


@pytest.mark.parametrize("line", ["log_bin", "log-bin=mysql-bin", "log_bin = /var/log/bin", "log_bin=0"])
def test_log_bin_with_or_without_a_file_name_means_on(line: str) -> None:
    assert values(f"[mysqld]\n{line}\n") == {"log_bin": "ON"}


def test_a_loose_option_that_the_server_lacks_is_left_out() -> None:
    assert values("[mysqld]\nloose_innodb_page_cleaners=4\n") == {}
    with pytest.raises(UnknownSetting, match=r"my\.cnf:2: innodb_page_cleaners is not a setting of mariadb"):
        values("[mysqld]\ninnodb_page_cleaners=4\n")


def test_settings_outside_the_catalog_are_kept_as_they_are_written() -> None:
    text = "[mysqld]\nmax_connections = 500\nskip-name-resolve\n"
    assert typed(read(text), MARIADB1011, CATALOG).others == {
        "max_connections": "500",
        "skip_name_resolve": "ON",
    }


def test_includes_are_values_unless_a_loader_is_given() -> None:
    text = "[mysqld]\nsync_binlog=1\n!includedir /etc/mysql/conf.d/\n"
    expected = Include(target="/etc/mysql/conf.d/", directory=True, path="my.cnf", line=3)
    assert read(text).includes == (expected,)
    loaded = parse(
        text, MARIADB1011, CATALOG, loader=lambda path, _: [(path + "a.cnf", "[mysqld]\nsync_binlog=9\n")]
    )
    assert loaded.last()["sync_binlog"].place == "/etc/mysql/conf.d/a.cnf:2"
    assert loaded.includes == ()


def test_files_that_include_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="nested more than"):
        parse("!include a", MARIADB1011, CATALOG, loader=lambda path, _: [(path, "!include a")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sync_binlog=1\n", "my.cnf:1: 'sync_binlog=1' is outside any group"),
        ("[mysqld\n", "my.cnf:1: '[mysqld' is not a group"),
        ("[mysqld]\n\n=3\n", "my.cnf:3: '' is not an option name"),
        ("[mysqld]\nsync_binlog='1\n", "my.cnf:2: the quote ' is not closed"),
        ("!includefile x\n", "my.cnf:1: '!includefile x' is neither"),
        (
            "[mysqld]\ninnodb_doublewrite=no\n",
            "my.cnf:2: innodb_doublewrite is 'no', which is neither ON nor OFF",
        ),
        ("[mysqld]\ninnodb_log_buffer_size=1.5G\n", "my.cnf:2: innodb_log_buffer_size is '1.5G'"),
        ("[mysqld]\nsync_binlog=-4\n", "my.cnf:2: sync_binlog was set to '-4', which is below 0"),
    ],
)
def test_a_bad_line_names_file_and_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        values(text)
    assert caught.value.message.startswith(message)


def test_an_option_file_is_rendered_with_comments() -> None:
    text = render(
        {"innodb_log_buffer_size": 67108864, "log_bin": "OFF", "max_connections": 500},
        MYSQL80,
        CATALOG,
        header=["by flushlab"],
        comments={"log_bin": ["no replicas"]},
    )
    assert text == (
        "# by flushlab\n[mysqld]\ninnodb_log_buffer_size = 64M\n"
        "# no replicas\nskip_log_bin\nmax_connections = 500\n"
    )


@given(data=st.data())
def test_what_is_rendered_is_parsed_back(data: st.DataObject) -> None:
    identity = data.draw(st.sampled_from(ALL))
    names = data.draw(st.sets(st.sampled_from(CATALOG.names(identity.flavor, identity.version))))
    here = {name: CATALOG.require(name, identity.flavor, identity.version) for name in sorted(names)}
    settings = {name: one.parse(one.default) for name, one in here.items()}
    assert values(render(settings, identity, CATALOG), identity) == settings
