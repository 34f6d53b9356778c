"""Datadir: where data directories lie, and how they come to be: data roots, snapshots, disk limits."""

from flushlab.datadir.data_root import DataRoot, storage_of
from flushlab.datadir.disk_limit import LimitedDisk, limit_disk
from flushlab.datadir.restore import Restored
from flushlab.datadir.snapshots import Snapshot, SnapshotKey, Snapshots
from flushlab.datadir.volume import Volume, open_volume

__all__ = [
    "DataRoot",
    "LimitedDisk",
    "Restored",
    "Snapshot",
    "SnapshotKey",
    "Snapshots",
    "Volume",
    "limit_disk",
    "open_volume",
    "storage_of",
]
