from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from flushlab.errors import HarnessError
from flushlab.machine import ownership
from flushlab.process import all_records, identify, myself, reap, run_folder, run_record
from flushlab.process.identity import ProcessIdentity, machine, world
from flushlab.process.run_record import RunRecord, claim, reap_record
from tests.trees import tree
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.usefixtures("private_home")

DEAD = ProcessIdentity(pid=1, start_ticks=1 << 60)


@pytest.fixture
def server() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def left_behind(process: subprocess.Popen[bytes] | None = None, name: str = "it") -> RunRecord:
    folder = run_folder() / name
    record = msgspec.structs.replace(
        RunRecord.mine(name, folder), owner=DEAD, server=identify(process.pid) if process else None
    )
    ownership.make(str(folder), record.mark("sandbox", name))
    (folder / "file").write_text("data")
    claim(record)
    return record


def test_abandoned_sandbox_is_killed_and_removed(server: subprocess.Popen[bytes]) -> None:
    left_behind(server)
    assert reap() == ["it"]
    assert server.wait(PATIENCE_S) == -9
    assert list(run_folder().iterdir()) == []


def test_a_server_that_does_not_end_leaves_no_other_of_a_dead_owner(
    server: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        left_behind(server, name)
    asked: list[ProcessIdentity] = []

    def survives(process: ProcessIdentity, _folders: object) -> None:
        asked.append(process)
        if len(asked) == 1:
            raise HarnessError("it survived SIGKILL")

    monkeypatch.setattr("flushlab.process.run_record.kill_session", survives)
    with pytest.raises(HarnessError, match="survived"):
        reap()
    assert (len(asked), len(all_records())) == (2, 1)


def test_a_folder_that_cannot_be_removed_leaves_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    remove, record, second = ownership.remove, left_behind(name="a"), left_behind(name="b")
    record = msgspec.structs.replace(record, folders=(*record.folders, *second.folders))
    asked: list[str] = []

    def fails(folder: str, **proof: str) -> bool:
        asked.append(folder)
        if len(asked) == 1:
            raise OSError(errno.EIO, "Input/output error", folder)
        return remove(folder, **proof)

    monkeypatch.setattr(ownership, "remove", fails)
    with pytest.raises(OSError, match="Input/output error"):
        reap_record(record)
    assert len(asked) == 2
    assert run_record.read("a") is not None


def test_a_guard_that_does_not_end_by_itself_is_killed_before_its_folders_go(
    server: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flushlab.process.run_record._GUARD_S", 0.05)
    record = msgspec.structs.replace(left_behind(), guard=identify(server.pid))
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(record))
    assert reap() == ["it"]
    assert server.wait(PATIENCE_S) == -9
    assert list(run_folder().iterdir()) == []


def test_mounts_are_taken_off_before_a_folder_goes_and_folders_of_others_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it, theirs = run_folder() / "it", run_folder().parent / "theirs"
    theirs.mkdir()
    record = msgspec.structs.replace(
        left_behind(),
        mounts=(str(it / "mount"),),
        folders=(str(it), str(theirs)),
    )
    asked: list[tuple[object, ...]] = []

    def unmount(folders: object, points: object, token: str) -> None:
        assert it.is_dir()
        asked.append((folders, points, token))

    monkeypatch.setattr(ownership, "unmount", unmount)
    assert reap_record(record) == [theirs]
    assert asked == [(record.folders, record.mounts, record.token)]
    assert (it.exists(), theirs.exists(), all_records()) == (False, True, [])


def test_a_guard_of_an_earlier_boot_is_nobody(
    server: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flushlab.process.run_record._GUARD_S", 0.05)
    record = msgspec.structs.replace(left_behind(), guard=identify(server.pid))
    changed = of_another_boot(record, machine() or "this one")
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(changed))
    reap()
    assert server.poll() is None


def test_sandbox_of_a_living_owner_is_spared(server: subprocess.Popen[bytes]) -> None:
    record = left_behind()
    (run_folder() / "it.json").write_bytes(
        msgspec.json.encode(msgspec.structs.replace(record, owner=myself()))
    )
    assert reap() == []
    assert (run_folder() / "it" / "file").is_file()


def test_kept_sandbox_is_spared(server: subprocess.Popen[bytes]) -> None:
    record = left_behind(server)
    kept = msgspec.structs.replace(record, kind="kept")
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(kept))
    assert reap() == []
    assert server.poll() is None
    assert all_records() == [kept]


def kept_disk_of(holder: str, process: subprocess.Popen[bytes]) -> RunRecord:
    record = msgspec.structs.replace(left_behind(process, "its-disk"), kind="kept", goes_with=holder)
    (run_folder() / "its-disk.json").write_bytes(msgspec.json.encode(record))
    return record


def test_kept_disk_is_spared_as_long_as_there_is_its_sandbox(server: subprocess.Popen[bytes]) -> None:
    sandbox = msgspec.structs.replace(left_behind(), kind="kept")
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(sandbox))
    disk = kept_disk_of("it", server)
    assert reap() == []
    assert (server.poll(), all_records()) == (None, [sandbox, disk])
    run_record.remove("it")
    assert reap() == ["its-disk"]
    assert (server.wait(PATIENCE_S), all_records()) == (-9, [])


def test_kept_disk_of_another_machine_with_the_same_home_is_spared(server: subprocess.Popen[bytes]) -> None:
    theirs = msgspec.structs.replace(kept_disk_of("it", server), world="another boot", machine="another")
    (run_folder() / "its-disk.json").write_bytes(msgspec.json.encode(theirs))
    assert reap() == []
    assert (server.poll(), all_records()) == (None, [theirs])


