import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flushlab.datadir import Snapshot, SnapshotKey, Snapshots, kept
from flushlab.datadir import snapshots as snapshots_module
from flushlab.datadir.restore import checksum
from flushlab.errors import NoSpace, NotWritable, SnapshotDamaged, StorageError
from flushlab.machine import ownership
from tests.trees import OCCUPANTS, occupy, tree
from tests.waiting import PATIENCE_S

KEY = SnapshotKey({"build": "mariadb-10.11.19-1a2b", "purpose": "template"})
SPARSE_BYTES = 8 << 20

pytestmark = pytest.mark.usefixtures("private_home")


@pytest.fixture
def tmp_path(reachable: Path) -> Path:
    """In place of pytest's own, which is closed to others."""
    return reachable


@pytest.fixture
def store(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "snapshots")


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    """Forgets what this process has checked, as a new one would have."""
    snapshots_module._checked.clear()
    yield
    snapshots_module._checked.clear()


def fill(data: Path) -> None:
    """A small data directory: a nested file, an empty folder, a sparse redo log."""
    (data / "mysql").mkdir(mode=0o750)
    (data / "empty").mkdir()
    (data / "mysql/user.ibd").write_bytes(os.urandom(70_000))
    (data / "mysql/user.ibd").chmod(0o640)
    with (data / "ib_logfile0").open("wb") as redo:
        redo.truncate(SPARSE_BYTES)
        redo.seek(4 << 20)
        redo.write(b"log" * 1000)


def refuse(_: Path) -> None:
    raise AssertionError("fill was called although the snapshot exists")


