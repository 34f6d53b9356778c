"""The store's schema: one list of steps; a file's `user_version` says how many it has taken.

An old file is upgraded when it is opened. A file of a newer flushlab is refused, never changed.
A step, once released, is never edited: add another and keep a fixture of the older version
(`tests/unit/store/`).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from flushlab.errors import StorageError

STEPS = (
    """
    CREATE TABLE campaign (
        id TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        created_at TEXT NOT NULL,
        flushlab TEXT NOT NULL,
        plan BLOB NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'interrupted', 'failed', 'done')),
        result BLOB
    ) STRICT;
    CREATE TABLE trial (
        campaign_id TEXT NOT NULL REFERENCES campaign (id),
        number INTEGER NOT NULL,
        ended_at TEXT NOT NULL,
        record BLOB NOT NULL,
        PRIMARY KEY (campaign_id, number)
    ) STRICT;
    """,
    """
    ALTER TABLE trial ADD COLUMN kind TEXT NOT NULL DEFAULT 'trial' CHECK (kind IN ('trial', 'crash'));
    """,
)


def require_store(connection: sqlite3.Connection, path: Path) -> None:
    """Looks before anything is written that the file is a store; an empty file is not.

    Raises:
        StorageError: it is not, or it is of a newer flushlab.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(STEPS):
        raise StorageError(
            f"{path} has schema version {version}, but this flushlab supports up to {len(STEPS)}",
            hint="use a newer flushlab, or set FLUSHLAB_HOME to another folder",
        )
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not {"campaign", "trial"} <= tables:
        raise StorageError(f"{path} is not a store of flushlab", hint="move it away")


def upgrade(connection: sqlite3.Connection) -> None:
    """Takes the steps that the file lacks, each in a transaction of its own."""
    while True:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version >= len(STEPS):
            return
        step = f"BEGIN IMMEDIATE; {STEPS[version]} PRAGMA user_version = {version + 1}; COMMIT;"
        try:
            connection.executescript(step)
        except sqlite3.OperationalError:
            connection.rollback()
            (now,) = connection.execute("PRAGMA user_version").fetchone()
            if now == version:
                raise  # not another process that was quicker
