"""TuneFacts: everything that a tuning found out, as one value that reports are made from."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flushlab.experiment.frontier import TuneResult
from flushlab.record import Machine, ServerIdentity, Value, Warning


class TuneFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a tuning found out.

    Attributes:
        campaign_id: for `--resume`.
        ending: `done`, `budget spent` or `interrupted`.
        server: what was tuned.
        workload: as the user wrote it, with its shape.
        unit: of the workload's figure.
        floor: the least that was accepted.
        base: settings of the base (the user's, lifted to the floor).
        lifted: what was changed in the user's base to reach the floor.
        result: of the experiment.
        base_figure: geometric mean of the base's figures in the confirmation blocks, or None.
        guarantees: plain words per failure, for the user's base under `base` and for every frontier arm
            under its name.
        recovery_s: seconds from SIGKILL under load to the first answer, per arm.
        data_bytes, pool_bytes, redo_bytes: the workload's data, the base's buffer pool and redo capacity.
        machine: that measured.
        warnings: doubts about the whole.
        files: what was written.
    """

    campaign_id: str
    ending: str
    server: ServerIdentity
    workload: str
    unit: str
    floor: str
    base: Mapping[str, Value]
    lifted: tuple[str, ...]
    result: TuneResult
    base_figure: float | None
    guarantees: Mapping[str, Mapping[str, str]]
    recovery_s: Mapping[str, float]
    data_bytes: int | None
    pool_bytes: int | None
    redo_bytes: int | None
    machine: Machine
    warnings: tuple[Warning, ...]
    files: tuple[str, ...]
