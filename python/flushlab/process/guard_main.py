"""The guard: parent of servers, so that none outlives flushlab.

Executed as a program of its own (`python -I -S guard_main.py FD RECORD TOKEN FOLDER…`), with the standard
library and three files of `machine` only, so that it is up in some 40 ms. It holds one end of a socket pair
whose other end only flushlab has, and obeys lines of JSON on it:

    {"spawn": {"argv", "env", "cwd", "uid", "gid", "log", "dies_with_guard", "connects",
               "own_network", "serves_disk", "writes"}} -> {"pid": N}
    {"go": N}          that process, which waited, executes its program -> {"gone": true} or {"error": TEXT}
    {"release": true}  exits and leaves its processes and paths alone (a kept server)
    (unasked)          -> {"exited": N, "status": WAIT STATUS} when a spawned process has ended

At end of file, whatever its reason (normal end, exception, SIGKILL of flushlab), the guard:

1. kills the process group of every server with SIGKILL;
2. kills and reaps every process that became an orphan below it;
3. unmounts the mounts that the record names;
4. removes the folders whose marks have the token, and then the run record;
5. exits.

Servers die with the guard too (PR_SET_PDEATHSIG), so killing the guard first does not help them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys

# typing and collections.abc would double the start-up time; annotations are never evaluated here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from flushlab.machine import confinement, ownership, proc_stat
else:  # the file alone: the package around it would take ten times as long
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(__file__)), "machine"))  # noqa: PTH118, PTH120
    import confinement
    import ownership
    import proc_stat

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
SYS_SECCOMP = 317
SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4
OPEN_FILES = 65536

_libc = ctypes.CDLL(None, use_errno=True)


class Guard:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._pipes: dict[int, tuple[int, int]] = {}
        self._running: set[int] = set()
        self._buffer = b""

    def run(self) -> bool:
        """Obeys until end of file; True if the processes are to be left alone."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            control = self._control.fileno()
            readable, _, _ = select.select([control, wake_read], [], [])
            if wake_read in readable:
                os.read(wake_read, 4096)
                self._reap()
            if control in readable:
                commands = self._receive()
                if commands is None:
                    return False
                for command in commands:
                    if "spawn" in command:
                        self._spawn(command["spawn"])
                    elif "go" in command:
                        self._go(command["go"])
                    elif "release" in command:
                        return True

    def send(self, message: dict[str, Any]) -> None:
        """Tells flushlab; if that is gone, the end of file that follows is what counts."""
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps(message).encode() + b"\n")

    def kill_all(self) -> None:
        for pid in self._running:
            _kill_group(pid)
        while True:
            for pid in _children():
                _kill(pid)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def _receive(self) -> list[dict[str, Any]] | None:
        try:
            chunk = self._control.recv(65536)
        except ConnectionError:
            return None
        if not chunk:
            return None
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._running:
                self._running.discard(pid)
                _kill_group(pid)
                self.send({"exited": pid, "status": status})

    def _spawn(self, order: dict[str, Any]) -> None:
        go_read, go_write = os.pipe()
        error_read, error_write = os.pipe()
        guard = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(go_write)
                _become(order, guard, go_read)
            except (OSError, ValueError) as error:
                os.write(error_write, f"{type(error).__name__}: {error}".encode()[:4000])
            finally:
                os._exit(127)
        os.close(go_read)
        os.close(error_write)
        self._running.add(pid)
        self._pipes[pid] = (go_write, error_read)
        self.send({"pid": pid})

    def _go(self, pid: int) -> None:
        go_write, error_read = self._pipes.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # it could not prepare itself; the error pipe says why
            os.write(go_write, b"g")
        os.close(go_write)
        complaint = b""
        while chunk := os.read(error_read, 4096):  # closed by exec
            complaint += chunk
        os.close(error_read)
        self.send({"error": complaint.decode()} if complaint else {"gone": True})


