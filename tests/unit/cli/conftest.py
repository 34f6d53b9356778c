"""What commands that are run in the tests' own process must not leave behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Iterator[None]:
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)
