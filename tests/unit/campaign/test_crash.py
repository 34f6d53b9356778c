"""What a crash campaign refuses once it knows the server, before anything is stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flushlab.campaign.crash import crash as crashes
from flushlab.campaign.pool.sandboxes import SandboxPool
from flushlab.errors import UsageError
from flushlab.store import Store
from tests.unit.builds import MARIADB


def test_a_setting_that_there_is_not_is_refused_before_the_campaign_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume: Any = None

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[SandboxPool]:
        yield SandboxPool(MARIADB, volume)

    monkeypatch.setattr(crashes, "open_servers", opened)
    monkeypatch.setattr(crashes, "open_store", lambda: Store(tmp_path / "store.sqlite"))
    said: list[str] = []
    with pytest.raises(UsageError, match="innodb_flush_log_at_trx_comit"):
        crashes.crash(failure="process", settings={"innodb_flush_log_at_trx_comit": 2}, progress=said.append)
    with Store(tmp_path / "store.sqlite") as store:
        assert list(store.campaigns()) == []
    assert said == []
