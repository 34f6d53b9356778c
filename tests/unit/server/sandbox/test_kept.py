from __future__ import annotations

import msgspec
import pytest

from flushlab.errors import StorageError, UsageError
from flushlab.process import myself, run_folder
from flushlab.process.identity import ProcessIdentity
from flushlab.process.run_record import RunRecord, claim
from flushlab.record import Storage
from flushlab.server.sandbox import kept
from flushlab.server.sandbox.option_files import SandboxPaths
from tests.unit.builds import build

pytestmark = pytest.mark.usefixtures("private_home")

DEAD = ProcessIdentity(pid=1, start_ticks=1 << 60)


def disk_of(name: str, **facts: object) -> None:
    folder = run_folder() / "its-disk"
    record = RunRecord.mine("its-disk", folder)
    claim(msgspec.structs.replace(record, kind="kept", goes_with=name, **facts))


def test_a_sandbox_without_a_disk_of_its_own_needs_none() -> None:
    disk_of("another", server=DEAD)
    kept.require_disk("it")


def test_a_disk_that_is_served_is_there() -> None:
    disk_of("it", server=myself())
    kept.require_disk("it")


@pytest.mark.parametrize("facts", [{"server": DEAD}, {"server": myself(), "world": "before the last boot"}])
def test_a_disk_whose_program_has_ended_is_gone_with_its_data(facts: dict[str, object]) -> None:
    disk_of("it", **facts)
    with pytest.raises(StorageError, match="the disk of it is gone, and its data with it") as gone:
        kept.require_disk("it")
    assert gone.value.hint == "remove what is left with: flushlab server stop it"
    with pytest.raises(StorageError) as gone:
        kept.require_disk("it", "trio")
    assert gone.value.hint == "remove what is left with: flushlab server stop trio"


def test_a_server_that_was_stopped_is_not_called_dead() -> None:
    folder = run_folder() / "it"
    saved = kept.Saved(
        name="it",
        build=build("mysql", 8, 0),
        paths=SandboxPaths(name="it", folder=folder, data_folder=folder),
        settings={},
        arguments=(),
        storage=Storage(),
        port=3310,
    )
    assert kept.KeptStatus(saved=saved, pid=None).state == "dead"
    assert kept.KeptStatus(saved=msgspec.structs.replace(saved, halted=True), pid=None).state == "stopped"


def test_a_disk_is_no_sandbox_that_could_be_stopped() -> None:
    disk_of("it", server=myself())
    with pytest.raises(UsageError, match="there is no kept sandbox named 'its-disk'"):
        kept.stop("its-disk")
