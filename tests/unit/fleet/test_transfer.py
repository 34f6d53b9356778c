"""Sending and receiving in one process: each machine is a worker with a home of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import zstandard

from flushlab.build.prefix import publish, unpacked_by
from flushlab.campaign.fleet.worker import Worker
from flushlab.errors import FleetError, FlushlabError, HarnessError, NoSpace, StorageError, UsageError
from flushlab.fleet import transfer
from flushlab.fleet.content import ContentManifest, manifest_of
from flushlab.fleet.received import ReceivedFiles
from flushlab.fleet.transfer import WINDOW, Needed, send
from flushlab.workload.generators import named
from tests.unit.builds import MARIADB

PIECE = 64


@dataclass
class Machine:
    """A machine of this process; a call is carried out when somebody waits for it.

    Attributes:
        spoil: changes a piece on its way, by the number of the call.
    """

    machine: str
    home: Path
    spoil: Callable[[int, bytes], bytes] = lambda number, piece: piece
    taken: list[tuple[str, int]] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    _worker: Worker = field(default_factory=Worker)

    def call(self, method: str, *arguments: Any) -> Callable[[], Any]:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)

        def answer() -> Any:
            self.under_way -= 1
            os.environ["FLUSHLAB_HOME"] = str(self.home)
            try:
                if method != "take":
                    return getattr(self._worker, method)(*arguments)
                number, path, offset, piece = arguments
                self.taken.append((path, offset))
                return self._worker.take(number, path, offset, self.spoil(len(self.taken), piece))
            except FlushlabError as error:
                raise named(self.machine, error) from error

        return answer


@pytest.fixture
def two(private_home: Path) -> list[Machine]:
    """Machines; the variable is put back behind them."""
    return [Machine(name, private_home / name) for name in ("m1", "m2")]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    folder = tmp_path / "driver"
    folder.mkdir()
    (folder / "dump.sql").write_text("".join(f"INSERT INTO t VALUES ({one});\n" for one in range(50)))
    return folder / "dump.sql"


def elsewhere(*files: Path) -> ContentManifest:
    """Data as if their paths were on the driver only: under a root that the machine does not have."""
    return manifest_of("data", files[0].name, files[0].parent, files)


@pytest.fixture(autouse=True)
def of_the_driver_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are small. No machine finds files at the driver's path, though it is in the same process."""
    monkeypatch.setattr(transfer, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(transfer, "_same_path", lambda manifest: None)


def sent(manifest: ContentManifest, *machines: Machine) -> tuple[dict[str, Any], list[str]]:
    said = list[str]()
    return send(Needed(manifests=(manifest,)), machines, said.append), said


def again(machine: Machine) -> Machine:
    """The same machine in another campaign."""
    return Machine(machine.machine, machine.home)


def test_a_data_set_reaches_each_machine_and_a_second_campaign_sends_nothing(
    two: list[Machine], dump: Path
) -> None:
    delivered, said = sent(elsewhere(dump), *two)
    for machine in two:
        (place,) = delivered[machine.machine]
        assert Path(place.root).is_relative_to(machine.home)
        assert (Path(place.root) / "dump.sql").read_bytes() == dump.read_bytes()
        assert place.key["dataset"]
        assert 0 < machine.most_under_way <= WINDOW + 1
    assert said == [f"sends dump.sql, {dump.stat().st_size / 1024:.1f} KiB, to m1, m2"]
    later = [*map(again, two)]
    assert sent(elsewhere(dump), *later) == (delivered, [])
    assert not [taken for machine in later for taken in machine.taken]


def test_content_is_in_use_while_it_arrives_and_once_it_is_there(two: list[Machine], dump: Path) -> None:
    states = list[tuple[str, bool]]()

    def look(number: int, piece: bytes) -> bytes:
        states.extend((content.what, ReceivedFiles().in_use(content)) for content in ReceivedFiles().list())
        return piece

    two[0].spoil = look
    sent(elsewhere(dump), two[0])
    assert set(states) == {("received in part · dump.sql", True)}
    (content,) = ReceivedFiles().list()
    assert content.what == "data · dump.sql"
    assert ReceivedFiles().in_use(content)


def test_a_transfer_that_was_killed_sends_the_files_that_are_not_whole(
    two: list[Machine], dump: Path
) -> None:
    class Killed(Exception):
        pass

    small = dump.with_name("a-small.sql")
    small.write_text("SELECT 1;\n")
    manifest, machine = elsewhere(small, dump), two[0]

    def dies(number: int, piece: bytes) -> bytes:
        if number > 6:
            raise Killed
        return piece

    machine.spoil = dies
    with pytest.raises(Killed):
        sent(manifest, machine)
    assert {path for path, _ in machine.taken} == {"a-small.sql", "dump.sql"}
    later = again(machine)
    delivered, _ = sent(manifest, later)
    (place,) = delivered["m1"]
    assert (Path(place.root) / "dump.sql").read_bytes() == dump.read_bytes()
    assert {path for path, _ in later.taken} == {"dump.sql"}


def test_a_machine_that_gets_a_file_damaged_is_left_out_and_the_other_goes_on(
    two: list[Machine], dump: Path
) -> None:
    other = zstandard.compress(b"?" * PIECE)
    two[1].spoil = lambda number, piece: other if number == 3 else piece
    delivered, _ = sent(elsewhere(dump), *two)
    assert isinstance(delivered["m1"], tuple)
    assert isinstance(delivered["m2"], HarnessError)
    assert delivered["m2"].message == "machine m2: dump.sql did not arrive whole: dump.sql is damaged"
    delivered, _ = sent(elsewhere(dump), again(two[1]))
    assert isinstance(delivered["m2"], tuple)


def test_a_machine_without_room_is_refused_with_the_bytes_that_it_lacks(
    two: list[Machine], dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def free(path: Path) -> Any:
        is_full = Path(path).is_relative_to(two[1].home)
        return SimpleNamespace(f_bavail=100 if is_full else 1 << 30, f_frsize=1, f_blocks=1 << 30)

    monkeypatch.setattr(os, "statvfs", free)
    delivered, _ = sent(elsewhere(dump), *two)
    assert isinstance(delivered["m1"], tuple)
    assert isinstance(delivered["m2"], NoSpace)
    assert f"{dump.stat().st_size - 100} bytes are lacking" in delivered["m2"].message
    assert delivered["m2"].message.startswith("machine m2: dump.sql needs")


def failing(error: FlushlabError) -> Callable[[int, bytes], bytes]:
    def fails(number: int, piece: bytes) -> bytes:
        raise error

    return fails


def test_a_machine_that_is_lost_is_left_out(two: list[Machine], dump: Path) -> None:
    two[1].spoil = failing(HarnessError("its node died"))
    delivered, _ = sent(elsewhere(dump), *two)
    assert isinstance(delivered["m1"], tuple)
    assert str(delivered["m2"]) == "machine m2: its node died"
    assert len(two[1].taken) <= WINDOW * 2, "nothing more is sent to it"


def test_a_first_machine_that_is_silent_ends_the_transfer(two: list[Machine], dump: Path) -> None:
    two[1].spoil = failing(FleetError("it has not answered"))
    with pytest.raises(FleetError):
        sent(elsewhere(dump), *two)


def test_a_file_that_changes_while_it_is_sent_ends_the_campaign(two: list[Machine], dump: Path) -> None:
    manifest = elsewhere(dump)
    dump.write_text("SELECT 1;\n" * 200)
    with pytest.raises(StorageError, match="changed while it was sent"):
        sent(manifest, *two)


def test_a_file_that_stays_must_be_on_the_machine(
    two: list[Machine], dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = manifest_of("files", "dump.sql", dump.parent, [dump], stays=lambda _: "a password is in it")
    monkeypatch.setattr(transfer, "_same_path", lambda manifest: dump.parent)
    delivered, said = sent(manifest, *two)
    assert delivered["m1"][0].root == str(dump.parent)
    dump.write_text("SELECT 2;\n")
    delivered, said = sent(manifest, *two)
    assert isinstance(delivered["m1"], UsageError)
    assert "dump.sql, which is not sent: a password is in it" in str(delivered["m1"])
    assert not said


def test_a_build_lands_as_an_installed_one_with_the_paths_of_its_home(
    two: list[Machine], private_home: Path
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
    delivered, _ = sent(manifest, *two)
    for machine in two:
        (place,) = delivered[machine.machine]
        assert place.root == str(machine.home / "builds" / "debian-mariadb-1")
        os.environ["FLUSHLAB_HOME"] = str(machine.home)
        (there,) = unpacked_by("debian").builds
        assert (there.id, there.mysqld) == (build.id, f"{place.root}/bin/mariadbd")
        assert Path(there.mysqld).read_bytes() == Path(build.mysqld).read_bytes()
        assert not [*(machine.home / "content").glob("part-*")]


def test_a_machine_without_a_build_that_is_not_sent_is_refused(
    two: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {"m1": (MARIADB,), "m2": ()}

    def survey() -> Any:
        return SimpleNamespace(builds=there[Path(os.environ["FLUSHLAB_HOME"]).name])

    monkeypatch.setattr(transfer, "survey", survey)
    delivered = send(Needed(builds=((MARIADB, None),)), two, print)
    assert delivered["m1"] == ()
    assert isinstance(delivered["m2"], UsageError)
    assert "/opt/it/bin/mysqld is not sent" in delivered["m2"].message
    assert "mariadb@10.11" in (delivered["m2"].hint or "")
