"""What campaigns rely on, whatever they run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flushlab.build.inspect import Answer
from flushlab.campaign.pool.protocol import RunnerInput, ServerPool, Use
from flushlab.campaign.pool.remote import RemotePool, RemoteTarget
from flushlab.campaign.pool.sandboxes import ClusterPool, SandboxPool, crashable
from flushlab.campaign.scheduling import in_slices
from flushlab.campaign.target import target_of
from flushlab.campaign.watcher import Watcher
from flushlab.datadir import DataRoot, Volume
from flushlab.errors import MeasurementError, StorageError, UsageError
from flushlab.record import Arm, Launch, ServerIdentity, Storage, Value
from flushlab.server import Sandbox
from flushlab.server.remote.login import from_nodes
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import TuneSpec
from flushlab.spec.parts import FileSpec, RemoteAccess, ServerSpec, StorageSpec
from flushlab.workload.parse import build_workload
from flushlab.workload.protocol import Timing
from tests.fakes.server import FakeServer
from tests.unit.builds import MARIADB

FLUSH = "innodb_flush_log_at_trx_commit"
STARTED = {"sandboxes": (SandboxPool, 1, False), "clusters": (ClusterPool, 3, False),
           "dry run": (SandboxPool, 1, True), "dry run of clusters": (ClusterPool, 3, True)}  # fmt: skip
KEPT: dict[str, Value] = {FLUSH: 1, "sync_binlog": 1, "innodb_doublewrite": "ON"}
KINDS = [*STARTED, "remote"]


class Theirs(FakeServer):
    """A running server of somebody's own."""

    name = "db1:3306"
    address = from_nodes("mysql://me@db1:3306")[0]

    def __init__(self) -> None:
        self.before: dict[str, Any] = {}
        identity = ServerIdentity(
            flavor=MARIADB.flavor, version=MARIADB.version, version_text=MARIADB.version_text
        )
        values = {**KEPT, "innodb_io_capacity": 200}
        super().__init__(identity=identity, values=values, storage=Storage(visible=False))


@pytest.fixture
def pool(request: pytest.FixtureRequest, tmp_path: Path, private_home: Path) -> ServerPool:
    if request.param == "remote":
        server: Any = Theirs()
        return RemotePool(server, RemoteTarget.of(RemoteAccess(dsn="mysql://me:secret@db1:3306")))
    kind, nodes, dry_run = STARTED[request.param]
    root = DataRoot(path=tmp_path, storage=Storage(filesystem="ext4", volatile_cache=False))
    return kind(MARIADB, Volume(root), nodes, dry_run=dry_run)


every = pytest.mark.parametrize("pool", KINDS, indirect=True)


@every
def test_what_a_campaign_stores_names_the_same_servers_again(pool: ServerPool) -> None:
    asked = TuneSpec()
    kept = pool.settled(asked)
    assert "secret" not in repr(kept)
    now = TuneSpec(remote=RemoteAccess(dsn="mysql://me@db1:3306")) if kept.remote.place else asked
    found = target_of(now).resuming(kept)
    assert found.server == kept.server
    assert pool.settings.identity.name == MARIADB.name
    assert kept.remote.place or kept.server.server == pool.settings.identity.name
    assert str(MARIADB.version[0]) in pool.settings.key


@pytest.mark.parametrize("pool", ["remote"], indirect=True)
def test_what_decides_what_a_running_server_keeps_is_known(pool: ServerPool) -> None:
    assert {*pool.settings.guarding(())} == {*KEPT}
    assert {*pool.settings.guarding([FLUSH])} == {*KEPT} - {FLUSH}


@every
def test_the_base_meets_the_floor_at_the_end_or_nothing_is_run(pool: ServerPool) -> None:
    given = pool.settings.parse({FLUSH: "0"})
    runs = {
        **pool.settings.guarding(given),
        **pool.settings.of_base(FileSpec(), None, 4, Watcher()).here,
        **given,
    }
    changes, why = pool.settings.raise_to_floor(runs, Floor.SECOND, (), Launch())
    assert changes[FLUSH] in (1, 2)
    assert why
    assert pool.settings.raise_to_floor({**runs, FLUSH: 1}, Floor.SECOND, (), Launch())[0].get(FLUSH) is None


@every
def test_arms_that_differ_in_what_a_running_server_takes_share_one_where_servers_keep_running(
    pool: ServerPool,
) -> None:
    places = {"a": "with a binlog", "b": "with a binlog", "c": "without"}
    sliced = pool.sliced(lambda _: pytest.fail("no trial is run"), 1, lambda arm: places[arm.name])
    arms = [Arm(name=name, settings={}) for name in places]
    apart = {arm.name if sliced.place_of is None else sliced.place_of(arm) for arm in arms}
    nodes = pool.settings.identity.nodes
    assert len(apart) == (1 if not pool.settings.restarts else 3 if nodes == 1 else 2)


