"""Arms on one running server: settings are switched by SET GLOBAL, and the server stays the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from flushlab.build import Build
from flushlab.record import Arm, Trial, Value
from flushlab.trial.runner import AlternatingRunner
from tests.integration.test_trial import runner

BASE: dict[str, Value] = {
    "innodb_flush_log_at_trx_commit": 1,
    "innodb_log_file_size": 48 << 20,
    "innodb_flush_log_at_timeout": 2700,
}


@pytest.fixture
def alternating(build: Callable[[str], Build]) -> Iterator[AlternatingRunner]:
    with closing(AlternatingRunner(runner(build("mariadb@10.11")), BASE)) as opened:
        yield opened


def run(alternating: AlternatingRunner, name: str, **settings: Value) -> Trial:
    return alternating.run(Arm(name=name, settings={**BASE, **settings}), stage="arms", block=0)


def fsyncs_per_commit(trial: Trial) -> float:
    assert trial.load is not None, trial.reason
    return trial.deltas["Innodb_data_fsyncs"] / trial.load.events


def test_arms_switch_on_one_server_and_the_base_comes_back(alternating: AlternatingRunner) -> None:
    trials, servers = [], set()
    for number, settings in enumerate(
        ({}, {"innodb_flush_log_at_trx_commit": 2}, {}, {"sync_binlog": 7}, {})
    ):
        trials.append(run(alternating, f"arm {number}", **settings))
        assert alternating._server is not None
        servers.add(alternating._server.pid)
    assert len(servers) == 1
    assert [trial.settings["innodb_flush_log_at_trx_commit"] for trial in trials] == [1, 2, 1, 1, 1]
    assert [trial.settings["sync_binlog"] for trial in trials] == [0, 0, 0, 7, 0]
    assert all(trial.settings["innodb_log_file_size"] == 48 << 20 for trial in trials)
    every_commit, pages_alone, again = map(fsyncs_per_commit, trials[:3])
    # A group has at most one commit of each of 4 connections; the windows have some hundred commits. The
    # timer of the log is switched off, so that their number says nothing about the machine.
    assert min(every_commit, again) > 0.24
    assert pages_alone < 0.5 * min(every_commit, again)


def test_a_setting_that_needs_a_restart_is_refused_and_the_next_arm_goes_on(
    alternating: AlternatingRunner,
) -> None:
    refused = run(alternating, "static", innodb_doublewrite="OFF")
    assert refused.outcome == "refused"
    assert "while the server runs" in refused.reason
    after = run(alternating, "base")
    assert after.result is not None
    assert after.settings["innodb_doublewrite"] == "ON"


def test_a_value_that_the_server_does_not_take_is_refused_in_its_words(
    alternating: AlternatingRunner,
) -> None:
    refused = run(alternating, "wrong", max_connections="many")
    assert (refused.outcome, "max_connections" in refused.reason) == ("refused", True)
    assert run(alternating, "base").result is not None


def test_a_server_that_is_gone_is_started_again(alternating: AlternatingRunner) -> None:
    run(alternating, "base")
    assert alternating._server is not None
    first = alternating._server.pid
    alternating._server.kill()
    lost = run(alternating, "two", innodb_flush_log_at_trx_commit=2)
    assert lost.outcome == "failed"
    again = run(alternating, "two", innodb_flush_log_at_trx_commit=2)
    assert again.settings["innodb_flush_log_at_trx_commit"] == 2
    assert alternating._server is not None
    assert alternating._server.pid != first
