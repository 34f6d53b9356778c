"""Testbed: several machines of a fleet on one, each in a network namespace and a control group of its own.

Needs root. The namespaces hang on a bridge in a namespace of its own, so the machine's network is untouched.
Each node has its own FLUSHLAB_HOME. Everything goes at the end, processes first.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from flushlab.fleet.local_node import NodeRecord
from flushlab.machine import home, ownership
from flushlab.undo import Undo

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="needs the extra: pip install 'flushlab[fleet]'"
)
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nsenter") is None or shutil.which("ip") is None,
    reason="network namespaces need root, ip and nsenter",
)
LONGEST_S = 900.0
"""For a program to its end: machines that run tests give a twentieth of a core."""
_V1 = Path("/sys/fs/cgroup")


class Node:
    """One machine: run commands there, cut its network, kill all it runs."""

    def __init__(self, bed: str, number: int, home: Path, groups: Sequence[Path]) -> None:
        self.number, self.home, self.groups = number, home, groups
        self.namespace = f"{bed}-{number}"
        self.address = f"10.213.0.{number}"
        self.name = f"m{number}"
        self._port, self._hub = f"p{number}", f"{bed}-hub"

    def command(self, *words: str) -> list[str]:
        """A command that runs these words here."""
        return [
            "nsenter",
            f"--net=/run/netns/{self.namespace}",
            "--",
            *words,
        ]  # `ip netns exec` hides /sys/fs/cgroup

    def popen(self, *words: str) -> subprocess.Popen[str]:
        """Starts a program here, in the control group, with text pipes."""
        return subprocess.Popen(
            self.command(*words),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=self.enter,
        )

    def run(
        self, *words: str, given: str = "", timeout_s: float = LONGEST_S
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program here to its end."""
        return subprocess.run(
            self.command(*words),
            env=self.environment(),
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            preexec_fn=self.enter,
        )

    def flushlab(
        self, *words: str, given: str = "", timeout_s: float = LONGEST_S
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of flushlab here."""
        return self.run(sys.executable, "-m", "flushlab", *words, given=given, timeout_s=timeout_s)

    @property
    def key(self) -> str:
        """Of the fleet that it is in."""
        return (self.home / "fleet" / "key").read_text()

    def start_fleet(self, name: str) -> str:
        """Starts a fleet whose first machine this is; what flushlab prints."""
        return self._carried_out("start", "--listen", self.address, "--name", name)

    def join_fleet(self, first: Node, name: str) -> None:
        self._carried_out("join", "--key", "-", first.address, "--name", name, given=first.key)

    def _carried_out(self, *words: str, given: str = "") -> str:
        done = self.flushlab("fleet", *words, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lend_builds(self) -> None:
        """No registry is in reach of a namespace: it has the builds of the machine that runs the testbed."""
        if not (self.home / "builds").exists():
            (self.home / "builds").symlink_to(home() / "builds")

    def environment(self) -> Mapping[str, str]:
        """Of programs here."""
        return {**os.environ, "FLUSHLAB_HOME": str(self.home), "NO_COLOR": "1", "COLUMNS": "200"}

    def cut(self) -> None:
        """Drops every packet from and to this node, without a word to either side."""
        _ip("-n", self._hub, "link", "set", self._port, "down")

    def limit_cpus(self, cpus: float) -> None:
        """Gives the node so many processors from now on; its testbed was made with `cpus`."""
        unified = (_V1 / "cgroup.controllers").exists()
        for group in self.groups:
            for file, value in _cpu_files(cpus, unified=unified).items():
                if (group / file).exists():
                    (group / file).write_text(value)

    def heal(self) -> None:
        """Lets packets through again."""
        _ip("-n", self._hub, "link", "set", self._port, "up")

    @contextmanager
    def partitioned(self, seconds: float) -> Iterator[None]:
        """Cuts the network for so long; the block runs meanwhile."""
        begin = time.monotonic()
        self.cut()
        try:
            yield
            time.sleep(max(0.0, seconds - (time.monotonic() - begin)))
        finally:
            self.heal()

    def pids(self) -> list[int]:
        """All processes in this node's network namespace."""
        done = subprocess.run(
            ["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=True
        )
        return [int(word) for word in done.stdout.split()]

    def is_idle(self) -> bool:
        return not self.left()

    def left(self) -> list[str]:
        """What campaigns have left here: workers, servers and their guards, folders of servers."""
        found = []
        for pid in self.pids():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                if words.startswith(b"ray::Worker") or b"mariadbd" in words or b"guard_main" in words:
                    found.append(words.replace(b"\0", b" ").decode(errors="replace"))
        folders = self.home / "run"
        return found + [str(one) for one in (folders.iterdir() if folders.exists() else ())]

    def kill_all(self) -> None:
        """SIGKILL to all at once, as if the power failed."""
        while found := self.pids():
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
            if all(is_zombie(pid) for pid in found):
                return

    def clear(self) -> None:
        """Ends all that runs here, and removes Ray's files: what is killed leaves them in /tmp."""
        self.kill_all()
        path = self.home / "fleet" / "node.json"
        if path.exists():
            record = msgspec.json.decode(path.read_bytes(), type=NodeRecord)
            ownership.remove(record.folder, token=record.token)

    def enter(self) -> None:
        """Puts the process that calls it into the control group, and lets it hear Ctrl-C, which a shell
        switches off in the background."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for group in self.groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))


@contextmanager
def fleet_testbed(
    count: int, *, cpus: float | None = None, memory_bytes: int | None = None, disk_bytes: int | None = None
) -> Iterator[tuple[Node, ...]]:
    """Nodes with numbers from 1; each has `cpus` and `memory_bytes` at most, and a disk of `disk_bytes`, in
    memory, for all that flushlab keeps."""
    bed = f"fl{secrets.token_hex(2)}"
    root = Path(tempfile.mkdtemp(prefix="fleet-testbed-"))
    root.chmod(0o755)
    with Undo() as undo:
        undo.callback(shutil.rmtree, root, ignore_errors=True)
        hub = f"{bed}-hub"
        _namespace(hub, undo)
        _ip("-n", hub, "link", "add", "br0", "type", "bridge")
        _ip("-n", hub, "link", "set", "br0", "up")
        nodes = []
        for number in range(1, count + 1):
            groups = _groups(f"{bed}-{number}", cpus, memory_bytes, undo)
            node = Node(bed, number, root / f"home{number}", groups)
            if disk_bytes is not None:
                _disk(node.home.parent / f"disk{number}", disk_bytes, undo)
                node.home = node.home.parent / f"disk{number}" / "home"
            _namespace(node.namespace, undo)
            port = f"p{number}"
            peer = ("peer", "name", "eth0", "netns", node.namespace)
            _ip("-n", hub, "link", "add", port, "type", "veth", *peer)
            _ip("-n", hub, "link", "set", port, "master", "br0", "up")
            _ip("-n", node.namespace, "address", "add", f"{node.address}/24", "dev", "eth0")
            for name in ("lo", "eth0"):
                _ip("-n", node.namespace, "link", "set", name, "up")
            undo.callback(node.clear)
            nodes.append(node)
        yield tuple(nodes)


def _disk(place: Path, size_bytes: int, undo: Undo) -> None:
    place.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=755", "tmpfs", str(place))
    undo.callback(_run, "umount", "--lazy", str(place))


def _namespace(name: str, undo: Undo) -> None:
    _ip("netns", "add", name)
    undo.callback(_ip, "netns", "delete", name)


def _groups(name: str, cpus: float | None, memory_bytes: int | None, undo: Undo) -> list[Path]:
    """Control groups of version 1 or 2; none for what is not limited."""
    unified = (_V1 / "cgroup.controllers").exists()
    wanted = {
        "cpu": {} if cpus is None else _cpu_files(cpus, unified=unified),
        "memory": {}
        if memory_bytes is None
        else {"memory.max" if unified else "memory.limit_in_bytes": str(memory_bytes)},
    }
    found = []
    for controller, files in wanted.items():
        if not files:
            continue
        folder = (_V1 if unified else _V1 / controller) / name
        if not folder.exists():
            folder.mkdir()
            undo.callback(_remove_group, folder)
        for file, value in files.items():
            (folder / file).write_text(value)
        if folder not in found:
            found.append(folder)
    return found


def _cpu_files(cpus: float, *, unified: bool) -> dict[str, str]:
    period = 100_000
    quota = str(int(cpus * period))
    if unified:
        return {"cpu.max": f"{quota} {period}"}
    return {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": quota}


def _remove_group(folder: Path) -> None:
    for _ in range(50):
        with suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.1)


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)
