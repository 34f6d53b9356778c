"""What `make release` and `make wheel` refuse, write and replace, in a small repository."""

from __future__ import annotations

import datetime
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.scripts import script

SCRIPTS = Path(__file__).parents[2] / "scripts"


release = script("scripts/release.py")
wheel = script("scripts/wheel.py")

CHANGELOG = """# Changelog

## 0.2.0 (unreleased)

- Breaking: `--a` is `--b`.

## 0.1.0 (2026-01-01)

- The first.
"""
LOCK = """[[package]]
name = "flushlab-protocol"
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


def test_the_folder_of_a_version_is_never_replaced(repository: Path) -> None:
    kept = repository / "dist" / "0.2.0" / "signed.whl"
    kept.parent.mkdir(parents=True)
    kept.write_text("x")
    (repository / ".git" / "info" / "exclude").write_text("/dist/\n")
    with pytest.raises(release.Refused, match=r"dist/0\.2\.0 exists\nhint: move it away"):
        release.require_ready(repository, "0.2.0")
    assert kept.read_text() == "x"


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


NATIVE = "flushlab-0.2.0-cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"


@pytest.fixture
def steps(repository: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that a release runs; they only write the files that the release reads."""
    ran: list[str] = []

    def run(*words: str) -> None:
        ran.append(" ".join(Path(word).name for word in words))
        if words[1] == "scripts/wheel.py":
            with zipfile.ZipFile(Path(words[words.index("--out") + 1]) / NATIVE, "w") as archive:
                archive.writestr(f"flushlab-0.2.0.dist-info/{release.RUST_SBOM}", "{}")
        if "--output-file" in words:
            Path(words[words.index("--output-file") + 1]).write_text("{}")

    site = repository / "target" / "docs-site" / "site"
    site.mkdir(parents=True)
    (site / "index.html").write_text("<p>")
    (repository / ".git" / "info" / "exclude").write_text("/dist/\n/target/\n")
    for key, value in {"NAME": "a", "EMAIL": "a@example.com"}.items():
        monkeypatch.setenv(f"GIT_AUTHOR_{key}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{key}", value)
    for name, replaced in {"ROOT": repository, "SITE": site, "run": run}.items():
        monkeypatch.setattr(release, name, replaced)
    monkeypatch.setattr(sys, "argv", ["release.py", "0.2.0"])
    return ran


