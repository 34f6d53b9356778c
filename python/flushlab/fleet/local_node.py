"""Local node: the part of a fleet that runs on this machine, and the proof that flushlab started it.

Fleet layer. One folder in flushlab's state, `fleet`, mode 0700: the record of the node, its key and
certificate, Ray's output. Processes are flushlab's if the keeper's pid and start time are those of the
record, or if their environment has the record's token; nothing else is ever signalled.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from flushlab import atomic
from flushlab.errors import FleetError
from flushlab.machine import ownership, state
from flushlab.process.identity import (
    ProcessIdentity,
    identify,
    kill,
    machine,
    signal_process,
    wait_for_end,
    world,
)
from flushlab.undo import undo_all

MARK = "FLUSHLAB_FLEET_NODE"
"""In the environment of all that a node runs: the token of its record."""
_STOP_S = 30.0
_SECRETS = ("key", "authority.pem", "machine.pem", "machine.key")


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`token` is no secret; `world`: boot and pid namespace of `keeper`, which ends all other processes."""

    role: Literal["head", "member"]
    fleet: str
    address: str
    listens: bool
    token: str
    world: str
    machine: str
    keeper: ProcessIdentity
    folder: str

    @property
    def is_alive(self) -> bool:
        return self.world == world() and self.keeper.alive()

    @property
    def is_of_this_machine(self) -> bool:
        """Whether this machine wrote it, now or before its last boot; machines may share a state folder."""
        is_older = self.world.split()[0] != world().split()[0]
        return self.world == world() or (is_older and self.machine != "" and self.machine == machine())


def fleet_folder() -> Path:
    folder = state() / "fleet"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def read() -> NodeRecord | None:
    try:
        return msgspec.json.decode((fleet_folder() / "node.json").read_bytes(), type=NodeRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write(record: NodeRecord) -> None:
    atomic.write(fleet_folder() / "node.json", msgspec.json.encode(record), mode=0o600)


@contextmanager
def locked() -> Iterator[None]:
    with (fleet_folder() / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FleetError(
                "another command is starting or stopping the fleet on this machine",
                hint="wait until it has ended",
            ) from None
        yield


def variables(folder: Path, *, listens: bool) -> dict[str, str]:
    """Variables of Ray for a folder with token and certificate.

    RAY_AUTH_MODE, RAY_AUTH_TOKEN_PATH: docs.ray.io, Ray token authentication. RAY_USE_TLS, RAY_TLS_*:
    docs.ray.io, TLS authentication. Without RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0, Ray 2.60 replaces 127.0.0.1
    by an address that others can reach (ray/_private/services.py, `resolve_ip_for_localhost`), and its
    servers listen on all addresses. RAY_memory_monitor_refresh_ms=0: Ray ends no worker when memory is
    short; flushlab counts the memory of its servers itself. RAY_kill_child_processes_on_worker_exit=0
    and RAY_process_group_cleanup_enabled=0: the guard of a server outlives its worker, ends the server, and
    removes its folders.
    """
    found = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder / "key"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_kill_child_processes_on_worker_exit": "0",
        "RAY_process_group_cleanup_enabled": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1" if listens else "0",
        "RAY_USE_TLS": "1" if listens else "0",
    }
    if listens:
        found |= {
            "RAY_TLS_CA_CERT": str(folder / "authority.pem"),
            "RAY_TLS_SERVER_CERT": str(folder / "machine.pem"),
            "RAY_TLS_SERVER_KEY": str(folder / "machine.key"),
        }
    return found


def ask_to_stop() -> bool:
    record = read()
    return record is not None and record.is_alive and signal_process(record.keeper, signal.SIGTERM)


def stop() -> NodeRecord | None:
    record = read()
    if record is None:
        forget()
        return None
    if not record.is_of_this_machine:
        raise FleetError(
            f"the fleet's files in {fleet_folder()} are another machine's, {record.address}",
            hint="stop it there, or set FLUSHLAB_HOME to a folder of this machine; if it is gone, with a"
            f" container or an earlier boot, remove {fleet_folder() / 'node.json'}",
        )
    if record.is_alive:
        signal_process(record.keeper, signal.SIGTERM)
        if not wait_for_end(record.keeper, _STOP_S):
            kill(record.keeper)
    end_marked(record.token)
    ownership.remove(record.folder, token=record.token)
    forget()
    return record


def forget() -> None:
    folder = fleet_folder()
    for name in (*_SECRETS, "node.json"):
        with suppress(FileNotFoundError):
            (folder / name).unlink()


def end_marked(token: str, *, but: int = 0) -> None:
    deadline = time.monotonic() + _STOP_S
    while (found := marked(token, but=but)) and time.monotonic() < deadline:
        undo_all(partial(kill, one) for one in found)


def marked(token: str, *, but: int = 0) -> list[ProcessIdentity]:
    wanted = f"{MARK}={token}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in (but, os.getpid()):
            continue
        process = identify(int(entry.name))
        with suppress(OSError):
            words = (entry / "environ").read_bytes().split(b"\0")
            if process is not None and wanted in words and process.alive():
                found.append(process)
    return found
