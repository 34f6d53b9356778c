"""direct-io: settings that promise O_DIRECT, judged by the flags of the open files.

Sound: a server opens its system tablespace so and keeps it open; the flag is the kernel's own word. Single
tables may rightly lack it (compressed pages smaller than a sector), so only its absence from all counts.
A file in memory may carry the flag (Linux 6.6 and later lets it), but there is no device below it.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.effects.evidence import Evidence, Finding

_METHODS = ("O_DIRECT", "O_DIRECT_NO_FSYNC", "ALL_O_DIRECT")
_DATA = "the data files are open without O_DIRECT"
_REDO = "the redo log is open without O_DIRECT"


def buffered_data(evidence: Evidence) -> Iterator[Finding]:
    """innodb_flush_method=O_DIRECT, and data files that go through the page cache or lie in memory."""
    if evidence.flush_method in _METHODS:
        setting, value = "innodb_flush_method", evidence.settings["innodb_flush_method"]
        if "data" in evidence.in_memory:
            seen = "the data files are in memory, where there is no device to write to directly"
            yield Finding(setting=setting, value=value, seen=seen)
        elif _buffered(evidence, "data"):
            yield Finding(setting=setting, value=value, seen=_DATA)


def file_buffering(evidence: Evidence) -> Iterator[Finding]:
    """MariaDB's innodb_data_file_buffering=OFF and innodb_log_file_buffering=OFF, likewise."""
    for setting, kind, seen in (
        ("innodb_data_file_buffering", "data", _DATA),
        ("innodb_log_file_buffering", "redo", _REDO),
    ):
        if evidence.is_set(setting, "OFF") and kind not in evidence.in_memory and _buffered(evidence, kind):
            yield Finding(setting=setting, value="OFF", seen=seen)


def _buffered(evidence: Evidence, kind: str) -> bool:
    flags = evidence.flags(kind)
    return flags is not None and "O_DIRECT" not in flags
