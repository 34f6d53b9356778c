"""Datadir: where data directories lie, and how they come to be: data roots, snapshots, disks."""

from flushlab.datadir.data_root import DataRoot, storage_of
from flushlab.datadir.fault_disk import FaultDisk, FaultImage, remove_record, require_fault_disk
from flushlab.datadir.recording import Recording
from flushlab.datadir.restore import Restored
from flushlab.datadir.slow_disk import (
    SlowDisk,
    Volume,
    named_disks,
    open_volume,
    own_disk,
    parse_disk,
    slow_disk_in,
    volume_in,
)
from flushlab.datadir.snapshots import Snapshot, SnapshotKey, Snapshots
