"""Which unit tests `make quick` chooses for a change."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.scripts import script

ROOT = Path(__file__).parents[2]
quick = script("scripts/quick.py")

IMPORTS = {
    "flushlab.units": frozenset[str](),
    "flushlab.plan": frozenset({"flushlab.units"}),
    "flushlab.plan.parse": frozenset({"flushlab.units"}),
    "flushlab.cli.app": frozenset({"flushlab.plan.parse"}),
    "tests.builds": frozenset({"flushlab.plan"}),
    "tests.unit.plan.test_parse": frozenset({"flushlab.plan.parse"}),
    "tests.unit.test_units": frozenset({"flushlab.units"}),
    "tests.unit.cli.test_app": frozenset({"flushlab.cli.app"}),
    "tests.unit.test_near": frozenset[str](),
    "tests.golden.test_texts": frozenset({"tests.builds"}),
    "tests.integration.test_bench": frozenset({"flushlab.units"}),
}
UNITS = "python/flushlab/units.py"


def test_tests_that_import_a_change_run_the_nearest_first() -> None:
    choice = quick.choose([UNITS], IMPORTS, {})
    assert choice.run == (
        "tests/unit/test_units.py",
        "tests/unit/plan/test_parse.py",
        "tests/golden/test_texts.py",
        "tests/unit/cli/test_app.py",
    )
    assert choice.left == ()


def test_tests_that_import_no_change_do_not_run() -> None:
    choice = quick.choose(["python/flushlab/cli/app.py"], IMPORTS, {})
    assert choice.run == ("tests/unit/cli/test_app.py",)


def test_tests_that_do_not_fit_into_the_time_are_counted() -> None:
    time = quick.SECONDS * quick.WORKERS
    choice = quick.choose([UNITS], IMPORTS, {"tests/unit/plan/test_parse.py": time})
    assert choice.run == (
        "tests/unit/test_units.py",
        "tests/golden/test_texts.py",
        "tests/unit/cli/test_app.py",
    )
    assert choice.left == ("tests/unit/plan/test_parse.py",)


def test_tests_of_little_time_run_in_one_process() -> None:
    seconds = dict.fromkeys(quick.choose([UNITS], IMPORTS, {}).run, quick.ALONE_SECONDS / 4)
    assert quick.choose([UNITS], IMPORTS, seconds).workers == 0
    seconds["tests/unit/test_units.py"] += 0.1
    choice = quick.choose([UNITS], IMPORTS, seconds)
    assert choice.workers == quick.WORKERS
    assert ("pytest", "-q", "-n", "2", *choice.run) in quick.steps([UNITS], choice)


def test_a_changed_test_runs_whatever_it_takes() -> None:
    slow = "tests/unit/test_near.py"
    choice = quick.choose([UNITS, slow], IMPORTS, {slow: 1000.0})
    assert choice.run == (slow,)


def test_data_are_judged_by_the_tests_of_the_modules_beside_them() -> None:
    assert quick.choose(["python/flushlab/plan/removed.toml"], IMPORTS, {}).run == (
        "tests/unit/plan/test_parse.py",
        "tests/golden/test_texts.py",
        "tests/unit/cli/test_app.py",
    )
    assert quick.choose(["tests/golden/more/a.txt"], IMPORTS | {"tests.golden": frozenset()}, {}).run == (
        "tests/golden/test_texts.py",
    )


def test_a_conftest_runs_the_tests_below_it() -> None:
    imports = IMPORTS | {"tests.unit.plan.conftest": frozenset[str]()}
    assert quick.choose(["tests/unit/plan/conftest.py"], imports, {}).run == (
        "tests/unit/plan/test_parse.py",
    )


def test_pages_run_the_tests_of_pages() -> None:
    assert quick.choose(["docs/how-to/tune.md"], IMPORTS, {}).run == quick.OF_PAGES
    assert all((ROOT / page).exists() for page in quick.OF_PAGES)


def test_names_in_strings_count_as_imports() -> None:
    text = 'monkeypatch.setattr("flushlab.plan.parse.read", None); run([python, "-m", "flushlab", "tune"])'
    assert quick.named(text, IMPORTS) == {"flushlab.plan.parse", "flushlab.cli.app"}


def test_imports_of_this_repository_are_read() -> None:
    imports = quick.read_imports(ROOT)
    assert "flushlab.units" in imports["tests.unit.test_units"]
    assert "flushlab.cli.tune" in imports["flushlab.cli.app"]
    choice = quick.choose(["python/flushlab/cli/tune.py"], imports, {})
    assert "tests/unit/test_documentation.py" in (*choice.run, *choice.left)


def test_modules_that_import_by_a_computed_name_are_listed() -> None:
    computed = re.compile(r"import_module\((?:f[\"']flushlab|[\"']flushlab)")
    package = ROOT / "python"
    found = {path for path in package.rglob("*.py") if computed.search(path.read_text(encoding="utf-8"))}
    names = {".".join(path.relative_to(package).with_suffix("").parts) for path in found}
    assert names == quick.LOADED_BY_NAME.keys()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ann@example.org")
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "old.py")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def commit(folder: Path, name: str) -> None:
    (folder / name).write_text("1\n")
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", name)


def test_changes_since_the_merge_base_count_committed_or_not(clone: Path) -> None:
    git(clone, "switch", "-q", "-c", "mine")
    commit(clone, "committed.py")
    git(clone, "switch", "-q", "main")
    commit(clone, "of_main.py")
    git(clone, "switch", "-q", "mine")
    (clone / "old.py").write_text("2\n")
    (clone / "new.py").touch()
    (clone / ".gitignore").write_text("ignored.py\n")
    (clone / "ignored.py").touch()
    assert quick.changed_files(clone, "main") == [".gitignore", "committed.py", "new.py", "old.py"]


def test_a_branch_that_is_not_there_is_an_error_with_a_hint(clone: Path) -> None:
    with pytest.raises(SystemExit, match=r"error: git merge-base: .*\n.*--base BRANCH"):
        quick.changed_files(clone, "trunk")
