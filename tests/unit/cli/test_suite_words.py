"""`flushlab test`: files in the place of the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.cli.test import _require_quoted
from flushlab.errors import UsageError
from flushlab.spec.commands import DatabaseSpec, SuiteSpec


def require(folder: Path, *command: str, inputs: tuple[str, ...] = ("sql/V1.sql",)) -> None:
    (folder / "sql").mkdir()
    for name in ("V1.sql", "V2.sql", "V3.sql"):
        (folder / "sql" / name).write_text("")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    _require_quoted(SuiteSpec(command=command, throwaway=DatabaseSpec(prepare="true", inputs=inputs)))


@pytest.mark.parametrize(
    "command",
    [
        ("sql/V2.sql", "sql/V3.sql", "--", "mvn", "test"),
        ("sql/V2.sql", "./run.sh"),
        ("sql/V2.sql", "--", "x"),
    ],
)
def test_a_pattern_that_the_shell_has_replaced_is_to_be_quoted(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"sql/V2\.sql is an input, not the command") as error:
        require(tmp_path, *command)
    assert error.value.hint == "quote it, for example --inputs 'sql/*.sql'"


@pytest.mark.parametrize(
    ("given", "command", "hint"),
    [
        ("m/01/ddl.sql", ("m/02/ddl.sql", "--", "x"), "m/*/ddl.sql"),
        ("m/01/a.sql", ("m/02/ddl.sql", "x"), "m/*/*.sql"),
        ("m/01", ("m/02", "--", "x"), "m/**"),
    ],
)
def test_the_hint_names_a_pattern_that_matches_all_folders(
    given: str, command: tuple[str, ...], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("m/01/a.sql", "m/01/ddl.sql", "m/02/ddl.sql"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("")
    with pytest.raises(UsageError) as error:
        require(tmp_path, *command, inputs=(given,))
    assert error.value.hint == f"quote it, for example --inputs '{hint}'"


@pytest.mark.parametrize("inputs", ["sql/**", "sql", "sql/V1.sql", "run.sh"])
@pytest.mark.parametrize("command", ["./gradlew", "./run.sh"])
def test_a_program_of_the_project_is_the_command(
    command: str, inputs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gradlew").touch(0o755)
    require(tmp_path, command, "test", inputs=(inputs,))


@pytest.mark.parametrize("command", [("./run.sh", "--", "x"), ("mvn", "test"), ("docker", "run", "--", "x")])
def test_commands_may_have_two_dashes_of_their_own(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    require(tmp_path, *command)
