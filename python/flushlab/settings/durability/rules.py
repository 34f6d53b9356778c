"""The rules: one file each, registered here."""

from flushlab.settings.durability.commits import BINLOG_SYNC, CLUSTER, ENGINE, FLUSH_POLICY, REDO_DISABLED
from flushlab.settings.durability.files import (
    ARIA_PAGES,
    CHECKPOINT,
    CHECKSUMS,
    DEBUG_NO_SYNC,
    DOUBLEWRITE,
    IN_MEMORY,
    NO_FSYNC,
    NO_FSYNC_UNFIXED,
    PRELOAD,
    STORAGE,
    UNSYNCED,
    UNSYNCED_COPY,
)

RULES = (
    FLUSH_POLICY,
    BINLOG_SYNC,
    DOUBLEWRITE,
    UNSYNCED_COPY,
    ARIA_PAGES,
    CHECKPOINT,
    CHECKSUMS,
    UNSYNCED,
    NO_FSYNC_UNFIXED,
    NO_FSYNC,
    REDO_DISABLED,
    STORAGE,
    IN_MEMORY,
    DEBUG_NO_SYNC,
    PRELOAD,
    CLUSTER,
    ENGINE,
)
