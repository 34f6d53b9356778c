"""Telemetry: activity of the server and the machine during a window.

One source, one file:

- `status`: SHOW GLOBAL STATUS, InnoDB's monitor.
- `performance` and `file_io`: performance_schema.
- `cpu`: /proc.
- `files`: open files.
- `tracepoint`: syncs, counted in the kernel.
- `activity`: syncs and bytes per class of files.

`observe` reads all sources at both ends of a window.
"""

from flushlab.telemetry.activity import counted_by
from flushlab.telemetry.observation import Observation, observe
