"""What `server start` is asked for, before anything is started."""

from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.record import DiskProfile
from flushlab.server import DataDirectory, Sandbox, start
from tests.unit.builds import MARIADB


def test_a_slow_disk_is_the_servers_own_and_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    profiles: list[DiskProfile] = []

    def stop(*_: object, data: DataDirectory, **__: object) -> None:
        assert data.slow_disk is not None
        profiles.append(data.slow_disk.profile)
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "require_fault_disk", lambda: None)
    monkeypatch.setattr(start, "find_build", lambda *_, **__: MARIADB)
    monkeypatch.setattr(Sandbox, "start", stop)
    with pytest.raises(KeyboardInterrupt):
        start.sandbox(disk="iops=120")
    assert [(profile.name, profile.iops) for profile in profiles] == [("iops=120", 120.0)]


def test_a_slow_disk_goes_with_no_server_that_runs() -> None:
    with pytest.raises(UsageError, match="already running, on its own disk") as told:
        start.sandbox(server="sandbox:one", disk="gp3")
    assert told.value.hint == "remove --disk"
