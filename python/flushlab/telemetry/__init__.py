"""Telemetry: what the server and the machine did during a window.

One source, one file: `innodb` (SHOW ENGINE INNODB STATUS and its counters), `status` (SHOW GLOBAL
STATUS), `cpu` (/proc), `files` (open files), `tracepoint` (syncs, counted in the kernel), `activity` (the two
of them as syncs and bytes per class of files). `observe` puts them on both ends of a window.
"""

from flushlab.telemetry.activity import counted_by
from flushlab.telemetry.observation import Observation, observe

__all__ = ["Observation", "counted_by", "observe"]
