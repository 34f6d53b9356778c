"""What unit tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The requests that would be carried out."""
    # Campaigns take half a second to load, in each process of pytest, and few tests need them.
    from flushlab.campaign import campaign
    from flushlab.campaign.pool.sandboxes import SandboxPool
    from flushlab.campaign.pool.settings import SandboxSettings
    from flushlab.datadir import DataRoot, Volume
    from flushlab.record import Storage
    from flushlab.store import Store
    from tests.unit.builds import MARIADB

    requests: list[Any] = []

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Any]:
        root = DataRoot(path=tmp_path, storage=Storage(filesystem="ext4"))
        yield SandboxPool(MARIADB, Volume(root))

    monkeypatch.setattr("flushlab.campaign.target.open_servers", opened)
    monkeypatch.setattr(campaign, "carry_out", lambda request, *_: requests.append(request))
    monkeypatch.setattr(SandboxSettings, "read", lambda *_, **__: {})
    monkeypatch.setattr("flushlab.campaign.campaign.open_store", lambda: Store(tmp_path / "store.sqlite"))
    return requests
