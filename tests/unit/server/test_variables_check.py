"""A file of variables is judged as what its server has, and says which options are not for it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from flushlab.errors import UsageError
from flushlab.server import settings_check
from flushlab.server.remote.login import from_dsn
from flushlab.server.settings_check import Judged, judge_file
from flushlab.settings.floor import Floor
from flushlab.settings.in_force import identity_of
from flushlab.spec.commands import SettingsSpec
from tests.unit.settings.test_dump import FORMS

FILE = "variables"


def judged(text: str, folder: Path, server: str | None = None, floor: Floor | None = None) -> Judged:
    file = folder / FILE
    file.write_text(text)
    return judge_file(file, SettingsSpec(server=server, floor=floor))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_one_verdict_and_no_error_of_variables_that_are_no_options(
    form: str, tmp_path: Path
) -> None:
    found = judged(FORMS[form], tmp_path)
    assert (found.server.name, found.in_force, found.starts) == ("mysql@8.0.36", True, True)
    assert [(one.kind, one.severity, one.name) for one in found.findings] == [
        ("at-risk", "note", "innodb_flush_log_at_trx_commit")
    ]
    assert found.floor is Floor.SECOND
    assert "cannot see the server's host" in found.guarantees["power_loss"]


def test_a_floor_that_it_does_not_meet_is_an_error_at_the_variable(tmp_path: Path) -> None:
    found = judged(FORMS["tabs"], tmp_path, floor=Floor.STRICT)
    assert (found.meets, found.errors) == (False, 1)
    (finding,) = found.findings
    assert (finding.name, finding.line) == ("innodb_flush_log_at_trx_commit", 2)


def test_the_host_that_cannot_be_seen_is_no_fault_of_the_settings(tmp_path: Path) -> None:
    text = FORMS["tabs"].replace("trx_commit\t2", "trx_commit\t1")
    found = judged(text, tmp_path, floor=Floor.STRICT)
    assert (found.floor, found.meets, found.findings) == (Floor.STRICT, True, ())


def test_an_option_file_is_still_one(tmp_path: Path) -> None:
    found = judged("[mysqld]\nsync_binlog = 1\n", tmp_path, "mysql@8.0.36")
    assert not found.in_force


@pytest.mark.parametrize("server", ["mariadb", "mysql@5.7", "mysql@8.0.35"])
def test_variables_of_another_server_than_the_named_one_are_refused(server: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"variables of mysql@8\.0\.36, not of"):
        judged(FORMS["tabs"], tmp_path, server)


@pytest.mark.parametrize("server", ["mysql", "mysql@8.0", "mysql@8.0.36"])
def test_the_server_may_be_named_all_the_same(server: str, tmp_path: Path) -> None:
    assert judged(FORMS["tabs"], tmp_path, server).server.version == (8, 0, 36)


def test_parameters_that_do_not_tell_the_server_are_of_the_named_one(tmp_path: Path) -> None:
    text = '{"Parameters": [{"ParameterName": "sync_binlog", "ParameterValue": "0"}]}'
    found = judged(text, tmp_path, "mysql@8.0.36")
    assert (found.server.version, found.assumed) == ((8, 0, 36), False)
    assert [one.name for one in found.findings] == ["sync_binlog"]


def test_variables_cannot_be_started_with(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_text(FORMS["tabs"])
    with pytest.raises(UsageError, match="--start is for option files"):
        judge_file(file, SettingsSpec(start=True))


@pytest.mark.parametrize(
    ("version", "redo", "kinds"), [("8.0.36", "OFF", ["at-risk"]), ("8.0.20", "OFF", [])]
)
def test_a_server_without_a_redo_log_may_not_start_again(
    version: str, redo: str, kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status is there since 8.0.21; an older server is not asked for it."""
    said = {
        "SHOW GLOBAL VARIABLES": [("version", version), ("sync_binlog", "1")],
        "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'": [("Innodb_redo_log_enabled", redo)],
    }
    told = identity_of({"version": version})
    asked = SimpleNamespace(identity=told, query=said.__getitem__)
    monkeypatch.setattr(settings_check, "RemoteServer", lambda *_, **__: nullcontext(asked))
    found = settings_check.judge_server(from_dsn("mysql://nobody@127.0.0.1:1/"), SettingsSpec())
    assert [one.kind for one in found.findings] == kinds
    assert (found.floor is Floor.THROWAWAY) is bool(kinds)
    assert found.errors == len(kinds)


def test_memory_that_was_named_is_not_taken_for_this_machine_s(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_text("version\t8.0.36\nsync_binlog\t1\ninnodb_buffer_pool_size\t8589934592\n")
    (found,) = (
        one for one in judge_file(file, SettingsSpec(host_memory="1G")).findings if one.kind == "memory"
    )
    assert found.text.endswith("; --host-memory is 1 GiB")
    assert found.hint is None
