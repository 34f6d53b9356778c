"""Home: the one folder that flushlab keeps builds, snapshots and sandboxes in, and where results are.

Machine layer; everything that stores something starts from `home()` or `state()`. The folder exists and can
be written to when it is returned, and the user that servers run as can reach the home. It is flushlab's own:
made by it, or empty, or known by its mark. Others are refused.

Where: `$FLUSHLAB_HOME` if set, for both. Otherwise the platform's cache directory, `$XDG_CACHE_HOME/flushlab`
or `~/.cache/flushlab`, and for results, which nobody wants to lose with a cache, its state directory,
`$XDG_STATE_HOME/flushlab` or `~/.local/state/flushlab`. For root: `/var/cache/flushlab` (root's
servers run as another user, and `/root` is closed to it on every common distribution), `/var/lib/flushlab`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from flushlab.errors import HarnessError, NotWritable
from flushlab.machine import ownership

NAME = "flushlab"
"""Of the user when flushlab runs as root."""

_COMMAND = (
    *("useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"),
    *("--shell", "/usr/sbin/nologin", "--comment", "servers that flushlab starts", NAME),
)
_TRIES = 20
_TRY_AGAIN_S = 0.1


class ServerUser(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: int
    gid: int


@cache
def server_user() -> ServerUser:
    uid, name = os.geteuid(), str(os.geteuid())
    if uid != 0:
        with suppress(KeyError):
            name = pwd.getpwuid(uid).pw_name
        return ServerUser(name=name, uid=uid, gid=os.getegid())
    entry = _flushlabs_user()
    if entry is None or entry.pw_uid == 0:
        raise HarnessError(
            f"servers must not run as root, and the user {NAME!r} could not be made",
            hint=f"run flushlab as an ordinary user, or make one: {' '.join(_COMMAND)}",
        )
    return ServerUser(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def _flushlabs_user() -> pwd.struct_passwd | None:
    """Made if it is missing; several flushlabs may try at once, and the password file is locked then."""
    program = shutil.which("useradd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    for _ in range(_TRIES):
        with suppress(KeyError):
            return pwd.getpwnam(NAME)
        if program is None:
            break
        if subprocess.run([program, *_COMMAND[1:]], check=False, capture_output=True).returncode != 0:
            time.sleep(_TRY_AGAIN_S)
    return None


def may_enter(path: Path, user: ServerUser) -> bool:
    return _try_as(user, 'test -d "$1" && test -x "$1"', path)


def may_write(path: Path, user: ServerUser) -> bool:
    return _try_as(user, 'test -d "$1" && test -x "$1" && test -w "$1"', path)


def first_closed_parent(path: Path, user: ServerUser) -> Path | None:
    if may_enter(path, user):
        return None
    return next((parent for parent in reversed(path.parents) if not may_enter(parent, user)), path)


def _try_as(user: ServerUser, script: str, path: Path) -> bool:
    command = ["/bin/sh", "-c", script, "sh", str(path)]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL, **run_as(user)).returncode == 0


def run_as(user: ServerUser) -> dict[str, Any]:
    if user.uid == os.geteuid():
        return {}
    return {"user": user.uid, "group": user.gid, "extra_groups": ()}


def is_open_to_all(file: Path) -> bool:
    """True if anybody may write to a file: servers and clients ignore such option files (`my_default.c`)."""
    mode = file.stat().st_mode
    return stat.S_ISREG(mode) and bool(mode & stat.S_IWOTH)


ROOT_HOME = Path("/var/cache/flushlab")
ROOT_STATE = Path("/var/lib/flushlab")


def home() -> Path:
    """The path of flushlab's folder, of mode 0755; NotWritable if the servers' user cannot reach it."""
    path = home_path()
    if not path.is_dir():
        with suppress(OSError):  # whatever is wrong with it is told below
            _refuse_closed(next(folder for folder in path.parents if folder.exists()), path)
    _own(path, "home", 0o755)
    _refuse_closed(path, path)
    return path


def home_path() -> Path:
    return _path(ROOT_HOME, "XDG_CACHE_HOME", "~/.cache")


def home_part(name: str) -> Path:
    folder = home() / name
    try:
        folder.mkdir(exist_ok=True)
        if folder.stat().st_mode & 0o711 != 0o711:
            folder.chmod(0o755)  # the umask took away the right of servers to enter
    except OSError as error:
        raise NotWritable(
            f"flushlab's folder {folder} cannot be created: {error.strerror}",
            hint="move away what is there, or set FLUSHLAB_HOME to another folder",
        ) from error
    return folder


def make_open(path: Path) -> None:
    for folder in reversed((path, *path.parents)):
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)  # another flushlab may be quicker
            folder.chmod(0o755)


def state() -> Path:
    path = state_path()
    return home() if path == home_path() else _own(path, "state folder", 0o700)


def state_path() -> Path:
    return _path(ROOT_STATE, "XDG_STATE_HOME", "~/.local/state")


def _path(of_root: Path, variable: str, usual: str) -> Path:
    chosen = os.environ.get("FLUSHLAB_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if os.geteuid() == 0:
        return of_root
    named = os.environ.get(variable, "")
    # The XDG base directory specification: a relative path there must be ignored.
    base = Path(named) if named.startswith("/") else Path(usual).expanduser()
    return base.absolute() / "flushlab"


def _own(path: Path, what: str, mode: int) -> Path:
    hint = "set FLUSHLAB_HOME to a directory that you can write to"
    try:
        if not path.is_dir():
            make_open(path)
            path.chmod(mode)
        is_writable = os.access(path, os.W_OK | os.X_OK, effective_ids=True)
        if is_writable and not os.path.lexists(path / ownership.MARK):
            _mark(path, what)
    except (FileExistsError, NotADirectoryError):
        if path.is_dir():  # another flushlab was quicker
            return _own(path, what, mode)
        raise NotWritable(f"flushlab's {what} {path} is not a directory", hint=hint) from None
    except OSError as error:
        raise NotWritable(
            f"flushlab's {what} {path} cannot be created: {error.strerror}", hint=hint
        ) from error
    if not is_writable:
        raise NotWritable(f"flushlab's {what} {path} is not writable", hint=hint)
    return path


def _mark(path: Path, what: str) -> None:
    if any(file.name != "lost+found" for file in path.iterdir()):
        if os.path.lexists(path / ownership.MARK):  # another flushlab was quicker, and marks before it fills
            return
        raise NotWritable(
            f"flushlab's {what} would be {path}, but it holds files that flushlab did not make",
            hint="set FLUSHLAB_HOME to a folder that is empty or does not exist yet",
        )
    mark = {"what": what, "name": path.name, "token": ownership.new_token()}
    ownership.mark_existing(str(path.resolve()), mark)


@cache
def _refuse_closed(folder: Path, path: Path) -> None:
    user = server_user()
    closed = first_closed_parent(folder, user) if user.uid != os.geteuid() else None
    if closed is not None:
        raise NotWritable(
            f"flushlab's home {path} is not accessible to {user.name}, the user that servers run as:"
            f" it may not enter {closed}",
            hint=f"set FLUSHLAB_HOME to a directory that everyone can access, below one such as {ROOT_HOME}",
        )
