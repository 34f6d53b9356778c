"""Where the connections of a load to a cluster go."""

from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.record import Endpoint
from flushlab.workload import engine
from flushlab.workload.engine import require_cluster
from flushlab.workload.options import EngineOptions
from flushlab.workload.protocol import Driving
from tests.fakes.server import FakeServer

HERE = Endpoint(user="u", password="p", socket="/s")


def test_a_load_goes_to_one_node_unless_it_is_told_otherwise() -> None:
    assert EngineOptions().load(HERE, workload="oltp_write_only").cluster_load == "one"


def test_a_load_that_fails_over_opens_lost_connections_again() -> None:
    spec = EngineOptions(cluster_load="failover").load(HERE, workload="oltp_write_only")
    assert (spec.cluster_load, spec.reconnect) == ("failover", True)


def test_a_load_cannot_be_spread_over_one_server() -> None:
    spec = EngineOptions(cluster_load="spread").load(HERE, workload="oltp_write_only")
    require_cluster("spread", nodes=2)
    require_cluster("one", nodes=1)
    with pytest.raises(UsageError, match="--cluster-load spread needs a cluster") as refused:
        engine.connected(Driving(spec=spec, unit="transactions/s"), FakeServer())
    assert refused.value.hint == "remove it, or use --cluster 3"
