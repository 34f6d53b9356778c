"""Switching: the flush mode changes while committers commit, as a server's would by SET GLOBAL.

Probe layer. One run per policy goes through the flush modes that it permits and back to the first; then the
strict checker reads the binlogs that it wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from flushlab import _core
from flushlab.errors import UsageError
from flushlab.probe.ceilings import WARM_UP_SECONDS, Change, CommitCell, Maker, run_of
from flushlab.probe.policy import Policy
from flushlab.record import FlushMode, Medium, Switching, SwitchPhase

PHASE_SECONDS = 0.4


class SwitchCell(msgspec.Struct, frozen=True, kw_only=True):
    """One run to be made: the flush modes in their order."""

    policy: Policy
    modes: tuple[FlushMode, ...]
    committers: int

    @property
    def natural_seconds(self) -> float:
        """How long the window has to be."""
        return PHASE_SECONDS * len(self.modes)


class _Latency(msgspec.Struct, frozen=True):
    max: float


class _Result(msgspec.Struct, frozen=True):
    phases: tuple[SwitchPhase, ...]
    latency_us: _Latency | None
    last_gtid: int


def cells(of: Sequence[CommitCell]) -> tuple[SwitchCell, ...]:
    """A run for each policy of the matrix that permits two flush modes, with the most committers.

    Raises:
        UsageError: no policy does.
    """
    permitted: dict[Policy, dict[FlushMode, None]] = {}
    for cell in of:
        permitted.setdefault(cell.policy, {})[cell.flush] = None
    most = max(cell.committers for cell in of)
    found = tuple(
        SwitchCell(policy=policy, modes=(*modes, next(iter(modes))), committers=most)
        for policy, modes in permitted.items()
        if len(modes) > 1
    )
    if not found:
        raise UsageError(
            "--switch needs a policy with two flush modes to switch between",
            hint="repeat --flush, as in --policy 2/1000 --flush serial --flush parallel",
        )
    return found


def measure(
    folder: Path, cell: SwitchCell, *, seconds: float, most_bytes: int, medium: Medium, make: Maker
) -> Switching | None:
    """Switches through the modes of a cell in the probe's own folder; its files are left there.

    Returns:
        None if not one commit ended in the window. Errors: as of `ceilings.measure`.
    """
    first, *others = cell.modes
    each = seconds / len(cell.modes)
    changes = tuple(
        Change(after_seconds=WARM_UP_SECONDS + each * number, flush=mode)
        for number, mode in enumerate(others, 1)
    )
    begin = CommitCell(policy=cell.policy, flush=first, committers=cell.committers)
    answer, _ = run_of(
        folder, begin, seconds=seconds, most_bytes=most_bytes, medium=medium, make=make, changes=changes
    )
    result = msgspec.json.decode(answer, type=_Result)
    if result.latency_us is None:
        return None
    return Switching(
        redo=cell.policy.redo,
        sync_binlog=cell.policy.sync_binlog,
        committers=cell.committers,
        phases=result.phases,
        longest_commit_us=result.latency_us.max,
        transactions=result.last_gtid,
        binlog_is_whole=_is_whole(folder, result.last_gtid),
    )


def _is_whole(folder: Path, transactions: int) -> bool:
    """Whether the strict checker finds every transaction, each once and without a gap in the GTIDs."""
    files = [str(file) for file in sorted(folder.glob("binlog.0*"))]
    reports = msgspec.json.decode(_core.check_binlogs(files, False))
    whole = all(one["verdict"] == "whole" and not one["problem_count"] for one in reports)
    return whole and sum(one["transactions"] for one in reports) == transactions
