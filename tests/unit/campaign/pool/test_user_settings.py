from __future__ import annotations

from pathlib import Path

from flushlab.campaign.data import open_data
from flushlab.campaign.pool.sandboxes import SandboxPool
from flushlab.campaign.pool.settings import brought_along
from flushlab.campaign.watcher import Watcher
from flushlab.datadir import DataRoot, Volume
from flushlab.spec.parts import DataSpec
from tests.unit.builds import MYSQL80

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
