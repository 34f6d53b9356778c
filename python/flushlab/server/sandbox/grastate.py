"""Grastate: how far a node has come in its cluster's history, and the files that Galera keeps of it.

Server layer. The node is stopped. `grastate.dat` tells the position of a node that left in an orderly way;
for one that was killed `mariadbd --wsrep-recover` tells it from InnoDB's own records.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import msgspec

from flushlab import atomic
from flushlab.machine import ServerUser

_RECOVERED = re.compile(r"WSREP: Recovered position: (?P<group>[0-9a-f-]{36}):(?P<seqno>-?\d+)")


class State(msgspec.Struct, frozen=True):
    """A position in a cluster's history, as `grastate.dat` and `--wsrep-recover` tell it.

    Attributes:
        group: UUID of the history; all zeros if there is none.
        seqno: of the last transaction; -1 if it is not known.
        safe: `safe_to_bootstrap`: the node was the last one to leave.
    """

    group: str
    seqno: int
    safe: bool = False

    @property
    def known(self) -> bool:
        """True if it says how far the node has come."""
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
    """Writes a stopped node's `grastate.dat`."""
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
    """A primary component that is to come up as a whole, as after a power failure (`pc.recovery`).

    Attributes:
        members: UUIDs of the nodes, in their order.
    """

    members: tuple[str, ...]

    @classmethod
    def of(cls, size: int) -> View:
        """A new one."""
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
