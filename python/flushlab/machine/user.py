"""The unprivileged user that servers run as, and what it may do with a path.

Machine layer; used by `home`, by data roots and snapshots, and by whoever starts a server. When flushlab runs
as root, servers run as `nobody`; otherwise as the caller. What that user may do is tried as that user,
so access lists, read-only mounts and security modules count as well as mode bits.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from functools import cache
from pathlib import Path

import msgspec

from flushlab.errors import HarnessError


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
    """The user that servers run as: the caller, or `nobody` when the caller is root.

    Raises:
        HarnessError: the caller is root and the system has no user `nobody`.
    """
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0:
        try:
            return ServerUser(name=pwd.getpwuid(uid).pw_name, uid=uid, gid=gid)
        except KeyError:
            return ServerUser(name=str(uid), uid=uid, gid=gid)
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise HarnessError(
            "servers must not run as root, and the user 'nobody' does not exist",
            hint="run flushlab as an ordinary user, or create the user nobody",
        ) from None
    return ServerUser(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


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
