"""The unprivileged user that servers run as, and what it may do with a path.

Machine layer; used by `home`, by data roots and snapshots, and by whoever starts a server. When flushlab runs
as root, servers run as the system user `flushlab`, which is made if it is missing; otherwise as the caller.
Not as `nobody`: other services share that one, and data directories hold people's data. What the user may do
is tried as that user, so access lists, read-only mounts and security modules count as well as mode bits.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import time
from functools import cache
from pathlib import Path

import msgspec

from flushlab.errors import HarnessError

NAME = "flushlab"
"""Of the user when flushlab runs as root."""

_COMMAND = (
    *("useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"),
    *("--shell", "/usr/sbin/nologin", "--comment", "servers that flushlab starts", NAME),
)
_TRIES = 20
_TRY_AGAIN_S = 0.1


class ServerUser(msgspec.Struct, frozen=True, kw_only=True):
    """Who owns data directories and runs servers.

    Attributes:
        name: login name, or the number as text if it has none.
        uid: user id; never 0.
        gid: group id.
    """

    name: str
    uid: int
    gid: int


@cache
def server_user() -> ServerUser:
    """The user that servers run as: the caller, or `flushlab` when the caller is root.

    Raises:
        HarnessError: the caller is root, and the user is missing and cannot be made.
    """
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0:
        try:
            return ServerUser(name=pwd.getpwuid(uid).pw_name, uid=uid, gid=gid)
        except KeyError:
            return ServerUser(name=str(uid), uid=uid, gid=gid)
    entry = _entry() or _made()
    if entry is None or entry.pw_uid == 0:
        raise HarnessError(
            f"servers must not run as root, and the user {NAME!r} could not be made",
            hint=f"run flushlab as an ordinary user, or make one: {' '.join(_COMMAND)}",
        )
    return ServerUser(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def _entry() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return None


def _made() -> pwd.struct_passwd | None:
    """Makes the user; several flushlabs may try at once, and the password file is locked for a moment."""
    program = shutil.which("useradd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    for _ in range(_TRIES):
        if program is not None:
            subprocess.run([program, *_COMMAND[1:]], check=False, capture_output=True)
        if (found := _entry()) is not None or program is None:
            return found
        time.sleep(_TRY_AGAIN_S)
    return None


def may_enter(path: Path, user: ServerUser) -> bool:
    """True if `user` can traverse the directory `path` and all its parents."""
    return _try_as(user, 'test -d "$1" && test -x "$1"', path)


def may_write(path: Path, user: ServerUser) -> bool:
    """True if `user` can make files in the directory `path`."""
    return _try_as(user, 'test -d "$1" && test -x "$1" && test -w "$1"', path)


def first_closed_parent(path: Path, user: ServerUser) -> Path | None:
    """The topmost of `path` and its parents that `user` cannot enter; None if all can be entered."""
    if may_enter(path, user):
        return None
    return next((parent for parent in reversed(path.parents) if not may_enter(parent, user)), path)


def _try_as(user: ServerUser, script: str, path: Path) -> bool:
    command = ["/bin/sh", "-c", script, "sh", str(path)]
    if os.geteuid() == 0:
        done = subprocess.run(
            command, user=user.uid, group=user.gid, extra_groups=[], check=False, stderr=subprocess.DEVNULL
        )
    else:
        done = subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def is_open_to_all(file: Path) -> bool:
    """Whether anybody may write to a file: servers and clients ignore such option files (`my_default.c`)."""
    mode = file.stat().st_mode
    return stat.S_ISREG(mode) and bool(mode & stat.S_IWOTH)
