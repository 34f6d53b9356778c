from __future__ import annotations

import msgspec
import pytest

from flushlab.campaign.pool.work import root_for
from flushlab.spec.parts import ServerSpec, StorageSpec
from tests.unit.report.campaigns import series_request

ARM = series_request().base


@pytest.mark.parametrize(
    ("server", "storage", "words"),
    [
        (ServerSpec(), StorageSpec(), ""),
        (ServerSpec(), StorageSpec(disk="gp3"), "a slow disk"),
        (ServerSpec(network_latency="1ms"), StorageSpec(), "a network latency"),
    ],
)
def test_what_needs_root_has_words(server: ServerSpec, storage: StorageSpec, words: str) -> None:
    assert root_for(server, storage, ARM) == words


def test_the_disk_of_an_arm_counts() -> None:
    arm = msgspec.structs.replace(ARM, disk="iops=300")
    assert root_for(ServerSpec(), StorageSpec(), ARM, arm) == "a slow disk"
