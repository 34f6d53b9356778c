"""A server that another machine of the fleet loads over the network, in two network namespaces."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.fleet_testbed import Node, needs_ray, needs_root
from tests.waiting import wait_until

pytestmark = [
    needs_ray,
    needs_root,
    pytest.mark.long,
]
COMPARE = ("compare", "innodb_flush_log_at_trx_commit=1", "innodb_flush_log_at_trx_commit=2")


def servers(node: Node) -> list[int]:
    return [pid for pid in node.pids() if "mariadbd" in _name(pid)]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


@pytest.mark.server("mariadb@10.11")
def test_a_comparison_is_loaded_from_the_other_machine_and_its_network_is_measured(
    pair: tuple[Node, Node],
) -> None:
    one, two = pair
    running = one.popen(
        *(sys.executable, "-m", "flushlab", *COMPARE, "--server", "mariadb@10.11", "--fresh", "--json", "-"),
        *("--blocks", "2", "--duration", "2", "--tables", "1", "--table-size", "1000"),
        *("--fleet", one.address, "--client", "two"),
    )
    listening = set[str]()
    arguments = list[bytes]()

    def look() -> bool:
        for pid in servers(one):
            found = one.run("ss", "-Hltnp").stdout.splitlines()
            listening.update(line.split()[3] for line in found if f"pid={pid}," in line)
        arguments.extend(_words(pid) for node in pair for pid in node.pids())
        return running.poll() is not None

    with running:
        wait_until(look, "the end of the comparison", pause_s=0.5)
        said, errors = running.communicate()
    assert running.returncode == 0, errors
    hosts = {where.rpartition(":")[0] for where in listening}
    assert one.address in hosts
    assert hosts <= {one.address, "127.0.0.1"}  # data are prepared on a server that has no clients
    token = (one.home / "fleet" / "key").read_bytes().strip()
    assert not [words for words in arguments if token in words or b"aZ9-" in words]
    for node in pair:  # the password is an argument of a call of Ray
        session = Path(json.loads((node.home / "fleet" / "node.json").read_text())["folder"])
        assert not [file for file in session.rglob("*") if file.is_file() and b"aZ9-" in file.read_bytes()]
    assert not servers(two)
    facts = json.loads(said)
    (client,) = facts["clients"]
    assert (client["machine"], client["connections"]) == ("two", 16)
    assert 0 < client["round_trip_us"]["p50"] <= client["round_trip_us"]["p99"]
    wait_until(partial(_has_no_server, one), "the end of the servers")


@pytest.mark.server("mariadb@10.11")
def test_a_tuning_is_loaded_from_the_other_machine(pair: tuple[Node, Node], tmp_path: Path) -> None:
    one, two = pair
    fixed = ("innodb_flush_method", "innodb_log_buffer_size", "innodb_log_file_buffering")
    done = one.flushlab(
        *("tune", "--server", "mariadb@10.11", "--floor", "second", "--trials", "20", "--window", "0.5"),
        *(word for name in fixed for word in ("--fixed", name)),
        *("--tables", "1", "--table-size", "1000", "--json", "-", "--out", str(tmp_path / "out")),
        *("--fleet", one.address, "--client", "two"),
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert [client["machine"] for client in facts["clients"]] == ["two"]
    assert not facts["machines"], "its blocks ran beside each other, on one machine"
    assert not servers(two)


def _has_no_server(node: Node) -> bool:
    return not servers(node)


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--client", "three"), "no machine of that name"),
        (("--client", "two", "--cluster", "3"), "loads one server"),
    ],
)
def test_a_client_that_cannot_be_one_is_refused(
    pair: tuple[Node, Node], words: tuple[str, ...], says: str
) -> None:
    done = pair[0].flushlab(*COMPARE, "--server", "mariadb@10.11", "--fleet", pair[0].address, *words)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr
