"""Fixtures that start servers end all of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.errors import HarnessError
from flushlab.server import SandboxSpec
from tests import conftest


def test_a_server_that_cannot_be_removed_leaves_no_other_running(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    def start(spec: SandboxSpec) -> Any:
        name = spec.name or ""

        def end() -> None:
            ended.append(name)
            if name == "hangs":
                raise HarnessError("it survived SIGKILL")

        return SimpleNamespace(kept=name == "hangs", remove=end, close=end)

    monkeypatch.setattr(conftest, "require_build", lambda name: name)
    monkeypatch.setattr("tests.conftest.Sandbox.start", start)
    request: Any = SimpleNamespace(node=SimpleNamespace(stash=pytest.Stash()))
    fixture = conftest._sandboxes(request)
    sandbox = next(fixture)
    sandbox("mariadb@10.11", name="hangs")
    sandbox("mariadb@10.11", name="other")
    with pytest.raises(HarnessError, match="survived"):
        next(fixture)
    assert ended == ["hangs", "hangs", "other"]
    assert request.node.stash[conftest._running] == []
