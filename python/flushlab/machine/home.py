"""Home: the one folder that flushlab keeps builds, snapshots, sandboxes and records in.

Machine layer; everything that stores something starts from `home()`. The folder exists and can be
written to when it is returned, and the user that servers run as can reach it.

Where: `$FLUSHLAB_HOME` if set. Otherwise the platform's cache directory, `$XDG_CACHE_HOME/flushlab` or
`~/.cache/flushlab`. For root it is `/var/cache/flushlab`: root's servers run as another user, and
`/root` is closed to it (mode 0700) on every common distribution.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from flushlab.errors import NotWritable
from flushlab.machine.user import first_closed_parent, server_user

ROOT_HOME = Path("/var/cache/flushlab")


def home() -> Path:
    """The absolute path of flushlab's folder, created if needed with mode 0755.

    Raises:
        NotWritable: it cannot be created or written to, is no directory, or the user that servers run as
            cannot reach it.
    """
    return _made(home_path())


def home_path() -> Path:
    """Where `home` is, without creating or checking anything."""
    chosen = os.environ.get("FLUSHLAB_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if os.geteuid() == 0:
        return ROOT_HOME
    cache_home = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification: a relative path there must be ignored.
    base = Path(cache_home) if cache_home.startswith("/") else Path("~/.cache").expanduser()
    return base.absolute() / "flushlab"


def _made(path: Path) -> Path:
    hint = "set FLUSHLAB_HOME to a directory that you can write to"
    try:
        if not path.is_dir():
            _refuse_closed(next(folder for folder in path.parents if folder.exists()), path)
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o755)
    except (FileExistsError, NotADirectoryError):
        raise NotWritable(f"flushlab's home {path} is not a directory", hint=hint) from None
    except OSError as error:
        raise NotWritable(f"flushlab's home {path} cannot be created: {error.strerror}", hint=hint) from error
    if not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
        raise NotWritable(f"flushlab's home {path} is not writable", hint=hint)
    _refuse_closed(path, path)
    return path


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