def _become(order: dict[str, Any], guard: int, go: int) -> NoReturn:
    """Turns the forked child into the server.

    Privileges are dropped before the parent-death signal is asked for: the kernel forgets that signal when
    credentials change, prctl(2). Only descriptors 0, 1 and 2 stay open: Python opens the rest close-on-exec.
    """
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        with contextlib.suppress(OSError):  # SIGKILL, SIGSTOP and those that the C library reserves
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    _limit_resources()
    _say_when_to_be_killed("-900" if order["serves_disk"] else "500")
    os.umask(0o027)
    if order["own_network"] and _libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(order["gid"], order["gid"], order["gid"])
        os.setresuid(order["uid"], order["uid"], order["uid"])
    os.chdir(order["cwd"])
    if order["writes"] is not None:
        confinement.confine([order["log"], *order["writes"]])
    if not order["connects"]:
        _forbid_connecting()
    if order["dies_with_guard"]:
        if _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != guard:  # the guard died before the signal was armed
            os._exit(127)
    if os.read(go, 1) != b"g":
        os._exit(127)
    os.execve(order["argv"][0], order["argv"], order["env"])


def _forbid_connecting() -> None:
    """From here on connect(2) and sockets for datagrams over a network fail with EACCES, in children too.

    A filter of the kernel, seccomp(2), which no setting, plugin or statement of a server can take back. It
    reads the arguments of socket(2) alone: calls that are allowed whatever their arguments are in a bitmap
    of the kernel's (Linux 5.11), and cost little. Without such sockets sendto(2) is safe.
    SPEC_ALLOW spares the server the kernel's mitigations of speculation. On another machine than x86-64, or
    a kernel without seccomp, the program starts without the filter.
    """
    import errno
    import struct

    if os.uname().machine != "x86_64":
        return
    # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_ALU|BPF_AND|BPF_K, BPF_RET|BPF_K
    load, equal, mask, answer = 0x20, 0x15, 0x54, 0x06
    refuse, allow = 0x00050000 | errno.EACCES, 0x7FFF0000  # SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW
    nr, arch, family, kind = 0, 4, 16, 24  # offsets in struct seccomp_data
    program = (
        (load, 0, 0, arch),
        (equal, 0, 11, 0xC000003E),  # AUDIT_ARCH_X86_64
        (load, 0, 0, nr),
        (equal, 8, 0, 42),  # connect
        (equal, 0, 8, 41),  # socket
        (load, 0, 0, family),
        (equal, 2, 0, socket.AF_INET),
        (equal, 1, 0, socket.AF_INET6),
        (answer, 0, 0, allow),
        (load, 0, 0, kind),
        (mask, 0, 0, 0xF),  # without SOCK_CLOEXEC and SOCK_NONBLOCK
        (equal, 1, 0, socket.SOCK_STREAM),
        (answer, 0, 0, refuse),
        (answer, 0, 0, allow),
    )
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    order = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(filters)))
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        for flags in (SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0):  # the flag came with Linux 4.17
            if _libc.syscall(SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, flags, order) == 0:
                return


def _limit_resources() -> None:
    """No core files (they hold people's data and fill disks), and enough open files.

    Not as many as the user may have: where that is a milliard, as in some containers, MySQL allocates
    a table of that size. A server that wants more raises its limit itself.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = OPEN_FILES if most == resource.RLIM_INFINITY else min(most, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (enough, most))


def _say_when_to_be_killed(score: str) -> None:
    """A pool that was set too large must cost this server, not somebody's other process: proc(5)."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as handle:  # noqa: PTH123
        handle.write(score)


def _children() -> list[int]:
    me = str(os.getpid())
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            fields = proc_stat.fields(name)
            if fields and fields[proc_stat.PARENT] == me:
                found.append(int(name))
    return found


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it has not made its group yet, or the group is gone
        _kill(leader)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _mounts(record: str) -> list[str]:
    try:
        with open(record) as handle:  # noqa: PTH123
            return list(json.load(handle)["mounts"])
    except (OSError, ValueError, KeyError):
        return []


def _remove(record: str, token: str, folders: Sequence[str], mounts: Sequence[str]) -> None:
    with contextlib.suppress(OSError):
        ownership.unmount(folders, mounts, token)
        for folder in folders:
            ownership.remove(folder, token=token)
        os.unlink(record)  # noqa: PTH108


def main() -> None:
    os.setsid()
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # whatever the thread that started us had blocked
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    guard = Guard(control)
    mounts = _mounts(sys.argv[2])  # now: its record may be gone when they are to go
    guard.send({"ready": True})
    if guard.run():
        return
    guard.kill_all()
    _remove(sys.argv[2], sys.argv[3], sys.argv[4:], mounts)


if __name__ == "__main__":
    main()
