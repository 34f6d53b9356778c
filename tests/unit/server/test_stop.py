"""Stopping all nodes of a kept cluster."""

from __future__ import annotations

import pytest

from flushlab.errors import HarnessError
from flushlab.server import start as stopping
from flushlab.server.sandbox import kept


def test_a_node_that_does_not_end_leaves_no_other_running(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []

    def halt(name: str) -> None:
        stopped.append(name)
        if name != "trio-1":
            raise HarnessError(f"{name} survived SIGKILL")

    monkeypatch.setattr(kept, "halt", halt)
    monkeypatch.setattr(stopping, "_named", lambda _: ["trio-1", "trio-2", "trio-3"])
    with pytest.raises(HarnessError, match="trio-3 survived") as failed:
        stopping.stop("trio", keep_data=True)
    assert stopped == ["trio-3", "trio-2", "trio-1"]
    assert failed.value.__notes__ == ["trio-2 survived SIGKILL"]
