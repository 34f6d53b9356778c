"""`flushlab settings` with real builds: what a server has, and checks that ask the binary."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.cli import settings_server
from flushlab.cli.settings_server import survey
from flushlab.errors import BelowFloor
from flushlab.server import Sandbox
from flushlab.server.remote.login import Address
from flushlab.server.settings_check import judge_file, judge_server
from flushlab.settings.floor import Floor
from flushlab.spec.commands import SettingsSpec
from tests.conftest import flavors

TWENTY = Path(__file__).parents[1] / "unit" / "settings" / "option_files" / "twenty_mistakes.cnf"


def test_a_build_tells_its_values_and_what_may_be_tried(build: Callable[[str], Build]) -> None:
    found = survey(build("mariadb@10.11").id, basedir=None, floor=Floor.SECOND)
    assert found.values["innodb_flush_log_at_trx_commit"] == 1
    assert len(found.values) > 60
    assert {"innodb_flush_log_at_trx_commit": 2} in [dict(one.settings) for one in found.candidates]


def test_a_kept_sandbox_tells_what_it_runs_with(sandbox: Callable[..., Sandbox]) -> None:
    name = f"told-{os.getpid()}"
    sandbox(settings={"innodb_flush_log_at_trx_commit": 2}, name=name, kept=True)
    found = survey(f"sandbox:{name}", basedir=None, floor=None, only="innodb-flush-log-at-trx-commit")
    assert found.values == {"innodb_flush_log_at_trx_commit": 2}
    assert found.floor is Floor.SECOND
    with pytest.raises(BelowFloor):
        survey(f"sandbox:{name}", basedir=None, floor=Floor.STRICT)


@pytest.mark.parametrize("name", flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", first=2))
def test_asking_the_binary_finds_no_less_than_the_lists(name: str, build: Callable[[str], Build]) -> None:
    release = f"{name.partition('@')[0]}@{'.'.join(map(str, build(name).version))}"
    asked = judge_file(TWENTY, SettingsSpec(server=release))
    static = judge_file(TWENTY, SettingsSpec(server=release, static=True))
    assert (asked.asked, static.asked) == (True, False)
    assert {(one.line, one.kind) for one in asked.findings} == {
        (one.line, one.kind) for one in static.findings
    }
    assert len([one for one in asked.findings if one.kind != "at-risk"]) == 20


def test_the_binary_tells_what_it_makes_of_options_outside_the_catalog(
    build: Callable[[str], Build], tmp_path: Path
) -> None:
    file = tmp_path / "my.cnf"
    file.write_text("[mysqld]\nskip-name-resolve\nnet_retry_count = 5\nback_log = 99999999\n")
    (finding,) = judge_file(file, SettingsSpec(server=build("mariadb@10.11").id)).findings
    assert (finding.kind, finding.name, finding.line) == ("out-of-range", "back_log", 4)
    assert "the server changes it to 65535" in finding.text


def test_the_real_build_is_started_with_a_file_and_says_what_it_refuses(
    build: Callable[[str], Build], tmp_path: Path
) -> None:
    file = tmp_path / "my.cnf"
    file.write_text("[mysqld]\nback_log = 200\ninnodb_buffer_pool_size = 900G\ndatadir = /var/lib/mysql\n")
    release = build("mariadb@10.11").id
    good = judge_file(file, SettingsSpec(server=release, start=True)).started
    assert good is not None
    assert (good.ran, good.refusal, good.without) == (True, "", ())
    assert [one.name for one in good.left_out] == ["datadir"]
    assert [one.name for one in good.scaled.scaled] == ["innodb_buffer_pool_size"]
    file.write_text("[mysqld]\nback_log = 200\ninnodb_io_capacity = 50\n")
    adjusted = judge_file(file, SettingsSpec(server=release, start=True)).started
    assert adjusted is not None and adjusted.ran
    assert any("value 50 adjusted to 100" in line for line in adjusted.said), adjusted.said
    file.write_text("[mysqld]\nback_log = 200\ninnodb_additional_mem_pool_size = 2M\n")
    bad = judge_file(file, SettingsSpec(server=release, start=True))
    assert not bad.starts
    assert bad.started is not None
    assert (bad.started.ran, bad.started.without) == (True, ("innodb_additional_mem_pool_size",))
    assert "unknown variable" in bad.started.refusal


@pytest.mark.parametrize("name", flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", first=2))
def test_the_words_of_a_server_that_is_started_with_a_file_are_about_the_line_as_it_is_written(
    name: str, build: Callable[[str], Build], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my.cnf"
    for line, word in (
        ("innodb-redo-log-capacity = 96M", "innodb-redo-log-capacity=96M"),
        ("foo: 3", "foo: 3"),
    ):
        file.write_text(f"[mysqld]\n{line}\n")
        refused = judge_file(file, SettingsSpec(server=build(name).id, start=True)).started
        assert refused is not None
        assert (refused.ran, f"'--{word}'" in refused.refusal or f"'{word}'" in refused.refusal) == (
            True,
            True,
        )
    file.write_text("[mysqld]\nmaster_password = s3cret\n[client\n")
    judged = judge_file(file, SettingsSpec(server=build(name).id, start=True))
    assert (judged.starts, judged.started is not None and judged.started.refusal) == (False, "")
    settings_server.show(judged, "my.cnf")
    said = " ".join(capsys.readouterr().out.split())
    assert "started without the lines that stop it, on an empty data directory" in said
    assert "s3cret" not in said


@pytest.mark.parametrize("name", flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", first=2))
def test_a_running_server_and_a_dump_of_its_variables_have_the_one_verdict(
    name: str, sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    server = sandbox(name, settings={"innodb_flush_log_at_trx_commit": 2})
    asked = judge_server(Address(endpoint=server.endpoint), SettingsSpec())
    assert (asked.server.flavor, asked.server.version) == (server.identity.flavor, server.identity.version)
    dump = tmp_path / "variables.tsv"
    rows = server.query("SHOW GLOBAL VARIABLES")
    dump.write_text("Variable_name\tValue\n" + "".join(f"{name}\t{value}\n" for name, value in rows))
    read = judge_file(dump, SettingsSpec())
    assert (asked.floor, read.floor) == (Floor.SECOND, Floor.SECOND)
    assert asked.guarantees == read.guarantees
    assert asked.checked.settings == read.checked.settings
    told = [(one.kind, one.name, one.text) for one in asked.findings]
    assert told == [(one.kind, one.name, one.text) for one in read.findings]
    assert [name for kind, name, _ in told if kind == "at-risk"] == ["innodb_flush_log_at_trx_commit"]
    assert asked.errors == 0
