"""The table of a comparison that runs: what is known, in 80 columns, and no ratio that is not proven."""

from __future__ import annotations

import pytest

from flushlab.campaign.watcher import Spent
from flushlab.cli.progress import LiveTable
from flushlab.experiment.protocol import Objective, Request, Standing
from flushlab.record import Arm, Comparison
from tests.golden.test_reports import text_of
from tests.unit.records import trial
from tests.unit.report.campaigns import comparison, ratio

LONG = "innodb_flush_log_at_trx_commit=2 sync_binlog=0 innodb_doublewrite=OFF"


def shown(found: dict[str, Comparison], objective: Objective = "throughput") -> list[str]:
    """The lines of the table after a block of two arms, one run of which was disturbed."""
    table = LiveTable()
    table.names({"base": "my.cnf", LONG: LONG, "control": "control"})
    for name, result, outcome in (
        ("base", 9_000.0, "measured"),
        (LONG, 12_000.0, "discarded"),
        (LONG, 3.0, "measured"),
    ):
        arm = Arm(name=name, settings={})
        standing = Standing(stage="arms", done=1, total=4, found=found, objective=objective)
        table.starting(Request(arm=arm, stage="arms", block=0), standing, Spent(10.0, 10.0, 1))
        reason = "other programs used 55% of the CPU time" if outcome == "discarded" else ""
        table.ended(
            trial(arm=arm, stage="arms", result=result, outcome=outcome, reason=reason), standing, Spent()
        )
    return text_of(table.table()).splitlines()


def test_a_ratio_stands_in_the_table_as_soon_as_it_is_proven_and_not_before() -> None:
    _, base, other, *_ = shown({})
    assert base.split() == ["my.cnf", "9,000", "1"]
    assert ("×" not in other and other.split()[-2:] == ["189.74", "2"]) or other.split()[-2:] == ["190", "2"]
    _, base, other, *_ = shown({LONG: comparison(LONG, ratio(1.62, 1.55, 1.70))})
    assert "1.62  1.55 – 1.70" in other


def test_it_fits_80_columns_whatever_the_names_are() -> None:
    lines = shown({LONG: comparison(LONG, ratio(1.62, 1.55, 1.70))})
    assert max(map(len, lines)) <= 80
    assert lines[2].startswith("innodb_flush_log_at_trx_commit=2 ") and "…" in lines[2]


def test_it_says_what_runs_and_what_disturbs() -> None:
    *_, compared, doing, disturbed = shown({})
    assert compared == "ratio: of throughput; result: transactions/s"
    assert doing.startswith("block 1: innodb_flush_log_at_trx_commit=2")
    assert disturbed == "1 trial was disturbed by other load"


def test_it_names_p99_latency_where_that_is_compared_and_shows_it() -> None:
    _, base, other, *_, compared, _, _ = shown({}, "p99")
    assert base.split() == ["my.cnf", "1.90", "ms", "1"] and other.split()[-3:-1] == ["1.90", "ms"]
    assert compared == "ratio: how many times lower p99 latency is than the base's; result: p99 latency"
    assert max(map(len, shown({LONG: comparison(LONG, ratio(1.62, 1.55, 1.70))}, "p99"))) <= 80


def test_without_a_terminal_each_run_is_a_line_under_the_name_that_the_user_gave(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown({})
    said = capsys.readouterr().err
    assert "my.cnf: 9,000 transactions/s" in said
    assert "other programs used 55% of the CPU time" in said
