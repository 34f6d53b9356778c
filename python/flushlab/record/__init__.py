"""Record: the frozen values that all layers exchange and the store keeps.

Nothing here does I/O or computes more than a property. Every struct encodes to JSON with
msgspec and decodes back to an equal value. Units stand last in names.
"""

from flushlab.record.arm import Arm, Value
from flushlab.record.comparison import Comparison, Ratio, Verdict
from flushlab.record.load import Endpoint, ErrorCount, Latency, LoadProgress, LoadResult, LoadSpec
from flushlab.record.machine import DiskLimit, Machine
from flushlab.record.server import Launch, ServerIdentity, Storage
from flushlab.record.trial import Outcome, ServerSample, Stage, Trial
from flushlab.record.warning import Warning

__all__ = [
    "Arm",
    "Comparison",
    "DiskLimit",
    "Endpoint",
    "ErrorCount",
    "Latency",
    "Launch",
    "LoadProgress",
    "LoadResult",
    "LoadSpec",
    "Machine",
    "Outcome",
    "Ratio",
    "ServerIdentity",
    "ServerSample",
    "Stage",
    "Storage",
    "Trial",
    "Value",
    "Verdict",
    "Warning",
]
