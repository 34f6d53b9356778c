"""Kept sandboxes: what is written down of them, so that later commands find, use and stop them.

Server layer. `sandbox.json` in the sandbox's folder holds everything but the password, which stands in its
client option file only; the run record holds the process.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab import atomic
from flushlab.build import Build
from flushlab.errors import StorageError, UsageError
from flushlab.process import ProcessIdentity, all_records, run_folder, run_record, terminate
from flushlab.process.identity import world
from flushlab.process.run_record import reap_record
from flushlab.record import DiskEmulation, Endpoint, Storage, Value
from flushlab.server.sandbox.node import HOST, Membership
from flushlab.server.sandbox.option_files import SandboxPaths, sandbox_endpoint
from flushlab.server.sandbox.starting import STOP_LIMIT_S

_FILE = "sandbox.json"


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    build: Build
    paths: SandboxPaths
    settings: Mapping[str, Value]
    arguments: tuple[str, ...]
    storage: Storage
    port: int
    connects: bool = False
    membership: Membership | None = None
    disk: DiskEmulation | None = None
    halted: bool = False

    @property
    def host(self) -> str:
        return self.membership.address if self.membership else HOST


class KeptStatus(msgspec.Struct, frozen=True, kw_only=True):
    saved: Saved
    pid: int | None
    elsewhere: bool = False

    @property
    def state(self) -> str:
        if self.pid:
            return "running"
        if self.elsewhere:
            return "elsewhere"
        return "stopped" if self.saved.halted else "dead"


def save(saved: Saved) -> None:
    atomic.write(saved.paths.folder / _FILE, msgspec.json.encode(saved, enc_hook=str))


def load(name: str) -> tuple[Saved, ProcessIdentity]:
    _, server = _record(name)
    return _read(run_folder() / name / _FILE), server


def statuses() -> list[KeptStatus]:
    found = []
    for record in all_records():
        file = run_folder() / record.name / _FILE
        if record.kind == "kept" and file.is_file():
            server = record.server
            alive = server is not None and record.is_here and server.alive()
            elsewhere = not record.is_of_this_machine
            pid = server.pid if server and alive else None
            found.append(KeptStatus(saved=_read(file), pid=pid, elsewhere=elsewhere))
    return found


def endpoint(saved: Saved) -> Endpoint:
    file = saved.paths.client_options
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(file.read_text())
        password = parser["client"]["password"]
    except (OSError, KeyError, configparser.Error) as error:
        raise StorageError(f"the option file {file} cannot be read: {error}") from error
    return sandbox_endpoint(saved.paths, saved.host, saved.port, password)


def note_process(name: str, process: ProcessIdentity) -> None:
    record = run_record.read(name)
    if record is not None:
        run_record.rewrite(msgspec.structs.replace(record, server=process, world=world()))


def require_disk(name: str, cluster: str = "") -> None:
    if not _has_its_disk(name):
        raise StorageError(
            f"the disk of {name} is gone, and its data with it: its program was killed, or the machine was"
            " rebooted",
            hint=f"remove what is left with: flushlab server stop {cluster or name}",
        )


def stop(name: str) -> list[Path]:
    """Stops and removes a kept sandbox; not in an orderly way if a disk of its own goes with it."""
    halt(name, grace_s=0.0 if run_record.that_go_with(name) else STOP_LIMIT_S)
    return remove(name)


def halt(name: str, grace_s: float = STOP_LIMIT_S) -> None:
    record, server = _record(name)
    if not record.is_of_this_machine and record.machine:
        raise UsageError(
            f"the sandbox {name} was started on another machine ({record.machine.split()[-1]})",
            hint="stop it there",
        )
    if record.is_here:
        terminate(server, grace_s=grace_s if _has_its_disk(name) else 0.0)
    saved, _ = load(name)
    save(msgspec.structs.replace(saved, halted=True))


def remove(name: str) -> list[Path]:
    """Removes a kept sandbox; returns folders that flushlab cannot prove to be its own, and so left."""
    record = run_record.read(name)
    if record is None:
        return []
    try:
        return reap_record(record)
    except OSError as error:
        raise StorageError(f"the sandbox {name} cannot be removed: {error}") from error


def _record(name: str) -> tuple[run_record.RunRecord, ProcessIdentity]:
    record = run_record.read(name)
    if record is None or record.kind != "kept" or record.server is None or record.goes_with:
        names = ", ".join(one.saved.name for one in statuses())
        raise UsageError(
            f"there is no kept sandbox named {name!r}",
            hint=f"there are: {names}" if names else "none is kept; `flushlab server start` starts one",
        )
    return record, record.server


def _has_its_disk(name: str) -> bool:
    return all(
        disk.is_here and disk.server is not None and disk.server.alive()
        for disk in run_record.that_go_with(name)
    )


def _read(file: Path) -> Saved:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Saved, dec_hook=_path)
    except (OSError, msgspec.DecodeError) as error:
        raise StorageError(f"{file} cannot be read: {error}", hint="remove its folder by hand") from error


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(f"{kind} is not stored here")
