from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.campaign.data import open_data
from flushlab.campaign.pool.sandboxes import SandboxPool
from flushlab.campaign.pool.settings import (
    OwnServerSettings,
    brought_along,
    restarts,
    why_not,
)
from flushlab.campaign.watcher import Watcher
from flushlab.datadir import DataRoot, Volume
from flushlab.errors import BelowFloor
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.server.remote.server import RemoteGroup
from flushlab.settings.candidates import Candidate, propose
from flushlab.settings.floor import Floor
from flushlab.spec.parts import DataSpec
from tests.fakes.server import FakeServer
from tests.unit.builds import MYSQL80
from tests.unit.campaign.test_binding import plan

UNSEEN = Storage(visible=False)
MARIADB = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB")
HAS: Mapping[str, Value] = {
    "innodb_flush_log_at_trx_commit": 1,
    "innodb_doublewrite": "ON",
    "innodb_flush_method": "O_DIRECT",
    "log_bin": "ON",
    "sync_binlog": 1,
}


def own(*nodes: Mapping[str, Value]) -> OwnServerSettings:
    """Of a server of somebody's own that has these, or of a cluster of such nodes."""
    servers: list[Any] = []
    for name, values in zip("ab", nodes, strict=False):
        servers.append(FakeServer(identity=MARIADB, values=values))
        servers[-1].address = SimpleNamespace(name=name)
    return OwnServerSettings(
        identity=MARIADB, key="", storage=UNSEEN, folder=Path(), server=RemoteGroup(servers)
    )


def candidate(*, later: bool = False, **settings: Value) -> Candidate:
    return Candidate(settings=settings, group="commit", why="", needs_steady_state=later)


def test_what_takes_a_restart_is_out_unless_the_server_has_it_already() -> None:
    assert restarts({"innodb_doublewrite": "OFF", "sync_binlog": 0}, HAS, MARIADB) == ["innodb_doublewrite"]
    assert restarts({"innodb_doublewrite": 1, "log_bin": "ON"}, HAS, MARIADB) == []
    assert why_not({"innodb_log_buffer_size": 1 << 26}, HAS, MARIADB).startswith(
        "innodb_log_buffer_size needs a restart"
    )


def test_a_setting_that_nobody_knows_is_not_tried() -> None:
    assert restarts({"max_connect_errors": 7}, {"max_connect_errors": 100}, MARIADB) == ["max_connect_errors"]


def test_a_base_is_measured_without_what_takes_a_restart_and_that_is_said() -> None:
    base = {"log_bin": "ON", "innodb_doublewrite": "OFF", "sync_binlog": 0}
    found, notes = own(HAS).reduced(plan(base=base, alternate=True), HAS)
    assert (found.base, found.alternate) == ({"sync_binlog": 0}, False)
    (note,) = notes
    assert note.slug == "base-left-out"
    assert "without innodb_doublewrite=OFF, which needs a restart" in note.text
    assert note.text.endswith("it is ON there")


def test_candidates_are_left_out_for_one_reason_each() -> None:
    every = (
        candidate(innodb_flush_log_at_trx_commit=2),
        candidate(innodb_flush_method="fsync"),
        candidate(innodb_io_capacity=4000, later=True),
        candidate(wsrep_slave_threads=4),
    )
    settings = own({**HAS, "wsrep_slave_threads": 2}, {**HAS, "wsrep_slave_threads": 1})
    kept, notes = settings.candidates(lambda **_: every, HAS, HAS, (), None)
    assert [dict(one.settings) for one in kept] == [{"innodb_flush_log_at_trx_commit": 2}]
    reasons = [note.text.removeprefix("not tried: ") for note in notes]
    assert reasons[0].startswith("innodb_flush_method=fsync: it needs a restart")
    assert reasons[1].startswith("innodb_io_capacity=4000: its effect shows later, in background work")
    assert reasons[2].endswith("wsrep_slave_threads is 1 on b and 2 on a")


def test_what_shows_later_is_named_although_short_windows_try_nothing_of_it() -> None:
    short = partial(propose, MARIADB, floor=Floor.SECOND, storage=UNSEEN, launch=Launch(), steady_state=False)
    kept, notes = own(HAS).candidates(short, HAS, {}, (), None)
    assert {"innodb_flush_log_at_trx_commit": 2} in [dict(each.settings) for each in kept]
    assert any("innodb_io_capacity=" in note.text and "shows later" in note.text for note in notes)


def test_a_server_is_lifted_to_its_floor_only_by_what_it_takes_while_it_runs() -> None:
    weak = {**HAS, "innodb_flush_log_at_trx_commit": 0}
    changes, reasons = own(weak).raise_to_floor(weak, Floor.STRICT, (), Launch())
    assert changes == {"innodb_flush_log_at_trx_commit": 1}
    assert reasons[0].startswith("innodb_flush_log_at_trx_commit = 1 ")
    torn = {**HAS, "innodb_doublewrite": "OFF"}
    with pytest.raises(BelowFloor, match=r"below the floor strict: innodb_doublewrite = ON .* restart"):
        own(torn).raise_to_floor(torn, Floor.STRICT, (), Launch())


def test_settings_below_a_floor_run_on_a_server_only_if_it_has_them() -> None:
    has = own({"innodb_flush_log_at_trx_commit": 2, "innodb_doublewrite": "ON"})
    assert has.may_be_below({})
    assert has.may_be_below({"innodb_flush_log_at_trx_commit": 2, "innodb_doublewrite": 1})
    assert not has.may_be_below({"innodb_flush_log_at_trx_commit": 0})
    assert not has.may_be_below({"sync_binlog": 1})


PERSISTED = """{"Version": 2, "mysql_dynamic_variables": {
 "sync_binlog": {"Value": "0"}, "innodb_flush_log_at_trx_commit": {"Value": "2"},
 "report_host": {"Value": "db7.example.org"}, "mandatory_roles": {"Value": "boss"}}}"""


def test_what_was_persisted_is_part_of_the_base_where_it_may_enter_and_is_told(
    tmp_path: Path, private_home: Path
) -> None:
    (tmp_path / "ibdata1").write_bytes(b"")
    (tmp_path / "mysqld-auto.cnf").write_text(PERSISTED)
    said: list[str] = []
    identity = SandboxPool(MYSQL80, Volume(DataRoot.open(), None)).identity
    found = brought_along(open_data(DataSpec(dataset=str(tmp_path)), ()), identity, Watcher(said.append))
    assert found == {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 2}
    taken, left = said
    assert "added to the base: sync_binlog=0, innodb_flush_log_at_trx_commit=2" in taken
    assert "left out: " in left and "report_host" in left and "mandatory_roles" in left
    assert "example.org" not in left


def test_without_a_data_set_nothing_was_persisted(tmp_path: Path, private_home: Path) -> None:
    identity = SandboxPool(MYSQL80, Volume(DataRoot.open(), None)).identity
    assert brought_along(None, identity, Watcher()) == {}
