"""A campaign goes on only with the workload that it began with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flushlab.campaign.campaign import ArmServers
from flushlab.campaign.request import TuneRequest
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
