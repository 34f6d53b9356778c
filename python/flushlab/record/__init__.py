"""Record: the frozen values that all layers exchange and the store keeps.

Nothing here does I/O or computes more than a property. Every struct encodes to JSON with
msgspec and decodes back to an equal value. Units stand last in names.
"""

# ruff: noqa: F403 - every name of the modules is one of the package

from flushlab.record.arm import *
from flushlab.record.crash import *
from flushlab.record.load import *
from flushlab.record.machine import *
from flushlab.record.observed import *
from flushlab.record.probe import *
from flushlab.record.trial import *
