"""Volume: where data directories lie, and how slow its disk is. Sits in `datadir`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from flushlab.build.build import Progress, silent
from flushlab.datadir.data_root import DataRoot
from flushlab.datadir.disk_limit import LimitedDisk, limit_disk
from flushlab.datadir.disk_profile import parse_disk
from flushlab.datadir.slow_disk import SlowDisk
from flushlab.errors import UsageError
from flushlab.machine import describe
from flushlab.record import DiskProfile, Machine


@dataclass(frozen=True)
class Volume:
    """A data root with the limit on its disk, or with a disk of its own."""

    data_root: DataRoot
    disk_limit: LimitedDisk | None = None
    slow_disk: SlowDisk | None = None

    @property
    def below(self) -> DataRoot:
        """The data root that was asked for: the blocks of a disk of its own lie there."""
        return self.slow_disk.below if self.slow_disk else self.data_root

    def machine(self) -> Machine:
        """This machine, with the file system, the device and the limit of the volume."""
        return describe(
            self.data_root.path,
            self.disk_limit.record if self.disk_limit else None,
            self.slow_disk.record if self.slow_disk else None,
        )


@contextmanager
def open_volume(
    data_root: Path | None, disk_iops: int | None, disk: str | None = None, progress: Progress = silent
) -> Iterator[Volume]:
    """Opens a data root and makes its disk slow if asked to; arguments and errors: as of `volume_in`."""
    profile_of(disk_iops, disk)  # found out before anything is made
    with volume_in(DataRoot.open(data_root), disk_iops, disk, progress) as volume:
        yield volume


@contextmanager
def volume_in(
    root: DataRoot, disk_iops: int | None, disk: str | None = None, progress: Progress = silent
) -> Iterator[Volume]:
    """A data root, with a limit on its disk or with a disk of its own in it, which go at the end.

    Raises:
        UsageError: both are asked for, or no such disk is known.
        StorageError, UsageError, HarnessError: as their makers say.
    """
    profile = profile_of(disk_iops, disk)
    if profile is not None:
        with closing(SlowDisk(root, profile).open(progress)) as slow:
            yield Volume(slow.data_root, slow_disk=slow)
    elif disk_iops is not None:
        progress(f"limiting the disk under {root.path} to {disk_iops} writes/s and measuring it")
        with limit_disk(root, disk_iops) as limit:
            progress(f"the disk gives {limit.record.measured_write_iops:.0f} writes/s ({limit.record.way})")
            yield Volume(root, limit)
    else:
        yield Volume(root)


def profile_of(disk_iops: int | None, disk: str | None) -> DiskProfile | None:
    """The disk of its own that is asked for, or None; with a limit, too, it is a UsageError."""
    if disk is None:
        return None
    if disk_iops is not None:
        hint = f"say --disk {disk},iops={disk_iops}"
        raise UsageError("--disk and --disk-iops cannot be combined", hint=hint)
    return parse_disk(disk)


def own_disk(disk_iops: int | None, disk: str | None) -> DiskProfile | None:
    """A disk of its own, as slow as was asked for: a limit on a disk that there is ends with the command."""
    profile = profile_of(disk_iops, disk)
    return profile if disk_iops is None else parse_disk(f"iops={disk_iops}")
