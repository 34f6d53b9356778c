"""Servers that a command names: on this machine, or on a fleet."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from flushlab.build import choice
from flushlab.campaign import target
from flushlab.campaign.data import Data
from flushlab.campaign.target import FLEET, NewServers, target_of
from flushlab.dataset import open_dataset
from flushlab.errors import UsageError
from flushlab.record.trial import DataFacts
from flushlab.spec.kinds import CompareSpec, SeriesSpec, TuneSpec
from flushlab.spec.parts import RunSpec, ServerSpec, ServersSpec, StorageSpec
from tests.unit.builds import MARIADB

HERE = NewServers(ServerSpec(), StorageSpec())
THERE = NewServers(ServerSpec(), StorageSpec(), "10.0.0.5:9377")
EARLIER = SeriesSpec(plan="mine")
BEGAN = "the campaign began on this machine alone, and its blocks cannot go on elsewhere"


def test_a_campaign_of_a_fleet_goes_on_there() -> None:
    assert HERE.resuming(EARLIER, "10.0.0.5:9377").fleet == "10.0.0.5:9377"


def test_a_fleet_may_have_another_address_when_its_campaign_goes_on() -> None:
    assert THERE.resuming(EARLIER, "10.0.0.9:9377").fleet == "10.0.0.5:9377"


def test_a_campaign_that_began_on_one_machine_does_not_go_on_elsewhere() -> None:
    assert HERE.resuming(EARLIER).fleet == ""
    with pytest.raises(UsageError, match="began on this machine alone"):
        THERE.resuming(EARLIER)


def test_a_campaign_that_began_on_one_machine_goes_on_there_whatever_fleet_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(FLEET, "10.0.0.5:9377")
    named = target_of(SeriesSpec(run=RunSpec(resume="1")))
    assert named.fleet == "10.0.0.5:9377"
    goes_on = named.resuming(EARLIER)
    assert goes_on.fleet == ""
    assert goes_on == NewServers(EARLIER.server, EARLIER.storage, alone=BEGAN)


@pytest.mark.parametrize(
    "spec",
    [
        CompareSpec(precision=0.02),
        SeriesSpec(precision=0.02),
        *(kind(run=RunSpec(wait_for_quiet=True)) for kind in (TuneSpec, CompareSpec, SeriesSpec)),
    ],
)
def test_what_a_fleet_cannot_do_runs_here_if_only_the_environment_names_one_and_says_so(
    monkeypatch: pytest.MonkeyPatch, spec: TuneSpec | CompareSpec | SeriesSpec
) -> None:
    monkeypatch.setenv(FLEET, "10.0.0.5:9377")
    monkeypatch.setattr(target, "open_servers", lambda *_: nullcontext())
    monkeypatch.setattr(target, "find_build", lambda *_, **__: MARIADB)
    found, said = target_of(spec), list[str]()
    assert found.fleet == ""
    with found.open(said.append), found.open(said.append, dry_run=True):
        assert said[0] == said[1], "a dry run says it too"
    flag = "--wait-for-quiet" if spec.run.wait_for_quiet else "--precision"
    assert len(said) == 2
    assert said[0].startswith(f"runs on this machine, not on the fleet of {FLEET}: {flag}")


def test_without_a_fleet_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FLEET, raising=False)
    monkeypatch.setattr(target, "open_servers", lambda *_: nullcontext())
    said = list[str]()
    with target_of(CompareSpec(precision=0.02)).open(said.append):
        assert said == []


def test_an_early_end_by_precision_is_refused_on_a_fleet() -> None:
    run = RunSpec(fleet="10.0.0.5:9377")
    for spec in (CompareSpec(run=run, precision=0.02), SeriesSpec(run=run, precision=0.02)):
        with pytest.raises(UsageError, match="--precision"):
            target_of(spec)
        assert target_of(type(spec)(run=run)).on_fleet


DUMP = """-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
--
-- Host: localhost    Database: shop
-- ------------------------------------------------------
-- Server version\t8.0.36
CREATE TABLE `item` (`id` int NOT NULL);
-- Dump completed on 2024-01-01
"""


@pytest.fixture
def dump(tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Data:
    monkeypatch.setattr(choice, "list_builds", list)
    (tmp_path / "shop.sql").write_text(DUMP)
    facts = DataFacts(path=str(tmp_path / "shop.sql"), kind="SQL dump", size_bytes=len(DUMP))
    return Data(dataset=open_dataset(tmp_path / "shop.sql"), database="shop", facts=facts)


def test_the_data_choose_the_server_where_none_is_named_and_it_is_told(dump: Data) -> None:
    said = list[str]()
    found = HERE.fitting(dump, [None], said.append)
    assert found.server == ServerSpec(server="mysql@8.0")
    assert said == [
        "server: mysql@8.0, because shop.sql comes from MySQL 8.0.36; --server NAME chooses another"
    ]


def test_the_option_file_chooses_too_and_for_several_servers(tmp_path: Path, dump: Data) -> None:
    (tmp_path / "my.cnf").write_text("[mysqld]\nquery_cache_type = 1\nlog_bin_use_v1_row_events = 1\n")
    target = NewServers(ServersSpec(), StorageSpec()).fitting(None, [tmp_path / "my.cnf"], lambda _: None)
    assert target.server == ServersSpec(servers=("mysql@5.7",))


def test_files_that_say_nothing_leave_the_default_which_is_told(tmp_path: Path, dump: Data) -> None:
    (tmp_path / "my.cnf").write_text("[mysqld]\nsync_binlog = 1\n")
    said = list[str]()
    assert HERE.fitting(None, [tmp_path / "my.cnf"], said.append).server.build == "mariadb"
    assert said == ["server: mariadb, the default; --server NAME chooses another"]
    HERE.fitting(None, [None], said.append)
    assert len(said) == 1


def test_a_cluster_is_of_mariadb_whatever_the_data_say(dump: Data) -> None:
    found = NewServers(ServerSpec(cluster=3), StorageSpec()).fitting(dump, [], lambda _: None)
    assert found.server.build.startswith("mariadb")


def test_a_named_server_stays_and_what_speaks_against_it_is_told_and_kept(
    dump: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "find_build", lambda *_, **__: MARIADB)
    named, said = NewServers(ServerSpec(server="mariadb"), StorageSpec()), list[str]()
    found = named.fitting(dump, [None], said.append)
    assert (found.server, said) == (named.server, [])
    caveat = "shop.sql comes from MySQL 8.0.36, but the server is mariadb@10.11.19"
    with found.open(said.append, dry_run=True) as pool:
        assert [one.text for one in pool.settings.warnings()] == [caveat]
    assert said == [f"warning: {caveat}"]
