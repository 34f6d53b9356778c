from __future__ import annotations

from pathlib import Path

from flushlab.advice.option_file import option_file
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.settings.check import check
from flushlab.settings.durability import guarantees, verdict
from tests.unit.settings.servers import MARIADB1011, MYSQL80

GOLDEN = Path(__file__).parent / "golden"
DISK = Storage(filesystem="ext4")


def advise(
    settings: dict[str, Value], base: dict[str, Value], identity: ServerIdentity, *, no_replicas: bool = False
) -> str:
    return option_file(
        settings,
        base,
        identity,
        guarantees({**base, **settings}, identity, DISK, Launch()),
        verdict({**base, **settings}, identity, DISK, Launch()),
        reasons={"innodb_log_buffer_size": "Dropping it costs 12 % (95 % interval 9 to 15 %)."},
        comments=("flushlab tune, 12 blocks.",),
        no_replicas=no_replicas,
    )


def test_a_faster_mysql_with_replicas_says_when_to_rebuild_them() -> None:
    settings: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2, "innodb_log_buffer_size": 64 << 20}
    expected = (GOLDEN / "mysql_second.cnf").read_text(encoding="utf-8")
    assert advise(settings, {"sync_binlog": 1}, MYSQL80) == expected


def test_a_standalone_server_hears_nothing_of_replicas() -> None:
    settings: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2}
    assert "eplica" in advise(settings, {}, MYSQL80)
    assert "eplica" not in advise(settings, {}, MYSQL80, no_replicas=True)


def test_replicas_that_agree_are_not_mentioned() -> None:
    assert "eplica" not in advise({"innodb_log_buffer_size": 64 << 20}, {}, MYSQL80)


def test_what_the_base_has_already_is_left_out_however_it_is_spelled() -> None:
    text = advise(
        {"innodb_log_buffer_size": 64 << 20, "sync_binlog": 1, "max_connections": 9},
        {"innodb_log_buffer_size": "64M", "max_connections": "9"},
        MARIADB1011,
    )
    assert "sync_binlog = 1" in text
    assert "innodb_log_buffer_size =" not in text
    assert "max_connections" not in text


def test_the_option_file_reads_back_as_the_settings() -> None:
    settings: dict[str, Value] = {"innodb_io_capacity": 4000, "innodb_flush_method": "fsync"}
    text = advise(settings, {}, MARIADB1011)
    assert check(text, MARIADB1011).settings == settings
