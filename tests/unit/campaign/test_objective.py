from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flushlab.campaign import compare, series, tune
from flushlab.campaign.objective import objective_of, objective_of_plan
from flushlab.errors import UsageError
from flushlab.plan.parse import parse_plan

OLTP = "oltp_update_non_index"
PLAN = """title = "Which one?"
[workload]
name = "oltp_update_non_index"
{options}
[[arm]]
name = "A"
settings = {{ sync_binlog = 0 }}
{arm}
[[arm]]
name = "B"
on = "A"
settings = {{ innodb_flush_log_at_trx_commit = 2 }}
{second}
"""


def of_plan(options: str = "", arm: str = "", second: str = "", only: tuple[str, ...] = ()) -> str:
    plan = parse_plan(PLAN.format(options=options, arm=arm, second=second), path="mine.toml")
    return objective_of_plan(None, plan, only)


@pytest.mark.parametrize(
    ("workload", "options", "due"),
    [
        (OLTP, {}, "throughput"),
        (OLTP, {"rate": 0.0}, "throughput"),
        (OLTP, {"rate": None}, "throughput"),
        (OLTP, {"rate_kind": "poisson"}, "throughput"),
        (OLTP, {"rate": 500}, "p99"),
        ("upsert", {"rate": 500.0}, "p99"),
        (OLTP, {"profile": "step:100,200/10s"}, "p99"),
        ("command: ./load.sh", {"rate": 500}, "throughput"),
    ],
)
def test_a_fixed_rate_leaves_latency_to_compare(workload: str, options: dict[str, Any], due: str) -> None:
    assert objective_of(None, workload, options) == due
    assert objective_of(due, workload, options) == due


def by_tune(objective: str, workload: str, rate: float) -> None:
    options: dict[str, Any] = {"rate": rate} if rate else {}
    tune.tune(objective=objective, workload=workload, **options)


def by_compare(objective: str, workload: str, rate: float) -> None:
    options: dict[str, Any] = {"rate": rate} if rate else {}
    compare.compare(["sync_binlog=0"], objective=objective, workload=workload, **options)


def by_series(objective: str, workload: str, rate: float) -> None:
    options = f"rate = {rate}\n" if rate else ""
    Path("mine.toml").write_text(
        f'title = "Which?"\n[workload]\nname = "{workload}"\n{options}'
        '[[arm]]\nname = "A"\nsettings = { sync_binlog = 0 }\n'
    )
    series.series("mine.toml", objective=objective)


@pytest.mark.parametrize("command", [by_tune, by_compare, by_series])
@pytest.mark.parametrize(
    ("objective", "workload", "rate", "message"),
    [
        ("p99", OLTP, 0.0, "--objective p99 needs a fixed rate: without one"),
        ("p99", "command: true", 0.0, "--objective p99 needs a fixed rate, and command: takes none"),
        ("throughput", OLTP, 500.0, "the rate of the load fixes the throughput"),
        ("latency", OLTP, 500.0, "unknown objective 'latency'"),
    ],
)
def test_every_command_refuses_the_same_before_anything_starts(
    command: Callable[[str, str, float], None],
    objective: str,
    workload: str,
    rate: float,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flushlab.campaign.campaign.publish_status", started)
    with pytest.raises(UsageError, match=message):
        command(objective, workload, rate)


def test_arms_of_a_plan_share_the_rate_of_its_workload() -> None:
    assert of_plan() == "throughput"
    assert of_plan("rate = 500") == "p99"
    assert of_plan("rate = 500", "workload = { threads = 8 }") == "p99"
    assert of_plan("rate = 500", "workload = { rate = 500.0, rate_kind = 'constant' }") == "p99"


@pytest.mark.parametrize(
    ("options", "arm", "message"),
    [
        (
            "rate = 500",
            "workload = { rate = 900 }",
            "runs at rate 900, rate_kind constant, the base at rate 500",
        ),
        ("rate = 500", "workload = { rate = 0 }", "runs as fast as it can, the base at rate 500"),
        ("", "workload = { rate = 900 }", "runs at rate 900, rate_kind constant, the base as fast as it can"),
        ("rate = 500", "workload = { rate_kind = 'poisson' }", "runs at rate 500, rate_kind poisson"),
    ],
)
def test_an_arm_with_a_rate_of_its_own_can_be_compared_by_nothing(
    options: str, arm: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        of_plan(options, arm)
    assert caught.value.message.startswith("mine.toml:8:14: "), caught.value.message


def test_what_an_arm_builds_on_gives_it_its_rate() -> None:
    both = "workload = { rate = 900 }"
    with pytest.raises(UsageError, match="arm 'A'"):
        of_plan("rate = 500", both)
    with pytest.raises(UsageError, match="arm 'B'"):
        of_plan("rate = 500", both, only=("B",))
    assert of_plan("rate = 500", both, "workload = { rate = 500 }", only=("B",)) == "p99"
    assert of_plan("rate = 500", second=both, only=("A",)) == "p99"
