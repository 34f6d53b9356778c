"""Files: the evidence of a diagnosis from files, for people who may not connect.

- One file per source, registered here: what a text tells (`told`). Pure; takes any text.
- `folder` reads the files, and refuses what is none.
- `samples` makes one `Evidence` of all files, and refuses those that do not belong together. Pure.
- `untold` says what the files do not tell. Pure.
"""

from __future__ import annotations

from flushlab.diagnosis.files import (
    exporter,
    innodb_status,
    machine,
    recording,
    statements,
)
from flushlab.diagnosis.files.told import Source

SOURCES: tuple[Source, ...] = (
    statements.STATUS,
    statements.VARIABLES,
    statements.VERSION,
    innodb_status.SOURCE,
    statements.PROCESSLIST,
    statements.TRANSACTIONS,
    exporter.SOURCE,
    recording.SOURCE,
    machine.DISKSTATS,
    machine.PROCSTAT,
    machine.MEMINFO,
    machine.DF,
)

__all__ = ["SOURCES"]