def test_a_release_is_a_commit_a_tag_and_a_folder(
    repository: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKS", "check")
    release.main()
    assert steps[:2] == ["make check", "make docs"]
    assert release.git(repository, "describe") == "v0.2.0"
    assert release.git(repository, "log", "-1", "--format=%s") == "Release 0.2.0"
    assert [one.name for one in (repository / "dist").iterdir()] == ["0.2.0"]
    assert sorted(one.name for one in (repository / "dist" / "0.2.0").iterdir()) == [
        "SHA256SUMS",
        "flushlab-0.2.0-changes.md",
        NATIVE,
        "flushlab-0.2.0-python.cdx.json",
        "flushlab-0.2.0-rust.cdx.json",
        "flushlab-0.2.0-site.tar.gz",
    ]


@pytest.mark.parametrize("fails", ["make test", "install_check.py", "cyclonedx-py"])
def test_a_release_that_fails_leaves_no_commit_no_tag_and_no_folder(
    repository: Path, steps: list[str], fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHECKS", raising=False)
    before, step = release.git(repository, "rev-parse", "HEAD"), release.run

    def run(*words: str) -> None:
        step(*words)
        if fails in steps[-1]:
            raise subprocess.CalledProcessError(2, words)

    monkeypatch.setattr(release, "run", run)
    with pytest.raises(SystemExit, match=r"ended with code 2\nhint: nothing is tagged"):
        release.main()
    assert release.git(repository, "rev-parse", "HEAD") == before
    assert release.git(repository, "status", "--porcelain") == ""
    assert release.git(repository, "tag") == ""
    assert list((repository / "dist").iterdir()) == []


def test_edits_during_a_release_stop_the_tag_and_are_kept(
    repository: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKS", "check")
    (repository / "README.md").write_text("before\n")
    release.git(repository, "add", "README.md")
    release.git(repository, "commit", "--quiet", "--message", "Describe")
    before, step = release.git(repository, "rev-parse", "HEAD"), release.run

    def run(*words: str) -> None:
        step(*words)
        (repository / "README.md").write_text("edited\n")

    monkeypatch.setattr(release, "run", run)
    with pytest.raises(SystemExit, match=r"the tree changed during the release:\nM README\.md\nhint"):
        release.main()
    assert (repository / "README.md").read_text() == "edited\n"
    assert (repository / "CHANGELOG.md").read_text() == CHANGELOG
    assert release.git(repository, "rev-parse", "HEAD") == before
    assert release.git(repository, "tag") == ""


def test_a_commit_that_git_refuses_is_shown_in_git_s_words(
    repository: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not on a Friday >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(SystemExit, match="ended with code 1: not on a Friday\nhint"):
        release.main()
    assert steps == []


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a wheel and a source distribution of a build."""
    monkeypatch.setattr(wheel, "MADE", tmp_path / "made")
    folder = tmp_path / "built"
    folder.mkdir()
    (folder / NATIVE).write_text("first")
    (folder / "flushlab-0.2.0.tar.gz").write_text("first")
    return folder


def test_a_build_replaces_all_files_of_earlier_builds_and_nothing_else(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "dist"
    wheel.hand_out(built, out)
    (out / "notes.txt").write_text("mine")
    (out / "other-1.0-py3-none-any.whl").write_text("mine")
    (built / "flushlab-0.3.0.tar.gz").write_text("second")
    wheel.hand_out(built, out)
    assert {one.name: one.read_text() for one in out.iterdir()} == {
        "flushlab-0.3.0.tar.gz": "second",
        "notes.txt": "mine",
        "other-1.0-py3-none-any.whl": "mine",
    }


def test_a_folder_that_another_build_used_meanwhile_does_not_change_who_made_a_file(
    built: Path, tmp_path: Path
) -> None:
    wheel.hand_out(built, tmp_path / "dist")
    (built / "flushlab-0.3.0.tar.gz").write_text("second")
    wheel.hand_out(built, tmp_path / "elsewhere")
    assert [one.name for one in wheel.earlier(tmp_path / "dist")] == [NATIVE, "flushlab-0.2.0.tar.gz"]


@pytest.mark.parametrize("name", [NATIVE, "flushlab-0.2.0.tar.gz", "flushlab-0.1.0-py3-none-any.whl"])
def test_a_wheel_that_no_build_made_refuses_the_build_and_stays(
    built: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "dist"
    wheel.hand_out(built, out)
    (out / name).write_text("signed by a person")
    (built / "flushlab-0.3.0.tar.gz").write_text("second")
    with pytest.raises(
        wheel.Unfit, match=r"is not a file that an earlier build in .* made\nhint: move it away"
    ):
        wheel.hand_out(built, out)
    assert (out / name).read_text() == "signed by a person"
    assert {one.name for one in out.iterdir()} == {NATIVE, "flushlab-0.2.0.tar.gz", name}


def test_a_link_to_a_file_of_a_build_is_not_a_file_of_a_build(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "dist"
    wheel.hand_out(built, tmp_path / "elsewhere")
    out.mkdir()
    (out / NATIVE).symlink_to(tmp_path / "elsewhere" / NATIVE)
    with pytest.raises(wheel.Unfit, match="is not a file that an earlier build"):
        wheel.earlier(out)


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dist").write_text("x")
    with pytest.raises(wheel.Unfit, match="dist is not a folder\nhint: name another by --out"):
        wheel.earlier(tmp_path / "dist")
