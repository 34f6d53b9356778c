"""Clients: which machines may be some, which loads they drive, and that no password travels."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from flushlab import _core
from flushlab.campaign.target import target_of
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.cli.app import make_app
from flushlab.errors import UsageError
from flushlab.fleet import key, local_node
from flushlab.fleet.connect import FleetNode
from flushlab.record import Endpoint, LoadSpec
from flushlab.server.clients import Access
from flushlab.spec.build import build
from flushlab.spec.kinds import BenchSpec, CompareSpec, CrashSpec, TuneSpec
from flushlab.spec.parts import RemoteAccess, RunSpec, ServerOrKeptSpec, ServersSpec
from flushlab.workload.generators import Generator
from flushlab.workload.parse import parse_workload
from tests.threaded_generator import Threaded
from tests.unit.campaign.test_series_analysis import MARIADB, STORAGE
from tests.unit.report.campaigns import tune_request

pytest.importorskip("ray")

from flushlab.campaign.fleet import clients
from flushlab.campaign.fleet.clients import ClientWorker, FleetClients, chosen
from flushlab.campaign.fleet.ray_workers import FirstMachine, RayWorker

HERE = FleetNode(id="id-0", name="db", address="10.0.0.1")
LOADS = [FleetNode(id=f"id-{n}", name=f"load{n}", address=f"10.0.0.{n + 1}") for n in (1, 2)]
SPEC = LoadSpec(workload="oltp_insert", endpoint=Endpoint(user="u", password="", host="h", port=1))


def test_clients_are_found_in_the_order_of_their_names_as_given() -> None:
    assert chosen(["load2", "load1"], [HERE, *LOADS], HERE.id) == LOADS[::-1]


@pytest.mark.parametrize(
    ("names", "says", "hint"),
    [
        (["load3"], "no machine of that name", "load1, load2"),
        (["db"], "the server runs on that machine", "load1, load2"),
        (["load1", "load1"], "given twice", "each machine once"),
    ],
)
def test_a_machine_that_is_no_client_is_refused(names: list[str], says: str, hint: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        chosen(names, [HERE, *LOADS], HERE.id)
    assert hint in (refused.value.hint or "")


def test_a_fleet_of_one_machine_has_no_client() -> None:
    with pytest.raises(UsageError) as refused:
        chosen(["load1"], [HERE], HERE.id)
    assert "fleet join" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("command: true", {}, "--client drives loads of flushlab's own"),
        ("sql:x.sql", {}, "--client drives loads of flushlab's own"),
        ("oltp_write_only", {"hdr_log": "x.hlog"}, "are not written with --client"),
        ("oltp_write_only", {}, ""),
    ],
)
def test_a_load_whose_connections_flushlab_does_not_open_is_refused(
    name: str, changes: dict[str, str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.sql").write_text("SELECT 1;")
    target = target_of(compare(fleet="10.0.0.1", client=("load1",)))
    workload: Any = parse_workload(name, {})
    with pytest.raises(UsageError, match=says) if says else nullcontext():
        target.require_load(msgspec.structs.replace(workload, **changes))


def test_a_client_knows_the_server_by_the_certificate_of_the_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = list[LoadSpec]()
    monkeypatch.setattr(Generator, "connect", lambda _, number, spec: connected.append(spec))
    monkeypatch.setattr(local_node, "state", lambda: tmp_path)
    ClientWorker().connect(1, SPEC)
    assert connected[0].ssl_ca == str(tmp_path / "fleet" / "authority.pem")


@pytest.mark.parametrize(("client", "server"), [(HERE, LOADS[0]), (LOADS[0], HERE)])
def test_two_commands_that_load_each_others_machines_claim_them_in_one_order(
    monkeypatch: pytest.MonkeyPatch, client: FleetNode, server: FleetNode
) -> None:
    order, killed = list[str](), list[str]()

    def claim(node: FleetNode, *_: object) -> object:
        order.append(node.name)
        return SimpleNamespace(clock=SimpleNamespace(remote=lambda: 1.0))

    monkeypatch.setattr(clients, "find", lambda _: ([client], server))
    monkeypatch.setattr(clients, "_claimed", claim)
    monkeypatch.setattr(clients, "first_machine", lambda _: FirstMachine("", print))
    monkeypatch.setattr(RayWorker, "first_call", lambda *_: lambda: None)
    monkeypatch.setattr(RayWorker, "kill", lambda worker: killed.append(worker.machine))
    monkeypatch.setattr(key, "identity", lambda: "key")
    monkeypatch.setattr(local_node, "read", lambda: SimpleNamespace(address=server.address))
    with clients.claimed([client.name], lambda _: None) as found:
        assert found.names == (client.name,)
        assert (found.access.address, found.access.hosts) == (server.address, (client.address,))
        other = found.access.password
    with clients.claimed([client.name], lambda _: None) as found:
        assert found.access.password != other
    assert order == ["db", "load1"] * 2
    assert sorted(killed) == ["db", "db", "load1", "load1"]


def compare(**run: Any) -> CompareSpec:
    return CompareSpec(run=RunSpec(**run))


def test_clients_may_be_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(compare(fleet="10.0.0.1", client=("load1,load2", "load3")))
    assert (target.clients, target.fleet) == (("load1", "load2", "load3"), "10.0.0.1")
    assert not target.on_fleet


def test_a_tuning_is_loaded_by_clients_and_not_spread_over_machines() -> None:
    target = target_of(TuneSpec(run=RunSpec(fleet="10.0.0.1", client=("load1",))))
    assert (target.clients, target.fleet, target.on_fleet) == (("load1",), "10.0.0.1", False)
    for names, spread in (((), True), (("load1",), False)):
        request = tune_request(fleet="10.0.0.1", clients=names)
        assert TuneAnalysis(request, MARIADB, STORAGE).plan().spread == spread


def test_a_crash_campaign_says_why_no_client_can_load_it() -> None:
    with pytest.raises(UsageError, match="one clock tells what was acknowledged"):
        build(CrashSpec, {"client": ("load1",)}, {})
    done = CliRunner().invoke(make_app(), ["crash", "--client", "load1"])
    assert isinstance(done.exception, UsageError)
    assert done.exception.message.startswith("crash takes no --client: one clock tells")


def test_a_client_needs_a_fleet_and_a_single_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUSHLAB_FLEET", raising=False)
    with pytest.raises(UsageError, match="no fleet is named"):
        target_of(compare(client=("load1",)))
    spec = CompareSpec(server=ServersSpec(cluster=3), run=RunSpec(fleet="h", client=("load1",)))
    with pytest.raises(UsageError, match="not a cluster"):
        target_of(spec)


def test_a_resumed_campaign_keeps_its_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUSHLAB_FLEET", raising=False)
    earlier = CompareSpec(remote=RemoteAccess())
    again = target_of(compare(resume="1")).resuming(earlier, "10.0.0.1", ("load1",))
    assert (again.fleet, again.clients) == ("10.0.0.1", ("load1",))
    other = target_of(compare(fleet="10.0.0.1", client=("load2",)))
    with pytest.raises(UsageError, match="came from load1"):
        other.resuming(earlier, "10.0.0.1", ("load1",))
    with pytest.raises(UsageError, match="came from the server's machine"):
        other.resuming(earlier, "", ())


def test_bench_takes_clients_too_but_not_for_a_server_that_was_kept() -> None:
    assert target_of(BenchSpec(fleet="10.0.0.1", client=("load1",))).clients
    kept = ServerOrKeptSpec(server="sandbox:mine")
    with pytest.raises(UsageError, match="no --client reaches it"):
        target_of(BenchSpec(server=kept, fleet="10.0.0.1", client=("load1",)))


class Refusing(Threaded):
    """A client whose server has no TLS that it knows."""

    def _called(self, method: str, *arguments: Any) -> Any:
        if method != "connect":
            return super()._called(method, *arguments)
        error = _core.CoreError("no TLS")
        error.kind, error.message = "server", "no TLS"
        error.hint = "choose the ssl_mode disabled, or a newer server"
        raise error


def test_a_server_without_a_common_tls_is_refused_with_a_way_out_that_is_one() -> None:
    access = Access(address="10.0.0.1", hosts=("10.0.0.2",), password="", identity="")
    with pytest.raises(_core.CoreError, match="machine load1: no TLS") as refused:
        FleetClients(access, [Refusing("load1")]).connect(SPEC)
    assert "remove --client" in (refused.value.hint or "")
