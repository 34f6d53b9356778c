"""Makes a release in a clean clone, and uploads nothing: `make release VERSION=X.Y.Z`.

1. Refuses a dirty tree, an existing tag or folder dist/VERSION, and a changelog without an entry.
2. Commits the version and the date of the changelog's entry; without a change there is no commit.
3. Checks (`make test supply`; CHECKS names other targets), builds the site, the wheels and the source
   distribution, and installs the wheel into empty environments.
4. Writes SBOMs (CycloneDX), the changelog's entry and SHA256SUMS beside them.
5. Tags the commit and moves the files to dist/VERSION. If a step fails or the tree changed meanwhile, the
   branch is as before, and there is neither tag nor folder.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "target" / "docs-site" / "site"  # of scripts/docs_site.py
SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-(?:alpha|beta|rc)\.\d+)?")
VERSIONED = ("Cargo.toml", "python/flushlab/version.py", "Cargo.lock", "CHANGELOG.md")
"""The files that a release writes and, if it fails, restores."""
RUST_SBOM = "sboms/flushlab-py.cyclonedx.json"


class Refused(Exception):
    """No release can be made; the text says why and what to do."""


def main() -> None:
    """The whole release."""
    if len(sys.argv) != 2:
        sys.exit("error: no version\nhint: make release VERSION=X.Y.Z")
    version = sys.argv[1]
    try:
        entry = require_ready(ROOT, version)
        before = git(ROOT, "rev-parse", "HEAD")
        try:
            out = make(version, entry)
        except BaseException:
            git(ROOT, "checkout", "--quiet", before, "--", *VERSIONED)
            git(ROOT, "reset", "--quiet", before)
            raise
    except Refused as refused:
        sys.exit(f"error: {refused}")
    except subprocess.CalledProcessError as failed:
        said = f": {failed.stderr.strip()}" if failed.stderr else ""
        sys.exit(
            f"error: {' '.join(map(str, failed.cmd))} ended with code {failed.returncode}{said}\n"
            "hint: nothing is tagged, and the branch is as before; mend the cause and release again"
        )
    sys.stdout.write(f"{out.relative_to(ROOT)}: {', '.join(sorted(one.name for one in out.iterdir()))}\n")
    sys.stdout.write(f"tagged v{version}; nothing was uploaded\n")


def require_ready(root: Path, version: str) -> str:
    """The changelog's entry of a version that can be released.

    Raises:
        Refused: something is in the way.
    """
    if not SEMVER.fullmatch(version):
        raise Refused(f"{version!r} is not a version of SemVer\nhint: X.Y.Z, or X.Y.Z-rc.N")
    if changed := git(root, "status", "--porcelain"):
        raise Refused(f"the tree has changes:\n{changed}\nhint: commit them, or release from a fresh clone")
    if git(root, "tag", "--list", f"v{version}"):
        raise Refused(f"the tag v{version} exists\nhint: choose the next version")
    if (out := root / "dist" / version).exists():
        raise Refused(f"{out} exists\nhint: move it away, or choose the next version")
    entry = entry_of((root / "CHANGELOG.md").read_text(), version)
    if entry is None:
        raise Refused(
            f"CHANGELOG.md has no entry {version}\nhint: add '## {version} (unreleased)' with its changes"
        )
    if not re.search(r"^[-*] ", entry, re.M):
        raise Refused(f"the entry {version} of CHANGELOG.md is empty\nhint: list what changes for users")
    return entry


def entry_of(changelog: str, version: str) -> str | None:
    """The text below the heading of a version; None if there is none."""
    found = re.search(rf"^## {re.escape(version)}(?: \([^)]*\))?$\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    return found[1].strip() if found else None


def make(version: str, entry: str) -> Path:
    """Everything from the commit to the tag; the folder of the files."""
    out = ROOT / "dist" / version
    out.parent.mkdir(exist_ok=True)
    set_version(ROOT, version, datetime.date.today())
    if git(ROOT, "status", "--porcelain", "--", *VERSIONED):
        git(ROOT, "commit", "--quiet", "--message", f"Release {version}", "--", *VERSIONED)
    for target in os.environ.get("CHECKS", "test supply").split():
        run("make", target)
    run("make", "docs")
    with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=out.parent) as folder:
        files = Path(folder) / version
        files.mkdir()
        write_files(files, version, entry)
        if changed := git(ROOT, "status", "--porcelain"):
            raise Refused(
                f"the tree changed during the release:\n{changed}\nhint: release from a fresh clone"
            )
        git(ROOT, "tag", "--annotate", f"v{version}", "--message", f"flushlab {version}")
        try:
            files.rename(out)
        except OSError as error:
            git(ROOT, "tag", "--delete", f"v{version}")
            raise Refused(f"{out} cannot be made: {error.strerror}\nhint: move it away") from None
    return out


def write_files(out: Path, version: str, entry: str) -> None:
    """Everything that a release hands out, checked, into an empty folder."""
    run(sys.executable, "scripts/wheel.py", "--out", str(out))
    (native,) = out.glob("flushlab-*x86_64.whl")
    tools = ROOT / "target" / "tools" / "bin"
    run(sys.executable, "scripts/install_check.py", str(native), "--tools", str(tools))
    with tarfile.open(out / f"flushlab-{version}-site.tar.gz", "w:gz") as archive:
        archive.add(SITE, arcname=f"flushlab-{version}-site")
    write_sboms(native, version, out)
    (out / f"flushlab-{version}-changes.md").write_text(f"# flushlab {version}\n\n{entry}\n")
    write_checksums(out)


def set_version(root: Path, version: str, day: datetime.date) -> None:
    """Writes the version and the day of the release."""
    changes = (
        (r'(?<=^\[workspace\.package\]\nversion = ")[^"]+', version),
        (r'(?<=^__version__ = ")[^"]+', version),
        (r'(?<=^name = "flushlab-)([a-z]+"\nversion = ")[^"]+', rf"\g<1>{version}"),
        (rf"(?<=^## ){re.escape(version)}( \([^)]*\))?$", f"{version} ({day})"),
    )
    for name, (pattern, text) in zip(VERSIONED, changes, strict=True):
        file = root / name
        changed, count = re.subn(pattern, text, file.read_text(), flags=re.M)
        if not count:
            raise Refused(f"{name} has no version to set")
        file.write_text(changed)


def write_sboms(wheel: Path, version: str, out: Path) -> None:
    """What is inside the native core, and which Python packages an installation brings along."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(RUST_SBOM))
        (out / f"flushlab-{version}-rust.cdx.json").write_bytes(archive.read(name))
    environment = ROOT / "target" / "sbom"
    run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(environment))
    tools = ROOT / "target" / "tools" / "bin"
    python = str(environment / "bin" / "python")
    install = ("pip", "install", "-q", "--no-build", "--python", python, "-c", "constraints.txt", str(wheel))
    run(str(tools / "uv"), *install)
    target = str(out / f"flushlab-{version}-python.cdx.json")
    run(str(tools / "cyclonedx-py"), "environment", "--output-reproducible", "--output-file", target, python)


def write_checksums(out: Path) -> None:
    """SHA256SUMS of all files of a folder, for `sha256sum --check`."""
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(out.iterdir())
        if file.name != "SHA256SUMS"
    ]
    (out / "SHA256SUMS").write_text("".join(lines))


def git(root: Path, *words: str) -> str:
    """The output of git in a repository."""
    done = subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def run(*words: str) -> None:
    """Runs a command; its output is shown."""
    subprocess.run(words, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
