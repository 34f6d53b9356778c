"""A node's part of its cluster, as lines of its option file."""

from __future__ import annotations

from pathlib import Path

from flushlab.build.galera import Galera
from flushlab.record import Endpoint, Value
from flushlab.server.sandbox.node import Membership, NodeAddress
from flushlab.server.sandbox.option_files import SandboxPaths, server_option_file
from flushlab.settings.optionfile import read_options
from tests.unit.builds import MARIADB

GALERA = Galera(provider="/g/usr/lib/libgalera_smm.so", folders=("/g/usr/bin",), id="galera-1")
PLACES = tuple(NodeAddress(address=f"127.20.30.{number}") for number in (1, 2, 3))
PATHS = SandboxPaths(name="trio-2", folder=Path("/home/run/trio-2"), data_folder=Path("/disk/trio-2"))
ENDPOINT = Endpoint(user="u", password="secret", socket="/s", host="127.20.30.2", port=3306)


def node(number: int = 2, places: tuple[NodeAddress, ...] = PLACES) -> Membership:
    return Membership(cluster="trio", number=number, places=places, galera=GALERA)


def options(membership: Membership) -> list[str]:
    return server_option_file(MARIADB, PATHS, ENDPOINT, {}, membership).splitlines()


def test_a_node_listens_at_its_own_address_alone() -> None:
    lines = options(node())
    assert "bind_address = 127.20.30.2" in lines
    assert "wsrep_node_address = 127.20.30.2" in lines
    assert "wsrep_sst_receive_address = 127.20.30.2:4444" in lines
    (provider,) = [line for line in lines if line.startswith("wsrep_provider_options")]
    assert "gmcast.listen_addr=tcp://127.20.30.2:4567" in provider
    assert "ist.recv_addr=127.20.30.2:4568" in provider
    assert "ist.recv_bind=127.20.30.2" in provider


def test_a_node_knows_all_nodes() -> None:
    peers = "127.20.30.1:4567,127.20.30.2:4567,127.20.30.3:4567"
    assert f"wsrep_cluster_address = gcomm://{peers}" in options(node())
    assert "wsrep_node_name = trio-2" in options(node())


def test_ports_move_together_where_others_have_the_usual_ones() -> None:
    moved = tuple(NodeAddress(address=place.address, port_offset=10_000) for place in PLACES)
    assert moved[0].ports == (13306, 14567, 14568, 14444)
    lines = options(node(places=moved))
    assert "wsrep_sst_receive_address = 127.20.30.2:14444" in lines
    assert any("gcomm://127.20.30.1:14567," in line for line in lines)


def test_a_server_of_no_cluster_is_told_nothing_of_galera() -> None:
    lines = server_option_file(MARIADB, PATHS, ENDPOINT, {}).splitlines()
    assert not [line for line in lines if "wsrep" in line]


def test_the_scripts_find_each_other_and_the_servers_programs() -> None:
    path = node().environment(MARIADB)["PATH"].split(":")
    assert path[0] == "/g/usr/bin"
    assert path[1].endswith("/bin")
    assert path[2].endswith("/sbin")


def test_galeras_options_of_the_settings_join_those_of_the_node() -> None:
    settings: dict[str, Value] = {"gcs.fc_limit": 64, "gcache.size": 1 << 28, "sync_binlog": 0}
    lines = server_option_file(MARIADB, PATHS, ENDPOINT, settings, node()).splitlines()
    (provider,) = [line for line in lines if line.startswith("wsrep_provider_options")]
    options = read_options(provider.partition(" = ")[2].strip('"'))
    assert options["gcs.fc_limit"] == "64"
    assert options["gcache.size"] == "256M"
    assert options["base_host"] == "127.20.30.2"
    assert "sync_binlog = 0" in lines
