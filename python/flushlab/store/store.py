"""The store: campaigns and their rows, each a trial or a crash; blocks of a fleet that wait for their turn.

A row is durable when `save` returns (WAL with synchronous=FULL), so kill -9 costs at most the
trial or crash that runs. Several processes may use one store. A file with another schema is refused, never
changed: stored campaigns are not carried from one schema to the next.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import os
import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from flushlab.errors import NoSpace, StorageError, UsageError, nearest
from flushlab.machine import state, state_path
from flushlab.record import CrashRow, Trial, Value
from flushlab.version import __version__

_NAME = "store.sqlite"
_LATEST_FIRST = "ORDER BY created_at DESC, id DESC"
_ID = re.compile(r"[a-z0-9][a-z0-9-]*")
_HINT = "set FLUSHLAB_HOME to a folder that is writable"
VERSION = 2
_SCHEMA = f"""
    BEGIN;
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
        kind TEXT NOT NULL CHECK (kind IN ('trial', 'crash')),
        PRIMARY KEY (campaign_id, number)
    ) STRICT;
    PRAGMA user_version = {VERSION};
    COMMIT;
"""
_ARRIVED = """
    CREATE TABLE IF NOT EXISTS arrived (
        campaign_id TEXT NOT NULL REFERENCES campaign (id),
        number INTEGER NOT NULL,
        block BLOB NOT NULL,
        PRIMARY KEY (campaign_id, number)
    ) STRICT
