import os
from pathlib import Path

import pytest

from flushlab.datadir import DataRoot
from flushlab.errors import NoSpace, NotWritable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root only: servers run as another user only then")


pytestmark = pytest.mark.usefixtures("private_home")


def test_data_root_is_created_and_left_empty(reachable: Path) -> None:
    root = DataRoot.open(reachable / "new/run")
    assert root.path == reachable / "new/run"
    assert list(root.path.iterdir()) == []


def test_default_data_root_lies_in_home(reachable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUSHLAB_HOME", str(reachable / "home"))
    assert DataRoot.open().path == reachable / "home/run"


def test_symbolic_link_is_resolved_so_that_storage_is_the_targets(reachable: Path) -> None:
    (reachable / "real").mkdir()
    (reachable / "link").symlink_to(reachable / "real")
    assert DataRoot.open(reachable / "link").path == reachable / "real"


def test_file_is_no_data_root(reachable: Path) -> None:
    (reachable / "file").write_text("")
    with pytest.raises(NotWritable, match="is not a directory") as raised:
        DataRoot.open(reachable / "file")
    assert raised.value.hint == "choose a writable directory with --data-root"


def test_data_root_in_a_read_only_file_system_is_refused() -> None:
    with pytest.raises(NotWritable, match="/proc"):
        DataRoot.open(Path("/proc/self"))


@as_root
def test_a_folder_that_takes_no_directories_is_not_writable_and_not_full() -> None:
    with pytest.raises(NotWritable, match="the data root /proc is not writable"):
        DataRoot.open(Path("/proc"))


def test_data_root_that_the_servers_user_cannot_enter_is_refused(reachable: Path) -> None:
    (reachable / "closed").mkdir(mode=0o700)
    with pytest.raises(NotWritable, match="the user that servers run as"):
        DataRoot.open(reachable / "closed")
    assert list((reachable / "closed").iterdir()) == []


def test_more_than_is_free_is_no_space_with_both_sizes(reachable: Path) -> None:
    root = DataRoot.open(reachable)
    with pytest.raises(NoSpace, match=r"a redo log needs 1024 TiB, but only .* is free in ") as raised:
        root.require_free(1 << 50, "a redo log")
    assert raised.value.hint is not None
    assert raised.value.of_data


def test_what_is_free_is_enough(reachable: Path) -> None:
    root = DataRoot.open(reachable)
    assert root.free_bytes() > 0
    root.require_free(1, "a byte")


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no writable /dev/shm here")
def test_shared_memory_is_storage_in_memory() -> None:
    folder = Path("/dev/shm") / f"flushlab-test-{os.getpid()}"
    try:
        storage = DataRoot.open(folder).storage
    finally:
        folder.rmdir()
    assert (storage.filesystem, storage.in_memory, storage.device) == ("tmpfs", True, None)
