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
from contextlib import suppress
from functools import cache
from pathlib import Path

from flushlab.errors import NotWritable
from flushlab.machine import ownership
from flushlab.machine.user import first_closed_parent, server_user

ROOT_HOME = Path("/var/cache/flushlab")
ROOT_STATE = Path("/var/lib/flushlab")

_NOBODYS = ("lost+found",)


def home() -> Path:
    """The absolute path of flushlab's folder, created if needed with mode 0755.

    Raises:
        NotWritable: it cannot be created or written to, is no directory or somebody else's, or the user that
            servers run as cannot reach it.
    """
    path = home_path()
    if not path.is_dir():
        with suppress(OSError):  # whatever is wrong with it is told below
            _refuse_closed(next(folder for folder in path.parents if folder.exists()), path)
    _own(path, "home", 0o755)
    _refuse_closed(path, path)
    return path


def home_path() -> Path:
    """Where `home` is, without creating or checking anything."""
    return _path(ROOT_HOME, "XDG_CACHE_HOME", "~/.cache")


def home_part(name: str) -> Path:
    """A folder of that name in the home, created if needed.

    Raises:
        NotWritable: as `home`, or something else has that name.
    """
    folder = home() / name
    try:
        folder.mkdir(exist_ok=True)
        if folder.stat().st_mode & 0o711 != 0o711:
            folder.chmod(0o755)  # the umask took away the servers' user's right to enter
    except OSError as error:
        raise NotWritable(
            f"flushlab's folder {folder} cannot be created: {error.strerror}",
            hint="move away what is there, or set FLUSHLAB_HOME to another folder",
        ) from error
    return folder


def make_open(path: Path) -> None:
    """Creates a directory, and those above it, that everyone may enter, whatever the umask.

    Raises:
        OSError: it cannot be created, or is no directory.
    """
    for folder in reversed((path, *path.parents)):
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)  # another flushlab may be quicker
            folder.chmod(0o755)


def state() -> Path:
    """The absolute path of the folder for results, created if needed; the home if `FLUSHLAB_HOME` is set.

    Raises:
        NotWritable: as `home`.
    """
    path = state_path()
    return home() if path == home_path() else _own(path, "state folder", 0o700)


def state_path() -> Path:
    """Where `state` is, without creating or checking anything."""
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
    if any(one.name not in _NOBODYS for one in path.iterdir()):
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
    """Cached, because it is tried in a child and `home` is asked for often."""
    user = server_user()
    closed = first_closed_parent(folder, user) if user.uid != os.geteuid() else None
    if closed is not None:
        raise NotWritable(
            f"flushlab's home {path} is not accessible to {user.name}, the user that servers run as:"
            f" it may not enter {closed}",
            hint=f"set FLUSHLAB_HOME to a directory that everyone can access, below one such as {ROOT_HOME}",
        )
