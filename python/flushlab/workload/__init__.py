"""Workload: anything that makes the server write and yields one result.

One workload, one file:

- `oltp`, `upsert` and `txn`: loads of the native engine.
- `sql`: a script, run by the native engine too.
- `command`: any program.
- `data`: a load of the native engine, made from the user's data.
- `own_load`: the load that a running server has; observed, not driven.

`parse` makes a workload from a name and options; `options` declares the options.
"""

from flushlab.workload.command import CommandWorkload, files_named
from flushlab.workload.data import DataWorkload
from flushlab.workload.describe import Event, event_of, source_text, sources_of
from flushlab.workload.oltp import OltpWorkload
from flushlab.workload.options import OptionInfo
from flushlab.workload.parse import (
    ON_DATA,
    all_options,
    build_workload,
    changed,
    command_of,
    defaults_of,
    fingerprint,
    on_data,
    parse_timing,
    parse_workload,
    settled,
    settled_name,
    workload_names,
    workload_options,
)
from flushlab.workload.protocol import Driving, Measured, OwnLoad, Timing, Window, Workload
from flushlab.workload.sliced import SlicedLoad
from flushlab.workload.sql import SqlWorkload
from flushlab.workload.txn import TxnWorkload
from flushlab.workload.upsert import UpsertWorkload

__all__ = [
    "ON_DATA",
    "CommandWorkload",
    "DataWorkload",
    "Driving",
    "Event",
    "Measured",
    "OltpWorkload",
    "OptionInfo",
    "OwnLoad",
    "SlicedLoad",
    "SqlWorkload",
    "Timing",
    "TxnWorkload",
    "UpsertWorkload",
    "Window",
    "Workload",
    "all_options",
    "build_workload",
    "changed",
    "command_of",
    "defaults_of",
    "event_of",
    "files_named",
    "fingerprint",
    "on_data",
    "parse_timing",
    "parse_workload",
    "settled",
    "settled_name",
    "source_text",
    "sources_of",
    "workload_names",
    "workload_options",
]
