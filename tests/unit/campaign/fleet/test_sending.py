"""Sending and receiving in one process: each machine is a worker with a home of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.build.prefix import publish, unpacked_by
from flushlab.campaign.fleet.sending import WINDOW, Gone, Sending
from flushlab.campaign.fleet.worker import Worker
from flushlab.errors import HarnessError, NoSpace, StorageError, UsageError
from flushlab.fleet import content, recipient
from flushlab.fleet.content import Manifest, manifest_of
from flushlab.fleet.recipient import Needed, OutsideBuild, Received
from tests.unit.builds import MARIADB

SMALL = 64


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "CHUNK_BYTES", SMALL)


@dataclass
class FakePost:
    """Machines of this process; a call is carried out when somebody waits for it.

    Attributes:
        homes: of each machine.
        spoil: changes a chunk on its way, by the machine and the number of the call.
    """

    homes: dict[str, Path]
    spoil: Callable[[str, int, bytes], bytes] = lambda machine, number, packed: packed
    taken: list[tuple[str, str]] = field(default_factory=list)
    most_at_once: int = 0
    _workers: dict[str, Worker] = field(default_factory=dict)
    _waiting: dict[int, tuple[str, str, tuple[Any, ...]]] = field(default_factory=dict)
    _next: int = 0

    def put(self, packed: bytes) -> bytes:
        return packed

    def call(self, machine: str, method: str, *arguments: Any) -> int:
        self._next += 1
        self._waiting[self._next] = machine, method, arguments
        takes = [one for _, name, one in self._waiting.values() if name == "take"]
        self.most_at_once = max(self.most_at_once, len({digest for digest, _ in takes}))
        return self._next

    def first(self, calls: Collection[int]) -> Sequence[int]:
        return [min(calls)]

    def result(self, call: int) -> bytes:
        machine, method, arguments = self._waiting.pop(call)
        os.environ["FLUSHLAB_HOME"] = str(self.homes[machine])
        if method == "take":
            digest, packed = arguments
            self.taken.append((machine, digest))
            arguments = digest, self.spoil(machine, len(self.taken), packed)
        worker = self._workers.setdefault(machine, Worker())
        answer: bytes = getattr(worker, method)(*arguments)
        return answer


@pytest.fixture
def homes(private_home: Path) -> dict[str, Path]:
    """Homes of machines; the variable is put back behind them."""
    return {name: private_home / name for name in ("m1", "m2")}


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    folder = tmp_path / "driver"
    folder.mkdir()
    (folder / "dump.sql").write_text("".join(f"INSERT INTO t VALUES ({one});\n" for one in range(50)))
    return folder / "dump.sql"


def elsewhere(dump: Path) -> Manifest:
    """The data set as if its path were on the driver only: under a root that the machine does not have."""
    return manifest_of("data", "dump.sql", dump.parent, [dump])


@pytest.fixture(autouse=True)
def of_the_driver_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of a machine is taken from the driver's path, which is the same in this process."""
    monkeypatch.setattr(recipient, "_same_path", lambda manifest: None)


def sent(manifest: Manifest, post: FakePost) -> tuple[dict[str, Any], list[str]]:
    said = list[str]()
    return Sending(Needed(manifests=(manifest,)), post, said.append).to([*post.homes]), said


def test_a_data_set_reaches_each_machine_and_a_second_campaign_sends_nothing(
    homes: dict[str, Path], dump: Path
) -> None:
    post = FakePost(homes)
    delivered, said = sent(elsewhere(dump), post)
    for name, home in homes.items():
        (place,) = delivered[name]
        assert Path(place.root).is_relative_to(home)
        assert (Path(place.root) / "dump.sql").read_bytes() == dump.read_bytes()
        assert place.key["dataset"]
    assert said == [f"sends dump.sql, {dump.stat().st_size / 1024:.1f} KiB, to m1, m2"]
    assert 0 < post.most_at_once <= WINDOW
    again = FakePost(homes)
    delivered_again, said = sent(elsewhere(dump), again)
    assert (delivered_again, said, again.taken) == (delivered, [], [])


def test_content_is_in_use_while_it_arrives_and_once_it_is_there(homes: dict[str, Path], dump: Path) -> None:
    states = list[tuple[str, bool]]()

    def look(machine: str, number: int, packed: bytes) -> bytes:
        states.extend((one.what, Received().in_use(one)) for one in Received().list())
        return packed

    sent(elsewhere(dump), FakePost({"m1": homes["m1"]}, look))
    assert set(states) == {("received in part · dump.sql", True)}
    (one,) = Received().list()
    assert one.what == "data · dump.sql"
    assert Received().in_use(one)


def test_a_transfer_that_was_killed_sends_the_rest_only(homes: dict[str, Path], dump: Path) -> None:
    class Killed(Exception):
        pass

    def dies(machine: str, number: int, packed: bytes) -> bytes:
        if number > 6:
            raise Killed
        return packed

    one = {"m1": homes["m1"]}
    broken = FakePost(one, dies)
    with pytest.raises(Killed):
        sent(elsewhere(dump), broken)
    arrived = {digest for _, digest in broken.taken[:6]}
    post = FakePost(one)
    delivered, _ = sent(elsewhere(dump), post)
    (place,) = delivered["m1"]
    assert (Path(place.root) / "dump.sql").read_bytes() == dump.read_bytes()
    assert {digest for _, digest in post.taken} == {*elsewhere(dump).places()} - arrived


