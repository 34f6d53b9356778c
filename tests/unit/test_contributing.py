"""The worked examples of CONTRIBUTING.md, applied to a copy of the sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"^```diff\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and its unit tests, with all examples applied; the native core is a link."""
    folder = tmp_path_factory.mktemp("contributing")
    rubbish = shutil.ignore_patterns("__pycache__", "*.so", "integration", "contract")
    for name in ("python", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=rubbish)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for core in (ROOT / "python" / "flushlab").glob("_core*.so"):
        (folder / "python" / "flushlab" / core.name).symlink_to(core)
    for example in EXAMPLES:
        applied = subprocess.run(
            # without a repository above, git apply takes paths from the folder it runs in
            ["git", "apply", "-C1", "-"],
            cwd=folder,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)},
            input=example,
            capture_output=True,
            text=True,
        )
        assert applied.returncode == 0, f"{applied.stderr}\n{example}"
    return folder


def test_there_is_an_example_of_a_setting_a_workload_and_a_report() -> None:
    changed = [set(re.findall(r"^\+\+\+ b/python/flushlab/(\w+)/", example, re.M)) for example in EXAMPLES]
    assert changed == [{"settings"}, {"workload"}, {"report"}]


def test_the_tests_of_every_example_pass(copy: Path) -> None:
    tests = [file for example in EXAMPLES for file in re.findall(r"^\+\+\+ b/(tests/\S+)$", example, re.M)]
    assert len(tests) == len(EXAMPLES), "each example brings its test"
    without_pytest = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *tests],
        cwd=copy,
        env={**without_pytest, "PYTHONPATH": str(copy / "python"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_every_example_keeps_the_style(copy: Path) -> None:
    files = [file for example in EXAMPLES for file in re.findall(r"^\+\+\+ b/(\S+\.py)$", example, re.M)]
    for check in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ruff"), *check, "--no-cache", *files],
            cwd=copy,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
