from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from flushlab.build.inspect import refused, verbose_help
from flushlab.machine.confinement import available
from tests.unit.builds import MARIADB


def test_a_build_is_asked_about_the_same_options_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flushlab.build.inspect.confine", lambda _: None)
    program, asked = tmp_path / "mariadbd", tmp_path / "asked"
    program.write_text(
        f'#!/bin/sh\nshift 5\necho "$*" >> {asked}\ncase "$*" in *bad*) echo no >&2; exit 1;; esac\n'
    )
    program.chmod(0o755)
    build = replace(MARIADB, mysqld=str(program))
    for _ in range(2):
        assert not verbose_help(build).refuses
        assert refused(build, ["--good", "--bad"]) == {"--bad": "no\n"}
    assert asked.read_text().splitlines() == ["", "--good --bad", "--good", "--bad"]


@pytest.mark.skipif(not available(), reason="this kernel has no Landlock")
def test_what_it_is_asked_about_writes_nowhere(tmp_path: Path) -> None:
    program = tmp_path / "mariadbd"
    program.write_text(f"#!/bin/sh\necho x > {tmp_path}/made\n")
    program.chmod(0o755)
    assert verbose_help(replace(MARIADB, mysqld=str(program))).refuses
    assert not (tmp_path / "made").exists()
