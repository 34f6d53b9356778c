"""Clients: which machines may be some, which loads they drive, and that no password travels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from flushlab import _core
from flushlab.campaign.fleet.clients import FleetClients, Place, chosen, completed, require_drivable
from flushlab.campaign.target import WithClients, target_of
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.cli.app import make_app
from flushlab.errors import FleetError, UsageError
from flushlab.fleet import secret
from flushlab.record import Endpoint, Launch, LoadSpec
from flushlab.server.clients import Access
from flushlab.spec.build import build
from flushlab.spec.kinds import BenchSpec, CompareSpec, CrashSpec, TuneSpec
from flushlab.spec.parts import RemoteAccess, RunSpec, ServerOrKeptSpec, ServersSpec
from flushlab.workload.generator import Acted, Refused
from flushlab.workload.parse import parse_workload
from tests.threaded_generator import Threaded
from tests.unit.campaign.test_series_analysis import MARIADB, STORAGE
from tests.unit.report.campaigns import tune_request

HERE = Place("db", "id-db", "10.0.0.1")
LOADS = [Place("load1", "id-1", "10.0.0.2"), Place("load2", "id-2", "10.0.0.3")]
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


@pytest.mark.parametrize("name", ["command: true", "sql:x.sql"])
def test_a_load_that_runs_by_itself_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.sql").write_text("SELECT 1;")
    with pytest.raises(UsageError, match="--client drives loads of flushlab's own"):
        require_drivable(parse_workload(name, {}))


def test_a_load_of_the_engine_is_taken() -> None:
    require_drivable(parse_workload("oltp_write_only", {}))


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "fleet"
    folder.mkdir()
    (folder / "token").write_text("0123\n")
    monkeypatch.setattr("flushlab.fleet.local_node.fleet_folder", lambda: folder)
    return folder


def test_both_sides_derive_the_password_and_it_differs_by_nonce_and_token(fleet: Path) -> None:
    first = secret.password("n1")
    there = completed("n1", SPEC)
    assert there.endpoint.password == first
    assert there.ssl_ca == str(fleet / "authority.pem")
    assert secret.password("n2") != first
    (fleet / "token").write_text("4567\n")
    assert secret.password("n1") != first
    assert "0123" not in first


def test_what_travels_has_no_password(fleet: Path) -> None:
    assert secret.password("n1").encode() not in msgspec.json.encode(SPEC)


def test_a_machine_without_a_fleet_derives_nothing(fleet: Path) -> None:
    (fleet / "token").unlink()
    with pytest.raises(FleetError) as refused:
        secret.password("n1")
    assert "--listen" in (refused.value.hint or "")


def compare(**run: Any) -> CompareSpec:
    return CompareSpec(run=RunSpec(**run))


def test_clients_may_be_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(compare(fleet="10.0.0.1", client=("load1,load2", "load3")))
    assert isinstance(target, WithClients)
    assert (target.driven_by, target.needed_fleet) == (("load1", "load2", "load3"), "10.0.0.1")
    assert target.on_fleet == ""


def test_a_tuning_is_loaded_by_clients_and_not_spread_over_machines() -> None:
    target = target_of(TuneSpec(run=RunSpec(fleet="10.0.0.1", client=("load1",))))
    assert (target.driven_by, target.needed_fleet, target.on_fleet) == (("load1",), "10.0.0.1", "")
    for clients, spread in (((), True), (("load1",), False)):
        request = tune_request(fleet="10.0.0.1", clients=clients)
        assert TuneAnalysis(request, MARIADB, STORAGE, Launch()).plan().spread == spread


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
    assert isinstance(again, WithClients)
    assert (again.fleet, again.clients) == ("10.0.0.1", ("load1",))
    other = target_of(compare(fleet="10.0.0.1", client=("load2",)))
    with pytest.raises(UsageError, match="came from load1"):
        other.resuming(earlier, "10.0.0.1", ("load1",))
    with pytest.raises(UsageError, match="came from the server's machine"):
        other.resuming(earlier, "", ())


def test_bench_takes_clients_too_but_not_for_a_server_that_was_kept() -> None:
    target = target_of(BenchSpec(fleet="10.0.0.1", client=("load1",)))
    assert isinstance(target, WithClients)
    kept = ServerOrKeptSpec(server="sandbox:mine")
    with pytest.raises(UsageError, match="no --client reaches it"):
        target_of(BenchSpec(server=kept, fleet="10.0.0.1", client=("load1",)))


class Refusing(Threaded):
    """A client whose server has no TLS that it knows."""

    def call(self, method: str, *arguments: Any) -> Callable[[], Any]:
        if method != "connect":
            return super().call(method, *arguments)
        refused = Refused(
            kind="server",
            message="no TLS",
            text="no TLS",
            hint="choose the ssl_mode disabled, or a newer server",
        )
        return lambda: msgspec.json.encode(Acted(refused=refused))


def test_a_server_without_a_common_tls_is_refused_with_a_way_out_that_is_one() -> None:
    access = Access(address="10.0.0.1", hosts=("10.0.0.2",), password="", identity="")
    with pytest.raises(_core.CoreError, match="machine load1: no TLS") as refused:
        FleetClients(access, [Refusing("load1")]).connect(SPEC)
    assert "remove --client" in (refused.value.hint or "")
