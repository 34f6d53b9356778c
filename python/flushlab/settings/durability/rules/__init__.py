"""The rules: one file each, registered here."""

from flushlab.settings.durability.rules.binlog_sync import BINLOG_SYNC
from flushlab.settings.durability.rules.checkpoint import CHECKPOINT
from flushlab.settings.durability.rules.checksums import CHECKSUMS
from flushlab.settings.durability.rules.cluster import CLUSTER
from flushlab.settings.durability.rules.doublewrite import ARIA_PAGES, DOUBLEWRITE, UNSYNCED_COPY
from flushlab.settings.durability.rules.engine import ENGINE
from flushlab.settings.durability.rules.flush_method import NO_FSYNC, NO_FSYNC_UNFIXED, UNSYNCED
from flushlab.settings.durability.rules.flush_policy import FLUSH_POLICY
from flushlab.settings.durability.rules.launch import DEBUG_NO_SYNC, PRELOAD
from flushlab.settings.durability.rules.locations import IN_MEMORY
from flushlab.settings.durability.rules.redo_log import REDO_DISABLED
from flushlab.settings.durability.rules.storage import STORAGE

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