def test_a_damaged_chunk_is_sent_again_once(homes: dict[str, Path], dump: Path) -> None:
    post = FakePost(homes, lambda machine, number, packed: packed[:-1] if number == 3 else packed)
    delivered, _ = sent(elsewhere(dump), post)
    assert all(isinstance(one, tuple) for one in delivered.values())
    assert len(post.taken) == 2 * len(elsewhere(dump).places()) + 1


def test_a_machine_that_gets_a_chunk_damaged_twice_is_left_out_and_the_other_goes_on(
    homes: dict[str, Path], dump: Path
) -> None:
    other = content.pack(b"something else")
    post = FakePost(homes, lambda machine, number, packed: other if machine == "m2" else packed)
    delivered, _ = sent(elsewhere(dump), post)
    assert isinstance(delivered["m1"], tuple)
    assert isinstance(delivered["m2"], HarnessError)
    assert delivered["m2"].message == "machine m2: a part of dump.sql arrived damaged 2 times"


def test_a_machine_without_room_is_refused_with_the_bytes_that_it_lacks(
    homes: dict[str, Path], dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def free(path: Path) -> Any:
        is_full = Path(path).is_relative_to(homes["m2"])
        return SimpleNamespace(f_bavail=100 if is_full else 1 << 30, f_frsize=1, f_blocks=1 << 30)

    monkeypatch.setattr(os, "statvfs", free)
    delivered, _ = sent(elsewhere(dump), FakePost(homes))
    assert isinstance(delivered["m1"], tuple)
    assert isinstance(delivered["m2"], NoSpace)
    assert f"{dump.stat().st_size - 100} bytes are lacking" in delivered["m2"].message
    assert delivered["m2"].message.startswith("machine m2: dump.sql needs")


def test_a_machine_that_is_lost_is_left_out(homes: dict[str, Path], dump: Path) -> None:
    def lost(machine: str, number: int, packed: bytes) -> bytes:
        if machine == "m2":
            raise Gone("its node died")
        return packed

    delivered, _ = sent(elsewhere(dump), FakePost(homes, lost))
    assert isinstance(delivered["m1"], tuple)
    assert str(delivered["m2"]) == "machine m2 was lost: its node died"


def test_a_file_that_changes_while_it_is_sent_ends_the_campaign(homes: dict[str, Path], dump: Path) -> None:
    manifest = elsewhere(dump)
    dump.write_text("SELECT 1;\n" * 200)
    with pytest.raises(StorageError, match="changed while it was sent"):
        sent(manifest, FakePost(homes))


def test_a_file_that_stays_must_be_on_the_machine(
    homes: dict[str, Path], dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = manifest_of("files", "dump.sql", dump.parent, [dump], stays=lambda _: "a password is in it")
    monkeypatch.setattr(recipient, "_same_path", lambda manifest: dump.parent)
    delivered, said = sent(manifest, FakePost(homes))
    assert delivered["m1"][0].root == str(dump.parent)
    dump.write_text("SELECT 2;\n")
    delivered, said = sent(manifest, FakePost(homes))
    assert isinstance(delivered["m1"], UsageError)
    assert "dump.sql, which is not sent: a password is in it" in str(delivered["m1"])
    assert not said


def test_a_build_lands_as_an_installed_one_with_the_paths_of_its_home(
    homes: dict[str, Path], private_home: Path
) -> None:
    os.environ["FLUSHLAB_HOME"] = str(private_home / "driver")

    def fill(staging: Path) -> Any:
        (staging / "bin").mkdir()
        (staging / "bin" / "mariadbd").write_bytes(os.urandom(300))
        mysqld = str(staging / "bin" / "mariadbd")
        return msgspec.structs.replace(MARIADB, source="debian", prefix=str(staging), mysqld=mysqld), ()

    build = publish("debian-mariadb-1", fill)
    prefix = Path(build.prefix)
    manifest = manifest_of("build", build.name, prefix, [prefix], leave_out=[prefix / ".flushlab"])
    delivered, _ = sent(manifest, FakePost(homes))
    for name, home in homes.items():
        (place,) = delivered[name]
        assert place.root == str(home / "builds" / "debian-mariadb-1")
        os.environ["FLUSHLAB_HOME"] = str(home)
        (there,) = list(unpacked_by("debian").builds)
        assert (there.id, there.mysqld) == (build.id, f"{place.root}/bin/mariadbd")
        assert Path(there.mysqld).read_bytes() == Path(build.mysqld).read_bytes()
        assert not [*(home / "content").glob("part-*")]


def test_a_machine_without_a_build_that_is_not_sent_is_refused(
    homes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {"m1": (MARIADB,), "m2": ()}

    def survey() -> Any:
        return SimpleNamespace(builds=there[Path(os.environ["FLUSHLAB_HOME"]).name])

    monkeypatch.setattr(recipient, "survey", survey)
    wanted = OutsideBuild(id=MARIADB.id, name=MARIADB.name, mysqld=MARIADB.mysqld)
    delivered = Sending(Needed(builds=(wanted,)), FakePost(homes), print).to([*homes])
    assert delivered["m1"] == ()
    assert isinstance(delivered["m2"], UsageError)
    assert "/opt/it/bin/mysqld is not sent" in delivered["m2"].message
    assert "mariadb@10.11" in (delivered["m2"].hint or "")
