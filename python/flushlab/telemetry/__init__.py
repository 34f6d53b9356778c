"""Telemetry: what the server and the machine did during a window.

One source, one file: `innodb` (SHOW ENGINE INNODB STATUS and its counters), `status` (SHOW GLOBAL
STATUS), `cpu` (/proc). `observe` puts them on both ends of a window.
"""

from flushlab.telemetry.observation import Observation, observe

__all__ = ["Observation", "observe"]
