"""locations: redo, undo, doublewrite and binary logs that lie in memory, wherever the data directory lies."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation, on_crashes

LOCATIONS = {
    "datadir": "the data directory",
    "innodb_data_home_dir": "the system tablespace",
    "innodb_log_group_home_dir": "the redo log",
    "innodb_undo_directory": "the undo log",
    "innodb_doublewrite_dir": "the doublewrite buffer",
    "log_bin_basename": "the binary log",
    "binlog_directory": "the binary log",
}
"""Settings that say where files lie, and what they hold."""

_IN_MEMORY = ("/dev/shm/", "/run/", "/var/run/")
"""File systems in memory on every Linux (file-hierarchy(7))."""


def _find(situation: Situation) -> Iterator[Effect]:
    for name, files in LOCATIONS.items():
        place = str(situation.value(name) or "")
        if name not in situation.storage.in_memory_files and not f"{place}/".startswith(_IN_MEMORY):
            continue
        if files == "the binary log":
            if situation.has_binlog:
                text = "the binary log is in memory: it is lost, and so are commits that only it confirms"
                yield Effect(on="binlog", level="at_risk", text=text)
                yield from on_crashes("unknown", text)
        elif name == "innodb_doublewrite_dir":
            text = f"a torn page is beyond repair: {files} is in memory"
            yield Effect(on="torn_page", level="at_risk", text=text)
        else:
            yield from on_crashes("at_risk", f"the data may be beyond repair: {files} is in memory")


IN_MEMORY = Rule(
    name="locations",
    source="https://www.kernel.org/doc/html/latest/filesystems/tmpfs.html; "
    "https://dev.mysql.com/doc/refman/8.0/en/innodb-init-startup-configuration.html",
    find=_find,
)
