from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec
import pytest

from flushlab.advice.handed_over import own_settings
from flushlab.campaign.arms import BoundArm
from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.recommended import recommended
from flushlab.campaign.request import SeriesRequest, TuneRequest
from flushlab.record import Arm, SourceText, Value
from flushlab.report.stored import command, connections_of, facts_of, plan_text, request_of
from flushlab.spec.parts import DataSpec, WorkloadSpec
from tests.unit.records import trial
from tests.unit.report import campaigns as made


def words(request: TuneRequest | SeriesRequest) -> list[str]:
    return shlex.split(command(request).replace("\\\n", " "))


def test_a_tuning_is_repeated_by_its_options() -> None:
    assert words(made.tune_request()) == [
        *("flushlab", "tune", "--server", "mariadb@10.11.19", "--table-size", "20000"),
        *("--floor", "second", "--minutes", "6", "--set", "sync_binlog=1", "--seed", "7"),
    ]


def test_words_that_a_shell_would_split_are_quoted() -> None:
    told = words(
        made.tune_request(
            workload=WorkloadSpec(name="command: ./load.sh $X 'y'"), data=DataSpec(dataset="/my data")
        )
    )
    assert "command: ./load.sh $X 'y'" in told
    assert "/my data" in told


def test_a_series_is_repeated_by_its_plan() -> None:
    spec = msgspec.structs.replace(made.SERIES_SPEC, scale=0.5)
    assert words(made.series_request(spec=spec)) == [
        *("flushlab", "series", "insert-on-duplicate", "--server", "mariadb@10.11.19"),
        *("--scale", "0.5", "--seed", "3"),
    ]


def test_a_stored_plan_is_shown_without_its_texts_and_without_passwords() -> None:
    texts = (SourceText(kind="plan", name="x", size_bytes=1, sha256="", text="geheim"),)
    row = made.row("series", None, made.series_request(sources=texts))
    assert "sources" not in msgspec.json.decode(plan_text(row))
    row = made.row("tune", None, made.tune_request(workload=WorkloadSpec(name="command: mysql -pgeheim")))
    assert msgspec.json.decode(plan_text(row))["spec"]["workload"] == {"name": "command: mysql -p***"}


def test_a_series_tells_connections_by_arm() -> None:
    many = BoundArm(name="many", workload=WorkloadSpec(options={"threads": 32}))
    request = made.series_request(
        base=BoundArm(name="base", workload=WorkloadSpec(options={"threads": 8})), arms=(many,)
    )
    trials = [trial(arm=Arm(name=name, settings={})) for name in ("base", "many")]
    assert [connections_of(request)(one) for one in trials] == [8, 32]


@pytest.mark.parametrize("plan", [b"", b"{", b"\xff", b'{"threads": "many"}'])
def test_a_plan_that_cannot_be_read_is_no_plan(plan: bytes) -> None:
    row = made.row("tune", None)
    row = msgspec.structs.replace(row, plan=plan)
    assert request_of(row) is None


def advised(facts: CampaignFacts | None) -> Mapping[str, Value]:
    """Settings of the only server."""
    found = recommended(facts) if facts is not None else ()
    return found[0].settings if found else {}


def test_a_tuning_advises_its_winner_and_what_was_raised() -> None:
    facts = made.tune_facts(raised={"innodb_doublewrite": "ON"})
    row = made.row("tune", facts)
    assert advised(facts_of(row)) == {"innodb_doublewrite": "ON", **made.FAST}


def test_a_tuning_without_a_winner_advises_nothing() -> None:
    assert advised(made.tune_facts(winner=None)) == {}


def test_a_series_advises_best() -> None:
    facts = made.series_facts()
    assert advised(facts) == {"innodb_flush_log_at_trx_commit": 0}


def test_a_series_without_a_proven_best_advises_its_fastest_arm() -> None:
    arms = [arm for arm in made.series_facts().arms if arm.name != "best"]
    arms.append(
        msgspec.structs.replace(
            made.series_facts().arms[-1], comparison=made.comparison("best", made.ratio(2.4, 0.9, 5.0))
        )
    )
    facts = made.series_facts(arms=tuple(arms))
    assert advised(facts) == {"innodb_flush_log_at_trx_commit": 0}


def test_a_series_whose_fastest_arm_is_a_place_advises_no_setting() -> None:
    arm = msgspec.structs.replace(made.series_facts().arms[2], data_root="/zfs")
    facts = made.series_facts(arms=(arm,))
    assert advised(facts) == {}


def test_what_a_further_server_was_given_is_its_own_bases() -> None:
    further = BoundArm(name="two base", settings={"sync_binlog": 7}, build="mariadb@10.11.19")
    request = made.series_request(base=BoundArm(name="base", settings={"sync_binlog": 1}), arms=(further,))
    assert own_settings(request, "two base") == {"sync_binlog": 7}
    assert own_settings(request) == {"sync_binlog": 1}
