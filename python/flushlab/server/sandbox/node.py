"""Node: a sandbox's place in a Galera cluster, its peers, and how far it has come."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab import atomic
from flushlab.build import Build
from flushlab.build.galera import SST_METHOD, Galera
from flushlab.machine import ServerUser
from flushlab.settings.optionfile import option_file_line

_RECOVERED = re.compile(r"WSREP: Recovered position: (?P<group>[0-9a-f-]{36}):(?P<seqno>-?\d+)")


class State(msgspec.Struct, frozen=True):
    """A position in a cluster's history, as `grastate.dat` and `--wsrep-recover` tell it.

    Attributes:
        group: UUID of the history; all zeros if there is none.
        seqno: of the last transaction; -1 if it is not known.
    """

    group: str
    seqno: int
    safe: bool = False

    @property
    def known(self) -> bool:
        return self.seqno >= 0 and set(self.group) != {"0", "-"}


NOWHERE = State("00000000-0000-0000-0000-000000000000", -1)
"""Of a node that was never in a cluster."""


def read_state(datadir: Path) -> State:
    """What a stopped node's `grastate.dat` says; `NOWHERE` if there is none."""
    try:
        text = (datadir / "grastate.dat").read_text(errors="replace")  # a crash may have torn it
    except OSError:
        return NOWHERE
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line and line[0] != "#")
    fields = {name.strip(): value.strip() for name, value in facts.items()}
    try:
        return State(fields["uuid"], int(fields["seqno"]), fields.get("safe_to_bootstrap") == "1")
    except (KeyError, ValueError):
        return NOWHERE


def write_state(datadir: Path, state: State, owner: ServerUser) -> None:
    text = (
        "# GALERA saved state\nversion: 2.1\n"
        f"uuid:    {state.group}\nseqno:   {state.seqno}\nsafe_to_bootstrap: {int(state.safe)}\n"
    )
    atomic.write(datadir / "grastate.dat", text, mode=0o660, owner=(owner.uid, owner.gid))


def recovered(said: str, safe: bool = False) -> State:
    """The position that a run with `--wsrep-recover` found; `NOWHERE` if it found none."""
    found = list(_RECOVERED.finditer(said))
    return State(found[-1]["group"], int(found[-1]["seqno"]), safe) if found else NOWHERE


class View(msgspec.Struct, frozen=True):
    """A primary component that is to come up as a whole, as after a power failure (`pc.recovery`)."""

    members: tuple[str, ...]

    @classmethod
    def of(cls, size: int) -> View:
        first = uuid.uuid1()
        numbers = range(1, size + 1)
        return cls(tuple(str(uuid.UUID(fields=(number, *first.fields[1:]))) for number in numbers))

    def write(self, datadir: Path, number: int, owner: ServerUser) -> None:
        """Writes `gvwstate.dat` of the node `number`, which then waits for the others."""
        members = "".join(f"member: {one} 0\n" for one in self.members)
        text = (
            f"my_uuid: {self.members[number - 1]}\n#vwbeg\n"
            f"view_id: 3 {self.members[0]} 1\nbootstrap: 0\n{members}#vwend\n"
        )
        atomic.write(datadir / "gvwstate.dat", text, mode=0o660, owner=(owner.uid, owner.gid))


GCACHE_BYTES = 128 << 20
"""Galera's write-set cache, a file that every node makes at its start (`gcache.size`, its default)."""


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node listens.

    Attributes:
        own_network: the node has a network of its own; flushlab reaches it by the unix socket alone.
    """

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
    return f"{cluster}-{number}"
