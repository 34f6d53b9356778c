"""Run records: what runs on behalf of flushlab, written down before it can matter.

Process layer. One JSON file per sandbox under `run` in flushlab's home, written by rename. The guard removes
it with the folders; what a power failure or a killed guard leaves behind, the janitor finds by it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.errors import UsageError
from flushlab.machine import home
from flushlab.process.identity import ProcessIdentity, world
from flushlab.process.short_lived import short_lived_name

__all__ = [
    "Kind",
    "RunRecord",
    "all_records",
    "claim",
    "read",
    "record_path",
    "remove",
    "rewrite",
    "run_folder",
    "world",
]

Kind = Literal["owned", "kept"]


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One sandbox, or one run of a server's set-up program.

    Attributes:
        name: unique; the last part of each of its folders.
        kind: `owned` dies with its owner, `kept` lives until it is stopped.
        world: boot and pid namespace in which the pids mean something.
        owner: the flushlab that started it.
        guard: the owner's guard process, once it runs; None for a kept sandbox.
        server: the server's process, once there is one.
        folders: directories that belong to it and go with it.
    """

    name: str
    kind: Kind
    world: str
    owner: ProcessIdentity
    guard: ProcessIdentity | None = None
    server: ProcessIdentity | None = None
    folders: tuple[str, ...]


def run_folder() -> Path:
    """`run` in flushlab's home; sandboxes' folders and records lie there."""
    folder = home() / "run"
    folder.mkdir(mode=0o755, exist_ok=True)
    return folder


def record_path(name: str) -> Path:
    """Where the record of that name lies."""
    return run_folder() / f"{name}.json"


def claim(record: RunRecord) -> None:
    """Writes a new record.

    Raises:
        UsageError: the name is taken.
    """
    temporary = _write_beside(record)
    try:
        os.link(temporary, record_path(record.name))  # fails if it exists, unlike rename
    except FileExistsError:
        raise UsageError(
            f"a sandbox named {record.name!r} is there already",
            hint=f"choose another name, or run: flushlab server stop {record.name}",
        ) from None
    finally:
        temporary.unlink()


def rewrite(record: RunRecord) -> None:
    """Replaces a record."""
    _write_beside(record).replace(record_path(record.name))


def read(name: str) -> RunRecord | None:
    """The record of that name, or None."""
    try:
        return msgspec.json.decode(record_path(name).read_bytes(), type=RunRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def all_records() -> list[RunRecord]:
    """Every record, by name."""
    found = [read(file.stem) for file in sorted(run_folder().glob("*.json")) if not file.name.startswith(".")]
    return [record for record in found if record is not None]


def remove(name: str) -> None:
    """Removes a record; it may be gone."""
    record_path(name).unlink(missing_ok=True)


def _write_beside(record: RunRecord) -> Path:
    temporary = run_folder() / short_lived_name(record.name)
    temporary.write_bytes(msgspec.json.encode(record))
    return temporary
