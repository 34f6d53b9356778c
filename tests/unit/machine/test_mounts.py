from pathlib import Path

import pytest

from flushlab.machine import file_system_of
from flushlab.machine.mounts import (
    block_device,
    mount_of,
    parse_mountinfo,
    parse_scheduler,
    parse_write_cache,
)

MOUNTINFO = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,resv_strict,resuid=65534,resgid=65534
30 25 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24682416k
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
90 27 0:52 /@home /home rw,noatime shared:42 - btrfs /dev/nvme0n1p2 rw,ssd,subvolid=257,subvol=/@home
91 27 0:53 / /var/lib/docker/over\040lay rw,relatime master:3 propagate_from:1 - overlay overlay rw
92 27 0:54 / /tank/mysql rw,noatime shared:9 - zfs tank/mysql rw,xattr,noacl
"""


def test_optional_fields_do_not_shift_the_file_system() -> None:
    found = {mount.point: (mount.filesystem, mount.source) for mount in parse_mountinfo(MOUNTINFO)}
    assert found["/"] == ("ext4", "/dev/vda")
    assert found["/home"] == ("btrfs", "/dev/nvme0n1p2")
    assert found["/var/lib/docker/over lay"] == ("overlay", "overlay")
    assert found["/tank/mysql"] == ("zfs", "tank/mysql")


def test_cgroup_mounts_name_their_controllers_in_the_options() -> None:
    blkio = next(mount for mount in parse_mountinfo(MOUNTINFO) if mount.filesystem == "cgroup")
    assert "blkio" in blkio.options
    assert blkio.device_number == (0, 35)


def test_subvolume_keeps_its_root_and_number() -> None:
    home = next(mount for mount in parse_mountinfo(MOUNTINFO) if mount.point == "/home")
    assert (home.id, home.device_number, home.root) == (90, (0, 52), "/@home")


def test_lines_that_are_not_mounts_are_left_out() -> None:
    assert parse_mountinfo("nonsense\n1 2 3\n") == []


def test_proc_is_found_on_its_own_mount_also_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc/self")
    mount = mount_of(tmp_path / "link")
    assert mount is not None
    assert mount.filesystem == "proc"


def test_proc_has_no_block_device() -> None:
    under = file_system_of(Path("/proc"))
    assert (under.filesystem, under.device, under.in_memory) == ("proc", None, False)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("none [mq-deadline] kyber bfq \n", "mq-deadline"),
        ("[none]\n", "none"),
        ("none\n", "none"),
        ("", None),
    ],
)
def test_scheduler_is_the_marked_one(text: str, chosen: str | None) -> None:
    assert parse_scheduler(text) == chosen


@pytest.mark.parametrize(
    ("text", "volatile"), [("write back\n", True), ("write through\n", False), ("", None)]
)
def test_write_cache_is_volatile_when_it_writes_back(text: str, volatile: bool | None) -> None:
    assert parse_write_cache(text) is volatile


def test_partition_takes_queue_and_number_from_its_disk(tmp_path: Path) -> None:
    disk = tmp_path / "devices/pci/block/nvme0n1"
    partition = disk / "nvme0n1p2"
    (disk / "queue").mkdir(parents=True)
    partition.mkdir()
    (disk / "dev").write_text("259:0\n")
    (disk / "queue/scheduler").write_text("[none] mq-deadline\n")
    (disk / "queue/write_cache").write_text("write back\n")
    (disk / "queue/rotational").write_text("0\n")
    (disk / "queue/logical_block_size").write_text("4096\n")
    (partition / "partition").write_text("2\n")
    (tmp_path / "dev/block").mkdir(parents=True)
    (tmp_path / "dev/block/259:2").symlink_to(partition)
    device = block_device((259, 2), sys=tmp_path)
    assert device is not None
    assert (device.name, device.disk, device.disk_number) == ("nvme0n1p2", "nvme0n1", (259, 0))
    assert (device.scheduler, device.volatile_cache) == ("none", True)
    assert (device.rotational, device.logical_block_bytes) == (False, 4096)


@pytest.mark.parametrize(
    ("disk", "model", "told"),
    [
        ("vda", "", None),
        ("sda", "VBOX HARDDISK\n", None),
        ("sda", "Virtual disk\n", None),
        ("sda", "ST4000\n", True),
    ],
)
def test_a_virtual_disk_is_not_believed_to_spin(
    disk: str, model: str, told: bool | None, tmp_path: Path
) -> None:
    folder = tmp_path / "devices/block" / disk
    for name, text in (("dev", "8:0\n"), ("queue/rotational", "1\n"), ("device/model", model)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "dev/block").mkdir(parents=True)
    (tmp_path / "dev/block/8:0").symlink_to(folder)
    device = block_device((8, 0), sys=tmp_path)
    assert device is not None and device.rotational is told


def test_what_a_disk_does_not_tell_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "devices/block/sdx").mkdir(parents=True)
    (tmp_path / "devices/block/sdx/dev").write_text("8:7\n")
    (tmp_path / "dev/block").mkdir(parents=True)
    (tmp_path / "dev/block/8:7").symlink_to(tmp_path / "devices/block/sdx")
    device = block_device((8, 7), sys=tmp_path)
    assert device is not None
    assert (device.scheduler, device.volatile_cache, device.rotational) == (None, None, None)
    assert device.logical_block_bytes is None


def test_device_that_sys_does_not_show_is_unknown(tmp_path: Path) -> None:
    assert block_device((8, 1), sys=tmp_path) is None
