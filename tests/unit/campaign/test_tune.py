"""What a tuning is asked for; a campaign goes on only with the workload that it began with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flushlab.campaign.campaign import ArmServers
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.tune import _pool_size
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.campaign.watcher import Watcher
from flushlab.errors import UsageError
from flushlab.record import Storage
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import TuneSpec
from flushlab.spec.parts import WorkloadSpec
from flushlab.workload.parse import fingerprint, parse_workload
from flushlab.workload.protocol import Timing
from tests.unit.builds import MARIADB
from tests.unit.campaign.test_tune_analysis import MACHINE


def test_a_resumed_tune_refuses_a_script_that_changed(tmp_path: Path) -> None:
    script = tmp_path / "load.sql"
    script.write_text("CREATE TABLE a (i INT);\n")
    workload = f"sql:{script}"
    request = TuneRequest(
        build="mariadb@10.11.19",
        build_id="mariadb-x",
        machine=MACHINE,
        spec=TuneSpec(workload=WorkloadSpec(name=workload), trials=100),
        workload_digest=fingerprint(parse_workload(workload)),
        base={},
        original={},
        candidates=(),
        lowest=Floor.SECOND,
        timing=Timing(),
    )
    bound = TuneAnalysis(request, MARIADB.identity, Storage(filesystem="ext4"))
    none: Any = None
    script.write_text("CREATE TABLE b (i INT);\n")
    with (
        ArmServers(bound, none, none, none, Watcher()) as servers,
        pytest.raises(UsageError, match="has changed since the campaign began"),
    ):
        servers.open()


def pool_of(workload: str, ratio: float, **options: int) -> dict[str, Any]:
    load = WorkloadSpec(name=workload, options=options)
    return _pool_size(TuneSpec(workload=load, pool_ratio=ratio), None)


def test_a_pool_is_a_share_of_the_data_in_whole_mebibytes() -> None:
    assert pool_of("oltp_write_only", 0.25, tables=4, table_size=1_000_000) == {
        "innodb_buffer_pool_size": 236 << 20
    }


def test_data_of_unknown_size_have_no_share() -> None:
    with pytest.raises(UsageError, match="needs data of a known size, and command: true makes its own"):
        pool_of("command: true", 0.5)
