"""Datadir: where data directories lie, and how they come to be: data roots, snapshots, disk limits."""

from flushlab.datadir.data_root import DataRoot, storage_of
from flushlab.datadir.disk_limit import LimitedDisk, limit_disk

__all__ = ["DataRoot", "LimitedDisk", "limit_disk", "storage_of"]
