"""Workload: anything that makes the server write and yields one figure.

One workload, one file: `oltp` (the load engine) and `command` (any program). `parse` turns what
the user wrote after `--workload` into one of them.
"""

from flushlab.workload.command import CommandWorkload
from flushlab.workload.oltp import OltpWorkload
from flushlab.workload.parse import Shape, parse_workload
from flushlab.workload.protocol import Measured, Timing, Window, Workload

__all__ = [
    "CommandWorkload",
    "Measured",
    "OltpWorkload",
    "Shape",
    "Timing",
    "Window",
    "Workload",
    "parse_workload",
]
