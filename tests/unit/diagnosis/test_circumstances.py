"""Facts of a server that limit its diagnosis, said with it."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.diagnosis.diagnose import circumstances, diagnose, service_of
from tests.unit.diagnosis.hosts import host
from tests.unit.diagnosis.watched import evidence


@pytest.mark.parametrize(
    ("variables", "version", "service"),
    [
        ({"aurora_version": "3.05.2", "rds_x": "1"}, "8.0.32", "Amazon Aurora"),
        ({"basedir": "/rdsdbbin/mysql-8.0.35.R2/"}, "8.0.35", "Amazon RDS"),
        ({"azure_server_name": "x"}, "8.0.35-azure", "Azure Database for MySQL"),
        ({}, "8.0.31-google", "Google Cloud SQL"),
        ({"basedir": "/usr/"}, "8.0.36", ""),
    ],
)
def test_a_service_is_known_by_its_variables(variables: dict[str, str], version: str, service: str) -> None:
    assert service_of(variables, version) == service


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("group_replication_group_name", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", ["Group Replication"]),
        ("group_replication_group_name", "", []),
        ("thread_handling", "pool-of-threads", ["thread pool"]),
        ("thread_handling", "one-thread-per-connection", []),
    ],
)
def test_what_no_state_tells_is_said(name: str, value: str, says: list[str]) -> None:
    said = [*circumstances(evidence(variables={name: value}))]
    assert len(said) == len(says) and all(one in text for one, text in zip(says, said, strict=True))


def test_a_service_has_another_way_to_change_settings() -> None:
    found = diagnose(evidence(variables={"aurora_version": "3.05.2"})).doubts
    assert any("change them in its parameter group" in text for text in found)
    assert any("storage of its own" in text for text in found)


@pytest.mark.parametrize("name", ["read_only", "super_read_only"])
def test_a_read_only_server_is_said_to_be_one(name: str) -> None:
    assert "the server is read-only" in next(circumstances(evidence(variables={name: "ON"})))


def test_counters_that_were_set_back_are_a_doubt() -> None:
    begin = {"uptime": 100, "uptime_since_flush_status": 100}
    assert not list(circumstances(evidence({"uptime": 110, "uptime_since_flush_status": 110}, begin)))
    (doubt,) = circumstances(evidence({"uptime": 110, "uptime_since_flush_status": 4}, begin))
    assert "FLUSH STATUS" in doubt
    assert not list(circumstances(evidence({"uptime": 110}, {"uptime": 100})))


@pytest.mark.parametrize(("uptime", "moved"), [(-3490, "-3,600"), (3710, "+3,600"), (111, ""), (104, "")])
def test_a_clock_that_jumps_is_told_from_a_restart(uptime: int, moved: str) -> None:
    seen = evidence({"uptime": uptime, "questions": 900}, {"uptime": 100, "questions": 500})
    told = list(circumstances(seen))
    assert [f"clock moved by {moved} s" in text for text in told] == ([True] if moved else [])


def test_a_mount_without_barriers_is_a_doubt() -> None:
    (place,) = host().places
    assert "nobarrier" in place.options
    assert "mounted without barriers" in next(circumstances(evidence(host=host())))
    for harmless in ({"options": ("rw",)}, {"volatile_cache": False}):
        told = host(places=(msgspec.structs.replace(place, **harmless),))
        assert not list(circumstances(evidence(host=told)))


def test_an_ordinary_server_has_no_doubt_of_this_kind() -> None:
    assert not list(circumstances(evidence({"uptime": 10})))
    assert "a proxy seems to be between" in next(circumstances(evidence(between="numbers differ")))
