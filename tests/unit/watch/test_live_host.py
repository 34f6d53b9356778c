"""The machine of a watched server in stretches; this process stands for the server."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from flushlab.watch.live_diagnosis import LiveDiagnosis, LiveHost
from tests.unit.diagnosis.test_window import answers

LONG_S = 1e6
"""Of a stretch, whatever looking costs."""
NO_PROCESS = 1 << 22


def test_a_stretch_is_seen_when_it_is_over(tmp_path: Path) -> None:
    live, variables = LiveHost(), {"datadir": str(tmp_path)}
    live.note(os.getpid(), variables, 0.0)
    live.note(os.getpid(), variables, 1.0)
    assert live.latest is None
    live.note(os.getpid(), variables, LONG_S)
    assert live.latest is not None and live.latest.pid == os.getpid()
    assert live.latest.places[0].path == str(tmp_path)


def test_of_a_server_that_is_elsewhere_or_gone_nothing_is_seen(tmp_path: Path) -> None:
    live, variables = LiveHost(), {"datadir": str(tmp_path)}
    for pid in (None, NO_PROCESS):
        for turn in range(3):
            live.note(os.getpid(), variables, turn * LONG_S)
        assert live.latest is not None
        live.note(pid, variables, 3 * LONG_S)
        assert live.latest is None


def test_the_machine_joins_the_diagnosis(tmp_path: Path) -> None:
    live = LiveDiagnosis()
    for second in (0.0, LONG_S, LONG_S + 1, 2 * LONG_S):
        seen = answers(second)
        own = msgspec.structs.replace(seen, variables=dict(seen.variables) | {"datadir": str(tmp_path)})
        live.note(own, second, os.getpid())
    assert live.latest is not None
    host = live.latest.diagnosis.evidence.host
    assert host is not None and host.pid == os.getpid()
