"""`--out` of `compare` and `series` writes the files that the steps name, for each server, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab.advice.handed_over import advised
from flushlab.campaign.facts import CampaignFacts
from flushlab.cli.campaign import FOUND, hand_over
from flushlab.cli.compare import compare
from flushlab.cli.output import Forms
from flushlab.errors import NotWritable
from flushlab.record import Launch, ServerIdentity, SourceText, Storage, Value
from flushlab.report import campaign
from flushlab.store import Store
from tests.golden.test_fleet_report import ON_FOUR, fleet
from tests.golden.test_reports import RAISED, text_of
from tests.unit.campaign.test_recommended import FLUSH, TWO_SERVERS, arm, compared
from tests.unit.report import campaigns as made

MYSQL97 = ServerIdentity(flavor="mysql", version=(9, 7, 4), version_text="9.7.4")
ONE = compared(arm("A", 1.5, 1.4, 1.6, changes=FLUSH))
NONE = compared(arm("A", 1.0, 0.9, 1.1, changes=FLUSH))
BOTH = msgspec.structs.replace(
    TWO_SERVERS, arms=(arm("mysql@8.0 two", 1.2, 1.1, 1.3, changes=FLUSH), *TWO_SERVERS.arms[1:])
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLUSHLAB_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("home").mkdir()
    return tmp_path


def run(facts: CampaignFacts, **how: Any) -> None:
    """What follows a campaign that found this."""
    with Store(Path("home") / "store.sqlite") as store:
        known = {row.id for row in store.campaigns()}
        facts = msgspec.structs.replace(facts, campaign_id=f"compare-{len(known) + 1}")
        row = made.row("compare", facts)
        store.create_campaign(facts.campaign_id, "compare", row.plan)
        store.set_state(facts.campaign_id, "done", row.result)
    hand_over(facts, Forms(how.pop("json", None)), **{"out": Path("out")} | how)


def written() -> set[str]:
    return {
        str(one.relative_to("out")) for one in Path("out").rglob("*") if one.name[0] != "." and one.is_file()
    }


def test_the_files_that_the_steps_name_are_written(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(ONE)
    assert written() == {"compare.json", "report.html", *FOUND}
    assert "innodb_flush_log_at_trx_commit = 2" in Path("out/my.cnf").read_text()
    assert "1.50x as fast as base [1.40, 1.60], 5 blocks" in Path("out/settings.sql").read_text()
    assert "SET GLOBAL innodb_flush_log_at_trx_commit = " in Path("out/rollback.sql").read_text()
    told = capsys.readouterr().out
    assert "What to do on your server, with the files in out/" in told
    assert told.index("mysql --table < verify.sql") < told.index("wrote out/report.html")
    assert {f"wrote out/{name}" for name in FOUND} <= {*told.splitlines()}
    assert "flushlab report" not in told


def test_each_of_several_servers_has_a_folder(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(BOTH)
    folders = ("mysql@8.0.15", "mariadb@10.11.19")
    assert written() == {
        "compare.json",
        "report.html",
        *(f"{one}/{name}" for one in folders for name in FOUND),
    }
    assert "SET PERSIST" in Path("out/mysql@8.0.15/settings.sql").read_text()
    assert "SET GLOBAL" in Path("out/mariadb@10.11.19/settings.sql").read_text()
    told = capsys.readouterr().out
    for one in folders:
        assert f"What to do on {one}, with the files in out/{one}/" in told
        assert f"flushlab settings --check my.cnf --server {one} " in told


def test_two_servers_of_one_version_have_two_folders(home: Path) -> None:
    servers = [msgspec.structs.replace(one, server=BOTH.server) if one.server else one for one in BOTH.arms]
    run(msgspec.structs.replace(BOTH, arms=tuple(servers)))
    assert {"mysql@8.0.15/my.cnf", "mysql@8.0.15-2/my.cnf"} <= written()


def test_nothing_is_handed_over_where_nothing_is_recommended(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(ONE)
    run(NONE)
    assert written() == {"compare.json", "report.html"}, "those of the campaign before are not of this one"
    assert "What to do" not in capsys.readouterr().out.split("wrote out/rollback.sql")[1]


def test_a_file_of_the_users_is_neither_overwritten_nor_removed(home: Path) -> None:
    Path("out").mkdir()
    Path("out/my.cnf").write_text("mine")
    with pytest.raises(NotWritable, match="is not as flushlab wrote it"):
        run(ONE)
    run(NONE)
    assert Path("out/my.cnf").read_text() == "mine"


def test_a_setting_that_the_catalog_cannot_spell_is_measured_and_said_to_have_no_files(home: Path) -> None:
    run(compared(arm("A", 1.5, 1.4, 1.6, changes={"max_connections": 99})))
    assert written() == {"compare.json", "report.html"}
    found = msgspec.json.decode(Path("out/compare.json").read_bytes())
    assert any("max_connections" in line for line in found["recommended"][0]["not_shown"])


def test_a_tuning_of_settings_below_the_floor_hands_over_the_way_there_and_back(home: Path) -> None:
    own: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2}
    request = made.tune_request(base=RAISED.base.settings, original=own, yours=own)
    (ran,) = made.trials_of({"base": 1.0}, "confirm", blocks=1)
    ran = msgspec.structs.replace(ran, storage=Storage(filesystem="ext4"), launch=Launch())
    (one,) = advised(RAISED, request, [ran])
    assert (
        "# Raises your settings to the floor strict.\ninnodb_flush_log_at_trx_commit = 1"
        in one.files["my.cnf"]
    )
    assert "SET GLOBAL innodb_flush_log_at_trx_commit = 1;" in one.files["settings.sql"]
    assert "SET GLOBAL innodb_flush_log_at_trx_commit = 2;" in one.files["rollback.sql"]


@pytest.mark.parametrize("is_seen", [True, False])
def test_the_way_back_says_what_an_option_file_had_only_where_flushlab_has_read_one(is_seen: bool) -> None:
    file = SourceText(name="my.cnf", kind="option file", sha256="", size_bytes=9, text="[mysqld]\n")
    request = made.tune_request(original={}, sources=(file,) if is_seen else ())
    trials = made.tuned()[1]
    had: dict[str, Value] = {**made.BASE, "innodb_log_buffer_size": 16 << 20}
    trials = [msgspec.structs.replace(one, settings=had) for one in trials]
    (one,) = advised(made.tune_facts(), request, trials)
    assert ("was not in your option file" in one.files["rollback.cnf"]) is is_seen
    assert ("What your option file had, flushlab has not seen" in one.files["rollback.cnf"]) is not is_seen
    assert ("innodb_flush_log_at_trx_commit = 1\n" in one.files["rollback.cnf"]) is not is_seen


def test_without_a_folder_the_steps_say_where_the_files_are() -> None:
    told = text_of(campaign.document(ONE))
    assert "What to do on your server\n" in told
    assert f"HTML page, with these files: flushlab report {ONE.campaign_id}" in told
    assert "wrote" not in told


@pytest.mark.parametrize("asked", [True, False])
def test_a_comparison_shows_each_machine_if_it_is_asked_to(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, asked: bool
) -> None:
    facts = fleet(ON_FOUR, 4)
    with Store(Path("home") / "store.sqlite") as store:
        store.create_campaign(facts.campaign_id, "compare", made.row("compare", facts).plan)
    monkeypatch.setattr("flushlab.campaign.compare.compare", lambda **_: facts)
    compare({}, per_machine=asked)
    told = capsys.readouterr().out
    assert ("On each machine" in told) is asked
    assert "again: flushlab" in told
