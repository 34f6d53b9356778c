"""Node: where a sandbox listens; its place in a Galera cluster, its peers, and how far it has come.

Server layer. A sandbox keeps its port while it restarts. Hence it gets no port that the kernel gives to
outgoing connections (ip(7), `ip_local_port_range`). Such a connection could take the port in that moment, or,
trying to reach the server, connect to itself. Every node of a cluster has an address of its own, so that all
of them listen on the same ports, and two clusters never meet.

`grastate.dat` tells the position of a stopped node that left in an orderly way; for one that was killed
`mariadbd --wsrep-recover` tells it from InnoDB's own records.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from random import sample

import msgspec

from flushlab import atomic
from flushlab.build import Build
from flushlab.build.galera import SST_METHOD, Galera
from flushlab.errors import PortTaken
from flushlab.machine import ServerUser
from flushlab.settings.optionfile import option_file_line


class NodeState(msgspec.Struct, frozen=True):
    group: str
    seqno: int
    safe: bool = False
    recovered: bool = False

    @property
    def known(self) -> bool:
        return self.seqno >= 0 and set(self.group) != {"0", "-"}


NOWHERE = NodeState("00000000-0000-0000-0000-000000000000", -1)
"""Of a node that was never in a cluster."""


def read_state(datadir: Path) -> NodeState:
    try:
        text = (datadir / "grastate.dat").read_text(errors="replace")  # a crash may have torn it
    except OSError:
        return NOWHERE
    fields = dict(re.findall(r"^([^#:\n]+?)\s*:\s*(.*?)\s*$", text, re.MULTILINE))
    try:
        return NodeState(fields["uuid"], int(fields["seqno"]), fields.get("safe_to_bootstrap") == "1")
    except (KeyError, ValueError):
        return NOWHERE


def write_state(datadir: Path, state: NodeState, owner: ServerUser) -> None:
    text = (
        "# GALERA saved state\nversion: 2.1\n"
        f"uuid:    {state.group}\nseqno:   {state.seqno}\nsafe_to_bootstrap: {int(state.safe)}\n"
    )
    atomic.write(datadir / "grastate.dat", text, mode=0o660, owner=(owner.uid, owner.gid))


def recovered(said: str) -> NodeState:
    positions = re.findall(r"WSREP: Recovered position: ([0-9a-f-]{36}):(-?\d+)", said)
    return NodeState(positions[-1][0], int(positions[-1][1]), recovered=True) if positions else NOWHERE


def new_view(size: int) -> tuple[str, ...]:
    """UUIDs of a primary component that comes up as a whole, as after a power failure (`pc.recovery`)."""
    others = uuid.uuid1().hex[8:]
    return tuple(str(uuid.UUID(f"{number:08x}{others}")) for number in range(1, size + 1))


def write_view(datadir: Path, view: Sequence[str], number: int, owner: ServerUser) -> None:
    members = "".join(f"member: {member} 0\n" for member in view)
    text = f"my_uuid: {view[number - 1]}\n#vwbeg\nview_id: 3 {view[0]} 1\nbootstrap: 0\n{members}#vwend\n"
    atomic.write(datadir / "gvwstate.dat", text, mode=0o660, owner=(owner.uid, owner.gid))


GCACHE_BYTES = 128 << 20
"""Galera's write-set cache, a file that every node makes at its start (`gcache.size`, its default)."""


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True):
    address: str
    own_network: bool = False
    port_offset: int = 0

    @property
    def sql_port(self) -> int:
        return 3306 + self.port_offset

    @property
    def group_port(self) -> int:
        return 4567 + self.port_offset

    @property
    def ist_port(self) -> int:
        return 4568 + self.port_offset

    @property
    def sst_port(self) -> int:
        return 4444 + self.port_offset

    @property
    def ports(self) -> tuple[int, ...]:
        return self.sql_port, self.group_port, self.ist_port, self.sst_port


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    number: int
    places: tuple[NodeAddress, ...]
    galera: Galera

    @property
    def name(self) -> str:
        return node_name(self.cluster, self.number)

    @property
    def place(self) -> NodeAddress:
        return self.places[self.number - 1]

    @property
    def address(self) -> str:
        return self.place.address

    def environment(self, build: Build) -> dict[str, str]:
        """The server's variables: its scripts look for each other's programs on PATH."""
        usr = Path(build.install_db or build.mysqld).parent.parent
        folders = (*self.galera.folders, str(usr / "bin"), str(usr / "sbin"))
        libraries = (*build.library_path, *self.galera.library_path)
        found = {"PATH": os.pathsep.join((*folders, os.environ.get("PATH", os.defpath)))}
        return {**found, "LD_LIBRARY_PATH": ":".join(libraries)} if libraries else found

    def options(self, provider_options: Mapping[str, str] | None = None) -> list[str]:
        """Galera needs row events and interleaved autoincrement locks; replicas need what a node applies."""
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
    return f"{cluster}-{number}"


