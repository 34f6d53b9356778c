from __future__ import annotations

import os
from pathlib import Path

import pytest

from flushlab.errors import UsageError
from flushlab.server.settings_check import Judged, judge_file
from flushlab.settings.floor import Floor
from flushlab.spec.commands import SettingsSpec


@pytest.fixture(autouse=True)
def no_builds(private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unit tests use no server: whatever is installed here is not seen."""
    monkeypatch.setenv("PATH", str(tmp_path))


def judged(text: str, folder: Path, server: str | None = "mysql@5.7.22", memory: str = "64G") -> Judged:
    file = folder / "my.cnf"
    file.write_text(text)
    return judge_file(file, SettingsSpec(server=server, host_memory=memory))


def told(found: Judged) -> list[tuple[str, str, int, str]]:
    return [(one.kind, one.severity, one.line, one.name) for one in found.findings]


def test_what_puts_the_data_at_risk_is_a_finding_with_its_line(tmp_path: Path) -> None:
    found = judged("[mysqld]\n\ninnodb_flush_method = O_DIRECT_NO_FSYNC\n", tmp_path)
    assert told(found) == [("at-risk", "warning", 3, "innodb_flush_method")]
    assert "the data directory may be beyond repair" in found.findings[0].text
    assert found.findings[0].hint == "innodb_flush_method = O_DIRECT is safe"
    assert found.floor is Floor.THROWAWAY


def test_a_pipe_is_read_though_it_gives_its_text_only_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"[mysqld]\ninnodb_flush_log_at_trx_commit = 2\n")
    os.close(writing)
    try:
        found = judge_file(
            Path(f"/dev/fd/{reading}"), SettingsSpec(server="mysql@5.7.22", floor=Floor.STRICT)
        )
    finally:
        os.close(reading)
    assert found.meets is False
    assert [one.name for one in found.findings] == ["innodb_flush_log_at_trx_commit"]


def test_a_file_that_anybody_may_write_to_is_ignored_by_the_server(tmp_path: Path) -> None:
    (tmp_path / "more.cnf").write_text("[mysqld]\nsync_binlog = 1\n")
    (tmp_path / "my.cnf").write_text(f"[mysqld]\n!include {tmp_path}/more.cnf\n")
    for name in ("more.cnf", "my.cnf"):
        (tmp_path / name).chmod(0o666)
        found = judge_file(tmp_path / "my.cnf", SettingsSpec(server="mysql@8.0.46"))
        ignored = [one for one in found.findings if one.kind == "ignored-file"]
        assert [(one.path, one.severity) for one in ignored] == [(str(tmp_path / name), "error")]
        assert ignored[0].hint == f"chmod o-w {tmp_path / name}"
        (tmp_path / name).chmod(0o644)


def test_a_second_that_may_be_lost_is_only_noted(tmp_path: Path) -> None:
    found = judged("[mysqld]\ninnodb_flush_log_at_trx_commit = 2\n", tmp_path)
    assert told(found) == [("at-risk", "note", 2, "innodb_flush_log_at_trx_commit")]


def test_a_default_that_loses_commits_is_told_though_no_line_has_it(tmp_path: Path) -> None:
    found = judged("[mysqld]\nlog_bin\n", tmp_path, "mariadb@10.11.19")
    assert told(found) == [("at-risk", "warning", 0, "sync_binlog")]
    assert "is 0 by default" in found.findings[0].text


def test_each_risky_line_tells_of_its_own_cost_only(tmp_path: Path) -> None:
    text = (
        "[mysqld]\nlog_bin\ninnodb_flush_log_at_trx_commit = 2\ninnodb_doublewrite = OFF\nsync_binlog = 0\n"
    )
    found = judged(text, tmp_path, "mariadb@10.11.19")
    policy, pages, log = found.findings
    assert (policy.severity, pages.severity, log.severity) == ("note", "warning", "warning")
    assert "about 1 s" in policy.text and "sync_binlog" not in policy.text
    assert "torn page" in pages.text and "commits" not in pages.text
    assert "sync_binlog is not 1" in log.text and "about 1 s" not in log.text


def test_a_cost_says_which_failure_it_is_of(tmp_path: Path) -> None:
    found = judged("[mysqld]\ninnodb_flush_log_at_trx_commit = 2\n", tmp_path)
    assert "is 2: when the OS or the power fails, about 1 s" in found.findings[0].text
    found = judged("[mysqld]\ninnodb_flush_log_at_trx_commit = 0\n", tmp_path)
    assert "is 0: when mysqld, the OS or the power fails, about 1 s" in found.findings[0].text


def test_worst_case_memory_is_held_against_the_machine(tmp_path: Path) -> None:
    text = "[mysqld]\ninnodb_buffer_pool_size = 40G\nmax_connections = 5000\nsort_buffer_size = 64M\n"
    found = judged(text, tmp_path)
    assert told(found) == [("memory", "warning", 3, "max_connections")]
    assert "--host-memory is 64 GiB" in found.findings[0].text
    assert found.findings[0].hint is None, "it was given"
    small = judged(text, tmp_path, memory="32G")
    assert told(small) == [("memory", "warning", 2, "innodb_buffer_pool_size")]
    assert judged(text, tmp_path, memory="1000G").findings == ()


@pytest.mark.parametrize(
    ("name", "version"),
    [
        (None, "10.11.19"),
        ("mariadb", "10.11.19"),
        ("mysql@5.7", "5.7.44"),
        ("mysql@8.0", "8.0.46"),
        ("mysql@8", "8.0.46"),
        ("mysql", "8.0.46"),
        ("mysql@8.4", "8.4.9"),
    ],
)
def test_a_name_without_a_release_stands_for_a_stated_one(
    name: str | None, version: str, tmp_path: Path
) -> None:
    found = judged("[mysqld]\nsync_binlog = 1\n", tmp_path, name)
    assert (found.server.version_text, found.assumed) == (version, True)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("[mysqld]\nmysqlx_port = 33070\n", "8.0.46"),
        ("[mysqld]\ninnodb_redo_log_capacity = 1G\n", "8.0.46"),
        ("[mysqld]\nquery_cache_type = 1\nmysqlx_port = 33070\n", "5.7.44"),
        ("[mysqld]\naria_pagecache_buffer_size = 64M\n", "10.11.19"),
    ],
)
def test_a_file_is_judged_for_the_server_that_has_its_options(
    text: str, version: str, tmp_path: Path
) -> None:
    assert judged(text, tmp_path, None).server.version_text == version


def test_a_release_that_is_named_is_not_assumed(tmp_path: Path) -> None:
    assert not judged("[mysqld]\nsync_binlog = 1\n", tmp_path, "mysql@8.0.36").assumed


@pytest.mark.parametrize(
    "text",
    [
        "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/bin/false\n",
        "[PHP]\nengine = On\n[Date]\n[mail function]\n[MySQLi]\n",
        "CREATE TABLE t (id INT);\n",
        "\0\0\0\0",
        "Dear all,\n\nplease find attached the report.\n",
    ],
)
def test_what_is_no_option_file_gets_no_verdict(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not an option file"):
        judged(text, tmp_path)


@pytest.mark.parametrize("text", ["sync_binlog = 1\n", "!includedir /etc/mysql/conf.d\n", "# nothing\n", ""])
def test_an_option_file_may_be_empty_or_without_a_group(text: str, tmp_path: Path) -> None:
    assert judged(text, tmp_path).findings


def test_a_file_for_clients_sets_nothing_and_says_so(tmp_path: Path) -> None:
    assert told(judged("[client]\nport = 3306\n[mysql]\nquick\n", tmp_path)) == [("not-read", "note", 0, "")]


@pytest.mark.parametrize(
    "text", ["[mysqld@s1]\nport = 1\n", "[mysqld_safe]\nsync_binlog = 1\n", "!include no\n"]
)
def test_a_file_whose_lines_this_server_does_not_read_sets_nothing(text: str, tmp_path: Path) -> None:
    found = judged(text, tmp_path)
    assert [one.text for one in found.findings if one.kind == "not-read"] == [
        "the file sets nothing for this server: its defaults hold"
    ]
    assert found.checked.lines == {}
