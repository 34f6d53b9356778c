from __future__ import annotations

import pytest

from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import load_catalog
from flushlab.settings.fit import Fit, fit, lines, names_fixed
from flushlab.settings.reading import pool_bytes
from tests.unit.settings.servers import ALL, MARIADB1011, MYSQL57, MYSQL80, MYSQL84, server

G, M = 1 << 30, 1 << 20
MYSQL8046 = server("mysql", 8, 0, 46)


def fitted(
    settings: dict[str, Value],
    server: ServerIdentity = MYSQL57,
    memory: int = 12 * G,
    disk: int = 50 * G,
    connections: int = 16,
    data: int | None = None,
) -> Fit:
    return fit(
        settings, server, memory_bytes=memory, disk_bytes=disk, connections=connections, data_bytes=data
    )


@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
def test_what_fits_stays_as_it_is(server: ServerIdentity) -> None:
    settings: dict[str, Value] = {"innodb_buffer_pool_size": 4 * G, "max_connections": 300}
    assert fitted(settings, server) == Fit(settings=settings, memory_bytes=12 * G)


@pytest.mark.parametrize("server", [MYSQL8046, MARIADB1011], ids=lambda one: one.name)
def test_the_pool_and_the_redo_log_shrink_by_one_factor(server: ServerIdentity) -> None:
    settings: dict[str, Value] = {"innodb_buffer_pool_size": 96 * G, "innodb_log_file_size": 16 * G}
    found = fitted(settings, server).settings
    pool, redo = int(str(found["innodb_buffer_pool_size"])), int(str(found["innodb_log_file_size"]))
    assert 10 * G <= pool <= 12 * G
    assert redo / (16 * G) == pytest.approx(pool / (96 * G), rel=0.08)


def test_a_server_that_writes_its_whole_redo_log_at_each_start_gets_a_smaller_one() -> None:
    settings: dict[str, Value] = {"innodb_buffer_pool_size": 64 * G, "innodb_log_file_size": 4 * G}
    found = fitted(settings).settings
    assert found == {"innodb_buffer_pool_size": 4 * G, "innodb_log_file_size": 256 * M}


def test_a_redo_log_larger_than_the_disk_takes_the_pool_with_it() -> None:
    settings: dict[str, Value] = {"innodb_buffer_pool_size": 8 * G, "innodb_log_file_size": 16 * G}
    found = fitted(settings, MYSQL8046, disk=16 * G)
    assert found.settings == {"innodb_buffer_pool_size": 4 * G, "innodb_log_file_size": 8 * G}
    assert found.scaled[0].why == "16 GiB of disk for the redo log"


def test_a_redo_log_keeps_its_size_where_the_smaller_pool_still_holds_all_data() -> None:
    settings: dict[str, Value] = {"innodb_buffer_pool_size": 96 * G, "innodb_log_file_size": 16 * G}
    found = fitted(settings, MARIADB1011, data=2 * G)
    assert 10 * G <= int(str(found.settings["innodb_buffer_pool_size"])) <= 12 * G
    assert found.settings["innodb_log_file_size"] == 16 * G
    assert found.factor == 1.0, "another file's pool that holds the data too need not shrink with it"
    assert found.not_transferable == (
        "Reads of data that your pool does not hold, if there are any:"
        " here the pool holds all of the data set.",
    )
    larger = fitted(settings, MARIADB1011, data=20 * G)
    assert larger == fitted(settings, MARIADB1011)


def test_a_redo_log_larger_than_the_disk_leaves_a_pool_that_holds_all_data() -> None:
    settings: dict[str, Value] = {"innodb_buffer_pool_size": 8 * G, "innodb_log_file_size": 16 * G}
    found = fitted(settings, MYSQL8046, disk=16 * G, data=1 * G)
    assert found.settings == {"innodb_buffer_pool_size": 8 * G, "innodb_log_file_size": 8 * G}


def test_a_redo_log_without_a_pool_in_the_file_does_not_shrink_for_memory() -> None:
    settings: dict[str, Value] = {"innodb_log_file_size": 2 * G}
    assert fitted(settings, memory=200 * M).settings == settings


def test_a_pool_of_many_instances_ends_as_what_the_server_makes_of_it() -> None:
    settings: dict[str, Value] = {
        "innodb_buffer_pool_size": 96 * G,
        "innodb_buffer_pool_instances": 16,
        "innodb_buffer_pool_chunk_size": 2 * G,
    }
    found = fitted(settings, MYSQL80, memory=6 * G).settings
    size, instances = (
        int(str(found["innodb_buffer_pool_size"])),
        int(str(found["innodb_buffer_pool_instances"])),
    )
    here = load_catalog().require("innodb_buffer_pool_size", "mysql", MYSQL80.version)
    assert pool_bytes(here, size, 2 * G, instances) == size
    assert 4 * G <= size <= 6 * G


