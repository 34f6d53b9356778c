"""Files: the evidence of a diagnosis from files, for people who may not connect.

- One file per source, registered here: what a text tells (`told`). Pure; takes any text.
- `folder` reads the files, and refuses what is none.
- `samples` makes one `Evidence` of all files, and refuses those that do not belong together. Pure.
- `untold` says what the files do not tell. Pure.
"""

from __future__ import annotations

from flushlab.diagnosis.files import (
    df,
    diskstats,
    exporter,
    innodb_status,
    meminfo,
    open_transactions,
    processlist,
    procstat,
    recording,
    status,
    variables,
    version,
)
from flushlab.diagnosis.files.told import Source

SOURCES: tuple[Source, ...] = (
    status.SOURCE,
    variables.SOURCE,
    version.SOURCE,
    innodb_status.SOURCE,
    processlist.SOURCE,
    open_transactions.SOURCE,
    exporter.SOURCE,
    recording.SOURCE,
    diskstats.SOURCE,
    procstat.SOURCE,
    meminfo.SOURCE,
    df.SOURCE,
)

__all__ = ["SOURCES"]
