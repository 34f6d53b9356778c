"""The rules: one file each, registered here; the first that speaks of a setting is heard."""

from collections.abc import Callable, Iterable

from flushlab.settings.effects.evidence import NoEffect, SeenEffects
from flushlab.settings.effects.logs import (
    binlog_not_written,
    buffered_data,
    doublewritten,
    file_buffering,
    never_synced,
    redo_not_written_through,
    synced_writes,
    syncs_in_memory,
    too_few_binlog_syncs,
    too_few_commit_syncs,
    too_many_binlog_syncs,
    too_many_commit_syncs,
)

RULES: tuple[Callable[[SeenEffects], Iterable[NoEffect]], ...] = (
    syncs_in_memory,
    buffered_data,
    file_buffering,
    redo_not_written_through,
    never_synced,
    too_few_commit_syncs,
    synced_writes,
    too_many_commit_syncs,
    binlog_not_written,
    too_few_binlog_syncs,
    too_many_binlog_syncs,
    doublewritten,
)

__all__ = ["RULES"]
