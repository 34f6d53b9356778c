"""What `server start` is asked for, before anything is started."""

from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.record import DiskProfile
from flushlab.server import DataDirectory, Sandbox, start
from tests.unit.builds import MARIADB


def test_a_limit_on_writes_is_a_disk_of_its_own_that_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    profiles: list[DiskProfile] = []

    def stop(*_: object, data: DataDirectory, **__: object) -> None:
        assert data.slow_disk is not None
        profiles.append(data.slow_disk.profile)
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "require_fault_disk", lambda: None)
    monkeypatch.setattr(start, "find_build", lambda *_, **__: MARIADB)
    monkeypatch.setattr(Sandbox, "start", stop)
    with pytest.raises(KeyboardInterrupt):
        start.sandbox(disk_iops=120)
    assert [(profile.name, profile.iops) for profile in profiles] == [("iops=120", 120.0)]


def test_a_limit_on_writes_goes_with_no_other_disk_and_no_server_that_runs() -> None:
    with pytest.raises(UsageError, match="--disk and --disk-iops cannot be combined"):
        start.sandbox(disk="gp3", disk_iops=120)
    with pytest.raises(UsageError, match="already running, on its own disk") as told:
        start.sandbox(server="sandbox:one", disk_iops=120)
    assert told.value.hint == "remove --disk-iops"