"""
"""A table that is added where it is absent: stores without it are as readable."""

State = Literal["running", "interrupted", "failed", "done"]


class CampaignRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    created_at: str
    flushlab: str = ""
    plan: bytes
    state: State
    result: bytes | None
    trials: int


def unreadable(row: CampaignRow) -> StorageError:
    wrote = "another build of flushlab" if row.flushlab == __version__ else "flushlab"
    return StorageError(
        f"campaign {row.id} of {row.created_at[:10]} was stored by {wrote} {row.flushlab}, in a format that"
        f" this flushlab ({__version__}) does not read",
        hint=f"use the flushlab that stored it, or start a new campaign with flushlab {row.kind}",
    )


def open_store() -> Store:
    return Store(state() / _NAME)


def existing_store() -> Store:
    return Store.existing(state_path() / _NAME)


def new_id(kind: str) -> str:
    """An id for a campaign that begins now: `tune-20261121-104206-79a6`."""
    return f"{kind}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


class Store:
    def __init__(self, path: Path) -> None:
        self.path = path
        with self._errors():
            if not os.path.lexists(path):
                _create(path)
            self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)
            _require_store(self._connection, path)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.execute(_ARRIVED)

    @classmethod
    def existing(cls, path: Path) -> Store:
        if not path.is_file():
            raise UsageError(
                f"there are no campaigns: {path} does not exist",
                hint="run one, or set FLUSHLAB_HOME to the folder that contains store.sqlite",
            )
        return cls(path)

    @contextlib.contextmanager
    def hold(self, campaign_id: str) -> Iterator[None]:
        lock = self.path.with_name(f".{campaign_id}.running")
        with self._errors():
            held = _locked(lock)
        if held is None:
            raise UsageError(
                f"campaign {campaign_id} is running already, in another process",
                hint="wait until it ends, or stop it there with Ctrl-C",
            )
        with held:
            try:
                self._remove_left(lock)
                yield
            finally:
                lock.unlink(missing_ok=True)

    def _remove_left(self, own: Path) -> None:
        for file in self.path.parent.glob(".*.running"):
            campaign_id = file.name[1:].removesuffix(".running")
            if file == own or not self._campaigns("WHERE id = ?", campaign_id):
                continue
            with contextlib.suppress(OSError):
                if (left := _locked(file)) is not None:
                    with left:
                        file.unlink(missing_ok=True)

    def as_it_stands(self, row: CampaignRow) -> CampaignRow:
        """A campaign that is stored as running while no process carries it on was interrupted."""
        if row.state != "running" or _is_locked(self.path.with_name(f".{row.id}.running")):
            return row
        return msgspec.structs.replace(row, state="interrupted")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def create_campaign(self, campaign_id: str, kind: str, plan: bytes) -> None:
        self._execute(
            "INSERT INTO campaign (id, kind, created_at, flushlab, plan, state) "
            "VALUES (?, ?, ?, ?, ?, 'running')",
            *(campaign_id, kind, _now(), __version__, plan),
        )

    def campaign(self, campaign_id: str) -> CampaignRow:
        # Ids become parts of files' names.
        rows = self._campaigns("WHERE id = ?", campaign_id) if _ID.fullmatch(campaign_id) else []
        if not rows:
            raise UsageError(
                f"there is no campaign {campaign_id!r} in {self.path}", hint=self._others(campaign_id)
            )
        return rows[0]

    def campaigns(self) -> list[CampaignRow]:
        return self._campaigns(_LATEST_FIRST)

    def latest_finished(self) -> CampaignRow:
        rows = self._campaigns(f"WHERE state = 'done' {_LATEST_FIRST} LIMIT 1")
        if not rows:
            raise UsageError(f"there is no finished campaign in {self.path}", hint=self._others(""))
        return rows[0]

    def finished(self, kind: str) -> list[CampaignRow]:
        return self._campaigns(f"WHERE state = 'done' AND kind = ? {_LATEST_FIRST} LIMIT 20", kind)

    def set_state(self, campaign_id: str, state: State, result: bytes | None = None) -> None:
        self._execute(
            "UPDATE campaign SET state = ?, result = coalesce(?, result) WHERE id = ?",
            *(state, result, campaign_id),
        )

    def save(self, campaign_id: str, row: Trial | CrashRow) -> None:
        kind = "crash" if isinstance(row, CrashRow) else "trial"
        self._execute(
            "INSERT INTO trial (campaign_id, number, ended_at, record, kind) "
            "SELECT ?, 1 + coalesce(max(number), 0), ?, ?, ? FROM trial WHERE campaign_id = ?",
            *(campaign_id, _now(), msgspec.json.encode(row), kind, campaign_id),
        )

    def save_arrived(self, campaign_id: str, number: int, block: bytes) -> None:
        self._execute(
            "INSERT OR REPLACE INTO arrived (campaign_id, number, block) VALUES (?, ?, ?)",
            *(campaign_id, number, block),
        )

    def arrived(self, campaign_id: str) -> dict[int, bytes]:
        sql = "SELECT number, block FROM arrived WHERE campaign_id = ? ORDER BY number"
        return dict(self._execute(sql, campaign_id))

    def forget_arrived(self, campaign_id: str, number: int) -> None:
        self._execute("DELETE FROM arrived WHERE campaign_id = ? AND number = ?", campaign_id, number)

    def trials(self, campaign_id: str) -> Iterator[Trial]:
        for _, trial in self.dated_trials(campaign_id):
            yield trial

    def dated_trials(self, campaign_id: str) -> Iterator[tuple[float, Trial]]:
        for ended_at, record in self._rows(campaign_id, "trial"):
            with self._readable(campaign_id):
                trial = msgspec.json.decode(record, type=Trial)
            yield datetime.fromisoformat(ended_at).timestamp(), trial

    def crashes(self, campaign_id: str) -> Iterator[CrashRow]:
        """In the order in which they were judged; of one that was judged again, the later row."""
        found: dict[tuple[str, bytes, int], CrashRow] = {}
        for _, record in self._rows(campaign_id, "crash"):
            with self._readable(campaign_id):
                crash = msgspec.json.decode(record, type=CrashRow)
            key = crash.arm.name, msgspec.json.encode(crash.arm.settings), crash.number
            found.pop(key, None)
            found[key] = crash
        yield from found.values()

    def _rows(self, campaign_id: str, kind: Literal["trial", "crash"]) -> list[tuple[str, bytes]]:
        sql = "SELECT ended_at, record FROM trial WHERE campaign_id = ? AND kind = ? ORDER BY number"
        return self._execute(sql, campaign_id, kind)

    def _campaigns(self, clause: str, *values: str) -> list[CampaignRow]:
        rows = self._execute(
            "SELECT id, kind, created_at, flushlab, plan, state, result, "
            "(SELECT count(*) FROM trial WHERE campaign_id = campaign.id"
            f" AND trial.kind = iif(campaign.kind = 'crash', 'crash', 'trial')) FROM campaign {clause}",
            *values,
        )
        return [CampaignRow(**dict(zip(CampaignRow.__struct_fields__, row, strict=True))) for row in rows]

    def _execute(self, sql: str, *values: object) -> list[Any]:
        with self._errors():
            return self._connection.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def _readable(self, campaign_id: str) -> Iterator[None]:
        try:
            yield
        except msgspec.DecodeError as error:
            raise unreadable(self.campaign(campaign_id)) from error

    def _others(self, campaign_id: str) -> str:
        ids = [known for (known,) in self._execute(f"SELECT id FROM campaign {_LATEST_FIRST}")]
        near = nearest(campaign_id, ids)
        if near:
            return f"the nearest are {', '.join(near)}" if len(near) > 1 else f"the nearest is {near[0]}"
        return f"the latest are {', '.join(ids[:5])}" if ids else "no campaign has been run yet"

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self.path}: {error}", hint=_HINT) from error
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                raise NoSpace(
                    f"{self.path} could not be written: its file system is full",
                    hint="free some space, then use --resume: what was saved is safe",
                ) from error
            raise StorageError(f"{self.path}: {error}", hint=_HINT) from error


def _require_store(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not {"campaign", "trial"} <= tables:
        raise StorageError(f"{path} is not a store of flushlab", hint="move it away")
    if version != VERSION:
        raise StorageError(
            f"{path} has schema version {version}, but this flushlab reads {VERSION}",
            hint="use the flushlab that wrote it, or set FLUSHLAB_HOME to another folder",
        )


def _create(path: Path) -> None:
    """Makes an empty store, whole from the first moment; another process may be quicker."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
            connection.executescript(_SCHEMA)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(new)
    finally:
        new.unlink()


