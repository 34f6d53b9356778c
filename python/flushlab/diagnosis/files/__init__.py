"""Files: the evidence of a diagnosis from files, for people who may not connect.

- `SOURCES` has every kind of output; a function says what a text tells (`told`). Pure; takes any text.
- `folder` reads the files, and refuses what is none.
- `samples` makes one `Evidence` of all files, and refuses those that do not belong together. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flushlab.diagnosis.files import exporter, innodb_status, machine, recording, statements
from flushlab.diagnosis.files.told import Told
from flushlab.diagnosis.load import SCHEMA

SOURCES: Mapping[str, tuple[Callable[[str], Told], tuple[str, ...]]] = {
    "SHOW GLOBAL STATUS": (statements.parse_status, ("Aborted_", "Com_", "Innodb_", "INNODB_", "Threads_")),
    "SHOW GLOBAL VARIABLES": (
        statements.parse_variables,
        ("innodb_", "max_connections", "version", "sync_binlog"),
    ),
    "version": (statements.parse_version, (".",)),
    "SHOW ENGINE INNODB STATUS": (innodb_status.parse, innodb_status.MARKS),
    "SHOW PROCESSLIST": (statements.parse_processlist, ("Command:", "Command\t", "Command ", "COMMAND")),
    "INNODB_TRX": (statements.parse_transactions, ("trx_state",)),
    "mysqld_exporter": (exporter.parse, ("mysql_global_status_", "mysql_global_variables_")),
    "flushlab watch --record": (recording.parse, (SCHEMA,)),
    "/proc/diskstats": (machine.parse_diskstats, ("TS ",)),
    "/proc/stat": (machine.parse_procstat, ("\ncpu0 ",)),
    "/proc/meminfo": (machine.parse_meminfo, ("MemTotal:",)),
    "df": (machine.parse_df, ("/dev/",)),
}
"""By the name that people know, in order: the function that parses a text, and marks of texts that have it.
The function takes any text, and raises nothing."""

__all__ = ["SOURCES"]
