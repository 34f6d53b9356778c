"""Apt: Debian packages, downloaded and unpacked into a private prefix.

Build layer; used by the sources `debian`, `maven` and `tarball`. Needs no root and changes nothing of the
system's apt: it runs only `apt-get download` and `dpkg-deb --extract`. If the system has no package lists, or
stale ones, apt fetches lists into a private state directory under flushlab's home. Apt verifies each download
against its signed lists; this module checks the SHA-256 once more and records it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from flushlab.atomic import locked_by_one
from flushlab.build.inspect import debian_packages, library_missing, missing_libraries
from flushlab.errors import ServerError
from flushlab.machine import home
from flushlab.progress import Progress

_URI_LINE = re.compile(r"^'[^']*' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})$", re.MULTILINE)

QUIET = (
    "#clear APT::Update::Post-Invoke;",
    "#clear APT::Update::Post-Invoke-Success;",
    "#clear APT::Update::Pre-Invoke;",
    'Acquire::Languages "none";',
    'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";',
    'Dir::Cache::pkgcache "pkgcache.bin";',
    'Dir::Cache::srcpkgcache "";',
)
"""Configuration that keeps apt to itself: some hooks (docker-clean, packagekit) reach outside our folders.
Without the first cache, which docker-clean switches off, every command parses all lists again (a second). The
second would save nothing and take as much room."""

HINT = "check the network and the sources under /etc/apt, or use a server with --basedir"
_TIMEOUT_S = 600


class Package(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    sha256: str


def available() -> bool:
    return shutil.which("apt-get") is not None and shutil.which("dpkg-deb") is not None


def folder_of(suite: str) -> Path:
    return home() / "apt" / suite


def candidate_version(package: str, suite: str = "") -> str | None:
    done = run(["apt-cache", *options(suite), "show", "--no-all-versions", package])
    match = re.search(r"^Version: (\S+)$", done.stdout, re.MULTILINE) if done.returncode == 0 else None
    return match[1] if match else None


def refresh_lists(progress: Progress, suite: str = "") -> None:
    title, folder = f"Debian {suite}" if suite else "this Debian release", folder_of(suite)
    progress(f"fetching the package lists of {title}")
    chosen = options(suite) if suite else _private_options()
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with locked_by_one(folder / "lists.lock"):  # apt does not wait for its own lock of the lists
        done = run(["apt-get", *chosen, "-q", "update"])
    if done.returncode != 0 or not has_lists(folder / "state" / "lists"):
        raise ServerError(
            f"apt could not fetch the package lists of {title}: {last_line(done.stderr)}", hint=HINT
        )


def unpack(
    packages: Sequence[str],
    prefix: Path,
    progress: Progress,
    *,
    suite: str = "",
    refresh: Callable[[Progress], None] = refresh_lists,
) -> list[Package]:
    folder = prefix / ".packages"
    folder.mkdir(parents=True, exist_ok=True)
    progress(f"downloading {', '.join(packages)}")
    for attempt in range(2):
        expected, complaint = _expected(packages, suite), "unknown package"
        if expected or attempt:
            done = run(["apt-get", *options(suite), "-q", "download", *packages], folder=folder)
            complaint = "" if done.returncode == 0 else last_line(done.stderr)
        if expected and not complaint:
            break
        if not attempt:
            refresh(progress)
    if complaint or not expected:
        message = f"apt could not download {' '.join(packages)}: {complaint or 'unknown package'}"
        raise ServerError(message, hint=HINT)
    extract(expected, folder, prefix)
    folder.rmdir()
    return expected


def extract(packages: Iterable[Package], folder: Path, prefix: Path) -> None:
    for package in packages:
        archive = folder / package.file
        actual = hashlib.sha256(archive.read_bytes()).hexdigest()
        if actual != package.sha256:
            raise ServerError(f"{package.file} has SHA-256 {actual}, but apt's lists say {package.sha256}")
        done = run(["dpkg-deb", "--extract", str(archive), str(prefix)])
        if done.returncode != 0:
            raise ServerError(f"{package.file} cannot be unpacked: {last_line(done.stderr)}")
        archive.unlink()


def library_folders(prefix: Path) -> tuple[str, ...]:
    folders = {
        library.parent for root in ("lib", "usr/lib") for library in (prefix / root).glob("*/lib*.so*")
    }
    return tuple(sorted(map(str, folders)))


def complete_libraries(
    binaries: Sequence[Path], prefix: Path, progress: Progress, library_path: Sequence[str] = ()
) -> list[Package]:
    added: list[Package] = []
    tried: set[str] = set()
    while missing := missing_libraries(binaries, (*library_folders(prefix), *library_path)):
        soname = missing[0]
        package = next((name for name in debian_packages(soname) if candidate_version(name)), None)
        if soname in tried or package is None:
            raise library_missing(str(binaries[0]), soname)
        tried.add(soname)
        added += unpack([package], prefix, progress)
    return added


def _expected(packages: Sequence[str], suite: str) -> list[Package]:
    done = run(["apt-get", *options(suite), "download", "--print-uris", *packages])
    expected = listed(done.stdout) if done.returncode == 0 else []
    return expected if len(expected) == len(packages) else []


def listed(uris: str) -> list[Package]:
    return [Package(file=match["file"], sha256=match["sha256"]) for match in _URI_LINE.finditer(uris)]


def options(suite: str = "") -> list[str]:
    """Options of a command that reads package lists: another release's, our own once there are any, else the
    system's with a private cache."""
    if suite:
        return ["-c", str(folder_of(suite) / "apt.conf")]
    if has_lists(folder_of("") / "state" / "lists") or not has_lists(Path("/var/lib/apt/lists")):
        return _private_options()
    return ["-c", str(_configuration(private_state=False))]


def _private_options() -> list[str]:
    return ["-c", str(_configuration(private_state=True))]


def _configuration(*, private_state: bool) -> Path:
    folder = folder_of("")
    lines = [*QUIET, f'Dir::Cache "{folder}/cache";', *sandbox_user()]
    if private_state:
        lines += [f'Dir::State "{folder}/state";', 'Dir::State::status "/var/lib/dpkg/status";']
    (folder / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    return write_once(folder / ("private.conf" if private_state else "shared.conf"), lines)


def sandbox_user() -> tuple[str, ...]:
    return ('APT::Sandbox::User "root";',) if os.geteuid() == 0 else ()


def write_once(target: Path, lines: Iterable[str]) -> Path:
    content = "".join(f"{line}\n" for line in lines)
    if not target.is_file() or target.read_text() != content:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    return target


def has_lists(folder: Path) -> bool:
    return any(folder.glob("*_Packages*"))


def run(command: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: not found")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"{command[0]}: timed out after {_TIMEOUT_S} s")


def last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")]
    return (errors or lines or ["no reason given"])[-1]
