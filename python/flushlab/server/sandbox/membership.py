"""Membership: what makes a sandbox a node of a Galera cluster: its place, its peers, the provider. Pure.

Server layer. Every node has an address of its own, so that all of them listen on the same ports, and two
clusters never meet.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.build import Build
from flushlab.build.galera import SST_METHOD, Galera
from flushlab.settings.provider_options import option_file_line

GCACHE_BYTES = 128 << 20
"""Galera's write-set cache, a file that every node makes at its start (`gcache.size`, its default)."""


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node listens.

    Attributes:
        address: its own IPv4 address.
        own_network: the node has a network of its own; flushlab reaches it by the unix socket alone.
        port_offset: added to Galera's usual ports, where another program has those at every address.
    """

    address: str
    own_network: bool = False
    port_offset: int = 0

    @property
    def sql_port(self) -> int:
        """For clients."""
        return 3306 + self.port_offset

    @property
    def group_port(self) -> int:
        """For the other nodes."""
        return 4567 + self.port_offset

    @property
    def ist_port(self) -> int:
        """For incremental state transfers."""
        return 4568 + self.port_offset

    @property
    def sst_port(self) -> int:
        """For whole state transfers."""
        return 4444 + self.port_offset

    @property
    def ports(self) -> tuple[int, ...]:
        """All of them."""
        return self.sql_port, self.group_port, self.ist_port, self.sst_port


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """A node's part of a cluster.

    Attributes:
        cluster: the cluster's name.
        number: of the node, from 1.
        places: of all nodes, in their order.
        galera: the provider and the scripts.
    """

    cluster: str
    number: int
    places: tuple[NodeAddress, ...]
    galera: Galera

    @property
    def name(self) -> str:
        """Of the node, and of its sandbox."""
        return node_name(self.cluster, self.number)

    @property
    def place(self) -> NodeAddress:
        """The node's own."""
        return self.places[self.number - 1]

    @property
    def address(self) -> str:
        """The node's own."""
        return self.place.address

    def environment(self, build: Build) -> dict[str, str]:
        """The server's variables: its scripts look for each other's programs on PATH."""
        usr = Path(build.install_db or build.mysqld).parent.parent
        folders = (*self.galera.folders, str(usr / "bin"), str(usr / "sbin"))
        libraries = (*build.library_path, *self.galera.library_path)
        found = {"PATH": os.pathsep.join((*folders, os.environ.get("PATH", os.defpath)))}
        return {**found, "LD_LIBRARY_PATH": ":".join(libraries)} if libraries else found

    def options(self, provider_options: Mapping[str, str] | None = None) -> list[str]:
        """Lines of the node's option file, which set these options of the provider, too.

        Row events and interleaved autoincrement locks are what Galera works with. Nodes write what they
        apply to their binary logs too, as those that feed replicas must.
        """
        peers = ",".join(f"{one.address}:{one.group_port}" for one in self.places)
        own: dict[str, str] = {
            "base_host": self.address,
            "base_port": str(self.place.group_port),
            "gmcast.listen_addr": f"tcp://{self.address}:{self.place.group_port}",
            "ist.recv_addr": f"{self.address}:{self.place.ist_port}",
            "ist.recv_bind": self.address,
        }
        return [
            "wsrep_on = ON",
            f"wsrep_provider = {self.galera.provider}",
            f"wsrep_cluster_name = {self.cluster}",
            f"wsrep_cluster_address = gcomm://{peers}",
            f"wsrep_node_name = {self.name}",
            f"wsrep_node_address = {self.address}",
            f"wsrep_sst_method = {SST_METHOD}",
            f"wsrep_sst_receive_address = {self.address}:{self.place.sst_port}",
            option_file_line({**(provider_options or {}), **own}),
            "binlog_format = ROW",
            "innodb_autoinc_lock_mode = 2",
            "log_slave_updates = ON",
        ]


def node_name(cluster: str, number: int) -> str:
    """Of a node and of its sandbox."""
    return f"{cluster}-{number}"
