"""The rules: one file each, registered here; the first that speaks of a setting is heard."""

from collections.abc import Callable, Iterable

from flushlab.settings.effects.evidence import Evidence, Finding
from flushlab.settings.effects.rules.binlog_syncs import too_few_binlog_syncs, too_many_binlog_syncs
from flushlab.settings.effects.rules.binlog_written import binlog_not_written
from flushlab.settings.effects.rules.commit_syncs import (
    never_synced,
    synced_writes,
    too_few_commit_syncs,
    too_many_commit_syncs,
)
from flushlab.settings.effects.rules.direct_io import buffered_data, file_buffering
from flushlab.settings.effects.rules.doublewrite import doublewritten
from flushlab.settings.effects.rules.memory import syncs_in_memory
from flushlab.settings.effects.rules.write_through import redo_not_written_through

RULES: tuple[Callable[[Evidence], Iterable[Finding]], ...] = (
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
