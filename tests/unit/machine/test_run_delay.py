"""How long threads waited for a processor."""

from __future__ import annotations

import os

import pytest

from flushlab.machine.processes import run_delays, waiting


def test_the_threads_of_a_process_are_seen() -> None:
    own = run_delays(os.getpid())
    assert os.getpid() in own and own[os.getpid()] >= 0.0
    assert run_delays(2**30) == {}


def test_only_threads_that_were_there_all_of_the_time_count() -> None:
    before, after = {1: 1.0, 2: 5.0, 3: 0.0}, {1: 3.0, 2: 6.0, 4: 9.0}
    assert waiting(before, after, 2.0) == pytest.approx(1.5)
    assert waiting({1: 1.0}, {2: 3.0}, 2.0) is None