def test_kept_disk_of_an_earlier_boot_goes_when_its_sandbox_is_gone(server: subprocess.Popen[bytes]) -> None:
    earlier = of_another_boot(kept_disk_of("it", server), machine() or "this one")
    (run_folder() / "its-disk.json").write_bytes(msgspec.json.encode(earlier))
    assert reap() == ["its-disk"]
    assert (server.poll(), list(run_folder().iterdir())) == (None, [])


def test_disk_of_a_sandbox_goes_with_it(server: subprocess.Popen[bytes]) -> None:
    sandbox = left_behind()
    kept_disk_of("it", server)
    assert reap_record(sandbox) == []
    assert (server.wait(PATIENCE_S), list(run_folder().iterdir())) == (-9, [])


def test_process_that_got_the_number_later_is_spared(server: subprocess.Popen[bytes]) -> None:
    record = left_behind(server)
    assert record.server is not None
    earlier = msgspec.structs.replace(record.server, start_ticks=record.server.start_ticks - 1)
    changed = msgspec.structs.replace(record, server=earlier)
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(changed))
    assert reap() == ["it"]
    assert server.poll() is None


def test_numbers_of_an_earlier_boot_mean_nobody(server: subprocess.Popen[bytes]) -> None:
    changed = of_another_boot(left_behind(server), machine() or "this one")
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(changed))
    assert reap() == ["it"]
    assert server.poll() is None
    assert list(run_folder().iterdir()) == []


def test_sandbox_of_another_container_is_spared() -> None:
    record = left_behind()
    boot = world().split()[0]
    changed = msgspec.structs.replace(record, world=f"{boot} pid:[1]")
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(changed))
    assert reap() == []
    assert (run_folder() / "it" / "file").is_file()


@pytest.mark.parametrize("whose", ["0123456789abcdef another-host", ""])
def test_sandbox_of_another_machine_with_the_same_home_is_spared(whose: str) -> None:
    changed = of_another_boot(left_behind(), whose)
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(changed))
    assert reap() == []
    assert (run_folder() / "it" / "file").is_file()


@pytest.mark.parametrize("mark", ["none", "of another sandbox", "no JSON", "a link to one"])
def test_folder_without_the_records_mark_is_never_removed(mark: str) -> None:
    precious = run_folder().parent / "precious"
    precious.mkdir()
    (precious / "file").write_text("data")
    changed = msgspec.structs.replace(left_behind(), folders=(str(precious),))
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(changed))
    if mark == "of another sandbox":
        other = RunRecord.mine("other").mark("sandbox", "it")
        (precious / ownership.MARK).write_text(json.dumps({"flushlab": "1", **other}))
    elif mark == "no JSON":
        (precious / ownership.MARK).write_text(changed.token)
    elif mark == "a link to one":
        (precious / ownership.MARK).symlink_to(run_folder() / "it" / ownership.MARK)
    before = tree(precious)
    reap()
    assert tree(precious) == before


def test_folders_of_a_sandbox_of_flushlab_0_1_have_no_mark_and_are_left() -> None:
    folder = run_folder() / "old"
    folder.mkdir()
    old = {
        "name": "old",
        "kind": "owned",
        "world": world(),
        "owner": {"pid": 1, "start_ticks": 1 << 60},
        "guard": None,
        "server": None,
        "folders": [str(folder)],
    }
    (run_folder() / "old.json").write_text(json.dumps(old))
    assert reap() == ["old"]
    assert list(run_folder().iterdir()) == [folder]


def of_another_boot(record: RunRecord, machine: str) -> RunRecord:
    return msgspec.structs.replace(record, world=f"another-boot {world().split()[1]}", machine=machine)


WRITE = """
import os
from pathlib import Path
from flushlab.process import Guard
%s = lambda *_, **__: os._exit(9)
Guard("it").close()
"""


@pytest.mark.parametrize("last_act", ["Path.hardlink_to", "Path.replace"])
def test_record_whose_writer_was_killed_over_it_is_removed(last_act: str) -> None:
    done = subprocess.run([sys.executable, "-c", WRITE % last_act], check=False)
    assert done.returncode == 9
    assert any(file.name.endswith(".being-written") for file in run_folder().iterdir())
    wait_until(lambda: not (run_folder() / "it.json").exists() or reap(), "the guard or the janitor is done")
    reap()
    assert list(run_folder().iterdir()) == []


def test_record_has_no_name_before_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **__: object) -> None:
        assert list(run_folder().iterdir()) == []
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", killed)
    with pytest.raises(KeyboardInterrupt):
        claim(RunRecord.mine("it"))
    assert list(run_folder().iterdir()) == []


def test_record_is_written_where_files_need_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no such files here")

    monkeypatch.setattr(run_record, "_name_whole", refuse)
    claim(record := RunRecord.mine("it"))
    assert all_records() == [record]


def test_record_that_is_being_written_is_left_alone() -> None:
    left_behind()
    being_written = run_record._write_beside(all_records()[0])
    reap()
    assert being_written.is_file()


@pytest.mark.parametrize("content", ["", "{}", "my notes"])
def test_file_that_is_only_named_like_a_half_written_record_is_left(content: str) -> None:
    file = run_folder() / ".it.1.1.being-written"
    file.write_text(content)
    reap()
    assert file.read_text() == content


def test_what_is_no_record_is_left_alone() -> None:
    (run_folder() / "strange.json").write_text("{")
    assert reap() == []
    assert (run_folder() / "strange.json").is_file()
