from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import load_catalog
from flushlab.settings.check import CheckedFile, check
from flushlab.settings.optionfile import render
from tests.unit.settings.servers import ALL, MARIADB1011, MYSQL57, MYSQL80

CATALOG = load_catalog()
CLUSTER = msgspec.structs.replace(MARIADB1011, nodes=3)
ODD = {"foreign_key_checks", "unique_checks", "innodb_buffer_pool_instances"}
"""Variables that are no options of some versions; a default that holds for large pools alone."""


def read(text: str, identity: ServerIdentity = MARIADB1011) -> CheckedFile:
    return check(text, identity, path="my.cnf")


def values(text: str, identity: ServerIdentity = MARIADB1011) -> dict[str, Value]:
    return dict(read(text, identity).settings)


def test_the_last_value_wins_across_the_groups_that_a_server_reads() -> None:
    text = "[mysqld]\nsync_binlog=1\n[client]\nsync_binlog=5\n[mariadb-10.11]\nsync-binlog = 7\n[server]\n"
    assert values(text) == {"sync_binlog": 7}
    assert values(text, MYSQL80) == {"sync_binlog": 1}
    assert read(text).lines["sync_binlog"] == ("my.cnf", 6)


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
    assert "a#b" in read(f"[mysqld]\ninit_connect = {text}\n").others["init_connect"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("init_connect = 'a' 'b'", "a' 'b"),
        (r'init_connect = "a\"b"', 'a"b'),
        (r"init_connect = a\#b", "a\\"),
        (r"init_connect = 'a\'#b'", "a'#b"),
        (r"init_connect = \\s\s\q", r"\s \q"),
        ("init_connect = 'a", "'a"),
        ("init_connect = '", "'"),
        ("init_connect =", ""),
        ("init_connect = voil\u00e0 # its last byte, A0, is a blank", "voil\ufffd"),
        ("init_connect = 'voil\u00e0'", "voil\u00e0"),
        ("init_connect = \u00a0a", "\u00a0a"),
    ],
)
def test_values_are_cut_and_unescaped_as_servers_do(line: str, text: str) -> None:
    assert read(f"[mysqld]\n{line}\n").others["init_connect"] == text


@pytest.mark.parametrize("name", ["port\u00a0", "port\x1f", "port\u2003"])
def test_only_what_servers_take_for_a_blank_is_cut_off_a_name(name: str) -> None:
    (finding,) = read(f"[mysqld]\n{name}=1\n").findings
    assert (finding.text, finding.fatal) == ("is neither NAME nor NAME = VALUE", True)


@pytest.mark.parametrize("line", ["---", "foo: bar", "=3"])
def test_what_is_no_option_does_no_harm_in_a_group_that_is_not_read(line: str) -> None:
    assert not read(f"[client]\n{line}\n[mysqld]\n").findings


def test_switches_take_skip_disable_and_enable() -> None:
    assert values("[mysqld]\nskip-log-bin\n") == {"log_bin": "OFF"}
    assert values("[mysqld]\ndisable_log_bin\n", MYSQL80) == {"log_bin": "OFF"}
    assert values("[mysqld]\nskip-innodb-doublewrite\n") == {"innodb_doublewrite": "OFF"}
    assert values("[mysqld]\nenable-innodb-doublewrite\n") == {"innodb_doublewrite": "ON"}
    assert values("[mysqld]\nskip_log_bin=0\n") == {"log_bin": "ON"}


@pytest.mark.parametrize("line", ["log_bin", "log-bin=mysql-bin", "log_bin = /var/log/bin", "log_bin=0"])
def test_log_bin_with_or_without_a_file_name_means_on(line: str) -> None:
    assert values(f"[mysqld]\n{line}\n") == {"log_bin": "ON"}


def test_groups_are_read_in_any_case_and_whatever_follows_them() -> None:
    for group in ("[MySQLd]", "[mysqld ]", "[mysqld] # of production", "[mysqld] old"):
        assert values(f"{group}\nsync_binlog=3\n") == {"sync_binlog": 3}
    assert values("[ mysqld]\nsync_binlog=3\n") == {}


def test_only_a_line_feed_ends_a_line() -> None:
    assert values("[mysqld]\r\nsync_binlog=3\r\n") == {"sync_binlog": 3}
    assert values("[mysqld]\nsync_binlog=3 # \u2028innodb_doublewrite=OFF\n") == {"sync_binlog": 3}


def test_settings_outside_the_catalog_are_kept_as_they_are_written() -> None:
    text = "[mysqld]\nmax_connections = 500\nskip-name-resolve\n"
    assert read(text).others == {"max_connections": "500", "skip_name_resolve": "ON"}


