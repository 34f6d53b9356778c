"""A cluster that exists only in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flushlab.server import Server
from tests.fakes.server import FakeServer


class FakeGroup(FakeServer):
    """Three fake servers, the first of which speaks for them."""

    def __init__(self, *others: FakeServer, **own: Any) -> None:
        super().__init__(**own)
        self.others = others or (FakeServer(), FakeServer())
        self.seconds: dict[str, float] = {}
        self.seeds: list[int] = []

    @property
    def nodes(self) -> Sequence[Server]:
        """All three."""
        return (self, *self.others)

    def alive(self) -> bool:
        """Whether all are."""
        return super().alive() and all(one.alive() for one in self.others)

    def values(self, name: str) -> list[Any]:
        """A variable as every node has it."""
        return [node.read_back([name]).get(name) for node in self.nodes]

    def kill(self) -> None:
        """Ends it."""
        self.stop()

    def close(self) -> None:
        """Ends it."""
        self.stop()
