from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flushlab.cli.app import make_app
from flushlab.errors import BuildNotFound, StorageError, UnknownSetting, UsageError
from tests.loading import loaded_by, loaded_by_command

TWENTY = Path(__file__).parents[1] / "settings" / "option_files" / "twenty_mistakes.cnf"

app = make_app()


@pytest.fixture(autouse=True)
def no_builds(private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unit tests use no server: whatever is installed here is not seen."""
    monkeypatch.setenv("PATH", str(tmp_path))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["settings", *arguments], catch_exceptions=False)


def run(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0
    return result.stdout


def checked(text: str, tmp_path: Path, *arguments: str) -> dict[str, Any]:
    file = tmp_path / "my.cnf"
    file.write_text(text)
    document: dict[str, Any] = json.loads(run("--check", str(file), "--json", "-", *arguments))
    return document


def test_one_setting_is_explained_for_every_version() -> None:
    text = run("innodb-doublewrite")
    assert "mysql before 8.0.30: ON or OFF; default ON; needs a restart" in text
    assert "mariadb since 11.0.6: OFF, ON, fast; default ON; dynamic" in text
    assert "https://jira.mariadb.org/browse/MDEV-33545" in text


def test_an_explanation_names_what_is_deprecated_rounded_and_in_its_place() -> None:
    text = run("innodb_log_file_size")
    assert "deprecated since 8.0.30, in favor of innodb_redo_log_capacity" in text
    assert "rounded down to a multiple of 1048576" in text
    assert "Where it does not exist, see: innodb_redo_log_capacity" in text


def test_all_settings_are_listed_as_json() -> None:
    document = json.loads(run("--json", "-"))
    assert document["schema"] == "flushlab.settings/1"
    names = [one["name"] for one in document["settings"]]
    assert "sync_binlog" in names
    assert len(names) == len(set(names)) >= 60


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownSetting) as caught:
        run("sync_binlogs")
    assert "sync_binlog" in str(caught.value.hint)


@pytest.mark.parametrize("text", ["", "# nothing\n", "[client]\nport = 1\n", "[mysqld@s1]\nport = 1\n"])
def test_the_verdict_on_a_file_that_sets_nothing_is_told_as_that_of_the_defaults(
    text: str, tmp_path: Path
) -> None:
    file = tmp_path / "my.cnf"
    file.write_text(text)
    said = run("--check", str(file), "--server", "mysql@8.0.15")
    assert "The defaults meet the floor strict" in said
    assert "It meets" not in said


def test_guarantees_stand_in_one_column_beside_the_failures(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text("[mysqld]\ninnodb_flush_log_at_trx_commit = 2\n")
    lines = run("--check", str(file), "--server", "mariadb@10.11").splitlines()
    rows = [
        line
        for line in lines
        if line.startswith(("  mysqld is killed", "  the operating system", "  a page"))
    ]
    assert len(rows) == 3
    assert {line.rindex("  ") for line in rows} == {rows[1].index("crashes  ") + len("crashes")}


def test_a_check_prints_each_finding_with_its_place_and_what_the_file_guarantees() -> None:
    text = run("--check", str(TWENTY), "--server", "mysql@8.0.15")
    said = " ".join(text.split())
    assert f"{TWENTY}:7: error: innodb_flush_log_at_trx_comit is not an option of mysql 8.0.15" in said
    assert "hint: did you mean innodb_flush_log_at_trx_commit?" in said
    assert "the server does not start with it" in said
    assert "the power fails nothing is lost if the device honors flushes" in said
    assert max(map(len, text.replace(str(TWENTY), "FILE").splitlines())) <= 80


def test_a_check_is_a_document_for_programs(tmp_path: Path) -> None:
    text = "[mysqld]\ninnodb_flush_log_at_trx_commit = 2\nsync-binlog = 0\nlog_bin\nserver_id = 1\n"
    document = checked(text, tmp_path, "--server", "mysql@5.7", "--floor", "second")
    assert document["schema"] == "flushlab.settings-check/1"
    assert document["server"] == {"flavor": "mysql", "version": "5.7.44"}
    assert (document["starts"], document["build_asked"]) == (True, False)
    assert (document["floor"], document["meets"]) == ("throwaway", False)
    assert document["settings"]["sync_binlog"] == 0
    (finding,) = document["findings"]
    assert (finding["kind"], finding["name"], finding["line"]) == ("below-floor", "sync_binlog", 3)


def test_included_files_are_read_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "a.cnf").write_text("[mysqld]\nsync_binlog = often\n")
    (folder / ".hidden.cnf").write_text("[mysqld]\nport = 1\n")
    (folder / "dir.cnf").mkdir()
    (folder / "b.txt").write_text("not an option file\n")
    document = checked(f"!includedir {folder}\n", tmp_path, "--server", "mysql@8.0.15")
    read, finding = document["findings"]
    assert read["text"] == f"{folder} was read on this machine: .hidden.cnf, a.cnf"
    assert (finding["path"], finding["line"]) == (str(folder / "a.cnf"), 2)


def test_a_template_has_no_floor(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf.j2"
    file.write_text("[mysqld]\nport = {{ port }}\n")
    with pytest.raises(UsageError, match=r"is a template: line 2 has \{\{ … \}\}") as caught:
        run("--check", str(file), "--server", "mysql@8.0.15")
    assert caught.value.hint == "give the rendered file"


def test_a_file_that_anybody_may_write_to_is_told_to_be_ignored(tmp_path: Path) -> None:
    file = tmp_path / "open.cnf"
    file.write_text("[mysqld]\n")
    file.chmod(0o666)
    document = json.loads(run("--check", str(file), "--server", "mysql@8.0.15", "--json", "-"))
    assert [one["kind"] for one in document["findings"]] == ["ignored-file"]


def test_neither_a_check_nor_a_list_loads_heavy_libraries() -> None:
    assert not loaded_by("import flushlab.cli.settings_server")[0] & {"scipy", "numpy", "matplotlib"}


def test_a_setting_is_explained_without_what_takes_long_to_load() -> None:
    loaded, printed = loaded_by_command("settings", "sync_binlog")
    assert not loaded & {"rich", "scipy"}
    assert printed.startswith("sync_binlog\n")


def test_strict_turns_errors_into_an_exit_code_and_leaves_warnings(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text("[mysqld]\nsync_binlog = 1\nsync_binlog = 1\n")
    assert invoke("--check", str(file), "--server", "mysql@8.0.15", "--fail-on-error").exit_code == 0
    file.write_text("[mysqld]\nsync_binlog = often\n")
    assert invoke("--check", str(file), "--server", "mysql@8.0.15").exit_code == 0
    assert invoke("--check", str(file), "--server", "mysql@8.0.15", "--fail-on-error").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--check", "/no/such/my.cnf", "--server", "mysql@8.0"), StorageError),
        (("--check", str(TWENTY), "--server", "mysql@6.0"), BuildNotFound),
        (("--check", str(TWENTY), "--server", "sandbox:x"), UsageError),
        (("--check", str(TWENTY), "--server", "mysql@8.0", "sync_binlog"), UsageError),
        (("--fail-on-error",), UsageError),
        (("sync_binlogs", "--server", "mysql@8.0"), UnknownSetting),
    ],
)
def test_requests_that_make_no_sense_are_refused_with_a_way_out(
    arguments: tuple[str, ...], error: type[UsageError]
) -> None:
    with pytest.raises(error) as caught:
        run(*arguments)
    assert caught.value.hint


@pytest.mark.parametrize(
    "beside",
    [
        ("sync_binlog",),
        ("--check", "my.cnf"),
        ("--server", "mysql@8.0"),
        ("--static",),
        ("--start",),
        ("--defaults-group-suffix", "@s1"),
    ],
)
def test_a_running_server_is_checked_as_it_is(beside: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=f"^{beside[0]} cannot be combined with --dsn"):
        run("--dsn", "mysql://nobody:secret@127.0.0.1:1/", *beside)


@pytest.mark.parametrize("named", [("-h", "db1"), ("-u", "me"), ("-p",), ("-S", "/a.sock")])
def test_flags_of_a_running_server_do_not_go_with_a_build(named: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"^--server cannot be combined with --") as refused:
        run(*named, "--server", "mysql@8.0")
    assert refused.value.hint == "remove one of them"


def test_one_node_is_checked_at_a_time() -> None:
    with pytest.raises(UsageError, match="names several servers"):
        run("--dsn", "mysql://nobody:secret@127.0.0.1:1,127.0.0.1:2/")


def test_variables_in_a_file_are_called_so(tmp_path: Path) -> None:
    file = tmp_path / "variables.txt"
    file.write_text("version\t8.0.36\nsync_binlog\t1\nlog_bin\tON\n")
    text = " ".join(run("--check", str(file)).split())
    assert "variables.txt, variables of mysql@8.0.36: no mistakes found." in text
    assert "binary was not run" not in text
    document = json.loads(run("--check", str(file), "--json", "-"))
    assert (document["in_force"], document["floor"]) == (True, "strict")
