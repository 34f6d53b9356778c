"""A fleet of two machines, each in a network namespace of its own: start, join, status, stop."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from flushlab.build import Build
from tests.fleet_testbed import Node, fleet_testbed, is_zombie, needs_ray, needs_root
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    needs_ray,
    pytest.mark.xdist_group("fleet"),
    pytest.mark.long,
]
JOIN = ("fleet", "join", "--key", "-")


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Node, Node]]:
    """Two machines: a fleet runs on the first, the second has joined."""
    with fleet_testbed(2) as (first, second):
        (line,) = first.start_fleet("one").splitlines()
        assert line.endswith(f"/fleet/key | flushlab fleet join {first.address}:9377 --key -")
        refused = second.flushlab(*JOIN, first.address, given="0" * 64)
        assert (refused.returncode, "not trusted as" in refused.stderr) == (3, True), refused.stderr
        assert not processes(second)
        second.join_fleet(first, "two")
        yield first, second


def processes(node: Node) -> list[int]:
    return [pid for pid in node.pids() if not is_zombie(pid)]


def workers(nodes: Iterable[Node]) -> list[str]:
    """Of Ray's processes for actors and tasks, busy or idle, the class."""
    titles = list[str]()
    for pid in [pid for node in nodes for pid in node.pids()]:
        with suppress(OSError):
            titles.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode())
    found = [re.match(r"ray::(Worker|IDLE)", title) for title in titles]
    return sorted(one[1] for one in found if one)


def _is_clean(node: Node) -> bool:
    return not processes(node)


@needs_root
def test_status_has_both_machines_with_their_disks(pair: tuple[Node, Node]) -> None:
    done = pair[1].flushlab("fleet", "status", "--json", "-")
    assert done.returncode == 0, done.stderr
    machines = json.loads(done.stdout)["machines"]
    assert sorted((one["name"], one["problem"]) for one in machines) == [("one", ""), ("two", "")]
    for one in machines:
        assert one["sync_us_p50"] > 0
        assert one["ceiling_per_s"] > 0
        assert one["cpu_count"] >= 1


@needs_root
def test_no_process_has_a_secret_in_its_arguments(pair: tuple[Node, Node]) -> None:
    for node in pair:
        token = node.key
        found = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes(node)]
        assert len(found) >= 3
        assert not [words for words in found if token.encode() in words]
        assert token not in (node.home / "fleet" / "ray.log").read_text()


@needs_root
def test_files_of_a_fleet_are_closed_to_others(pair: tuple[Node, Node]) -> None:
    for node in pair:
        folder = node.home / "fleet"
        assert folder.stat().st_mode & 0o077 == 0
        record = json.loads((folder / "node.json").read_text())
        assert Path(record["folder"]).stat().st_mode & 0o077 == 0


ASKING = """
import socket, ssl, sys

def answer(port, context):
    try:
        peer = socket.create_connection((sys.argv[1], int(port)))
        peer = context.wrap_socket(peer) if context else peer
        peer.settimeout(20)
        http, grpc = "GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"
        peer.sendall((grpc if context else http).encode())
        return peer.recv(100).split(b"\\r\\n")[0].decode(errors="replace")
    except OSError:
        return ""

tls = ssl.create_default_context()
tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
tls.set_alpn_protocols(["h2"])
print(*{answer(port, context) for port in sys.argv[2:] for context in (None, tls)}, sep="\\n")
"""


@needs_root
def test_no_port_answers_without_certificate_and_token(pair: tuple[Node, Node]) -> None:
    for node, other in (pair, pair[::-1]):
        lines = node.run("ss", "-Hltn").stdout.splitlines()
        ports = [line.split()[3].rpartition(":")[2] for line in lines if "127.0.0.1:" not in line]
        assert len(ports) >= 3
        answers = {*other.run(sys.executable, "-c", ASKING, node.address, *ports).stdout.splitlines()}
        # The agent of runtime environments has no TLS: only the raylet beside it calls it.
        assert answers == {"", "HTTP/1.1 401 Unauthorized"}


@needs_root
def test_a_certificate_does_not_replace_the_token(pair: tuple[Node, Node]) -> None:
    key = pair[1].home / "fleet" / "key"
    token = key.read_text()
    key.write_text("0" * 64)
    try:
        done = pair[1].flushlab("fleet", "status")
    finally:
        key.write_text(token)
    assert (done.returncode, "refuses the key" in done.stderr) == (3, True), done.stderr


@needs_root
def test_a_machine_is_in_one_fleet_at_most(pair: tuple[Node, Node]) -> None:
    again = pair[1].flushlab(*JOIN, pair[0].address, given=pair[0].key)
    second_start = pair[0].flushlab("fleet", "start")
    for done in (again, second_start):
        assert (done.returncode, "already" in done.stderr) == (3, True), done.stderr


