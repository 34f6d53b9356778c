"""A driver's connection to a fleet."""

from __future__ import annotations

import signal
import sys
from types import SimpleNamespace

import pytest

from flushlab.fleet import connect, reach
from flushlab.fleet.reach import Address


def test_flushlab_hears_sigterm_while_it_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init, shutdown=lambda: None))
    monkeypatch.setattr(reach, "require_ray", lambda: "2.60.0")
    monkeypatch.setattr(reach, "nodes", lambda *_: ())
    monkeypatch.setattr(connect, "environment_for", lambda _: {})
    before = signal.getsignal(signal.SIGTERM)
    try:
        with connect.connected(Address("127.0.0.1", 9377)):
            assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGTERM, before)
