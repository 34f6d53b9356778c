"""Datadir: where data directories lie, and how they come to be: data roots, snapshots, disk limits."""

from flushlab.datadir.data_root import DataRoot, storage_of
from flushlab.datadir.disk_limit import LimitedDisk, limit_disk
from flushlab.datadir.restore import Restored
from flushlab.datadir.snapshots import Snapshot, SnapshotKey, Snapshots

__all__ = [
    "DataRoot",
    "LimitedDisk",
    "Restored",
    "Snapshot",
    "SnapshotKey",
    "Snapshots",
    "limit_disk",
    "storage_of",
]
