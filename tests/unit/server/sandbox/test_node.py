"""A node's part of its cluster, as lines of its option file."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from flushlab.build.galera import Galera
from flushlab.errors import PortTaken
from flushlab.machine import ServerUser
from flushlab.record import Endpoint, Value
from flushlab.server.sandbox import node
from flushlab.server.sandbox import node as addresses
from flushlab.server.sandbox.node import (
    NOWHERE,
    Membership,
    NodeAddress,
    NodeState,
    busy_port,
    free_places,
    new_view,
    read_state,
    recovered,
    require_free_places,
    write_state,
    write_view,
)
from flushlab.server.sandbox.option_files import SandboxPaths, server_option_file
from flushlab.settings.optionfile import read_options
from tests.unit.builds import MARIADB

GALERA = Galera(provider="/g/usr/lib/libgalera_smm.so", folders=("/g/usr/bin",), id="galera-1")
PLACES = tuple(NodeAddress(address=f"127.20.30.{number}") for number in (1, 2, 3))
PATHS = SandboxPaths(name="trio-2", folder=Path("/home/run/trio-2"), data_folder=Path("/disk/trio-2"))
ENDPOINT = Endpoint(user="u", password="secret", socket="/s", host="127.20.30.2", port=3306)


def member(number: int = 2, places: tuple[NodeAddress, ...] = PLACES) -> Membership:
    return Membership(cluster="trio", number=number, places=places, galera=GALERA)


def options(membership: Membership) -> list[str]:
    return server_option_file(MARIADB, PATHS, ENDPOINT, {}, membership).splitlines()


def test_a_node_listens_at_its_own_address_alone() -> None:
    lines = options(member())
    assert "bind_address = 127.20.30.2" in lines
    assert "wsrep_node_address = 127.20.30.2" in lines
    assert "wsrep_sst_receive_address = 127.20.30.2:4444" in lines
    (provider,) = [line for line in lines if line.startswith("wsrep_provider_options")]
    assert "gmcast.listen_addr=tcp://127.20.30.2:4567" in provider
    assert "ist.recv_addr=127.20.30.2:4568" in provider
    assert "ist.recv_bind=127.20.30.2" in provider


def test_a_node_knows_all_nodes() -> None:
    peers = "127.20.30.1:4567,127.20.30.2:4567,127.20.30.3:4567"
    assert f"wsrep_cluster_address = gcomm://{peers}" in options(member())
    assert "wsrep_node_name = trio-2" in options(member())


def test_ports_move_together_where_others_have_the_usual_ones() -> None:
    moved = tuple(NodeAddress(address=place.address, port_offset=10_000) for place in PLACES)
    assert moved[0].ports == (13306, 14567, 14568, 14444)
    lines = options(member(places=moved))
    assert "wsrep_sst_receive_address = 127.20.30.2:14444" in lines
    assert any("gcomm://127.20.30.1:14567," in line for line in lines)


def test_a_server_of_no_cluster_is_told_nothing_of_galera() -> None:
    lines = server_option_file(MARIADB, PATHS, ENDPOINT, {}).splitlines()
    assert not [line for line in lines if "wsrep" in line]


def test_the_scripts_find_each_other_and_the_servers_programs() -> None:
    path = member().environment(MARIADB)["PATH"].split(":")
    assert path[0] == "/g/usr/bin"
    assert path[1].endswith("/bin")
    assert path[2].endswith("/sbin")


def test_galeras_options_of_the_settings_join_those_of_the_node() -> None:
    settings: dict[str, Value] = {"gcs.fc_limit": 64, "gcache.size": 1 << 28, "sync_binlog": 0}
    lines = server_option_file(MARIADB, PATHS, ENDPOINT, settings, member()).splitlines()
    (provider,) = [line for line in lines if line.startswith("wsrep_provider_options")]
    options = read_options(provider.partition(" = ")[2].strip('"'))
    assert options["gcs.fc_limit"] == "64"
    assert options["gcache.size"] == "256M"
    assert options["base_host"] == "127.20.30.2"
    assert "sync_binlog = 0" in lines


GROUP = "468fa093-8086-4859-a9c5-a8c9ebf88205"
ME = ServerUser(name="me", uid=os.getuid(), gid=os.getgid())

LEFT_LAST = f"""\
# GALERA saved state
version: 2.1
uuid:    {GROUP}
seqno:   4
safe_to_bootstrap: 1
"""
RECOVERED = f"""\
2026-11-22 17:37:58 0 [Note] InnoDB: log sequence number 54078; transaction id 38
2026-11-22 17:37:58 0 [Note] WSREP: Recovered position: {GROUP}:105
"""


def test_position_of_a_node_that_left_in_an_orderly_way(tmp_path: Path) -> None:
    (tmp_path / "grastate.dat").write_text(LEFT_LAST)
    assert read_state(tmp_path) == NodeState(GROUP, 4, safe=True)


def test_what_is_written_is_what_galera_writes(tmp_path: Path) -> None:
    write_state(tmp_path, NodeState(GROUP, 4, safe=True), ME)
    assert (tmp_path / "grastate.dat").read_text() == LEFT_LAST


@pytest.mark.parametrize("text", ["", "uuid: x\n", LEFT_LAST.replace("   4", " four")])
def test_a_file_that_tells_no_position_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "grastate.dat").write_text(text)
    assert read_state(tmp_path) == NOWHERE


def test_a_torn_file_tells_no_position(tmp_path: Path) -> None:
    (tmp_path / "grastate.dat").write_bytes(b"\xff\xfe\0" + LEFT_LAST.encode()[:40])
    assert read_state(tmp_path) == NOWHERE


def test_no_file_is_no_position(tmp_path: Path) -> None:
    assert read_state(tmp_path) == NOWHERE
    assert not NOWHERE.known


def test_position_of_a_killed_node_is_what_the_server_recovers() -> None:
    assert recovered(RECOVERED) == NodeState(GROUP, 105, recovered=True)
    assert recovered("nothing of the kind") == NOWHERE


def test_every_node_of_a_view_writes_the_same_members_under_its_own_name(tmp_path: Path) -> None:
    view = new_view(3)
    texts = []
    for number in (1, 2, 3):
        write_view(tmp_path, view, number, ME)
        texts.append((tmp_path / "gvwstate.dat").read_text().partition("\n"))
    assert [first for first, _, _ in texts] == [f"my_uuid: {one}" for one in view]
    assert len({rest for _, _, rest in texts}) == 1
    assert re.findall(r"^member: (\S+) 0$", texts[0][2], re.MULTILINE) == list(view)


def test_a_free_port_is_none_that_an_outgoing_connection_may_be_given() -> None:
    outgoing = node._outgoing()
    assert len(outgoing) > 1000
    for _ in range(50):
        port = node.free_port()
        assert node.LOWEST <= port <= node.HIGHEST
        assert port not in outgoing
        node.require_free_port(port)


def test_ports_in_use_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = node.free_port(), node.free_port()
    monkeypatch.setattr(node, "sample", lambda _population, _count: [first, second])
    with socket.socket() as taken:
        taken.bind((node.HOST, first))
        assert node.free_port() == second


@pytest.mark.parametrize("outgoing", [range(1024, 65_536), range(node.LOWEST, node.HIGHEST + 1)])
def test_where_all_ports_are_for_outgoing_connections_the_kernel_chooses(
    monkeypatch: pytest.MonkeyPatch, outgoing: range
) -> None:
    monkeypatch.setattr(node, "_outgoing", lambda: outgoing)
    assert node.free_port() > 0


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind((node.HOST, 0))
        taken.listen()
        with pytest.raises(PortTaken, match="cannot be used"):
            node.require_free_port(taken.getsockname()[1])


def test_every_node_has_an_address_of_its_own_on_loopback() -> None:
    places = free_places(3)
    assert len({place.address for place in places}) == 3
    assert all(place.address.startswith("127.") for place in places)
    assert not any(place.address.startswith("127.0.") for place in places)


def test_an_address_at_which_somebody_listens_is_not_free() -> None:
    (place,) = free_places(1)
    with socket.socket() as other:
        other.bind((place.address, place.group_port))
        other.listen()
        assert busy_port(place).startswith(f"port {place.group_port} on {place.address} cannot be used")
        with pytest.raises(PortTaken, match=place.address):
            require_free_places([place])
    assert busy_port(place) == ""


def test_ports_that_a_program_has_at_every_address_are_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(place: NodeAddress) -> str:
        return "port 3306 cannot be used" if place.sql_port == 3306 else ""

    monkeypatch.setattr(addresses, "busy_port", busy)
    assert [place.sql_port for place in free_places(2)] == [13306, 13306]


def test_no_ports_at_all_are_an_error_that_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "busy_port", lambda place: f"port {place.sql_port} cannot be used")
    with pytest.raises(PortTaken, match="port 33306 cannot be used"):
        free_places(2)
