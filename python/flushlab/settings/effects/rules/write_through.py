"""write-through: settings that promise synchronous writes of the redo log, judged by the open files' flags.

Sound: the server opens the redo log so when it starts, and the flag is the kernel's own word.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.effects.evidence import Evidence, Finding

SYNCED_WRITES = ("O_DSYNC", "O_SYNC")


def redo_not_written_through(evidence: Evidence) -> Iterator[Finding]:
    """innodb_flush_method=O_DSYNC or innodb_log_file_write_through=ON, and a redo log without the flag."""
    flags = evidence.flags("redo")
    if flags is None or set(flags) & set(SYNCED_WRITES):
        return
    seen = "the redo log is open without O_DSYNC or O_SYNC"
    if evidence.flush_method == "O_DSYNC":
        yield Finding(
            setting="innodb_flush_method", value=evidence.settings["innodb_flush_method"], seen=seen
        )
    if evidence.is_set("innodb_log_file_write_through", "ON"):
        yield Finding(setting="innodb_log_file_write_through", value="ON", seen=seen)
