"""Errors: what stops flushlab, with the way out.

One base class; each subclass has a stable slug (machine-readable, tested), made from its name, and an exit
code.
The message names the thing, the value and the rule; the hint is the way out. Measured facts
(a refused setting, a discarded block) are values in records, never exceptions.

Exit codes: negative answer 1, usage 2, server 3, measurement 4, storage 5, harness 6, protocol 7;
docs/reference/exit-codes.md has the table for users.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import ClassVar

NEGATIVE = 1
"""Exit code of a command that did its work with a negative answer: a check found errors."""


class FlushlabError(Exception):
    """Base of everything flushlab raises for the user or the world.

    Args:
        message: the thing, the value, the rule that was broken; one or a few lines.
        hint: what to do about it, or None when there is nothing to advise.
    """

    slug: ClassVar[str] = "flushlab"
    exit_code: ClassVar[int] = NEGATIVE

    def __init_subclass__(cls) -> None:
        cls.slug = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__.removesuffix("Error")).lower()

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(FlushlabError):
    """The request cannot be carried out as it was written."""

    exit_code = 2


class UnknownSetting(UsageError):
    """A setting that the catalog and the server do not know, or not in this version."""


class ValueOutOfRange(UsageError):
    """A setting's value that its type or range does not allow."""


class BelowFloor(UsageError):
    """Settings whose guarantees are below the durability floor that was asked for."""


class BuildNotFound(UsageError):
    """A build name that matches no build, or more than one."""


class ExtraMissing(UsageError):
    """A command that needs packages of an extra, which are not installed."""


class BudgetTooSmall(UsageError):
    """A budget below the smallest campaign."""


class ServerError(FlushlabError):
    exit_code = 3


class LibraryMissing(ServerError):
    """A server's binary needs a shared library that is not here."""


class StartFailed(ServerError):
    """`refusal`: the line of its log with the setting that it refused; `unfinished`: still at work at the
    limit."""

    def __init__(self, message: str, *, hint: str | None = None, refusal: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.refusal = refusal
        self.unfinished = False


class ServerDied(ServerError):
    """A server that was ready is gone; the message ends with the tail of its error log."""


class PortTaken(ServerError):
    """A port that was asked for is in use."""


class FleetError(ServerError):
    """A fleet of machines could not be started, joined, reached or stopped."""


class MeasurementError(FlushlabError):
    exit_code = 4


class CommandFailed(MeasurementError):
    def __init__(self, message: str, *, hint: str | None = None, output: str = "") -> None:
        super().__init__(message, hint=hint)
        self.output = output


class SamplesDisagree(MeasurementError):
    """Files of different servers, or of two runs of one: no growth can be told from them."""


class CountersReset(MeasurementError):
    """FLUSH STATUS set counters of a server back while they were read, or answers were cut short."""


class LoadPaused(MeasurementError):
    """The load of a running server committed nothing for a while: that is no fault of the settings."""


class SettingsTouched(FlushlabError):
    """Somebody else has set, or a restart has lost, settings of a running server while they were compared."""

    exit_code = 4


class StorageError(FlushlabError):
    exit_code = 5


class NoSpace(StorageError):
    """`of_data`: it is missing where the data of a server lie."""

    def __init__(self, message: str, *, hint: str | None = None, of_data: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.of_data = of_data


class NoMemory(NoSpace):
    """A server that did not start for lack of memory: its settings ask for more than there is."""


class NotWritable(StorageError):
    """A directory that flushlab must write to and cannot."""


class SnapshotDamaged(StorageError):
    """A snapshot whose content does not match its checksums."""


class DumpRefused(StorageError):
    """A dump that the server does not take: the first statement that it refused, with its words."""


class BinlogDamaged(FlushlabError):
    exit_code = NEGATIVE


class BinlogMisplaced(FlushlabError):
    """A whole binlog file that does not continue the previous file of its series."""

    exit_code = NEGATIVE


class BinlogUnchecked(StorageError):
    """A binlog file of an unknown format, or an encrypted one."""


class HarnessError(FlushlabError):
    exit_code = 6


class ProtocolError(FlushlabError):
    exit_code = 7


# -- hints: the names that somebody may have meant -----------------------------------------------------------

_AS_NEAR = 0.1
"""Names that are suggested together are alike to this (difflib's ratio): what is less near was not meant."""
_A_BEGINNING = 0.9
"""How alike a name must be to the beginning of the one that was meant."""


def nearest(name: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Others are about as near; `cutoff` is how alike a name must be, as difflib's ratio."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=most, cutoff=cutoff)
    if "_" in name:
        begun = {one: max(_alike(name, one[: len(name) + more]) for more in (-1, 0, 1)) for one in names}
        best = max(begun.values(), default=0.0)
        if best >= max(_A_BEGINNING, cutoff) and not (near and _alike(name, near[0]) >= best):
            return [one for one in names if begun[one] == best][:most]
    return [one for one in near if _alike(name, one) > _alike(name, near[0]) - _AS_NEAR]


def _alike(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, name).ratio()