HOST = "127.0.0.1"
PORT_HINT = "choose another port, or none to get a free one"


LOWEST, HIGHEST = 10_000, 65_535
"""Ports that sandboxes listen on; below are those of well-known services."""
_TRIES = 100


def free_port(host: str = HOST) -> int:
    """A port that nobody uses now; if possible none that an outgoing connection may be given."""
    outgoing = _outgoing()
    below = range(LOWEST, min(max(LOWEST, outgoing.start), HIGHEST + 1))
    usable = [*below, *range(max(LOWEST, outgoing.stop), HIGHEST + 1)]
    for port in [*sample(usable, min(_TRIES, len(usable))), 0]:  # 0: the kernel chooses
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                if not port:
                    raise
                continue
            return int(probe.getsockname()[1])
    raise AssertionError("the last one returns or raises")


def _outgoing() -> range:
    try:
        lowest, highest = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    except (OSError, ValueError):
        return range(32_768, 61_000)  # the kernel's default
    return range(int(lowest), int(highest) + 1)


def require_free_port(port: int) -> None:
    if trouble := _busy(HOST, port):
        raise PortTaken(f"port {port} on {HOST} cannot be used: {trouble}", hint=PORT_HINT)


def _busy(host: str, port: int) -> str:
    with socket.socket() as probe:
        # As servers do: ports of connections that were closed a moment ago are free to listen on.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            return getattr(error, "strerror", None) or str(error)
    return ""


_NETWORKS = range(16, 255)
"""Second bytes of clusters' addresses: 127.0.0.1 and what others choose near it stay free."""
_ADDRESS_TRIES = 10


def free_places(size: int, taken: Collection[str] = ()) -> tuple[NodeAddress, ...]:
    busy = ""
    for offset in range(0, 40_000, 10_000):
        for _ in range(_ADDRESS_TRIES):
            network = f"127.{secrets.choice(_NETWORKS)}.{secrets.randbelow(256)}"
            addresses = [f"{network}.{number}" for number in range(1, size + 1)]
            places = tuple(NodeAddress(address=address, port_offset=offset) for address in addresses)
            busy = next(filter(None, map(busy_port, places)), "")
            if not busy and not set(addresses) & set(taken):
                return places
    raise PortTaken(
        f"no loopback addresses are free for a cluster: {busy}",
        hint="a program listens on that port at every address (0.0.0.0): stop it",
    )


def require_free_places(places: Collection[NodeAddress]) -> None:
    if busy := next(filter(None, map(busy_port, places)), ""):
        raise PortTaken(busy, hint="stop the program that listens there")


def busy_port(place: NodeAddress) -> str:
    troubles = ((port, _busy(place.address, port)) for port in place.ports)
    words = (f"port {port} on {place.address} cannot be used: {why}" for port, why in troubles if why)
    return next(words, "")