def _locked(file: Path) -> BinaryIO | None:
    while True:
        opened = file.open("wb")
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(file.stat(), os.fstat(opened.fileno())):
                return opened
        except BlockingIOError:
            opened.close()
            return None
        except FileNotFoundError:  # the one before has just ended and removed it
            pass
        opened.close()


def _is_locked(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


Row = dict[str, Value | bool | None]
"""A trial, a cell or a crash; names of fields within fields are joined by dots: `load.latency_us.p99`."""
Fields = Iterator[tuple[str, Value | bool | None]]

_CELLS = ("disk", "ceilings", "switches", "against")
"""Fields of a probe's record that have a row for each of their entries."""


def records(campaign: str | None = None, *, store: Path | str | None = None) -> list[Row]:
    """What a campaign measured, a row each: `pandas.DataFrame(flushlab.records())`.

    Args:
        campaign: its id; the latest finished one if None.
        store: the file; flushlab's own if None.

    Returns:
        Rows in the order in which they were measured. Columns are `campaign`, `number`, and the fields of a
        `flushlab.record.Trial`, those of its parts behind a dot (`arm.settings.sync_binlog`,
        `load.latency_us.p99`, `settings.…` as read back); lists are left out. A crash is a row, too: a
        `Crash`, with its configuration's columns `arm.…`. Of a probe, a row is an entry of the field
        `part` (`disk`, `ceilings`, `switches`, `against`) of its `ProbeRecord`.

    Raises:
        UsageError: there is no such campaign.
    """
    with Store.existing(Path(store)) if store else existing_store() as opened:
        row = opened.campaign(campaign) if campaign else opened.latest_finished()
        return [dict(_flat(one)) for one in whole(opened, row)]


def whole(store: Store, row: CampaignRow) -> Iterator[dict[str, Any]]:
    found = chain(
        _cells(row),
        (msgspec.to_builtins(trial) for trial in store.trials(row.id)),
        (_crash(msgspec.to_builtins(crash)) for crash in store.crashes(row.id)),
    )
    for number, one in enumerate(found, 1):
        yield {"campaign": row.id, "number": number, **one}


def as_json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def as_csv(rows: Iterable[Mapping[str, Any]]) -> bytes:
    flat = [dict(_flat(row)) for row in rows]
    text = io.StringIO()
    table = csv.DictWriter(text, [*dict.fromkeys(name for row in flat for name in row)], lineterminator="\n")
    table.writeheader()
    table.writerows(flat)
    return text.getvalue().encode()


def _cells(row: CampaignRow) -> Iterator[dict[str, Any]]:
    result = msgspec.json.decode(row.result) if row.kind == "probe" and row.result else {}
    for part in _CELLS:
        yield from ({"part": part, **cell} for cell in result.get(part, ()))


def _crash(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"arm": row["arm"], **row["crash"]}


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Fields:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            yield prefix + name, value
