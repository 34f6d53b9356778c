from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flushlab.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """With the campaign `c`."""
    with Store(tmp_path / "store.sqlite") as opened:
        opened.create_campaign("c", "series", b"{}")
        yield opened
