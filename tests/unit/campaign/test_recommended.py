"""One value says what is recommended, for which server and at which floor, and how far it was proven."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from flushlab.advice.handed_over import Advice
from flushlab.campaign.facts import ArmResult, CampaignFacts
from flushlab.campaign.recommended import at_floor, best_arms, costs, offered
from flushlab.campaign.recommended import recommended as of_campaign
from flushlab.errors import UsageError
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import Launch, ServerIdentity, Storage, Warning
from flushlab.report import campaign
from flushlab.report import html as pages
from flushlab.report.answer import answer
from flushlab.settings.durability import described
from flushlab.settings.floor import Floor
from tests.golden.test_compare_report import FACTS as COMPARED
from tests.golden.test_reports import FACTS as TUNED
from tests.golden.test_reports import RAISED, SECOND, YOURS, decoded, text_of
from tests.unit.changed import changed
from tests.unit.records import MARIADB
from tests.unit.report.campaigns import LOSSY, SAFE, comparison, ratio, row, series_facts, trials_of

MYSQL = ServerIdentity(flavor="mysql", version=(8, 0, 15), version_text="8.0.15")
FLUSH = {"innodb_flush_log_at_trx_commit": 2}


def arm(name: str, estimate: float, low: float, high: float, **facts: Any) -> ArmResult:
    known = {"outcome": "measured", "floor": "strict", "guarantees": SAFE} | facts
    return ArmResult(name=name, comparison=comparison(name, ratio(estimate, low, high)), **known)


def compared(*arms: ArmResult, **changes: Any) -> CampaignFacts:
    return changed(COMPARED, arms=arms, **changes)


TWO_SERVERS = compared(
    arm("mysql@8.0 two", 1.16, 0.93, 1.44, changes=FLUSH),
    arm("mariadb base", 1.5, 1.3, 1.7, server=MARIADB),
    arm("mariadb two", 1.67, 1.5, 1.8, changes=FLUSH, server=MARIADB, against="mariadb base"),
    base_name="mysql@8.0 base",
    server=MYSQL,
)


def test_each_server_is_advised_by_its_own_arms_alone() -> None:
    (one,) = of_campaign(TWO_SERVERS)
    assert (one.server, one.arm, one.base) == (MARIADB, "mariadb two", "mariadb base")
    assert one.ratio == ratio(1.67, 1.5, 1.8)


def test_the_base_of_another_server_is_no_gain_and_no_advice() -> None:
    servers = compared(arm("mysql@9.7", 2.5, 2.3, 2.7, server=MARIADB), base_name="mysql@5.7")
    assert of_campaign(servers) == ()
    text = text_of(campaign.document(servers))
    assert "mysql@9.7 is 2.50× as fast as mysql@5.7" in text
    assert "faster" not in text and "what carries over" not in text


def test_servers_stand_in_a_table_of_their_own() -> None:
    text = text_of(campaign.document(TWO_SERVERS))
    first, second = text.split("Between servers")
    second = second.partition("What a failure costs")[0]
    assert "mariadb two" in first and "mariadb two" not in second
    assert "1.30 – 1.70" not in first
    assert "1.50×  1.30 – 1.70" in second


@pytest.mark.parametrize(("floor", "recommended"), [("", []), ("second", ["A"]), ("throwaway", ["B"])])
def test_an_arm_below_the_floor_is_shown_and_not_recommended(floor: str, recommended: list[str]) -> None:
    facts = compared(
        arm("A", 1.5, 1.4, 1.6, changes=FLUSH, floor="second", guarantees=LOSSY),
        arm("B", 3.0, 2.8, 3.2, changes={**FLUSH, "sync_binlog": 1000}, floor="throwaway"),
        floor=floor,
    )
    assert [one.arm for one in of_campaign(facts)] == recommended
    text = " ".join(text_of(campaign.document(facts)).split())
    assert ("not recommended" in text) == (floor != "throwaway")
    assert "3.00" in text
    assert [one["arm"] for one in decoded(facts)["recommended"]] == recommended


def test_a_series_recommends_nothing_below_its_floor() -> None:
    facts = series_facts(arms=[one for one in series_facts().arms if one.name in ("F", "G", "I")], floor="")
    assert of_campaign(facts) == ()
    assert "Faster, but below the floor and not recommended: G." in "\n".join(answer(facts))


def test_sentence_and_comments_name_server_interval_floor_and_caveats() -> None:
    (one,) = of_campaign(compared(arm("A", 1.5, 1.4, 1.6, changes=FLUSH, floor="second"), floor="second"))
    assert one.sentence == (
        f"On {one.server.name}, A is 1.50× as fast as base [1.40, 1.60], 5 blocks."
        " Floor: second (base: strict)."
    )
    assert one.sentence.replace("×", "x") in one.comments
    assert f"flushlab compare, campaign {COMPARED.campaign_id}: {COMPARED.workload}" in one.comments
    assert any(line.startswith("If the power fails: ") for line in one.comments)


def test_a_sentence_names_a_server_once() -> None:
    *others, two = TWO_SERVERS.arms
    named = msgspec.structs.replace(two, name="mariadb@10.11.19 two")
    (one,) = of_campaign(msgspec.structs.replace(TWO_SERVERS, arms=(*others, named)))
    assert one.sentence.startswith("mariadb@10.11.19 two is 1.67× as fast as mariadb base [1.50, 1.80]")


def test_what_an_arm_changes_besides_settings_is_said_beside_its_ratio() -> None:
    (one,) = of_campaign(series_facts())
    assert one.arm == "best"
    assert any("another workload (key=primary)" in line for line in one.not_shown)


def test_a_caveat_on_another_server_is_not_held_against_this_one() -> None:
    debts = Warning("debts", "after its slices, it still wrote 3 KiB", arms=("mysql@8.0 two",))
    caveats = (debts, Warning("noisy", "noise"))
    (one,) = of_campaign(msgspec.structs.replace(TWO_SERVERS, warnings=caveats))
    assert one.server == MARIADB
    assert one.not_shown == ("Caveat: noise.",)


AT_SECOND = {"floor": "second", "guarantees": LOSSY}
MIXED = compared(
    arm("mysql@8.0 fast", 3.0, 2.8, 3.2, changes={"sync_binlog": 1000}, **AT_SECOND),
    arm("mariadb base", 0.8, 0.7, 0.9, server=MARIADB),
    arm("mariadb slow", 1.2, 1.1, 1.3, changes=FLUSH, server=MARIADB, against="mariadb base"),
    base_name="mysql@8.0 base",
    server=MYSQL,
)


def test_the_headline_is_about_a_recommended_arm_where_any_server_has_one() -> None:
    first, *others = "\n".join(answer(MIXED)).split("\n")
    assert first == "mariadb slow is 1.20× as fast as mariadb base [1.10, 1.30]"
    assert others == [
        "Nothing proved faster than mysql@8.0 base at the floor strict.",
        "mysql@8.0 fast is 3.00× as fast as mysql@8.0 base [2.80, 3.20];"
        " its floor is second: not recommended. --floor second allows it.",
        "mariadb base is 0.80× as fast as mysql@8.0 base [0.70, 0.90]",
    ]
    found = campaign.document(MIXED, row("compare", MIXED))
    assert (found.headline, found.interval) == (
        "mariadb slow is 1.20× as fast as mariadb base",
        "[1.10, 1.30]",
    )
    assert [one and one.name for one in best_arms(MIXED)] == [None, "mariadb slow"]
    assert found.servers == "mysql@8.0.15, mariadb@10.11.19"
    assert all(line.endswith(".") for line in found.lead)


def test_a_tie_goes_to_fewer_settings() -> None:
    more = arm("more", 1.5, 1.4, 1.6, changes={**FLUSH, "innodb_io_capacity": 400})
    less = arm("less", 1.5, 1.4, 1.6, changes=FLUSH)
    for arms in ((more, less), (less, more)):
        assert [one.arm for one in of_campaign(compared(*arms))] == ["less"]


def test_what_a_lower_floor_allows_is_what_it_would_recommend() -> None:
    facts = compared(
        arm("A", 1.5, 1.4, 1.6, changes=FLUSH, **AT_SECOND),
        arm("B", 3.0, 2.8, 3.2, changes={**FLUSH, "sync_binlog": 1000}, floor="throwaway"),
        arm("C", 1.1, 1.05, 1.2, changes={"sync_binlog": 2}, floor="relaxed"),
    )
    first, *others = "\n".join(answer(facts)).split("\n")
    assert first == "Nothing proved faster than base at the floor strict."
    assert [line.rpartition(": not recommended. ")[2] for line in others] == [
        "--floor second allows it.",
        "--floor throwaway allows it.",
    ]
    for line, floor in zip(others, ("second", "throwaway"), strict=True):
        (one,) = of_campaign(msgspec.structs.replace(facts, floor=floor))
        assert line.startswith(f"{one.arm} is ")


def test_at_a_fixed_rate_the_headline_is_about_latency() -> None:
    facts = compared(arm("A", 0.8, 0.7, 0.9, changes=FLUSH), objective="p99")
    assert "\n".join(answer(facts)) == "No lower p99 latency than that of base was proven."


def test_a_caveat_on_arms_of_two_servers_is_told_with_both() -> None:
    two = ("mysql@8.0 two", "mariadb two")
    caveat = Warning("noisy", "throughput was not level", arms=two)
    facts = msgspec.structs.replace(
        TWO_SERVERS, arms=(arm("mysql@8.0 two", 1.3, 1.2, 1.4, changes=FLUSH), *TWO_SERVERS.arms[1:])
    )
    found = of_campaign(msgspec.structs.replace(facts, warnings=(caveat,)))
    assert [one.not_shown for one in found] == [(f"Caveat: {caveat.text}.",)] * 2


def test_a_caveat_on_the_base_of_one_server_is_told_with_that_server_alone() -> None:
    caveats = (Warning("noisy", "mysql@8.0: the base's results vary", arms=("mysql@8.0 base",)),)
    (one,) = of_campaign(msgspec.structs.replace(TWO_SERVERS, warnings=caveats))
    assert (one.server, one.not_shown) == (MARIADB, ())


def test_a_caveat_on_a_ratio_is_told_with_that_ratio_alone() -> None:
    """That of a server's base to the first server's is no caveat on what its own arms gain."""
    between = Warning("debts", "it still wrote", arms=("mariadb base",), against="mysql@8.0 base")
    own = Warning("debts", "so did this", arms=("mariadb two",), against="mariadb base")
    another = Warning("analyses", "so did that", arms=("mysql@8.0 two",), against="mysql@8.0 base")
    (one,) = of_campaign(msgspec.structs.replace(TWO_SERVERS, warnings=(between, own, another)))
    assert one.not_shown == ("Caveat: so did this.",)


def test_what_carries_over_is_said_of_every_server_that_was_measured() -> None:
    text = " ".join(text_of(campaign.document(TWO_SERVERS)).split())
    assert "the settings and the version (mysql@8.0.15, mariadb@10.11.19)" in text


def test_the_page_of_two_servers_tells_each_caveat_once_and_of_which_server_the_control_is() -> None:
    faster = arm("mysql@8.0 two", 1.3, 1.2, 1.4, changes=FLUSH, floor="second")
    caveat = Warning("noisy", "throughput was not level")
    facts = msgspec.structs.replace(
        TWO_SERVERS, arms=(faster, *TWO_SERVERS.arms[1:]), warnings=(caveat,), floor="second"
    )
    advice = [Advice(one, {"my.cnf": "\n".join(one.comments)}) for one in of_campaign(facts)]
    html = pages.render(campaign.document(facts, row("compare", facts), (), advice=advice))
    todo = html[html.index("<main") : html.index('id="ratios"')]
    assert len(advice) == 2 and todo.count("Caveat: throughput was not level.") == 2
    assert "The A/A control is the first server&#39;s base once more; other servers have none." in html
    assert "<dt>--floor</dt><dd>second</dd>" in html and "<dt>floor</dt><dd>strict</dd>" in html


def test_the_page_shows_settings_of_the_recommended_arm_beside_the_base_of_its_server() -> None:
    trials = [
        msgspec.structs.replace(one, settings={"sync_binlog": 7}, server=MARIADB)
        for one in trials_of({"mariadb base": 1.0, "mariadb slow": 1.0}, "arms")
    ]
    base = [
        msgspec.structs.replace(one, settings={"sync_binlog": 7}) for one in trials_of({"base": 1.0}, "arms")
    ]
    html = pages.render(campaign.document(MIXED, row("compare", MIXED), [*base, *trials]))
    settings = html.partition('<section id="settings">')[2].partition("</section>")[0]
    first, second = settings.split("<table")[1:]
    assert "mysql@8.0.15" in first and "mysql@8.0 base" in first and "mariadb" not in first
    assert "mariadb@10.11.19" in second and "mariadb base" in second and "mariadb slow" in second
    assert "mysql" not in second


def test_the_page_gives_the_key_figures_of_every_server_with_its_name() -> None:
    base, slow = MIXED.arms[1:]
    of_base = msgspec.structs.replace(base, result=750.0, p99_us=9000.0, floor="second", guarantees=LOSSY)
    facts = changed(
        MIXED,
        arms=(MIXED.arms[0], of_base, slow),
        base_result=500.0,
        base_p99_us=17_000.0,
        base_guarantees=SAFE,
        control=arm("control", 1.0, 0.9, 1.1),
    )
    html = pages.render(campaign.document(facts, row("compare", facts), trials_of({"base": 1.0}, "arms")))
    keys = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", html))
    assert keys["floor of mysql@8.0 base"] == "strict" and keys["floor of mariadb base"] == "second"
    assert keys["mysql@8.0 base"].startswith("500") and keys["mariadb base"].startswith("750")
    assert (keys["mysql@8.0 base&#39;s p99"], keys["mariadb base&#39;s p99"]) == ("17.0 ms", "9.00 ms")
    assert keys["A/A control of mysql@8.0 base"] == "0.90 – 1.10"
    machine = html.partition('<section id="machine">')[2].partition("</section>")[0]
    assert "mysql@8.0.15" in machine and "mariadb@10.11.19" in machine


STRICT_ONLY = changed(
    TUNED,
    floor="strict",
    winner=None,
    frontier=(
        FrontierPoint(floor=Floor.STRICT, arm="base", settings={}),
        msgspec.structs.replace(SECOND, beats_safer=True),
    ),
    offers=(msgspec.structs.replace(SECOND, beats_safer=True),),
    lowest="second",
)


def test_a_gain_below_the_floor_is_an_offer_with_its_cost_and_the_way_to_its_files() -> None:
    assert of_campaign(STRICT_ONLY) == (), "what is handed over keeps the floor"
    (offer,) = offered(STRICT_ONLY)
    assert (offer.offer, offer.floor, offer.settings) == (True, "second", SECOND.settings)
    assert offer.costs == (
        "if the operating system crashes or the power fails: about 1 s of commits",
        f"replicas: {LOSSY['replication']}",
    )
    (step,) = offer.next_steps
    assert step.commands == (f"flushlab report {TUNED.campaign_id} --floor second --out second",)
    assert offered(TUNED) == ()


def test_a_stored_tuning_hands_over_another_floor_that_it_has_measured() -> None:
    lower = at_floor(STRICT_ONLY, Floor.SECOND)
    (one,) = of_campaign(lower)
    assert (one.floor, one.settings, one.offer) == ("second", SECOND.settings, False)
    assert (offered(lower), lower.floor) == ((), "second")
    safer = at_floor(lower, Floor.STRICT)
    assert (of_campaign(safer), safer.floor) == ((), "strict")
    with pytest.raises(UsageError, match="at floor strict and offers down to second, none at floor relaxed"):
        at_floor(STRICT_ONLY, Floor.RELAXED)
    with pytest.raises(UsageError, match="is none"):
        at_floor(COMPARED, Floor.STRICT)


def test_raised_settings_that_hand_over_a_lower_floor_name_both() -> None:
    frontier = (
        (RAISED.tuning.frontier[0], msgspec.structs.replace(SECOND, beats_safer=True))
        if RAISED.tuning
        else ()
    )
    lower = at_floor(changed(RAISED, frontier=frontier, lowest="second"), Floor.SECOND)
    assert (lower.floor, lower.raised_to) == ("second", "strict")
    (one,) = of_campaign(lower)
    assert (one.floor, one.base) == ("second", "your settings")
    assert at_floor(lower, Floor.STRICT).raised_to == "strict"
    with pytest.raises(UsageError, match="raised your settings to the floor second only"):
        at_floor(changed(RAISED, floor="second", lowest="second"), Floor.STRICT)


def test_an_offer_that_the_users_settings_are_already_says_to_keep_them() -> None:
    own = msgspec.structs.replace(YOURS, changes=FLUSH)
    point = FrontierPoint(floor=Floor.SECOND, arm="two", settings=FLUSH, ratio=ratio(1.5, 1.4, 1.6))
    (offer,) = offered(changed(RAISED, yours=own, offers=(point,), lowest="second"))
    assert (offer.settings, offer.next_steps[0].commands) == ({}, ())
    assert "keep them" in offer.next_steps[0].what


def test_costs_name_replicas_and_galera_nodes_although_a_sandbox_has_none() -> None:
    identity = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19")

    def words(flush: int) -> dict[str, str]:
        return described({"innodb_flush_log_at_trx_commit": flush}, identity, Storage(), Launch())

    _, replicas, galera = costs(words(2), words(1))
    assert replicas.startswith(
        "replicas: with a binary log, they may be ahead of this server after an OS crash"
    )
    assert galera.startswith(
        "Galera: a node gets the commits that it lost from the others; if all fail at once"
    )
    assert costs(words(1), words(2)) == ()


def test_costs_name_the_failures_that_a_change_weakens_and_no_other() -> None:
    assert costs(SAFE, SAFE) == ()
    assert costs(SAFE, LOSSY) == (), "a safer setting costs nothing"
    diverging = {**LOSSY, "replication": "a crash may leave a replica ahead of this server"}
    assert costs(diverging, SAFE) == (
        "if the operating system crashes or the power fails: about 1 s of commits",
        "replicas: a crash may leave a replica ahead of this server",
    )