def restore(store: Snapshots, snapshot: Snapshot, target: Path) -> None:
    store.restore(snapshot, target, uid=os.getuid(), gid=os.getgid(), settle=False)


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def rewritten(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Changes a sealed file and puts its modification time back, as a failing disk would."""
    before = path.stat()
    path.chmod(0o600)
    path.write_bytes(change(path.read_bytes()))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def flip_first_byte(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


def test_digest_does_not_depend_on_the_order_of_the_parts() -> None:
    same = SnapshotKey({"purpose": "template", "build": "mariadb-10.11.19-1a2b"})
    assert same.digest == KEY.digest
    assert len(KEY.digest) == 64


def test_digest_keeps_names_and_values_apart() -> None:
    assert SnapshotKey({"a": "b:c"}).digest != SnapshotKey({"a:b": "c"}).digest


def test_key_that_was_never_made_is_not_found(store: Snapshots) -> None:
    assert store.find(KEY) is None
    assert store.list() == []


def test_restored_directory_is_what_was_filled(store: Snapshots, tmp_path: Path) -> None:
    snapshot = store.make(KEY, fill)
    restore(store, snapshot, tmp_path / "data")
    assert contents(tmp_path / "data") == contents(snapshot.path)
    assert (tmp_path / "data/empty").is_dir()
    assert (tmp_path / "data/mysql").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "data/mysql/user.ibd").stat().st_mode & 0o777 == 0o640


def test_sparse_file_stays_sparse(store: Snapshots, tmp_path: Path) -> None:
    restore(store, store.make(KEY, fill), tmp_path / "data")
    facts = (tmp_path / "data/ib_logfile0").stat()
    assert facts.st_size == SPARSE_BYTES
    assert facts.st_blocks * 512 < SPARSE_BYTES / 4


def test_reserved_file_stays_reserved(store: Snapshots, tmp_path: Path) -> None:
    def reserve(data: Path) -> None:
        with (data / "ib_logfile0").open("wb") as redo:
            os.posix_fallocate(redo.fileno(), 0, SPARSE_BYTES)

    restore(store, store.make(KEY, reserve), tmp_path / "data")
    assert (tmp_path / "data/ib_logfile0").stat().st_blocks * 512 >= SPARSE_BYTES


def test_result_of_a_restore_says_the_way_and_the_size(store: Snapshots, tmp_path: Path) -> None:
    snapshot = store.make(KEY, fill)
    restored = store.restore(snapshot, tmp_path / "data", uid=os.getuid(), gid=os.getgid())
    assert restored.way in {"memory", "reflink", "copy"}
    assert restored.bytes == snapshot.size_bytes == 70_000 + SPARSE_BYTES
    assert restored.seconds > 0


def test_second_make_takes_what_the_first_made(store: Snapshots) -> None:
    first = store.make(KEY, fill)
    assert store.make(KEY, refuse) == first == store.find(KEY)
    assert [snapshot.key for snapshot in store.list()] == [KEY]


def test_two_at_once_make_it_once(store: Snapshots) -> None:
    inside, go_on = threading.Event(), threading.Event()
    made: list[Snapshot] = []

    def slow_fill(data: Path) -> None:
        inside.set()
        assert go_on.wait(PATIENCE_S)
        fill(data)

    first = threading.Thread(target=lambda: made.append(store.make(KEY, slow_fill)))
    second = threading.Thread(target=lambda: made.append(store.make(KEY, refuse)))
    first.start()
    assert inside.wait(PATIENCE_S)
    second.start()
    go_on.set()
    first.join(PATIENCE_S)
    second.join(PATIENCE_S)
    assert len(made) == 2
    assert made[0] == made[1]


def test_failing_fill_leaves_nothing_and_passes_its_error_on(store: Snapshots) -> None:
    def break_off(data: Path) -> None:
        (data / "half").write_text("x")
        raise RuntimeError("the server did not start")

    with pytest.raises(RuntimeError, match="did not start"):
        store.make(KEY, break_off)
    assert [path.name for path in store.directory.iterdir()] == ["locks"]
    assert store.find(KEY) is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_is_named_and_nothing_is_left(store: Snapshots, number: int) -> None:
    def fill_up(data: Path) -> None:
        (data / "half").write_text("x")
        raise OSError(number, os.strerror(number))

    with pytest.raises(NoSpace, match=f"disk of {store.directory} filled up while making a snapshot"):
        store.make(KEY, fill_up)
    assert [path.name for path in store.directory.iterdir()] == ["locks"]


@pytest.mark.parametrize(("free", "expected"), [((1 << 20) - 1, NoSpace), (1 << 20, RuntimeError)])
def test_whatever_fails_on_a_full_disk_is_the_disks_fault(
    store: Snapshots, monkeypatch: pytest.MonkeyPatch, free: int, expected: type[Exception]
) -> None:
    def break_off(_: Path) -> None:
        raise RuntimeError("the server did not start")

    monkeypatch.setattr(snapshots_module, "free_bytes", lambda _path, in_memory: free)
    with pytest.raises(expected, match="the server did not start"):
        store.make(KEY, break_off)
    assert [path.name for path in store.directory.iterdir()] == ["locks"]


def test_another_error_of_the_system_passes_through(store: Snapshots) -> None:
    def break_off(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        store.make(KEY, break_off)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotWritable, match="file/snapshots is not writable: Not a directory"):
        Snapshots(tmp_path / "file/snapshots").make(KEY, refuse)


def test_a_folder_that_the_servers_user_cannot_enter_is_refused(
    store: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots_module, "may_enter", lambda *_: False)
    with pytest.raises(NotWritable, match=f"{store.directory} is not accessible to"):
        store.make(KEY, refuse)
    assert [path.name for path in store.directory.iterdir()] == ["locks"]


def test_others_may_pass_through_the_folder_but_not_list_it(store: Snapshots) -> None:
    store.make(KEY, fill)
    assert store.directory.stat().st_mode & 0o777 == 0o711


def test_symbolic_link_is_refused_and_named(store: Snapshots) -> None:
    with pytest.raises(StorageError, match="outside cannot be saved"):
        store.make(KEY, lambda data: (data / "outside").symlink_to("/var/lib/mysql"))
    assert store.find(KEY) is None


def test_pipe_that_a_server_left_is_not_saved(store: Snapshots) -> None:
    def leave_pipe(data: Path) -> None:
        os.mkfifo(data / "pipe")
        (data / "ibdata1").write_bytes(b"x")

    assert [file.path for file in store.make(KEY, leave_pipe).manifest.files] == ["ibdata1"]


def test_snapshot_is_closed_to_others_and_to_writing(store: Snapshots) -> None:
    snapshot = store.make(KEY, fill)
    assert snapshot.path.parent.stat().st_mode & 0o777 == 0o700
    for path in (snapshot.path, *snapshot.path.rglob("*")):
        assert path.stat().st_mode & 0o377 in ({0o100} if path.is_dir() else {0}), path


def test_occupied_target_is_left_alone(store: Snapshots, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/precious").write_text("mine")
    with pytest.raises(StorageError, match="not an empty directory"):
        restore(store, store.make(KEY, fill), tmp_path / "data")
    assert contents(tmp_path / "data") == {"precious": b"mine"}


def test_target_without_a_parent_is_refused(store: Snapshots, tmp_path: Path) -> None:
    with pytest.raises(NotWritable, match="is not a directory"):
        restore(store, store.make(KEY, fill), tmp_path / "no/data")


def test_empty_target_is_taken(store: Snapshots, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    restore(store, store.make(KEY, fill), tmp_path / "data")
    assert (tmp_path / "data/mysql/user.ibd").exists()


def test_what_others_have_beside_the_target_is_left_alone(store: Snapshots, tmp_path: Path) -> None:
    (tmp_path / ".data.restoring").mkdir()
    (tmp_path / ".data.restoring/precious").write_text("mine")
    restore(store, store.make(KEY, fill), tmp_path / "data")
    assert (tmp_path / ".data.restoring/precious").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".data.restoring", "data", "snapshots"]


KILLED = """
import os, sys
from pathlib import Path
from flushlab.datadir import SnapshotKey, Snapshots
from flushlab.machine import ownership
def fill(data):
    (data / "sub").mkdir()
    (data / "sub").chmod(0o500)
    if sys.argv[2] == "making":
        os._exit(9)
store, key = Snapshots(Path(sys.argv[1])), SnapshotKey({"build": "other"})
store.make(key, fill)
ownership._empty = lambda *_, **__: os._exit(9)
store.remove(key)
"""


@pytest.mark.parametrize("work", ["making", "removing"])
def test_what_a_killed_maker_or_remover_left_is_removed_by_the_next(store: Snapshots, work: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(store.directory), work], check=False)
    assert done.returncode == 9
    assert len(list(store.directory.iterdir())) == 2
    store.make(KEY, fill)
    assert sorted(path.name for path in store.directory.iterdir()) == [KEY.digest, "locks"]


def test_folders_that_are_only_named_like_ours_are_left(store: Snapshots) -> None:
    names = (f"making-{KEY.digest}-x1", f"removing-{KEY.digest}-x2", "flushlab-snapshot-x", ".flushlab-x")
    for name in names:
        (store.directory / name).mkdir(parents=True)
        (store.directory / name / "file").write_text("mine")
    before = tree(store.directory)
    store.make(KEY, fill)
    store.remove(KEY)
    assert {name: entry for name, entry in tree(store.directory).items() if name in before} == before


@pytest.mark.parametrize("there", OCCUPANTS)
def test_what_is_in_a_snapshots_place_is_refused_and_left(
    store: Snapshots, tmp_path: Path, there: str
) -> None:
    place, other = store.directory / KEY.digest, tmp_path / "other"
    store.directory.mkdir()
    other.mkdir()
    (other / "manifest.json").write_text("mine")
    occupy(place, other, there)
    before = tree(tmp_path)
    with pytest.raises(StorageError, match="flushlab did not make it"):
        store.make(KEY, fill)
    with pytest.raises(StorageError, match="flushlab did not make it"):
        store.remove(KEY)
    after = tree(tmp_path)
    assert {name: after[name] for name in before} == before


def test_maker_at_work_is_not_swept_away(store: Snapshots) -> None:
    def make_another_meanwhile(data: Path) -> None:
        fill(data)
        store.make(SnapshotKey({"build": "other"}), fill)

    assert store.make(KEY, make_another_meanwhile).path.is_dir()


def test_flipped_byte_is_found_before_the_first_restore_and_rebuilt(store: Snapshots, tmp_path: Path) -> None:
    snapshot = store.make(KEY, fill)
    snapshots_module._checked.clear()
    rewritten(snapshot.path / "mysql/user.ibd", flip_first_byte)
    with pytest.raises(SnapshotDamaged, match=r"content of mysql/user\.ibd has changed"):
        restore(store, snapshot, tmp_path / "data")
    assert not (tmp_path / "data").exists()
    restore(store, store.make(KEY, fill), tmp_path / "data")
    assert (tmp_path / "data/mysql/user.ibd").exists()


def test_flipped_byte_is_found_by_verify_even_after_a_restore(store: Snapshots) -> None:
    snapshot = store.make(KEY, fill)
    store.verify(snapshot)
    rewritten(snapshot.path / "ib_logfile0", lambda content: content[:-1] + b"\1")
    with pytest.raises(SnapshotDamaged, match="ib_logfile0"):
        store.verify(snapshot)


def test_other_size_is_found_at_each_restore(store: Snapshots, tmp_path: Path) -> None:
    snapshot = store.make(KEY, fill)
    rewritten(snapshot.path / "mysql/user.ibd", lambda content: content[:-1])
    with pytest.raises(SnapshotDamaged, match="69999 bytes, not 70000"):
        restore(store, snapshot, tmp_path / "data")


def test_touched_but_equal_file_is_no_damage(store: Snapshots, tmp_path: Path) -> None:
    snapshot = store.make(KEY, fill)
    os.utime(snapshot.path / "mysql/user.ibd", ns=(1, 1))
    restore(store, snapshot, tmp_path / "data")
    assert contents(tmp_path / "data") == contents(snapshot.path)


def test_touched_and_changed_file_is_found_at_each_restore(store: Snapshots, tmp_path: Path) -> None:
    snapshot = store.make(KEY, fill)
    rewritten(snapshot.path / "mysql/user.ibd", flip_first_byte)
    os.utime(snapshot.path / "mysql/user.ibd")
    with pytest.raises(SnapshotDamaged):
        restore(store, snapshot, tmp_path / "data")


@pytest.mark.parametrize("strange", ["missing", "extra"])
def test_missing_and_extra_files_are_damage(store: Snapshots, tmp_path: Path, strange: str) -> None:
    snapshot = store.make(KEY, fill)
    (snapshot.path / "mysql").chmod(0o700)
    if strange == "missing":
        (snapshot.path / "mysql/user.ibd").unlink()
    else:
        (snapshot.path / "mysql/new.ibd").write_text("")
    with pytest.raises(SnapshotDamaged, match=r"user\.ibd is missing|new\.ibd does not belong"):
        restore(store, snapshot, tmp_path / "data")


@pytest.mark.parametrize(
    "text", ["", "{}", json.dumps({"schema": "x/9", "key": {}, "folders": [], "files": []})]
)
def test_unreadable_manifest_is_damage_and_make_rebuilds(store: Snapshots, text: str) -> None:
    manifest = store.make(KEY, fill).path.parent / "manifest.json"
    manifest.chmod(0o600)
    manifest.write_text(text)
    with pytest.raises(SnapshotDamaged):
        store.find(KEY)
    assert store.list() == []
    assert store.make(KEY, fill) == store.find(KEY)


def test_handle_of_a_rebuilt_snapshot_still_restores(store: Snapshots, tmp_path: Path) -> None:
    stale = store.make(KEY, fill)
    store.remove(KEY)
    rebuilt = store.make(KEY, fill)
    restore(store, stale, tmp_path / "data")
    assert contents(tmp_path / "data") == contents(rebuilt.path)


def test_removed_snapshot_is_gone_and_removing_again_says_so(store: Snapshots) -> None:
    store.make(KEY, fill)
    assert store.remove(KEY) is True
    assert store.find(KEY) is None
    assert [path.name for path in store.directory.iterdir()] == ["locks"]
    assert store.remove(KEY) is False


def test_snapshot_that_does_not_fit_is_refused_before_anything_is_written(
    store: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = store.make(KEY, fill)
    monkeypatch.setattr("flushlab.datadir.data_root.free_bytes", lambda path, in_memory: 1000)
    with pytest.raises(NoSpace, match="only 1000 B is free"):
        restore(store, snapshot, tmp_path / "data")
    assert not (tmp_path / "data").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["snapshots"]


USER = """
import sys
from pathlib import Path
from flushlab.datadir import SnapshotKey, Snapshots
assert Snapshots(Path(sys.argv[1])).find(SnapshotKey({"build": sys.argv[2]})) is not None
print("found", flush=True)
sys.stdin.read()
"""


def test_what_was_used_longest_ago_goes_and_what_another_process_uses_stays(tmp_path: Path) -> None:
    store = Snapshots(tmp_path / "snapshots", limit_bytes=1 << 40)
    keys = [SnapshotKey({"build": name}) for name in ("first", "second", "third")]
    made = [store.make(key, fill) for key in keys]
    for time, snapshot in enumerate(made, start=1):
        os.utime(snapshot.path.parent / ownership.MARK, (time, time))
    command = [sys.executable, "-c", USER, str(store.directory), "first"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None and user.stdout.readline() == b"found\n"
        assert store.in_use(made[0])
        os.utime(made[0].path.parent / ownership.MARK, (1, 1))
        assert store.evict(made[2].allocated_bytes) == (made[1],)
        user.kill()
    assert store.evict(made[2].allocated_bytes) == (made[0],)
    assert store.list() == [made[2]]


def test_the_one_to_keep_stays_and_a_limit_that_is_met_takes_none(tmp_path: Path) -> None:
    store = Snapshots(tmp_path / "snapshots", limit_bytes=1 << 40)
    made = [store.make(SnapshotKey({"build": name}), fill) for name in ("first", "second", "third")]
    for time, snapshot in enumerate(made, start=1):
        os.utime(snapshot.path.parent / ownership.MARK, (time, time))
    assert store.evict(sum(one.allocated_bytes for one in made)) == ()
    assert store.evict(0, spare_ours=True) == (), "this process uses them"
    assert store.evict(0, keep=made[0].key.digest) == (made[2], made[1])
    assert store.list() == [made[0]]
    assert store.evict(0) == (made[0],)


def test_of_a_snapshot_without_a_mark_nothing_tells_when_it_was_used(store: Snapshots) -> None:
    folder = store.make(KEY, fill).path.parent
    os.utime(folder / ownership.MARK, (7, 7))
    assert kept.last_used(folder) == 7
    (folder / ownership.MARK).unlink()
    assert kept.last_used(folder) == 0
    assert store.evict(0) == (), "nothing proves that it is one"
    assert store.find(KEY) is not None


def test_making_one_makes_room_but_takes_nothing_that_this_process_uses(tmp_path: Path) -> None:
    store = Snapshots(tmp_path / "snapshots", limit_bytes=1)
    command = [
        sys.executable,
        "-c",
        USER.replace(".find(", ".make(").replace("})) is", "}), lambda _: None) is"),
    ]
    subprocess.run([*command, str(store.directory), "of another"], stdin=subprocess.DEVNULL, check=True)
    first = store.make(KEY, fill)
    assert store.list() == [first], "the other process has ended"
    second = store.make(SnapshotKey({"build": "second"}), fill)
    assert {one.key.digest for one in store.list()} == {first.key.digest, second.key.digest}


@pytest.mark.parametrize(("chosen", "limit"), [("2G", 2 << 30), ("0", 0)])
def test_limit_is_taken_from_the_environment(
    store: Snapshots, monkeypatch: pytest.MonkeyPatch, chosen: str, limit: int
) -> None:
    monkeypatch.setenv("FLUSHLAB_CACHE_SIZE", chosen)
    assert store.limit_bytes == limit


def test_limit_is_a_share_of_the_disk_if_nobody_says_otherwise(store: Snapshots) -> None:
    store.make(KEY, fill)
    facts = os.statvfs(store.directory)
    assert 0 < store.limit_bytes < facts.f_blocks * facts.f_frsize / 4


def test_checksum_does_not_depend_on_holes(tmp_path: Path) -> None:
    (tmp_path / "dense").write_bytes(bytes(3 << 20) + b"end")
    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.seek(3 << 20)
        sparse.write(b"end")
    assert checksum(tmp_path / "dense") == checksum(tmp_path / "sparse")


def test_checksum_depends_on_where_the_data_lies(tmp_path: Path) -> None:
    (tmp_path / "first").write_bytes(b"x" * (1 << 20) + bytes(1 << 20))
    (tmp_path / "second").write_bytes(bytes(1 << 20) + b"x" * (1 << 20))
    assert checksum(tmp_path / "first") != checksum(tmp_path / "second")