@every
def test_warnings_of_results_and_words_for_slices_are_about_the_servers_there_are(pool: ServerPool) -> None:
    slugs = [one.slug for one in pool.settings.warnings(["innodb_io_capacity", FLUSH])]
    line = in_slices(pool.settings.restarts, pool.settings.identity)
    if not pool.settings.restarts:
        assert (slugs, "your server" in line) == (["external", "shows-later"], True)
    elif pool.settings.identity.nodes > 1:
        assert (slugs, "clusters" in line) == (["co-located"], True)
    else:
        assert (slugs, "side by side" in line) == ([], True)


@every
def test_the_machine_is_the_servers_or_the_clients_of_whose_disk_nothing_is_told(pool: ServerPool) -> None:
    machine = pool.machine()
    assert machine.is_client is (not pool.settings.restarts)
    assert bool(machine.filesystem) is pool.settings.restarts
    if machine.is_client:
        assert (machine.device, machine.scheduler, machine.volatile_cache) == (None, None, None)


@every
def test_only_servers_of_flushlabs_own_crash_move_or_are_exchanged(pool: ServerPool) -> None:
    with pool.volumes(lambda _: None) as volumes:
        assert volumes.open(None, None) is None
        if pool.settings.restarts:
            assert crashable(pool) is pool
            return
        with pytest.raises(StorageError, match="cannot move to another place"):
            volumes.open("/dev/shm", None)
    with pytest.raises(UsageError, match="never crashed"):
        crashable(pool)
    with pytest.raises(UsageError, match="cannot be compared with your own"):
        pool.other("mysql@8.0", lambda _: None)
    workload = build_workload("upsert", {})
    with pool.runner(RunnerInput((workload,), Timing(), Launch()), lambda _: None) as runner:
        assert not pool.settings.restarts
        with pytest.raises(MeasurementError, match="is never killed"):
            runner.recovery_s(Arm(name="base", settings={}))


@pytest.mark.parametrize("pool", STARTED, indirect=True)
def test_servers_that_flushlab_starts_need_no_permission_and_leave_nothing(pool: ServerPool) -> None:
    workload = build_workload("upsert", {})
    with pool.used(Use([workload], None, [{FLUSH: 0}], 16, None), lambda line: pytest.fail(line)):
        assert pool.settings.has() == {} == pool.settings.guarding(())
    assert pool.settings.may_be_below({FLUSH: 0})
    spec = TuneSpec(storage=StorageSpec(data_root="/data"))
    resources, writes = pool.takes(spec, [{}], 1 << 20, 2)
    assert "removed as they end" in writes["/data"]
    assert resources.servers == 2 * pool.settings.identity.nodes


@pytest.mark.parametrize("pool", ["dry run", "dry run of clusters"], indirect=True)
def test_a_dry_run_reads_settings_of_the_catalog_and_of_the_binarys_help(
    pool: ServerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("a dry run starts nothing")

    text = "Variables (--variable-name=value)\n--------- -----\nback-log  80\n"
    monkeypatch.setattr(Sandbox, "start", started)
    monkeypatch.setattr(
        "flushlab.campaign.pool.settings.verbose_help", lambda *_: Answer(text, "", refuses=False)
    )
    found = pool.settings.read({FLUSH: 2}, Launch(), Watcher(), also=["a_plugin_variable"])
    assert found[FLUSH] == 2
    assert found["innodb_doublewrite"] in ("ON", 1)
    assert "a_plugin_variable" not in found


@pytest.mark.parametrize("pool", ["clusters"], indirect=True)
def test_a_cluster_does_not_go_on_with_the_data_of_another_run(pool: ServerPool) -> None:
    workload = build_workload("command: true", {"reset": "none"})
    with pytest.raises(UsageError, match="--reset none goes on with the last run's data"):
        pool.runner(RunnerInput((workload,), Timing(), Launch()), lambda _: None)


@every
def test_connections_of_all_arms_are_let_in_where_arms_share_a_server(pool: ServerPool) -> None:
    arguments = pool.settings.launch(each=200, together=1600).arguments
    if not pool.settings.restarts:
        assert arguments == ()
    else:
        assert arguments == (
            f"--max-connections={(200 if pool.settings.identity.nodes == 1 else 1600) + 50}",
        )
    assert pool.settled(TuneSpec(server=ServerSpec(cluster=3))).server.cluster == 3


@every
def test_only_servers_of_flushlabs_own_run_below_the_floor_to_offer_gains_there(pool: ServerPool) -> None:
    own = pool.settings.restarts
    assert pool.settings.lowest(Floor.STRICT, None) is (Floor.SECOND if own else Floor.STRICT)
    assert pool.settings.lowest(Floor.RELAXED, None) is Floor.RELAXED
    assert pool.settings.lowest(Floor.SECOND, Floor.STRICT) is Floor.SECOND
    assert pool.settings.lowest(Floor.STRICT, Floor.STRICT) is Floor.STRICT
    if own:
        assert pool.settings.lowest(Floor.STRICT, Floor.RELAXED) is Floor.RELAXED
        return
    with pytest.raises(UsageError, match="sets nothing below the floor there") as caught:
        pool.settings.lowest(Floor.STRICT, Floor.SECOND)
    assert caught.value.hint is not None and "--floor second" in caught.value.hint
