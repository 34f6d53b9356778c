"""Inspect: a server's binary becomes a `Build`, by asking the binary itself.

Build layer. The binary is executed with `--version` and hashed. `inspect_once` remembers the answer under
flushlab's home by path, size and time of modification.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from flushlab import atomic
from flushlab.build.build import Build
from flushlab.errors import LibraryMissing, ServerError
from flushlab.machine import ServerUser, home, run_as, server_user
from flushlab.machine.confinement import confine
from flushlab.record.machine import Flavor

_NOT_FOUND = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
_LOADER_COMPLAINT = re.compile(r"error while loading shared libraries: ([^:\s]+):")
_SYMBOLS = re.compile(r"(?P<library>\S+): version `(?P<symbols>[\w.]+)' not found")
_SONAME = re.compile(r"(?P<stem>lib.+?)\.so(?:\.(?P<version>[0-9][0-9.]*(?:t64)?))?")


def missing_libraries(binaries: Iterable[Path], library_path: Sequence[str] = ()) -> list[str]:
    """Sonames that are not found; the linker may execute the binaries' code, so the servers' user runs it."""
    missing: set[str] = set()
    for binary in binaries:
        done = subprocess.run(
            ["ldd", str(binary)],
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **search_path(library_path)},
            capture_output=True,
            text=True,
            check=False,
            **run_as(server_user()),
        )
        missing.update(_NOT_FOUND.findall(done.stdout))
    return sorted(missing)


def search_path(library_path: Sequence[str]) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": ":".join(library_path)} if library_path else {}


def library_in(complaint: str) -> str | None:
    match = _LOADER_COMPLAINT.search(complaint)
    return match[1] if match else None


def debian_packages(soname: str) -> tuple[str, ...]:
    """Names of the Debian packages that may hold a library, the usual one first.

    Debian policy, section 8.1: the soname without `.so.`, with a hyphen if the stem ends in a digit,
    in lower case. Since the 64-bit time transition (Debian 13, Ubuntu 24.04) some carry `t64`,
    and libaio has it in the soname too.
    """
    match = _SONAME.fullmatch(soname)
    if match is None:
        return ()
    stem = match["stem"].lower().replace("_", "-")
    version = match["version"] or ""
    name = f"{stem}-{version}" if version and stem[-1].isdigit() else f"{stem}{version}"
    return (name,) if name.endswith("t64") else (name, f"{name}t64")


def symbols_missing(binary: str, complaint: str) -> LibraryMissing | None:
    """The error for a library of this system that is too old; None if that is not the complaint."""
    match = _SYMBOLS.search(complaint)
    if match is None:
        return None
    symbols = match["symbols"].replace("_", " ", 1)
    return LibraryMissing(
        f"{binary} was built for a newer system: {Path(match['library']).name} here lacks {symbols}",
        hint="use a build for this system's release, or one that `flushlab server list` shows as"
        " available: those have their own libraries",
    )


def library_missing(binary: str, soname: str) -> LibraryMissing:
    packages = debian_packages(soname)
    hint = f"install the package {packages[0]} (newer releases: {packages[1]})" if packages else None
    return LibraryMissing(f"{binary} needs the shared library {soname}, which is not installed", hint=hint)


_VERSION = re.compile(r"\bVer (?P<text>(?P<numbers>\d+(?:\.\d+)+)\S*)")


def inspect(
    mysqld: Path,
    *,
    source: str,
    prefix: Path,
    launcher: tuple[str, ...] = (),
    library_path: tuple[str, ...] = (),
    user: ServerUser | None = None,
) -> Build:
    mysqld = mysqld.resolve()
    said = _version_line(mysqld, launcher, library_path, user)
    match = _VERSION.search(said)
    if match is None:
        raise ServerError(f"{mysqld} --version printed no server version: {said[:200]!r}")
    flavor: Flavor = "mariadb" if "mariadb" in said.lower() else "mysql"
    digest = hashlib.sha256(mysqld.read_bytes()).hexdigest()
    basedir = mysqld.parent.parent
    shares = (*sorted(basedir.glob("share/mysql*")), *basedir.glob("share/mariadb*"), basedir / "share")
    return Build(
        flavor=flavor,
        version=tuple(int(part) for part in match["numbers"].split(".")),
        version_text=match["text"],
        source=source,
        prefix=str(prefix),
        mysqld=str(mysqld),
        launcher=launcher,
        library_path=library_path,
        share=next((str(one) for one in shares if (one / "english" / "errmsg.sys").is_file()), None),
        install_db=_first(("mariadb-install-db", "mysql_install_db"), basedir)
        if flavor == "mariadb"
        else None,
        client=_first(("mariadb", "mysql"), basedir),
        id=f"{flavor}-{match['numbers']}-{digest[:12]}",
    )


def inspect_once(mysqld: Path, *, source: str, prefix: Path) -> Build:
    mysqld = mysqld.resolve()
    stat = mysqld.stat()
    key = f"{mysqld}|{stat.st_size}|{stat.st_mtime_ns}|{source}|{prefix}"
    memory = home() / "builds" / ".inspected" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    if (known := atomic.read_json(memory, Build)) is not None:
        return known
    build = inspect(mysqld, source=source, prefix=prefix)
    memory.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(memory, msgspec.json.encode(build))
    return build


def server_in(*folders: Path) -> Path | None:
    files = (folder / name for folder in folders for name in ("mariadbd", "mysqld"))
    # access() first: is_file() raises where a folder on PATH is closed to us.
    return next((file for file in files if os.access(file, os.X_OK) and file.is_file()), None)


def _version_line(
    mysqld: Path, launcher: tuple[str, ...], library_path: tuple[str, ...], user: ServerUser | None
) -> str:
    command = [*launcher, str(mysqld), "--no-defaults", "--version"]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **search_path(library_path)}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            **(run_as(user) if user is not None else {}),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(
            f"{mysqld} cannot be executed: {error}", hint="use a build for this machine's processor"
        ) from error
    if (soname := library_in(done.stderr)) is not None:
        raise library_missing(str(mysqld), soname)
    if (too_old := symbols_missing(str(mysqld), done.stderr)) is not None:
        raise too_old
    if done.returncode != 0:
        raise ServerError(f"{mysqld} --version failed: {(done.stderr or done.stdout).strip()[-200:]}")
    return str(done.stdout)


def _first(names: tuple[str, ...], basedir: Path) -> str | None:
    files = [basedir / folder / name for name in names for folder in ("bin", "scripts", "sbin")]
    if found := next((str(file) for file in files if file.is_file()), None):
        return found
    on_path = map(shutil.which, names if str(basedir) in ("/usr", "/usr/local") else ())
    return next(filter(None, on_path), None)


_LIMIT_S = 60
_OF_A_PLUGIN = re.compile(r"Parsing options for plugin '\w+' failed")
"""Not fatal to `--help`; at a start the option is then unknown."""


class Answer(NamedTuple):
    text: str
    complaints: str
    refuses: bool


def verbose_help(build: Build, arguments: Sequence[str] = ()) -> Answer:
    return _answer(build, tuple(arguments))


@lru_cache(maxsize=64)  # of 200 KB each
def _answer(build: Build, arguments: tuple[str, ...]) -> Answer:
    share = [f"--lc-messages-dir={build.share}"] if build.share else []
    try:
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                [
                    *(*build.command, "--no-defaults", *share, f"--datadir={empty}"),
                    *("--verbose", "--help", *arguments),
                ],
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **build.environment},
                cwd="/",
                preexec_fn=partial(confine, [empty]),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_LIMIT_S,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"{build.mysqld} --verbose --help cannot be run: {error}") from error
    refuses = done.returncode != 0 or _OF_A_PLUGIN.search(done.stderr) is not None
    return Answer(done.stdout, done.stderr, refuses)


def refused(build: Build, arguments: Sequence[str]) -> dict[str, str]:
    """Arguments that the binary refuses each by itself, with what it writes on standard error.

    None, if it refuses to run without any of them too: then it does not say a word of them.
    """
    if not arguments or verbose_help(build).refuses:
        return {}
    return _refused(build, arguments)


def _refused(build: Build, arguments: Sequence[str]) -> dict[str, str]:
    answer = verbose_help(build, arguments)
    if not answer.refuses:
        return {}
    if len(arguments) == 1:
        return {arguments[0]: answer.complaints}
    half = len(arguments) // 2
    return _refused(build, arguments[:half]) | _refused(build, arguments[half:])