@needs_root
@pytest.mark.server("mariadb@10.11")
def test_blocks_of_a_comparison_run_on_both_machines_and_nothing_is_left(
    pair: tuple[Node, Node], build: Callable[[str], Build]
) -> None:
    build("mariadb@10.11")
    for node in pair:
        node.lend_builds()
    done = pair[0].flushlab(
        *("compare", "innodb_flush_log_at_trx_commit=1", "innodb_flush_log_at_trx_commit=2"),
        # Of equal length on a busy machine too: one whose base and control differ is taken out.
        *("--workload", "command: sleep 3", "--server", "mariadb@10.11", "--blocks", "4", "--json", "-"),
        *("--fleet", pair[0].address),
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    (arm,) = [one for one in facts["arms"] if one["name"].endswith("=2")]
    assert arm["comparison"]["blocks"] == 4
    assert sorted(one["machine"] for one in arm["machines"]["ratios"]) == ["one", "two"]
    for node in pair:
        wait_until(node.is_idle, f"the end of what runs on {node.name}")


@needs_root
@pytest.mark.server("mariadb@10.11")
def test_a_second_campaign_waits_for_the_first_and_ctrl_c_leaves_nothing_on_any_machine(
    pair: tuple[Node, Node], build: Callable[[str], Build], tmp_path: Path
) -> None:
    build("mariadb@10.11")
    for node in pair:
        node.lend_builds()
    first, second = (Campaign(node, pair[0].address, tmp_path / node.name) for node in pair)
    with first:
        first.says("fleet: 2 machines (one, two)")
        with second:
            second.says("another campaign runs on every machine (one, two); waiting for it")
            assert "fleet:" not in second.said()
            assert workers(pair) == ["Worker", "Worker"]
            first.interrupt()
            second.says("fleet: ")
            second.interrupt()
    for node in pair:
        wait_until(node.is_idle, f"the end of what runs on {node.name}")


class Campaign:
    """A comparison that does not end by itself."""

    def __init__(self, node: Node, fleet: str, folder: Path) -> None:
        self._node, self._words = node, ("--fleet", fleet)
        self._err, self._out = folder.with_suffix(".err"), folder.with_suffix(".out")

    def __enter__(self) -> None:
        self._process = self._node.popen(
            *("sh", "-c", 'exec "$@" > "$0.out" 2> "$0.err"', str(self._err.with_suffix(""))),
            *(sys.executable, "-m", "flushlab", "compare"),
            *("innodb_flush_log_at_trx_commit=1", "innodb_flush_log_at_trx_commit=2", *self._words),
            *("--server", "mariadb@10.11", "--fresh", "--blocks", "200", "--duration", "4000"),
        )

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def said(self) -> str:
        """All that it has said so far."""
        return self._err.read_text() if self._err.exists() else ""

    def says(self, words: str) -> None:
        """Waits until it has said so."""
        wait_until(lambda: words in self.said(), words)

    def interrupt(self) -> None:
        """Ctrl-C; its end is an end in order."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(PATIENCE_S) == 130, self.said()


@needs_root
def test_stop_on_the_first_machine_leaves_nothing_anywhere(pair: tuple[Node, Node]) -> None:
    folders = [json.loads((node.home / "fleet" / "node.json").read_text())["folder"] for node in pair]
    done = pair[0].flushlab("fleet", "stop")
    assert done.returncode == 0, done.stderr
    for node, folder in zip(pair, folders, strict=True):
        wait_until(partial(_is_clean, node), f"the end of {node.name}")
        assert not Path(folder).exists()
        assert {one.name for one in (node.home / "fleet").iterdir()} == {"lock", "ray.log"}


@pytest.fixture
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = Path(f"/tmp/flushlab-fleet-test-{os.getpid()}")
    monkeypatch.setenv("FLUSHLAB_HOME", str(folder))
    yield folder
    flushlab("fleet", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def flushlab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "flushlab", *words], capture_output=True, text=True)


def started_here() -> int:
    """The port of a fleet that runs on this machine alone."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    started = flushlab("fleet", "start", "--port", str(port))
    assert started.returncode == 0, started.stderr
    return port


def test_without_listen_everything_is_on_loopback_and_a_killed_keeper_leaves_nothing(own_home: Path) -> None:
    started_here()
    record = json.loads((own_home / "fleet" / "node.json").read_text())
    own = marked(record["token"])
    assert len(own) >= 4
    if shutil.which("ss"):
        said = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
        lines = [line for line in said.splitlines() if any(f"pid={pid}," in line for pid in own)]
        assert len(lines) >= 3
        assert not [line for line in lines if not re.search(r"127\.0\.0\.1\]?:", line.split()[3])], lines
    os.kill(record["keeper"]["pid"], 9)
    stopped = flushlab("fleet", "stop")
    assert stopped.returncode == 0, stopped.stderr
    assert not marked(record["token"])
    assert not Path(record["folder"]).exists()


KILLED = """
import os, sys, time
from flushlab.fleet.connect import connected
from flushlab.fleet.connect import parse_address

class Victim:
    def die(self):
        os.kill(os.getpid(), 9)

with connected(parse_address(sys.argv[1])):
    import ray
    from flushlab.campaign.fleet.ray_workers import nodes, worker_on

    try:
        ray.get(worker_on(nodes()[0].id, Victim).die.remote())
    except ray.exceptions.RayActorError:
        time.sleep(2.0)  # a word of Ray's would come now
        print("killed")
"""


def test_ray_writes_nothing_into_the_result_when_a_worker_is_killed(own_home: Path) -> None:
    port = started_here()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, f"127.0.0.1:{port}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["killed"], done.stdout


def marked(token: str) -> set[int]:
    from flushlab.fleet import local_node

    return {one.pid for one in local_node.marked(token)}


def test_a_port_that_is_taken_is_told(own_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done = flushlab("fleet", "start", "--port", str(listener.getsockname()[1]))
    assert (done.returncode, "--port" in done.stderr) == (3, True), done.stderr
    assert not (own_home / "fleet" / "key").exists()
