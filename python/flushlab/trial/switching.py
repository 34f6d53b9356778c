"""Switching: a running server takes the settings of the arm whose turn it is.

Sits in `trial`, below the runners whose arms share a server. What one arm had set is put back before the next
one runs. On a cluster every node is set, and read back. On the user's own server, a value that somebody else
has set meanwhile is not overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from flushlab.record import Arm, Outcome, ServerIdentity, Value
from flushlab.server import Server
from flushlab.server.protocol import Refusal
from flushlab.server.remote.put_back import require_kept
from flushlab.server.remote.server import RemoteGroup
from flushlab.server.sandbox.reconfigure import switch
from flushlab.settings.configuration import Configuration
from flushlab.trial.measurement import compare_settings, on_node


def restart_settings(settings: Mapping[str, Value], identity: ServerIdentity) -> dict[str, Value]:
    """Those that a running server cannot take, or not each value of; of those that nobody knows, all."""
    configuration = Configuration({}, identity)
    found = {}
    for name, value in settings.items():
        here = configuration.here(name)
        if here is None or not here.dynamic or here.partly_dynamic:
            found[name] = value
    return found


class _Switched(NamedTuple):
    refused: tuple[Refusal, ...]
    settings: dict[str, Value]


class NotSwitched(NamedTuple):
    outcome: Outcome
    reason: str


@dataclass
class Switching:
    """`initial`: settings before the first arm, as far as known; `now`: those changed, None if not known."""

    server: Server
    started: Mapping[str, Value]
    initial: dict[str, Value] = field(default_factory=dict)
    now: dict[str, Value | None] = field(default_factory=dict)

    def become(self, arm: Arm) -> NotSwitched | None:
        """Sets what the arm sets and puts back what earlier ones had set; why not, if the server refuses it
        or a node reads back something else.

        Raises:
            ServerError: it does not answer.
            SettingsTouched: as `require_kept`.
        """
        self.require_kept()
        if new := arm.settings.keys() - self.initial.keys():
            self.initial |= self.server.read_back(new)
        wanted = {name: self.initial[name] for name in self.now if name in self.initial}
        wanted |= {
            name: value
            for name, value in arm.settings.items()
            if name in self.now or self.started.get(name, self.initial.get(name)) != value
        }
        changed = {name: value for name, value in wanted.items() if self.now.get(name) != value}
        self.now |= changed
        for number, node in enumerate(self.server.nodes if changed else (), 1):
            refused, got = self._switched(node, changed)
            if refused:
                words = "; ".join(f"{one.name}={one.value}: {one.reason}" for one in refused)
                return NotSwitched("refused", on_node(self.server, number, words))
            _, broken = compare_settings(changed, got, node.identity)
            if broken:
                return NotSwitched("invalid", on_node(self.server, number, broken))
        return None

    def require_kept(self) -> None:
        pass

    def _switched(self, node: Server, changed: Mapping[str, Value]) -> _Switched:
        return _Switched(switch(node, changed), node.read_back(changed))


@dataclass
class RemoteSwitching(Switching):
    """The settings of the user's own server, which somebody else may set meanwhile.

    Attributes:
        taken: names and values that read back as they were set.
    """

    server: RemoteGroup
    taken: set[tuple[str, Value]] = field(default_factory=set)

    def require_kept(self) -> None:
        for node in self.server.nodes:
            require_kept(node)

    def _switched(self, node: Server, changed: Mapping[str, Value]) -> _Switched:
        remote = next(one for one in self.server.nodes if one is node)
        made = remote.made
        made |= dict.fromkeys(changed)
        found = super()._switched(node, changed)
        made |= found.settings
        same, refused = Configuration({}, node.identity).same, {one.name for one in found.refused}
        taken = {name for name, value in changed.items() if same(name, value, found.settings.get(name))}
        # What the server took before it takes again: another value is of somebody who was quicker.
        theirs = {
            name: value
            for name, value in changed.items()
            if name not in taken | refused
            and ((name, value) in self.taken or same(name, value, self.initial.get(name)))
        }
        self.taken |= {(name, changed[name]) for name in taken}
        if theirs:
            made |= theirs
            require_kept(remote)
        return found
