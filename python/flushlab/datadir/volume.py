"""Volume: where data directories lie, and how slow its disk is made. Sits in `datadir`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flushlab.build.progress import Progress, silent
from flushlab.datadir.data_root import DataRoot
from flushlab.datadir.disk_limit import LimitedDisk, limit_disk
from flushlab.machine import describe
from flushlab.record import Machine


@dataclass(frozen=True)
class Volume:
    """A data root with the limit on its disk."""

    data_root: DataRoot
    disk_limit: LimitedDisk | None = None

    def machine(self) -> Machine:
        """This machine, with the file system, the device and the limit of the volume."""
        return describe(self.data_root.path, self.disk_limit.record if self.disk_limit else None)


@contextmanager
def open_volume(
    data_root: Path | None, disk_iops: int | None, progress: Progress = silent
) -> Iterator[Volume]:
    """Opens a data root and makes its disk slow if asked to; lifts the limit at the end.

    Raises:
        StorageError, UsageError, HarnessError: as their makers say.
    """
    root = DataRoot.open(data_root)
    if disk_iops is None:
        yield Volume(root)
        return
    progress(f"limiting the disk to {disk_iops} writes/s and measuring it")
    with limit_disk(root, disk_iops) as limit:
        progress(f"the disk gives {limit.record.measured_write_iops:.0f} writes/s ({limit.record.way})")
        yield Volume(root, limit)
