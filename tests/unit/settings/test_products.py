"""A name that neither MySQL nor MariaDB has is not misspelled if another product has it."""

from __future__ import annotations

import re

import pytest

from flushlab.record import ServerIdentity
from flushlab.settings.check import check
from flushlab.settings.option_names import load_option_names, product_of
from tests.unit.settings.servers import MARIADB1011, MYSQL57, MYSQL80, MYSQL84

MYSQLS = [one for one in load_option_names().releases if one.flavor == "mysql"]


@pytest.mark.parametrize(
    ("line", "server", "product"),
    [
        ("wsrep_cluster_address = gcomm://", MYSQL80, "Percona XtraDB Cluster"),
        ("wsrep_slave_threads = 8", MYSQL57, "Percona XtraDB Cluster"),
        ("pxc_strict_mode = ENFORCING", MYSQL84, "Percona XtraDB Cluster"),
        ("userstat = 1", MYSQL80, "Percona Server"),
        ("log_slow_verbosity = full", MYSQL80, "Percona Server"),
        ("extra_port = 3307", MYSQL84, "Percona Server"),
        ("innodb_track_changed_pages = 1", MARIADB1011, "Percona Server"),
        ("aurora_binlog_read_buffer_size = 1M", MYSQL80, "Amazon Aurora"),
        ("audit_log_enabled = ON", MYSQL80, "Azure Database for MySQL"),
        ("cloudsql_iam_authentication = on", MYSQL80, "Google Cloud SQL"),
    ],
)
def test_the_product_is_named(line: str, server: ServerIdentity, product: str) -> None:
    (finding,) = check(f"[mysqld]\n{line}\n", server).findings
    assert (finding.kind, finding.severity, finding.fatal) == ("product", "error", True)
    assert re.search(rf"is an option of {product}( and mariadb .+)?, not of {server.flavor}", finding.text)
    assert f"if the file is for {product}" in (finding.hint or "")


@pytest.mark.parametrize("line", ["userstat = 1", "extra_port = 3307", "wsrep_slave_threads = 8"])
def test_the_server_that_has_the_option_too_takes_it(line: str) -> None:
    assert not [one for one in check(f"[mysqld]\n{line}\n", MARIADB1011).findings if one.kind == "product"]


def test_no_option_of_mysql_is_another_products() -> None:
    names = load_option_names()
    assert not {name for one in MYSQLS for name in names.of(one) if product_of(name)}
