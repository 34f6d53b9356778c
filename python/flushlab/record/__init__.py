"""Record: the frozen values that all layers exchange and the store keeps.

Nothing here does I/O or computes more than a property. Every struct encodes to JSON with
msgspec and decodes back to an equal value. Units stand last in names.
"""

from flushlab.record.arm import Arm, Value
from flushlab.record.comparison import Comparison, Ratio, Verdict
from flushlab.record.load import (
    Endpoint,
    ErrorCount,
    KindTime,
    Latency,
    LoadProgress,
    LoadResult,
    LoadSpec,
    RowCounts,
    ScriptSpec,
    UpsertSpec,
)
from flushlab.record.machine import DiskLimit, Machine
from flushlab.record.server import Launch, ServerIdentity, Storage
from flushlab.record.trial import FILE_CLASSES, FileActivity, Outcome, ServerSample, Stage, Trial
from flushlab.record.warning import Warning

__all__ = [
    "FILE_CLASSES",
    "Arm",
    "Comparison",
    "DiskLimit",
    "Endpoint",
    "ErrorCount",
    "FileActivity",
    "KindTime",
    "Latency",
    "Launch",
    "LoadProgress",
    "LoadResult",
    "LoadSpec",
    "Machine",
    "Outcome",
    "Ratio",
    "RowCounts",
    "ScriptSpec",
    "ServerIdentity",
    "ServerSample",
    "Stage",
    "Storage",
    "Trial",
    "UpsertSpec",
    "Value",
    "Verdict",
    "Warning",
]
