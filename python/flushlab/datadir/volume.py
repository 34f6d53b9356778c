"""Volume: where data directories lie, and how slow its disk is. Sits in `datadir`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from flushlab.build.build import Progress, silent
from flushlab.datadir.data_root import DataRoot
from flushlab.datadir.disk_profile import parse_disk
from flushlab.datadir.slow_disk import SlowDisk
from flushlab.machine import describe
from flushlab.record import DiskProfile, Machine


@dataclass(frozen=True)
class Volume:
    """A data root, on a disk of its own if it was asked for."""

    data_root: DataRoot
    slow_disk: SlowDisk | None = None

    @property
    def below(self) -> DataRoot:
        """The data root that was asked for: the blocks of a disk of its own lie there."""
        return self.slow_disk.below if self.slow_disk else self.data_root

    def machine(self) -> Machine:
        """This machine, with the file system and the device of the volume."""
        return describe(self.data_root.path, self.slow_disk.record if self.slow_disk else None)


@contextmanager
def open_volume(
    data_root: Path | None, disk: str | None = None, progress: Progress = silent
) -> Iterator[Volume]:
    """Opens a data root, and makes a disk in it if asked to; arguments and errors: as of `volume_in`."""
    own_disk(disk)  # found out before anything is made
    with volume_in(DataRoot.open(data_root), disk, progress) as volume:
        yield volume


@contextmanager
def volume_in(root: DataRoot, disk: str | None = None, progress: Progress = silent) -> Iterator[Volume]:
    """A data root, or a disk of its own in it, which goes at the end.

    Raises:
        UsageError: no such disk is known.
        StorageError, UsageError, HarnessError: as their makers say.
    """
    profile = own_disk(disk)
    if profile is None:
        yield Volume(root)
        return
    with closing(SlowDisk(root, profile).open(progress)) as slow:
        yield Volume(slow.data_root, slow_disk=slow)


def own_disk(disk: str | None) -> DiskProfile | None:
    """The disk of its own that is asked for, or None; a UsageError if no such disk is known."""
    return None if disk is None else parse_disk(disk)
