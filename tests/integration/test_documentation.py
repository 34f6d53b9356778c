"""The tutorials' commands with real servers, as a reader types them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import flavors, require_build
from tests.unit.documents import DOCS, ROOT, transcript

QUICKER = {"--blocks 3": "--blocks 1", "probe --quick": "probe --quick --window 0.2"}
"""Words of the tutorials that only make a measurement precise, and what the test runs in their place."""


WRITTEN_FOR = "mariadb@10.11"


@pytest.mark.parametrize(
    ("name", "program", "server"),
    flavors(
        ("fast-tests", "alembic", WRITTEN_FOR),
        ("slow-commits", "mysql", WRITTEN_FOR),
        ("slow-commits", "mysql", "mysql@8.0"),
        first=2,
    ),
)
@pytest.mark.usefixtures("furnished_home")  # the sandbox that a reader keeps has one name
def test_the_commands_of_a_tutorial_run_in_their_order(
    name: str, program: str, server: str, tmp_path: Path
) -> None:
    require_build(server)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if shutil.which(program, path=programs) is None:
        pytest.skip(f"{program} is not installed")
    shutil.copytree(
        ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("target", "__pycache__")
    )
    commands = transcript(DOCS / "tutorials" / f"{name}.md")
    assert len(commands) >= 4
    typed = "\n".join(commands).replace(WRITTEN_FOR, server)
    for words, quicker in QUICKER.items():
        typed = typed.replace(words, quicker)
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", typed],
        cwd=tmp_path,
        env={**plain, "PATH": programs, "FLUSHLAB_QUIET_CHECK": "off", "ORDERS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