def test_includes_are_read_in_their_places_by_the_loader() -> None:
    text = "[mysqld]\nsync_binlog=1\n!includedir /etc/mysql/conf.d/\n"
    (note,) = read(text).findings
    assert (note.kind, note.place) == ("include", "my.cnf:3")
    loaded = check(text, MARIADB1011, loader=lambda path, _: [(path + "a.cnf", "[mysqld]\nsync_binlog=9\n")])
    assert loaded.lines["sync_binlog"] == ("/etc/mysql/conf.d/a.cnf", 2)


def test_files_that_include_each_other_are_not_read_for_ever() -> None:
    checked = check("!include a", MARIADB1011, loader=lambda path, _: [(path, "!include a")])
    assert "nested more than" in checked.findings[-1].text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sync_binlog=1\n", "my.cnf:1 is outside any group"),
        ("sync_binlog: 0\n[mysqld]\n", "my.cnf:1 is outside any group"),
        ("foo: bar\n[mysqld]\n", "my.cnf:1 is outside any group"),
        ("---\n[mysqld]\n", "my.cnf:1 is outside any group"),
        ("[client\n[mysqld]\n", "my.cnf:1 the line is a group without its ]"),
        ("[client]\n!includedir\n", "my.cnf:2 !includedir names nothing to include"),
        ("[mysqld\n", "my.cnf:1 the line is a group without its ]"),
        ("[mysqld]\n\n=3\n", "my.cnf:3 the line is neither NAME nor NAME = VALUE"),
        (
            "[mysqld]\nsync_binlog='1\n",
            "my.cnf:2 begins with a ' that nothing closes, so it is part of the value:"
            " the server does not start",
        ),
        (f"[mysqld]\n#{'x' * 5000}\n", "my.cnf:2 the line is longer than the 4094 bytes of a line"),
        (f"[client]\n[{'x' * 5000}]\n", "my.cnf:2 the line is longer than the 4094 bytes of a line"),
    ],
)
def test_a_line_that_stops_the_server_is_told_with_file_and_line(text: str, message: str) -> None:
    (finding,) = read(text).findings
    assert f"{finding.place} {finding.text}" == message
    assert finding.fatal


@pytest.mark.parametrize(
    "line",
    [
        "wsrep_sst_auth = sst:s3cret",
        "report_password='s3cret",
        "wsrep_sst_auth sst:s3cret",
        "report_password:s3cret",
        "[mysqld\nreport_password=s3cret",
        "!report_password s3cret",
    ],
)
def test_no_problem_repeats_what_may_be_a_password(line: str) -> None:
    for text in (f"[mysqld]\n{line}\n", f"{line}\n"):
        for server in ALL:
            assert not [one for one in read(text, server).findings if "s3cret" in f"{one.text} {one.hint}"]


def test_an_option_file_is_rendered_with_comments() -> None:
    text = render(
        {"innodb_log_buffer_size": 67108864, "log_bin": "OFF", "max_connections": 500},
        MYSQL80,
        header=["by flushlab"],
        comments={"log_bin": ["no replicas"]},
    )
    assert text == (
        "# by flushlab\n[mysqld]\ninnodb_log_buffer_size = 64M\n"
        "# no replicas\nskip_log_bin\nmax_connections = 500\n"
    )


@given(data=st.data())
def test_what_is_rendered_is_parsed_back(data: st.DataObject) -> None:
    identity = msgspec.structs.replace(
        data.draw(st.sampled_from(ALL)), nodes=data.draw(st.sampled_from([1, 3]))
    )
    names = data.draw(st.sets(st.sampled_from(CATALOG.names(identity.flavor, identity.version))))
    here = {name: CATALOG.require(name, identity.flavor, identity.version) for name in sorted(names)}
    settings = {name: one.parse(one.default) for name, one in here.items() if name not in ODD}
    if identity.nodes == 1:
        settings = {name: value for name, value in settings.items() if not here[name].part}
    assert values(render(settings, identity), identity) == settings


def test_galeras_options_stand_in_one_line_and_are_read_from_it() -> None:
    settings: dict[str, Value] = {
        "wsrep_provider_gcs_fc_limit": 64,
        "sync_binlog": 0,
        "gcache.size": 256 << 20,
    }
    text = render(settings, CLUSTER, comments={"wsrep_provider_gcs_fc_limit": ["queues"]})
    assert text == (
        "[mysqld]\n"
        "# Galera's options share one line: keep those that your option file already has there.\n"
        "# queues\n"
        'wsrep_provider_options = "gcs.fc_limit=64;gcache.size=256M"\n'
        "sync_binlog = 0\n"
    )
    assert values(text, CLUSTER) == {
        "wsrep_provider_gcs_fc_limit": 64,
        "wsrep_provider_gcache_size": 256 << 20,
        "sync_binlog": 0,
    }
    assert values(text, MARIADB1011) == {"sync_binlog": 0}, "a single server has no use of them"
