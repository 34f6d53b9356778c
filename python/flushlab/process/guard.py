"""Guard: starts processes so that none of them outlives flushlab.

Process layer. `Guard` is flushlab's end of the guard process (`guard_main.py`). It writes the run record,
makes the folders and spawns programs under the unprivileged user. When it is closed, or when flushlab dies in
whatever way, the guard kills the programs and removes the folders that have its record's mark.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from flushlab.errors import HarnessError, NotWritable, UsageError
from flushlab.machine import ownership, server_user
from flushlab.process import run_record
from flushlab.process.identity import ProcessIdentity, has_ended, identify
from flushlab.process.run_record import RunRecord, reap_record
from flushlab.undo import Closing

Network = Literal["none", "host", "own"]


class Reach(NamedTuple):
    writes: Sequence[Path] | None
    network: Network = "none"


_GUARD_MAIN = Path(__file__).with_name("guard_main.py")
_ANSWER_S = 120.0
_CLEAN_S = 120.0


class Guard(Closing):
    """Owns processes and folders: both are gone when it is closed, and whatever is mounted below `mounts`."""

    def __init__(self, name: str, folders: Sequence[Path] = (), mounts: Sequence[Path] = ()) -> None:
        assert all(folder.is_absolute() for folder in folders), folders
        self.name = name
        self._processes: dict[int, GuardedProcess] = {}
        self._buffer = b""
        self._abandoned = False
        self._thread = threading.get_ident()
        self._record = msgspec.structs.replace(
            RunRecord.mine(name, *folders), mounts=tuple(str(mount) for mount in mounts)
        )
        run_record.claim(self._record)
        try:
            for folder in folders:
                _make(folder, self._record)
            self._control, self._guard = _start(self._record)
        except BaseException:
            reap_record(self._record)
            raise
        _open_guards.add(self)
        try:
            self._receive("ready")
            self._rewrite(guard=identify(self._guard.pid))
        except BaseException:
            self.close()
            raise

    def spawn(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        cwd: Path,
        environment: Mapping[str, str],
        reach: Reach,
        before_exec: Callable[[int], None] | None = None,
        outlives_guard: bool = False,
        serves_disk: bool = False,
    ) -> GuardedProcess:
        """Starts a program in a session of its own, as the servers' user, with stdin closed.

        The run record names the process before the program is executed. `before_exec` gets the pid while the
        process waits, to put it into a cgroup. One that `serves_disk` keeps flushlab's user, and is the last
        that the kernel kills for want of memory.
        """
        user = server_user()
        uid, gid = (os.geteuid(), os.getegid()) if serves_disk else (user.uid, user.gid)
        order = {
            "argv": list(argv),
            "env": {"PATH": os.environ.get("PATH", os.defpath), **environment},
            "cwd": str(cwd),
            "uid": uid,
            "gid": gid,
            "log": str(log),
            "dies_with_guard": not outlives_guard,
            "connects": reach.network != "none",
            "own_network": reach.network == "own",
            "serves_disk": serves_disk,
            "writes": None if reach.writes is None else [str(folder) for folder in reach.writes],
        }
        self._send({"spawn": order})
        pid = int(self._receive("pid")["pid"])
        process = GuardedProcess(self, pid, serves_disk=serves_disk)
        self._processes[pid] = process
        self._rewrite(server=process.identity)
        if before_exec is not None:
            before_exec(pid)
        self._send({"go": pid})
        answer = self._receive("gone", "error")
        if "error" in answer:
            raise HarnessError(f"{argv[0]} could not be executed: {answer['error']}")
        return process

    def release(self, *, forget: bool = False, goes_with: str = "") -> None:
        if forget:
            run_record.remove(self.name)
        else:
            self._rewrite(kind="kept", guard=None, goes_with=goes_with)
        self._send({"release": True})
        self._guard.wait(timeout=_ANSWER_S)
        self._abandoned = True
        self._control.close()
        for process in self._processes.values():
            process.forget()

    def close(self) -> None:
        """Does nothing the second time; a HarnessError if the guard does not end within two minutes."""
        if self._abandoned:
            return
        self._abandoned = True
        self._control.close()
        try:
            self._guard.wait(timeout=_CLEAN_S)
        except subprocess.TimeoutExpired:
            raise HarnessError(
                f"the guard of {self.name} (process {self._guard.pid}) still runs after {_CLEAN_S:.0f} s",
                hint="its disk may hang; the next flushlab command cleans up after it",
            ) from None
        finally:
            for process in self._processes.values():
                process.forget()
        if self._guard.returncode != 0:  # killed by somebody: do its work
            reap_record(self._record)

    def strike(self, threads: Collection[int]) -> None:
        if self._thread in threads:
            for process in list(self._processes.values()):
                if not process.serves_disk:
                    with suppress(OSError):  # it is let go of at this moment
                        process.signal(signal.SIGKILL)

    def remove_folder(self, folder: Path) -> None:
        with suppress(OSError):
            ownership.remove(str(folder), token=self._record.token)

    def exit_status(self, pid: int, seconds: float) -> int:
        process = self._processes[pid]
        deadline = time.monotonic() + seconds
        while process.status is None:
            self._read(max(0.0, deadline - time.monotonic()))
        return process.status

    def _rewrite(self, **changes: Any) -> None:
        self._record = msgspec.structs.replace(self._record, **changes)
        run_record.rewrite(self._record)

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._control.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise HarnessError(f"the guard of sandbox {self.name} is gone: {error}") from error

    def _receive(self, *keys: str) -> dict[str, Any]:
        deadline = time.monotonic() + _ANSWER_S
        while True:
            for message in self._read(max(0.0, deadline - time.monotonic())):
                if any(key in message for key in keys):
                    return message

    def _read(self, seconds: float) -> list[dict[str, Any]]:
        self._control.settimeout(seconds or 0.001)
        try:
            chunk = self._control.recv(65536)
        except TimeoutError:
            raise HarnessError(f"the guard of sandbox {self.name} does not answer") from None
        except OSError as error:
            raise HarnessError(f"the guard of sandbox {self.name} is gone: {error}") from error
        if not chunk:
            raise HarnessError(f"the guard of sandbox {self.name} has died")
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        messages = [json.loads(line) for line in lines]
        for message in messages:
            if "exited" in message and message["exited"] in self._processes:
                self._processes[message["exited"]].status = message["status"]
        return messages

    def abandon_after_fork(self) -> None:
        self._abandoned = True
        self._control.close()


class GuardedProcess:
    def __init__(self, guard: Guard, pid: int, *, serves_disk: bool = False) -> None:
        self._guard = guard
        self.serves_disk = serves_disk
        found = identify(pid)
        if found is None:
            raise HarnessError(f"process {pid} was killed before it could start")
        self._handle: int | None = os.pidfd_open(pid)
        self.pid = pid
        self.identity: ProcessIdentity = found
        self.status: int | None = None

    def alive(self) -> bool:
        return not self._ended(0)

    def signal(self, number: signal.Signals) -> None:
        if self._handle is not None and self.alive():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def wait(self, seconds: float) -> int | None:
        if not self._ended(seconds):
            return None
        return os.waitstatus_to_exitcode(self._guard.exit_status(self.pid, _ANSWER_S))

    def forget(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _ended(self, seconds: float) -> bool:
        return not self.identity.alive() if self._handle is None else has_ended(self._handle, seconds)


def _make(folder: Path, record: RunRecord) -> None:
    try:
        ownership.make(str(folder), record.mark("sandbox", record.name), 0o711)
    except FileExistsError:
        raise UsageError(
            f"{folder} already exists, and flushlab did not make it for this sandbox",
            hint="choose another name, or another --data-root",
        ) from None
    except OSError as error:
        raise NotWritable(f"{folder} cannot be created: {error.strerror}") from error


def _start(record: RunRecord) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair()  # close-on-exec, both: no other child of ours holds the guard alive
    path = str(run_record.record_path(record.name))
    with theirs:
        command = [sys.executable, "-I", "-S", str(_GUARD_MAIN), str(theirs.fileno())]
        try:
            guard = subprocess.Popen(
                [*command, path, record.token, *record.folders],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            ours.close()
            raise HarnessError(f"the guard process cannot be started: {error}") from error
    return ours, guard


_open_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def strike(threads: Collection[int]) -> None:
    """Kills the servers that these threads have started, so that they wait for them no longer.

    What they start afterwards lives; whoever wants to see them end strikes until they have.
    """
    with suppress(RuntimeError):  # a guard is made at this moment
        for guard in list(_open_guards):
            guard.strike(threads)


def _let_go_in_child() -> None:
    for guard in list(_open_guards):
        guard.abandon_after_fork()


os.register_at_fork(after_in_child=_let_go_in_child)
