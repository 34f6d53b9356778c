from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from flushlab.advice.handed_over import Advice
from flushlab.campaign.facts import ArmResult, CampaignFacts, TuningFacts
from flushlab.campaign.recommended import Recommended
from flushlab.campaign.recommended import recommended as recommended_of
from flushlab.errors import StorageError
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import Arm, Latency, LoadClient, Machine, NodeActivity, Slice, SourceText, Trial, Warning
from flushlab.record.arm import SourceKind
from flushlab.report import campaign, html
from flushlab.report.stored import facts_of
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import SeriesSpec
from flushlab.spec.parts import WorkloadSpec
from flushlab.store import CampaignRow
from tests.golden.test_compare_report import FACTS, TWO
from tests.golden.test_fleet_report import ON_FOUR, fleet
from tests.golden.test_series_report import FACTORIAL, UNCROSSED
from tests.unit.changed import changed
from tests.unit.records import MARIADB, trial
from tests.unit.report import campaigns as made

VOID = {"meta", "br", "wbr", "hr", "img", "input", "link"}
HOSTILE = '<script>alert("x")</script><img src=http://evil.example/x> $a^{b}$ & \x1b[31m " id="ratios" 🙂'


class Reader(HTMLParser):
    """Ids, addresses, text and section anchors of a page; fails where tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.tags: Counter[str] = Counter()
        self.sections: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag not in ("wbr", "b"):
            self.text += " "
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
                if tag == "section":
                    self.sections.append(value or "")
            if name in ("href", "src", "srcset", "action", "data", "poster", "xlink:href"):
                self.addresses.append(value or "")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] != "style":
            self.text += data


def show(row: CampaignRow, trials: Iterable[Trial], *advice: Advice) -> str:
    return html.render(campaign.document(facts_of(row), row, trials, advice=advice))


def recommended(**changes: Any) -> Recommended:
    """What a comparison recommends for MariaDB."""
    one = Recommended(
        campaign_id="compare-1",
        command="compare",
        server=MARIADB,
        workload="oltp_update_non_index",
        arm="A",
        base="base",
        settings={"x": 2},
        ratio=made.ratio(1.5, 1.4, 1.6),
        blocks=10,
        floor="second",
        base_floor="strict",
    )
    (steps,) = {of.next_steps for of in recommended_of(made.tune_facts())}
    return msgspec.structs.replace(one, **{"next_steps": steps, **changes})


@functools.cache
def text_of(html: str) -> str:
    return " ".join(Reader(html).text.split())


@functools.cache
def tuned() -> str:
    return show(
        *made.tuned(),
        Advice(recommended(), {"my.cnf": "[mysqld]\nx = 1\n", "settings.sql": "SET GLOBAL x = 1;\n"}),
    )


@functools.cache
def serial() -> str:
    return show(*made.serial())


BOTH = pytest.mark.parametrize("page_of", [tuned, serial], ids=["tune", "series"])


@BOTH
def test_a_page_loads_nothing_and_runs_nothing(page_of: Callable[[], str]) -> None:
    html = page_of()
    read = Reader(html)
    assert read.addresses
    assert all(re.fullmatch(r"#[\w-]+", address) for address in read.addresses)
    assert not re.search(r"url\((?!#)|@import|https?://", html)
    assert not read.tags["script"] and not read.tags["link"] and not read.tags["img"]
    assert "default-src 'none'" in html


@BOTH
def test_ids_are_unique_and_what_is_referred_to_exists(page_of: Callable[[], str]) -> None:
    html = page_of()
    read = Reader(html)
    assert len(read.ids) == len(set(read.ids))
    wanted = {address[1:] for address in read.addresses}
    wanted |= set(re.findall(r"url\(#([^)]+)\)", html))
    wanted |= set(re.findall(r'aria-labelledby="([^"]+)"', html))
    assert wanted <= set(read.ids)


@BOTH
def test_colours_of_plots_follow_the_page(page_of: Callable[[], str]) -> None:
    html = page_of()
    plots = re.findall(r"<svg.*?</svg>", html, flags=re.S)
    assert len(plots) >= 4
    for plot in plots:
        assert not re.search(r"#[0-9a-fA-F]{6}\b", plot)
        assert "font-family" not in plot
    used = set(re.findall(r"var\((--[\w-]+)\)", html))
    dark = html[html.index("prefers-color-scheme: dark") : html.index("* { box-sizing")]
    assert all(f"{variable}:" in dark for variable in used)


def test_sections_of_a_tuning_stand_in_the_order_of_the_story() -> None:
    assert Reader(tuned()).sections == [
        *("what-to-do", "frontier", "ratios", "time", "files", "settings", "guarantees"),
        *("machine", "left-out", "warnings", "carry-over", "repeat"),
    ]


def test_sections_of_a_series_stand_in_the_order_of_the_story() -> None:
    assert Reader(serial()).sections == [
        *("ratios", "time", "files", "settings", "claims", "guarantees"),
        *("machine", "warnings", "carry-over", "repeat"),
    ]


def test_the_page_says_how_to_verify_and_undo_it_and_what_carries_over() -> None:
    advice = Advice(
        recommended(),
        {
            "my.cnf": "[mysqld]\nx = 2\n",
            "settings.sql": "SELECT 5;\nSET PERSIST x = 2;\n",
            "verify.sql": "SELECT 7;\n",
            "rollback.cnf": "[mysqld]\nx = 1\n",
            "rollback.sql": "SET x = 1;\n",
        },
    )
    text = Reader(show(*made.tuned(), advice)).text
    checks = "flushlab settings --check my.cnf --server mariadb@10.11.19"
    for words in (checks, "settings.sql", "SELECT 5;", "SELECT 7;", "SET x = 1;"):
        assert words in text
    assert "this machine's (" in text and "roughly" in text


def test_the_page_shows_what_a_command_printed() -> None:
    row, trials = made.tuned()
    failed = msgspec.structs.replace(
        trials[0], outcome="failed", result=None, stage="screen", block=4, output="ERROR 1062 duplicate"
    )
    loud = [msgspec.structs.replace(one, output=f"loaded by {one.arm.name}") for one in trials]
    text = Reader(show(row, [failed, *loud])).text
    assert "ERROR 1062 duplicate" in text and "loaded by base" in text
    assert "base, screen 4: failed" in text


def test_a_base_that_failed_is_the_headline() -> None:
    reason = "exit code 3 from ./load.sh\nERROR 1146 (42S02)"
    failed = msgspec.structs.replace(trial(stage="calibrate"), outcome="failed", result=None, reason=reason)
    page = show(made.row("tune", None, state="failed"), [failed])
    assert "<h1>The base failed: exit code 3 from ./load.sh</h1>" in page


def test_a_tuning_gives_the_answer_and_what_to_do_before_all_else() -> None:
    text = text_of(tuned())
    answer = text.index("1.62× as fast as the base at floor second [1.55, 1.70]")
    assert answer < text.index("SET GLOBAL x = 1;") < text.index("How many times as fast as the base")
    assert "1.08× is without durability loss, the other 1.50× weakens durability." in text


def test_a_caveat_is_counted_once_for_each_trial_that_has_it() -> None:
    row, trials = made.tuned()
    twice = tuple(Warning("disturbed", f"{what} of the CPU time was taken") for what in ("18%", "30%"))
    trials = [msgspec.structs.replace(one, warnings=twice) for one in trials]
    assert f"disturbed, first of 40 20 of {len(trials)} trials" in text_of(show(row, trials))


@pytest.mark.parametrize(
    "words",
    [
        "A/A control the base once more: should be about 1",
        "5 of 50 s",  # the base stalls once a block
        "Fsyncs per transaction arm redo log binlog data base 0.111 0 0.0111",
        "before: your base after: the winner",
        "about 1 s of commits",
        "Recovery after SIGKILL under load, base: 1.2 s.",
        "short measurement, not steady state: commit-path settings only 20 of 20 trials",
        "mariadb@10.11.19 (10.11.19-MariaDB-0+deb12u1)",
        "iops=120: 8.33 ms a sync, 8.34 ms measured",
        "flushlab tune \\ --server mariadb@10.11.19 \\ --table-size 20000",
        "innodb_nonsense=1 refused unknown variable",
        "innodb_flush_method=O_DSYNC rejected p99 is 2.8 times the base's",
        "innodb_io_capacity=4000 dropped dropping it costs 0.4% ± 0.6% at floor second",
        "innodb_flush_log_at_trx_commit When",  # a setting with its effect
    ],
)
def test_a_tuning_tells(words: str) -> None:
    assert words in text_of(tuned())


@pytest.mark.parametrize(
    "words",
    [
        "What does each change buy for INSERT … ON DUPLICATE KEY UPDATE?",
        "2.40× as fast as the base [2.10, 2.70]",
        "It also changes the workload: key=primary.",
        "Claims: 1 confirmed, 1 refuted, 1 not measured.",
        "O_DSYNC helps F against the base at least 1 0.82× 0.78 – 0.87 refuted",
        "G the operating system crashes, the power fails about 1 s of commits",
        "refused unknown variable 'innodb_checksums=OFF'",
        "skipped $FLUSHLAB_ZFS is not set",
        "not in this version no innodb_thread_concurrency",
        "changes the service: unique_checks",
        "flushlab series \\ insert-on-duplicate \\ --server mariadb@10.11.19 \\ --seed 3",
    ],
)
def test_a_series_tells(words: str) -> None:
    assert words in text_of(serial())


def test_the_same_campaign_gives_the_same_bytes() -> None:
    assert show(*made.serial()) == serial()


def test_what_people_and_servers_wrote_is_escaped_and_changes_no_markup() -> None:
    def hostile(kind: str) -> str:
        arm = ArmResult(
            name=HOSTILE,
            text=HOSTILE,
            outcome="measured",
            changes={HOSTILE: HOSTILE},
            workload_changes={HOSTILE: HOSTILE},
            data_root=HOSTILE,
            fixed=(HOSTILE,),
            floor="strict",
            guarantees={"os_crash": HOSTILE},
            comparison=made.comparison(HOSTILE, made.ratio(1.5, 1.4, 1.6)),
        )
        plan = made.series_facts().plan
        assert plan is not None
        claim = msgspec.structs.replace(plan.claims[0], text=HOSTILE, source=HOSTILE)
        facts = made.series_facts(
            title=HOSTILE,
            workload=HOSTILE,
            base_settings={HOSTILE: HOSTILE},
            arms=(arm, ArmResult(name=HOSTILE, outcome="refused", reason=HOSTILE)),
            claims=(claim,),
            warnings=(Warning(HOSTILE, HOSTILE),),
        )
        own = [
            trial(
                result=100.0,
                arm=Arm(name=name, settings={HOSTILE: HOSTILE}),
                stage="arms",
                settings={HOSTILE: HOSTILE},
                warnings=(Warning("hostile", HOSTILE * 2),),
            )
            for name in ("base", HOSTILE)
        ]
        request = made.series_request(
            spec=SeriesSpec(plan=HOSTILE), build=HOSTILE, sources=(source(HOSTILE),)
        )
        return show(
            made.row(kind, facts, request, id=HOSTILE),
            own,
            Advice(recommended(arm=HOSTILE, not_shown=(HOSTILE,)), {"my.cnf": HOSTILE, HOSTILE: HOSTILE}),
        )

    html = hostile("series")
    read = Reader(html)
    assert not read.tags["script"] and not read.tags["img"]
    assert all(address.startswith("#") for address in read.addresses)
    assert len(read.ids) == len(set(read.ids))
    assert "<script>alert" in read.text


def test_a_running_campaign_shows_its_trials_and_claims_nothing() -> None:
    row = made.row("series", None)
    html = show(row, made.trials_of(made.SERIES_ARMS, "arms", blocks=1))
    text = text_of(html)
    assert "Nothing is proven yet" in text
    assert "its trials (6 of the stage arms) are shown below, but not compared" in text
    assert "flushlab series --resume series-20261121-104206-79a6" in text
    assert {"time", "files", "machine", "repeat"} <= set(Reader(html).sections)
    assert "ratios" not in Reader(html).sections


def test_a_campaign_without_a_trial_has_a_page() -> None:
    text = text_of(show(made.row("tune", None), []))
    assert "no trial has ended" in text
    assert "flushlab tune \\ --server mariadb@10.11.19" in text and "--workload" not in text


def test_an_interrupted_tuning_says_that_nothing_is_proven() -> None:
    facts = made.tune_facts(
        ending="interrupted",
        tuning=TuningFacts(),
        arms=(),
        control=None,
        blocks=0,
        warnings=(),
    )
    html = show(made.row("tune", facts, state="interrupted"), [])
    assert "You stopped it before any result could be confirmed" in text_of(html)
    assert "Warnings None." in text_of(html)


def test_settings_below_the_floor_are_shown_beside_the_base_that_raises_them() -> None:
    yours = ArmResult(name="yours", comparison=made.comparison("yours", made.ratio(1.9, 1.8, 2.0)))
    facts = made.tune_facts(raised={"sync_binlog": 1}, yours=yours)
    html = show(made.row("tune", facts), made.trials_of({"base": 9_000.0, "yours": 17_000.0}, "confirm"))
    for section in ("ratios", "time", "files"):
        assert "yours" in html.partition(f'<section id="{section}">')[2].partition("</section>")[0]


def test_a_frontier_says_where_the_part_without_durability_loss_is_unknown() -> None:
    point = FrontierPoint(
        floor=Floor.SECOND, arm="x", settings={"x": 1}, ratio=made.ratio(1.2, 1.1, 1.3), free_ratio=None
    )
    html = show(made.row("tune", made.tune_facts(frontier=(point,), winner=point)), [])
    assert "the part without durability loss could not be measured" in text_of(html)


def test_a_tuning_for_latency_compares_latency() -> None:
    facts = made.tune_facts(base_p99_us=170_600.0, objective="p99")
    load = WorkloadSpec(options={"rate": 2000.0})
    spec = msgspec.structs.replace(made.TUNE_SPEC, objective="p99", workload=load)
    plan = made.tune_request(spec=spec)
    text = text_of(show(made.row("tune", facts, plan), []))
    assert "1.62× lower p99 latency than the base at floor" in text
    assert "base's p99 170.6 ms" in text
    assert "--rate 2000" in text and "--objective p99" in text


def test_a_workload_without_seconds_shows_every_trial() -> None:
    own = [
        trial(result=result, unit="s", higher_is_better=False, load=None, stage="arms", block=block)
        for block, result in enumerate((12.5, 11.0, 13.0), 1)
    ]
    facts = made.series_facts(unit="s", higher_is_better=False)
    text = text_of(show(made.row("series", facts), own))
    assert "Each trial yields one result in s; less is better." in text
    assert "base 11.00 12.50 13.00 3" in text


@pytest.mark.parametrize("facts", [b'{"campaign_id": "x"}', b"{", b"[]"])
def test_facts_of_another_version_are_a_storage_error(facts: bytes) -> None:
    with pytest.raises(StorageError, match="another build of flushlab"):
        show(made.row("tune", None, result=facts), [])


def test_a_kind_from_the_future_is_a_storage_error() -> None:
    with pytest.raises(StorageError, match="has kind 'crash'"):
        show(made.row("crash", made.tune_facts()), [])


def test_a_page_stays_small_whatever_was_measured() -> None:
    arms = [
        ArmResult(
            name=f"arm {n} with a name that is rather long {'x' * 300}",
            text="why " * 400,
            outcome="measured" if n % 2 else "refused",
            reason="the last line of a long log " * 400,
            comparison=made.comparison(f"arm {n}", made.ratio(1 + n / 100, 0.9, 9.0)) if n % 2 else None,
        )
        for n in range(600)
    ]
    own: list[Trial] = [
        *made.trials_of({"base": 9_000.0}, "arms", blocks=2_000, seconds=60),
        *made.trials_of({arm.name: 9_000.0 for arm in arms[:20]}, "arms", blocks=50, seconds=60),
    ]
    facts = made.series_facts(
        arms=tuple(arms), warnings=tuple(Warning(f"w{n}", "x" * 5000) for n in range(300))
    )
    plan = made.series_request(sources=(source("# a long plan\n" * 200_000),))
    html = show(made.row("series", facts, plan), own)
    assert 200_000 < len(html.encode()) < 1_500_000
    text = text_of(html)
    assert "261 more are in the table only." in text
    assert "and 151 more" in text
    assert "more characters" in text


def source(text: str | None, kind: SourceKind = "plan") -> SourceText:
    return SourceText(kind=kind, name=f"{kind}.toml", size_bytes=4 << 20, sha256="5e1f", text=text)


def test_the_texts_that_ran_are_on_the_page() -> None:
    texts = [
        source("title = 'insert or update'"),
        source("[transaction.pay]", "transactions"),
        source("CREATE TABLE account (id INT)", "setup"),
        source(None, "script"),
    ]
    text = text_of(show(made.row("series", None, made.series_request(sources=tuple(texts))), []))
    for shown in (
        *("The plan: plan.toml", "title = 'insert or update'"),
        *("The transactions: transactions.toml", "[transaction.pay]"),
        *("The setup: setup.toml", "CREATE TABLE account (id INT)"),
        "script.toml is not shown: it has 4 MiB or is no text. SHA-256: 5e1f",
    ):
        assert shown in text
    assert "The plan as stored" not in text


def test_an_option_file_is_on_the_page_and_is_not_to_be_saved_where_the_command_has_its_settings() -> None:
    file = source("[mysqld] sync_binlog = 9", "option file")
    of_tune = text_of(show(made.row("tune", None, made.tune_request(sources=(file,))), []))
    compared = text_of(show(made.row("series", None, made.series_request(sources=(file,))), []))
    for text in (of_tune, compared):
        assert "The option file: option file.toml [mysqld] sync_binlog = 9" in text
    assert "save each text" in compared and "The command sets what" not in compared
    assert (
        "save each text" not in of_tune and "The command sets what flushlab took from the option" in of_tune
    )


def test_a_password_in_a_command_is_not_on_the_page() -> None:
    plan = made.tune_request(workload=WorkloadSpec(name="command: mysql -uroot -pgeheim shop < load.sql"))
    html = show(made.row("tune", None, plan), [])
    assert "geheim" not in html
    text = text_of(html)
    assert "mysql -uroot -p*** shop" in text
    assert "*** stands for a password" in text


# -- a comparison on servers kept running ----------------------------------------------------------------


def compared(switch_s: float = 0.0) -> str:
    """The page of a comparison on servers kept running: ten rounds, the third of which does not count."""

    def slices_of(events: int) -> tuple[Slice, ...]:
        return tuple(
            Slice(
                round=n,
                start_s=7.0 + n,
                seconds=0.5,
                events=events + n,
                foreign_share=0.25,
                dropped=n == 2,
                switch_s=switch_s,
            )
            for n in range(10)
        )

    row, trials = made.serial()
    facts = changed(FACTS, campaign_id=row.id, interleaved=True, rounds=9, slice_s=(0.5, 0.5))
    arms = {"base": 4_000, TWO: 7_000}
    trials = [
        msgspec.structs.replace(one, arm=Arm(name=name, settings={}), slices=slices_of(events))
        for (name, events), one in zip(arms.items(), trials, strict=False)
    ]
    return show(made.row("compare", facts), trials)


def test_every_slice_is_drawn_and_those_that_do_not_count_are_reported() -> None:
    text = text_of(compared())
    assert "Every slice over time" in text
    assert "A cross is a slice whose round does not count" in text
    assert "base 8,000 8,010 8,018 9 0.5 s 1 25%" in text
    assert f"{TWO} 14,000 14,010 14,018 9 0.5 s 1 25%" in text
    assert "All servers kept running, and the load ran on one at a time" in text


def test_the_hardware_of_the_client_is_not_shown_as_that_of_somebodys_own_server() -> None:
    client = Machine(cpu_model="a cpu", cpu_count=2, memory_bytes=24 << 30, kernel="6.1", is_client=True)
    row, trials = made.serial()
    remote = msgspec.json.encode(made.series_facts(machine=client))
    section = text_of(show(msgspec.structs.replace(row, result=remote), trials))
    section = section[section.index("Machine and versions") :]
    assert "flushlab ran on the machine below; the server's host cannot be seen" in section
    assert "file system" not in section and "write cache" not in section


def test_slices_on_one_server_are_not_said_to_be_of_servers_side_by_side() -> None:
    text = text_of(compared(switch_s=0.01))
    assert "Arms alternated on one server, which SET GLOBAL switched to their settings." in text
    assert "All servers kept running" not in text


def test_a_series_in_mixed_ways_says_which_arm_was_measured_how() -> None:
    part = Slice(round=0, start_s=7.0, seconds=2.0, events=1000, foreign_share=0.0)
    why = "innodb_log_file_size shows its effect later, in background work"
    facts = made.series_facts(interleaved=True)
    arms = tuple(msgspec.structs.replace(arm, why_fresh=why if arm.name == "G" else "") for arm in facts.arms)
    facts = msgspec.structs.replace(facts, arms=arms)
    trials = made.trials_of({"base": 9_000.0, "B": 9_000.0}, "arms", blocks=1)
    trials = [msgspec.structs.replace(one, slices=(part,)) for one in trials]
    trials += made.trials_of({"G": 9_000.0}, "arms", blocks=1)
    text = text_of(show(made.row("series", facts), trials))
    assert f"G: on a fresh server for each window, as {why}." in text
    assert "G: a fresh server for each window, so no slices." in text
    assert "B 500 500 500 1 2.0 s 0 0%" in text


def test_the_page_of_a_comparison_begins_with_its_own_answer() -> None:
    html = compared()
    assert f"{TWO} is 1.62× as fast as base" in text_of(html)
    assert Reader(html).sections[:2] == ["ratios", "time"]


def test_the_page_of_a_fleet_shows_every_ratio_on_every_machine() -> None:
    facts = fleet(ON_FOUR, 4)
    seen = Reader(show(made.row("compare", facts), made.serial()[1]))
    assert seen.sections[:2] == ["ratios", "machines"]
    for words in ("db1", "db4", "1.48×", "1.40 – 1.56", "97%", "depends on the machine", "9,200"):
        assert words in seen.text
    assert "on the slowest machine (db3) 1.48" in seen.text
    assert "fleet db1, db2, db3, db4; the command ran on the machine below" in seen.text


def test_the_page_says_from_where_the_load_came() -> None:
    trip = Latency(mean=60.0, p50=60, p95=100, p99=140, p999=150, max=200)
    client = LoadClient(machine="load1", connections=16, round_trip_us=trip, busy=0.1)
    facts = msgspec.structs.replace(fleet(ON_FOUR, 4), clients=(client,))
    seen = Reader(show(made.row("compare", facts), made.serial()[1]))
    assert "from load1 over the network; round trip 0.060 ms (p99 0.14 ms)" in seen.text


def test_the_page_of_a_cluster_tells_what_its_nodes_did() -> None:
    nodes = (
        NodeActivity(node=1, commits=7589, received=118, paused_share=0.038, deps_distance=57.4),
        NodeActivity(node=2, received=7706, paused_share=0.05, pauses_asked=18, recv_queue_avg=5.28),
    )
    stored, trials = made.serial()
    facts = facts_of(stored)
    on_cluster = [msgspec.structs.replace(one, nodes=nodes) for one in trials]
    text = text_of(html.render(campaign.document(facts, stored, on_cluster)))
    assert "Nodes of the cluster" in text and "3.8%" in text and "5.28" in text
    assert "Nodes of the cluster" not in text_of(html.render(campaign.document(facts, stored, trials)))


def test_the_page_of_a_factorial_tells_what_the_factors_do_and_what_was_counted() -> None:
    def shown(facts: CampaignFacts) -> str:
        return text_of(html.render(campaign.document(facts, made.row("series", facts))))

    text = shown(FACTORIAL)
    for words in (
        "Effects of the factors",
        "more together",
        "redo syncs per commit: flush 2 against the base",
        "0.0132 against 0.628",
    ):
        assert words in text
    assert "Not known: binlog was not measured." in shown(UNCROSSED)


def test_the_key_of_the_floor_has_its_condition_and_a_raised_base_is_called_so() -> None:
    said = "second, if the disk honors flushes"
    free, fast, slow = made.tune_facts().arms
    fast = msgspec.structs.replace(fast, guarantees={**made.SAFE, "floor": said})
    text = text_of(show(made.row("tune", made.tune_facts(arms=(free, fast, slow))), []))
    assert f"floor {said} base 12,346 transactions/s" in text
    yours = ArmResult(name="yours", guarantees=made.SAFE)
    raised = made.tune_facts(raised={"sync_binlog": 1}, arms=(free, fast, slow), yours=yours)
    assert f"floor {said} raised 12,346 transactions/s" in text_of(show(made.row("tune", raised), []))
    honest = "strict, if the disk honors flushes"
    series = made.series_facts(floor="", base_guarantees={**made.SAFE, "floor": honest})
    assert f"floor {honest} base" in text_of(show(made.row("series", series), []))


def test_blocks_in_which_nothing_was_proven_are_called_measured() -> None:
    facts = made.tune_facts()
    assert "proven in 5 blocks" in text_of(show(made.row("tune", facts), []))
    nothing = text_of(show(made.row("tune", made.tune_facts(winner=None)), []))
    assert "measured in 5 blocks" in nothing and "proven in" not in nothing
    series = made.series_facts()
    assert "proven in 5 blocks" in text_of(show(made.row("series", series), []))
    slower = made.series_facts(arms=tuple(arm for arm in series.arms if not arm.is_faster))
    assert "measured in 5 blocks" in text_of(show(made.row("series", slower), []))
