"""What tests of `flushlab fill` share; each module has a `mariadb` of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from flushlab.bulk import fill as filling
from flushlab.bulk import native
from flushlab.server import Sandbox
from tests.integration.fill.target import Target

_numbers = itertools.count(1)


@pytest.fixture
def target(mariadb: Sandbox) -> Iterator[Target]:
    found = Target(mariadb, f"fill_{next(_numbers)}")
    yield found
    mariadb.query(f"DROP DATABASE IF EXISTS {found.database}")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads that commit often and are looked at often."""
    monkeypatch.setattr(filling, "CHUNK_BYTES", 64 << 10)
    monkeypatch.setattr(native, "SAMPLE_S", 0.005)
