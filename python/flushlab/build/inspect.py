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
from pathlib import Path

import msgspec

from flushlab import atomic
from flushlab.build.build import Build
from flushlab.build.library import identity, library_in, library_missing, search_path, symbols_missing
from flushlab.errors import ServerError
from flushlab.machine import ServerUser, home
from flushlab.record.server import Flavor

SERVER_NAMES = ("mariadbd", "mysqld")
INSTALL_NAMES = ("mariadb-install-db", "mysql_install_db")
CLIENT_NAMES = ("mariadb", "mysql")

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
    """What `mysqld` is, and where the parts beside it lie.

    Args:
        mysqld: the server's binary; it is executed.
        source: name of the source that found it.
        prefix: directory that it was unpacked to, or its basedir.
        launcher: words before the binary.
        library_path: directories that the dynamic linker searches first.
        user: who executes it, for a binary that nobody has vouched for; the caller if None.

    Raises:
        LibraryMissing: it needs a shared library that is not here.
        ServerError: it cannot be executed, or does not print a server's version.
    """
    mysqld = mysqld.resolve()
    said = _version_line(mysqld, launcher, library_path, user)
    match = _VERSION.search(said)
    if match is None:
        raise ServerError(f"{mysqld} --version printed no server version: {said[:200]!r}")
    flavor: Flavor = "mariadb" if "mariadb" in said.lower() else "mysql"
    digest = hashlib.sha256(mysqld.read_bytes()).hexdigest()
    basedir = mysqld.parent.parent
    return Build(
        flavor=flavor,
        version=tuple(int(part) for part in match["numbers"].split(".")),
        version_text=match["text"],
        source=source,
        prefix=str(prefix),
        mysqld=str(mysqld),
        launcher=launcher,
        library_path=library_path,
        share=_share(basedir),
        install_db=_first(INSTALL_NAMES, basedir) if flavor == "mariadb" else None,
        client=_first(CLIENT_NAMES, basedir),
        id=f"{flavor}-{match['numbers']}-{digest[:12]}",
    )


def inspect_once(mysqld: Path, *, source: str, prefix: Path) -> Build:
    """`inspect`, remembered until the binary changes.

    Raises:
        LibraryMissing: it needs a shared library that is not here.
        ServerError: it cannot be executed, or does not print a server's version.
    """
    mysqld = mysqld.resolve()
    stat = mysqld.stat()
    key = f"{mysqld}|{stat.st_size}|{stat.st_mtime_ns}|{source}|{prefix}"
    memory = home() / "builds" / ".inspected" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    try:
        return msgspec.json.decode(memory.read_bytes(), type=Build)
    except (OSError, msgspec.DecodeError):
        pass  # never inspected, or by another version of flushlab: inspect it now
    build = inspect(mysqld, source=source, prefix=prefix)
    memory.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(memory, msgspec.json.encode(build))
    return build


def server_in(*folders: Path) -> Path | None:
    """The first server binary in `folders`, or None. Debian's `mysqld` is often a link to `mariadbd`."""
    for folder in folders:
        for name in SERVER_NAMES:
            candidate = folder / name
            # access() first: is_file() raises where a folder on PATH is closed to us.
            if os.access(candidate, os.X_OK) and candidate.is_file():
                return candidate
    return None


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
            **(identity(user) if user is not None else {}),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(
            f"{mysqld} cannot be executed: {error}", hint="use a build for this machine's processor"
        ) from error
    soname = library_in(done.stderr)
    if soname is not None:
        raise library_missing(str(mysqld), soname)
    too_old = symbols_missing(str(mysqld), done.stderr)
    if too_old is not None:
        raise too_old
    if done.returncode != 0:
        raise ServerError(f"{mysqld} --version failed: {(done.stderr or done.stdout).strip()[-200:]}")
    return str(done.stdout)


def _share(basedir: Path) -> str | None:
    for folder in (*sorted(basedir.glob("share/mysql*")), *basedir.glob("share/mariadb*"), basedir / "share"):
        if (folder / "english" / "errmsg.sys").is_file():
            return str(folder)
    return None


def _first(names: tuple[str, ...], basedir: Path) -> str | None:
    for name in names:
        for folder in ("bin", "scripts", "sbin"):
            candidate = basedir / folder / name
            if candidate.is_file():
                return str(candidate)
    for name in names:
        found = shutil.which(name) if str(basedir) in ("/usr", "/usr/local") else None
        if found:
            return found
    return None
