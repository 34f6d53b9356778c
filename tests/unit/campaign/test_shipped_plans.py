"""Every plan that comes with flushlab fits every server that it may meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.campaign.binding import BoundPlan, ServerHere, base_settings, bind
from flushlab.campaign.pool.room import Volumes
from flushlab.datadir import DataRoot, Volume
from flushlab.plan.parse import example, find_plan, parse_plan, read_plan, shipped_names
from flushlab.record import Launch, ServerIdentity, Storage
from flushlab.settings.catalog import load_catalog

SERVERS = [
    ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB"),
    ServerIdentity(flavor="mariadb", version=(11, 8, 6), version_text="11.8.6-MariaDB"),
    ServerIdentity(flavor="mysql", version=(5, 7, 22), version_text="5.7.22"),
    ServerIdentity(flavor="mysql", version=(8, 0, 15), version_text="8.0.15"),
    ServerIdentity(flavor="mysql", version=(9, 7, 4), version_text="9.7.4"),
]
STORAGE = Storage(filesystem="ext4", volatile_cache=False)


def bound(path: Path, server: ServerIdentity, tmp_path: Path) -> BoundPlan:
    """The plan on a server that has its defaults and what the base sets."""
    catalog, plan = load_catalog(), read_plan(path)
    known = {name: catalog.here(name, server.flavor, server.version) for name in catalog.names()}
    values = {name: here.default for name, here in known.items() if here is not None}
    values |= base_settings(plan, server)[0]
    here = ServerHere(identity=server, values=values, launch=Launch(), storage=STORAGE, folder=tmp_path)
    volumes = Volumes(Volume(DataRoot(path=tmp_path, storage=STORAGE), None))
    return bind(plan, here, volumes)


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_plan_fits_or_says_why_not(
    name: str, server: ServerIdentity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLUSHLAB_ZFS_ROOT", raising=False)
    found = bound(find_plan(name), server, tmp_path)
    for arm in found.arms:
        assert bool(arm.reason) == (arm.outcome != "measured")
        assert arm.reason or arm.changes or arm.workload_changes, f"{arm.name} changes nothing here"
    running = [arm.name for arm in found.arms if arm.outcome == "measured"]
    if name in ("insert-on-duplicate", "test-server"):
        assert len(running) >= 8
    if name == "binlog-parallel-flush":
        assert all("binlog_parallel_flush" in arm.reason for arm in found.arms)


def test_the_plan_to_start_from_fits(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(example())
    plan = parse_plan(example(), path="mine.toml")
    assert plan.arms
    running = [arm for arm in bound(file, SERVERS[0], tmp_path).arms if arm.outcome == "measured"]
    assert running
