"""Run records: names, marks, and what is left beside them."""

from __future__ import annotations

import errno
import os
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from flushlab.errors import UsageError
from flushlab.process import run_record
from flushlab.process.identity import ProcessIdentity, machine, myself, world
from flushlab.process.run_record import RunRecord, claim, record_path, require_free, rewrite, run_folder
from tests.descriptors import descriptors

pytestmark = pytest.mark.usefixtures("private_home")

DEAD = ProcessIdentity(pid=1, start_ticks=1 << 60)


def there() -> list[str]:
    return sorted(path.name for path in run_folder().iterdir())


def test_a_record_of_this_process_has_its_identity_and_a_token_that_nobody_else_has() -> None:
    record = RunRecord.mine("it", Path("/a"), Path("/b"))
    assert (record.name, record.kind, record.folders) == ("it", "owned", ("/a", "/b"))
    assert (record.owner, record.world, record.machine) == (myself(), world(), machine())
    assert record.token != RunRecord.mine("it").token
    assert RunRecord.mine("it", token="given").token == "given"


def test_a_mark_has_what_proves_whose_folder_it_is() -> None:
    record = RunRecord.mine("it")
    mark = record.mark("sandbox", "folder")
    created = datetime.fromisoformat(mark.pop("created"))
    assert (created.utcoffset(), created.microsecond) == (timedelta(0), 0)
    assert mark == {
        "what": "sandbox",
        "name": "folder",
        "token": record.token,
        "world": world(),
        "machine": machine(),
    }


@pytest.mark.parametrize("name", ["", "UPPER", ".hidden", "-x", "a/b", "..", "a" * 81])
def test_a_name_that_no_record_can_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid sandbox name") as refused:
        run_record.read(name)
    assert refused.value.hint == run_record.NAME_HINT
    assert record_path("a" * 80) == run_folder() / f"{'a' * 80}.json"


def test_without_a_machine_id_an_earlier_boot_may_be_another_machines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_record, "machine", lambda: "")
    record = RunRecord.mine("it")
    assert (record.machine, record.is_of_this_machine) == ("", True)
    namespace = world().split()[1]
    assert not msgspec.structs.replace(record, world=f"another-boot {namespace}").is_of_this_machine


def test_a_sandboxs_name_has_no_dot_and_is_short() -> None:
    for name, good in (("k8s_db-1", True), ("a" * 40, True), ("a" * 41, False), ("k.json", False)):
        assert bool(run_record.NAME.fullmatch(name)) is good


def test_a_name_is_claimed_once() -> None:
    record = RunRecord.mine("it")
    require_free("it")
    claim(record)
    with pytest.raises(UsageError, match="a sandbox named 'it' already exists") as refused:
        claim(RunRecord.mine("it"))
    assert "choose another name" in (refused.value.hint or "")
    with pytest.raises(UsageError, match="a sandbox named 'it' already exists"):
        require_free("it")
    assert run_record.read("it") == record
    assert there() == ["it.json"]
    assert (run_folder() / "it.json").stat().st_mode & 0o777 == 0o644 & ~_umask()


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def test_a_record_is_replaced_whole_and_removed_once_or_twice() -> None:
    record = RunRecord.mine("it")
    claim(record)
    rewrite(changed := msgspec.structs.replace(record, kind="kept"))
    assert run_record.read("it") == changed
    assert there() == ["it.json"]
    run_record.remove("it")
    run_record.remove("it")
    assert run_record.read("it") is None
    assert there() == []


def test_records_are_listed_by_name_and_hidden_files_are_none() -> None:
    records = [RunRecord.mine(name) for name in ("b", "a")]
    for one in records:
        claim(one)
    (run_folder() / ".c.json").write_bytes(msgspec.json.encode(RunRecord.mine("c")))
    assert run_record.all_records() == records[::-1]


def test_what_goes_with_a_record_is_kept_and_names_it() -> None:
    disk = msgspec.structs.replace(RunRecord.mine("disk"), kind="kept", goes_with="it")
    for one in (
        disk,
        msgspec.structs.replace(disk, name="owned", kind="owned"),
        msgspec.structs.replace(disk, name="of-another", goes_with="other"),
    ):
        claim(one)
    assert run_record.that_go_with("it") == [disk]


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL, errno.ENOSPC])
def test_a_record_is_written_under_its_name_only_where_nameless_files_are_unknown(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(run_record, "_name_whole", refuse)
    if number == errno.ENOSPC:
        with pytest.raises(OSError, match="No space"):
            claim(RunRecord.mine("it"))
        assert there() == []
    else:
        claim(RunRecord.mine("it"))
        assert there() == ["it.json"]


def being_written(record: RunRecord, name: str = "it", writer: ProcessIdentity = DEAD) -> Path:
    file = run_folder() / f".{name}.{writer.pid}.{writer.start_ticks}.being-written"
    file.write_bytes(msgspec.json.encode(record))
    return file


OF_ANOTHER_BOOT = {"world": f"another-boot {world().split()[1]}", "machine": machine()}
OF_ANOTHER_MACHINE = {"world": f"another-boot {world().split()[1]}", "machine": "another one"}


@pytest.mark.parametrize(
    ("changes", "name", "writer", "goes"),
    [
        ({}, "it", DEAD, True),
        ({}, "it", myself(), False),
        ({}, "other", DEAD, False),
        (OF_ANOTHER_BOOT, "it", DEAD, bool(machine())),
        (OF_ANOTHER_BOOT, "it", myself(), bool(machine())),
        (OF_ANOTHER_MACHINE, "it", DEAD, False),
    ],
)
def test_what_a_killed_writer_left_goes_if_it_is_of_this_machine(
    changes: dict[str, str], name: str, writer: ProcessIdentity, goes: bool
) -> None:
    file = being_written(msgspec.structs.replace(RunRecord.mine("it"), **changes), name, writer)
    run_record.sweep()
    assert file.exists() is not goes


def test_a_file_without_a_writer_in_its_name_is_left() -> None:
    file = run_folder() / ".it.being-written"
    file.write_bytes(msgspec.json.encode(RunRecord.mine("it")))
    run_record.sweep()
    assert file.exists()


def test_what_another_flushlab_sweeps_at_the_same_time_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    file, read = being_written(RunRecord.mine("it")), run_record._read

    def read_and_gone(path: Path) -> RunRecord | None:
        found = read(path)
        path.unlink()
        return found

    monkeypatch.setattr(run_record, "_read", read_and_gone)
    run_record.sweep()
    assert not file.exists()


def test_no_file_stays_open() -> None:
    before = descriptors()
    claim(RunRecord.mine("it"))
    assert not descriptors() - before
