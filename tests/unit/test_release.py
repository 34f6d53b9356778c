"""What `make release` refuses and writes, in a small repository."""

from __future__ import annotations

import datetime
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "release.py"
_spec = importlib.util.spec_from_file_location("release", SCRIPT)
assert _spec is not None and _spec.loader is not None
release = importlib.util.module_from_spec(_spec)
sys.modules["release"] = release
_spec.loader.exec_module(release)

CHANGELOG = """# Changelog

## 0.2.0 (unreleased)

- Breaking: `--a` is `--b`.

## 0.1.0 (2026-01-01)

- The first.
"""
LOCK = """[[package]]
name = "flushlab-wire"
version = "0.1.0"

[[package]]
name = "log"
version = "0.1.0"
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "python" / "flushlab").mkdir(parents=True)
    (tmp_path / "python" / "flushlab" / "version.py").write_text('"""V."""\n\n__version__ = "0.1.0"\n')
    (tmp_path / "Cargo.toml").write_text(
        '[workspace]\nresolver = "2"\n\n[workspace.package]\nversion = "0.1.0"\nrust-version = "1.88"\n'
    )
    (tmp_path / "Cargo.lock").write_text(LOCK)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Begin"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True)
    return tmp_path


def test_the_entry_of_the_changelog_belongs_to_the_release(repository: Path) -> None:
    assert release.require_ready(repository, "0.2.0") == "- Breaking: `--a` is `--b`."


@pytest.mark.parametrize("version", ["", "1", "v0.2.0", "0.2", "0.02.0", "0.2.0-final"])
def test_only_versions_of_semver_are_released(repository: Path, version: str) -> None:
    with pytest.raises(release.Refused, match="is not a version of SemVer"):
        release.require_ready(repository, version)


def test_a_tree_with_changes_is_refused(repository: Path) -> None:
    (repository / "new.txt").write_text("x")
    with pytest.raises(release.Refused, match=r"the tree has changes:\n\?\? new\.txt"):
        release.require_ready(repository, "0.2.0")


def test_a_version_with_a_tag_is_refused(repository: Path) -> None:
    subprocess.run(["git", "tag", "v0.2.0"], cwd=repository, check=True)
    with pytest.raises(release.Refused, match=r"the tag v0\.2\.0 exists"):
        release.require_ready(repository, "0.2.0")


def test_a_version_that_the_changelog_lacks_is_refused(repository: Path) -> None:
    with pytest.raises(release.Refused, match=r"CHANGELOG\.md has no entry 0\.3\.0"):
        release.require_ready(repository, "0.3.0")


def test_an_entry_without_a_change_is_refused(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text(CHANGELOG.replace("- Breaking: `--a` is `--b`.\n", "Later.\n"))
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qam", "x"],
        cwd=repository,
        check=True,
    )
    with pytest.raises(release.Refused, match=r"the entry 0\.2\.0 of CHANGELOG\.md is empty"):
        release.require_ready(repository, "0.2.0")


def test_version_and_day_are_written_where_they_stand(repository: Path) -> None:
    release.set_version(repository, "0.2.0", datetime.date(2027, 2, 3))
    assert (
        '[workspace.package]\nversion = "0.2.0"\nrust-version = "1.88"'
        in (repository / "Cargo.toml").read_text()
    )
    assert (repository / "python" / "flushlab" / "version.py").read_text().endswith('__version__ = "0.2.0"\n')
    assert (repository / "Cargo.lock").read_text() == LOCK.replace("0.1.0", "0.2.0", 1)
    assert (repository / "CHANGELOG.md").read_text() == CHANGELOG.replace("(unreleased)", "(2027-02-03)")


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a")
    release.write_checksums(tmp_path)
    done = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "a.whl: OK\n")
