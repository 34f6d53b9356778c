"""Galera's own options as the catalog has them, against real nodes: names, defaults, what can be set.

Two nodes of each version: 10.11 holds the options in one variable, 11.8's plugin gives each one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flushlab.errors import ServerError
from flushlab.record import Value
from flushlab.server import SandboxSpec
from flushlab.server.galera.cluster import Cluster
from flushlab.settings.catalog import PROVIDER_OPTIONS, SettingHere, load_catalog
from flushlab.settings.optionfile import read_options
from tests.conftest import require_build

CATALOG = load_catalog()
GIVEN: dict[str, Value] = {
    "innodb_flush_log_at_trx_commit": 0,
    "gcs.fc_factor": 0.75,
    "gcache.recover": "OFF",
    "wsrep_slave_threads": 3,
}
TRIED: dict[str, Value] = {
    "wsrep_provider_gcs_fc_limit": 40,
    "wsrep_provider_gcs_fc_factor": 0.5,
    "wsrep_provider_gcache_page_size": 64 << 20,
    "wsrep_provider_cert_optimistic_pa": "OFF",
    "wsrep_provider_evs_send_window": 8,
    "wsrep_provider_evs_user_send_window": 4,
    "wsrep_slave_threads": 2,
    "wsrep_sync_wait": 1,
    "wsrep_trx_fragment_size": 1_000_000,
    "wsrep_retry_autocommit": 4,
}
"""Everything dynamic that acts on clusters, with another value than it has."""
FIXED: dict[str, Value] = {
    "wsrep_provider_gcs_fc_single_primary": "ON",
    "wsrep_provider_gcache_size": 256 << 20,
    "wsrep_provider_gcache_recover": "ON",
    "wsrep_provider_repl_commit_order": 1,
}
"""The others with another value than they have."""


@pytest.fixture(params=["mariadb@10.11", "mariadb@11.8"], scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster.start(
        SandboxSpec(require_build(request.param), nodes=2, settings=GIVEN, settle=False)
    ) as started:
        yield started


def options_of(cluster: Cluster) -> list[SettingHere]:
    identity = cluster.identity
    names = CATALOG.names(identity.flavor, identity.version)
    found = [CATALOG.require(name, identity.flavor, identity.version) for name in names]
    return [here for here in found if here.part]


def told(cluster: Cluster) -> dict[str, str]:
    return read_options(str(cluster.query(f"SELECT @@GLOBAL.{PROVIDER_OPTIONS}")[0][0]))


def test_options_exist_with_the_catalogs_defaults_or_as_they_were_given(cluster: Cluster) -> None:
    given = {CATALOG.setting(name).name: value for name, value in GIVEN.items()}
    actual, wrong = told(cluster), []
    for here in options_of(cluster):
        wanted = given.get(here.name, here.default)
        if not here.same(actual.get(here.part, "absent"), wanted):
            wrong.append(f"{here.part} is {actual.get(here.part)}, the catalog has {wanted}")
    assert not wrong
    assert cluster.read_back(GIVEN) == GIVEN


def test_an_option_that_is_set_is_read_back_on_every_node_and_keeps_the_others(cluster: Cluster) -> None:
    identity = cluster.identity
    names = CATALOG.names(identity.flavor, identity.version)
    heres = [CATALOG.require(name, identity.flavor, identity.version) for name in names]
    assert TRIED.keys() == {here.name for here in heres if here.entry.cluster and here.dynamic}
    before = {one: value for one, value in told(cluster).items() if one.startswith(("gcs.", "repl.", "pc."))}
    for name, value in TRIED.items():
        applied = cluster.apply({name: value})
        assert (applied.refused, applied.restarted) == ((), False)
        for node in cluster.nodes:
            assert node.read_back([name]) == {name: value}
    after = {name: value for name, value in told(cluster).items() if name in before}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"gcs.fc_limit", "gcs.fc_factor"}


def test_what_the_catalog_calls_a_restart_the_server_refuses_to_set(cluster: Cluster) -> None:
    fixed = {here.name: here for here in options_of(cluster) if not here.dynamic}
    assert FIXED.keys() == fixed.keys()
    for name, value in FIXED.items():
        for sql in (f"{PROVIDER_OPTIONS} = {fixed[name].sql(value)}", f"{name} = {value}"):
            with pytest.raises(ServerError):
                cluster.query(f"SET GLOBAL {sql}")


def test_values_beyond_the_catalogs_range_are_refused_by_galera(cluster: Cluster) -> None:
    for name, value in (("wsrep_provider_gcs_fc_limit", 0), ("wsrep_provider_gcs_fc_factor", 2)):
        for sql in (f"{PROVIDER_OPTIONS} = '{CATALOG.setting(name).part}={value}'", f"{name} = {value}"):
            with pytest.raises(ServerError):
                cluster.query(f"SET GLOBAL {sql}")
