"""The store's place: `store.sqlite` in the state folder, and its move there from where flushlab 0.1 had it.

A store in the old place, the home, is moved once, by whoever opens the store first. It is taken out of WAL
mode before, which SQLite refuses while another process has it open, so that one file is all there is to move.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
from pathlib import Path

from flushlab.errors import StorageError
from flushlab.machine import home_path, state, state_path
from flushlab.store.store import Store

_NAME = "store.sqlite"


def open_store() -> Store:
    """The store of this machine, made if there is none.

    Raises:
        StorageError: it cannot be opened, made or moved.
    """
    folder = state()
    _move(home_path() / _NAME, folder / _NAME)
    return Store(folder / _NAME)


def existing_store() -> Store:
    """The store of this machine, for reading what is in it.

    Raises:
        UsageError: there is none.
        StorageError: it cannot be opened or moved.
    """
    if home_path() != state_path() and (home_path() / _NAME).is_file():
        return open_store()
    return Store.existing(state_path() / _NAME)


def _move(old: Path, new: Path) -> None:
    if old == new or new.exists() or not old.is_file():
        return
    try:
        with (new.parent / ".moving").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if new.exists() or not old.is_file():
                return
            with Store(old) as store:
                store.leave_wal()
            try:
                old.rename(new)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                half = new.with_name(".half-moved")
                shutil.copyfile(old, half)
                half.chmod(0o600)
                with half.open("rb") as copied:
                    os.fsync(copied.fileno())
                half.rename(new)
                old.unlink()
    except (OSError, sqlite3.Error) as error:
        raise StorageError(
            f"the store {old} cannot be moved to {new}: {error}",
            hint="try again when no other flushlab runs",
        ) from error