def test_connections_shrink_to_what_the_memory_holds_and_never_below_the_workloads() -> None:
    settings: dict[str, Value] = {"max_connections": 5000, "sort_buffer_size": 16 * M}
    found = fitted(settings, MYSQL84, connections=200)
    assert 250 <= int(str(found.settings["max_connections"])) < 5000
    assert found.settings["sort_buffer_size"] == 16 * M
    few = fitted({**settings, "innodb_buffer_pool_size": 96 * G}, MYSQL84, connections=1)
    assert few.settings["max_connections"] == 151, "a server's own default is never undercut"
    many = fitted(settings, MYSQL84, memory=1 * G, connections=900)
    assert many.settings["max_connections"] == 950


def test_buffers_that_alone_fill_the_memory_shrink_too_and_never_below_their_defaults() -> None:
    settings: dict[str, Value] = {
        "key_buffer_size": "32G",
        "sort_buffer_size": "1G",
        "read_buffer_size": "64K",
    }
    found = fitted(settings).settings
    assert int(str(found["key_buffer_size"])) + 16 * int(str(found["sort_buffer_size"])) < 7 * G
    assert int(str(found["sort_buffer_size"])) >= 256 << 10


def test_a_system_tablespace_larger_than_the_disk_starts_small() -> None:
    found = fitted({"innodb_data_file_path": "ibdata1:80G;ibdata2:80G:autoextend"})
    assert found.settings == {"innodb_data_file_path": "ibdata1:12M:autoextend"}


def test_a_value_that_is_too_long_for_the_table_is_cut_and_its_reason_stands_below() -> None:
    found = fitted({"innodb_data_file_path": "ibdata1:80G;ibdata2:80G;ibdata3:80G:autoextend"})
    assert lines(found, "--no-scale refuses it")[2:] == [
        "  innodb_data_file_path  ibdata1:80G;ibdata2:80G…  ibdata1:12M:autoextend",
        "                         50 GiB of disk for files without data",
    ]


def test_the_table_says_yours_here_and_why_and_what_does_not_transfer() -> None:
    settings: dict[str, Value] = {
        "innodb_buffer_pool_size": 96 * G,
        "innodb_log_file_size": 16 * G,
        "max_connections": 5000,
    }
    found = fitted(settings, memory=8 * G)
    text = "\n".join(lines(found, "--no-scale refuses it"))
    assert text.startswith("Scaled to 8 GiB of memory (--no-scale refuses it):\n")
    assert "yours" in text.splitlines()[1]
    assert "innodb_buffer_pool_size    96G" in text
    assert "in proportion to the pool" in text
    assert "% of yours, so data should be" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert names_fixed(found.scaled) == (
        "innodb_buffer_pool_size",
        "innodb_log_file_size",
        "innodb_redo_log_capacity",
        "innodb_log_files_in_group",
        "innodb_buffer_pool_instances",
    )
    assert lines(Fit(settings={}), "") == []


@pytest.mark.parametrize(
    ("server", "derived"),
    [
        (MYSQL80, {"innodb_log_file_size": 256 * M, "innodb_flush_method": "O_DIRECT_NO_FSYNC"}),
        (MYSQL8046, {"innodb_redo_log_capacity": G, "innodb_flush_method": "O_DIRECT_NO_FSYNC"}),
        (MYSQL84, {"innodb_redo_log_capacity": G, "innodb_flush_method": "O_DIRECT"}),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_no_sandbox_is_sized_by_the_whole_machine(server: ServerIdentity, derived: dict[str, Value]) -> None:
    found = fitted({"innodb_dedicated_server": "ON"}, server, memory=4 * G)
    assert found.settings == {
        "innodb_dedicated_server": "OFF",
        "innodb_buffer_pool_size": 3 * G,
        **derived,
    }
    assert [one.name for one in found.scaled] == ["innodb_dedicated_server"]
    assert {"innodb_buffer_pool_size", *derived} - {"innodb_flush_method"} <= {*names_fixed(found.scaled)}
    yours: dict[str, Value] = {"innodb_dedicated_server": "ON", "innodb_buffer_pool_size": G}
    assert fitted(yours, server, memory=4 * G).settings["innodb_buffer_pool_size"] == G
