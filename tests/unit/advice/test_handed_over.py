from __future__ import annotations

import msgspec
import pytest

from flushlab.advice.handed_over import advised, option_file
from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.request import TuneRequest
from flushlab.experiment.tune_plan import Dropped, FrontierPoint
from flushlab.record import CrashArm, Launch, Ratio, Storage, Value
from flushlab.settings.check import check
from flushlab.settings.fit import Scaled
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import TuneSpec
from flushlab.workload.protocol import Timing
from tests.golden.test_reports import FACTS, RAISED, SECOND
from tests.unit.changed import changed
from tests.unit.crashes import facts as crash_facts
from tests.unit.crashes import judged
from tests.unit.records import trial
from tests.unit.report.campaigns import MACHINE
from tests.unit.settings.servers import MARIADB1011

REQUEST = TuneRequest(
    build="mariadb@10.11.19",
    build_id="mariadb-x",
    machine=MACHINE,
    spec=TuneSpec(trials=100, seed=1),
    base={"sync_binlog": 1},
    original={"sync_binlog": 1},
    candidates=(),
    lowest=Floor.SECOND,
    timing=Timing(seconds=5),
)


def facts(winner: FrontierPoint, *dropped: Dropped) -> CampaignFacts:
    return changed(FACTS, winner=winner, dropped=dropped)


def my_cnf(found: CampaignFacts, request: TuneRequest = REQUEST) -> str:
    ran = trial(storage=Storage(filesystem="ext4"), launch=Launch())
    (advice,) = advised(found, request, [ran])
    return advice.files["my.cnf"]


def text(winner: FrontierPoint, *dropped: Dropped) -> str:
    return my_cnf(facts(winner, *dropped))


def above(name: str, option_file: str) -> str:
    """The comment right above a setting's line."""
    lines = option_file.splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith(f"{name} =")) - 1]


def test_what_is_bought_says_what_is_left_without_it_and_the_rest_what_it_gives() -> None:
    found = text(SECOND)
    assert above("innodb_flush_log_at_trx_commit", found) == (
        "# Without it: 1.04x (1.01 to 1.07) instead of 1.62x."
    )
    assert above("innodb_log_buffer_size", found) == (
        "# Weakens no guarantee; such changes alone give 1.04x (1.01 to 1.07)."
    )


def test_a_single_change_says_its_own_gain() -> None:
    ratio = Ratio(estimate=1.38, low=1.22, high=1.57)
    settings: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2}
    found = text(msgspec.structs.replace(SECOND, settings=settings, ratio=ratio, free_ratio=None))
    assert above("innodb_flush_log_at_trx_commit", found) == "# Alone it gives 1.38x (1.22 to 1.57)."


@pytest.mark.parametrize("free", [None, SECOND.ratio])
def test_nothing_is_said_of_a_part_that_was_not_measured(free: Ratio | None) -> None:
    settings: dict[str, Value] = {"innodb_flush_neighbors": 0, "innodb_log_buffer_size": 67108864}
    found = text(msgspec.structs.replace(SECOND, settings=settings, free_ratio=free))
    assert "Without" not in found
    assert "such changes alone" not in found


def test_what_was_dropped_at_the_winners_floor_says_what_dropping_it_cost() -> None:
    settings: dict[str, Value] = {"innodb_flush_method": "fsync"}
    here = Dropped(floor=Floor.SECOND, settings=settings, cost=0.004, error=0.006)
    other = Dropped(floor=Floor.STRICT, settings={"innodb_log_buffer_size": 1}, cost=0.1, error=0.1)
    found = text(SECOND, here, other)
    assert "gains too little (0.4%, standard error 0.6%): innodb_flush_method = fsync." in found
    assert found.count("Left out") == 1


def test_settings_below_the_floor_are_raised_although_nothing_else_was_found() -> None:
    own: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2}
    request = msgspec.structs.replace(REQUEST, base=RAISED.base.settings, original=own, yours=own)
    assert RAISED.tuning is not None and request.raised == RAISED.tuning.raised
    found = my_cnf(RAISED, request)
    lines = [line for line in found.splitlines() if line and not line.startswith("#")]
    assert lines == ["[mysqld]", "innodb_flush_log_at_trx_commit = 1"]
    assert above("innodb_flush_log_at_trx_commit", found) == ("# Raises your settings to the floor strict.")
    assert "# Your settings do not meet strict; these lines do." in found
    assert "Measured: 0.45x your settings as they are, interval 0.40 to 0.50" in found


def test_a_lower_floor_than_the_settings_were_raised_to_is_not_called_that_one() -> None:
    own: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2}
    request = msgspec.structs.replace(REQUEST, base=RAISED.base.settings, original=own, yours=own)
    lower = changed(RAISED, floor="second", raised_to="strict", winner=SECOND)
    found = my_cnf(lower, request)
    assert "# Your settings do not meet strict; these lines meet second." in found


def test_what_was_scaled_to_the_machine_that_measured_is_not_written_down() -> None:
    here = Scaled(name="innodb_buffer_pool_size", yours="96G", here="4G", why="too little memory")
    request = msgspec.structs.replace(
        REQUEST,
        base={"sync_binlog": 1, "innodb_buffer_pool_size": 4 << 30},
        original={"sync_binlog": 1, "innodb_buffer_pool_size": 96 << 30},
        scaled=(here,),
    )
    assert request.raised == {}
    assert "innodb_buffer_pool_size" not in my_cnf(facts(SECOND), request)


def test_what_its_crashes_left_stands_in_the_option_file() -> None:
    arm = CrashArm(name=SECOND.arm, settings={}, crashes=tuple(judged(number) for number in range(8)))
    crashed = msgspec.structs.replace(facts(SECOND), crash=crash_facts(arm))
    found = my_cnf(crashed, REQUEST)
    assert "# Crashed 8 times, the power failed: 6 of 6 kept (at most 39.3% fail);" in found


def test_the_file_has_the_condition_of_its_floor() -> None:
    arms = tuple(
        msgspec.structs.replace(
            arm, guarantees={**arm.guarantees, "floor": "second, if the disk honors flushes"}
        )
        for arm in FACTS.arms
    )
    found = my_cnf(changed(facts(SECOND), arms=arms)).replace("\n# ", " ")
    assert "Durability floor that this meets: second, if the disk honors flushes." in found


def test_without_replicas_nothing_is_said_of_them() -> None:
    alone = msgspec.structs.replace(REQUEST, spec=TuneSpec(trials=100, seed=1, no_replicas=True))
    assert "# Replicas: " in text(SECOND)
    assert "# Replicas: " not in my_cnf(facts(SECOND), alone)


def test_each_line_stands_below_its_effect_and_its_reason_and_reads_back() -> None:
    settings: dict[str, Value] = {"innodb_io_capacity": 4000, "innodb_flush_method": "fsync"}
    found = option_file(settings, MARIADB1011, ["where it is from"], {"innodb_io_capacity": "Because."})
    assert found.startswith("# where it is from\n")
    assert above("innodb_io_capacity", found) == "# Because."
    assert above("innodb_flush_method", found).startswith("# ")
    assert check(found, MARIADB1011).settings == settings
