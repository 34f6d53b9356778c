"""A server, a proxy, or something else: told by how it introduces itself."""

from __future__ import annotations

import pytest

from flushlab.telemetry.live.session import Answerer


@pytest.mark.parametrize(
    ("greeting", "comment", "proxy"),
    [
        ("8.0.11", "(ProxySQL)", "ProxySQL"),
        ("5.5.30 (ProxySQL Admin Module)", "", "ProxySQL"),
        ("5.5.5-10.2.12 2.2.3-maxscale", "mariadb.org binary distribution", "MaxScale"),
        ("8.0.36", "MySQL Community Server - GPL", ""),
        ("5.5.5-10.11.19-MariaDB-0+deb12u1", "Debian 12", ""),
    ],
)
def test_a_proxy_names_itself(greeting: str, comment: str, proxy: str) -> None:
    assert Answerer(greeting=greeting, version="8.0.36", comment=comment).proxy == proxy


@pytest.mark.parametrize(
    ("version", "comment", "stranger"),
    [
        ("8.0.11-TiDB-v7.5.0", "TiDB Server (Apache License 2.0)", "TiDB"),
        ("8.0.30-Vitess", "Version: 18.0", "Vitess"),
        ("8.0.33", "Dolt", "Dolt"),
        ("8.0.36-28", "Percona Server (GPL), Release 28, Revision 47601f19", ""),
        ("10.11.19-MariaDB", "mariadb.org binary distribution", ""),
    ],
)
def test_a_stranger_has_its_name_in_its_version(version: str, comment: str, stranger: str) -> None:
    assert Answerer(greeting=version, version=version, comment=comment).stranger == stranger


@pytest.mark.parametrize(
    ("greeted", "numbered", "is_between"),
    [(7, 7, False), (7, (1 << 32) + 7, False), (7, 4711, True), (None, 7, False), (7, None, False)],
)
def test_two_numbers_of_one_connection_mean_a_proxy(
    greeted: int | None, numbered: int | None, is_between: bool
) -> None:
    found = Answerer(greeting="8.0.36", version="8.0.36", greeted=greeted, numbered=numbered)
    assert bool(found.between) == is_between
