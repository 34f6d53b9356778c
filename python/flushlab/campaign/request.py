"""What the user asks `tune` for, as it is stored with the campaign: enough to go on after a kill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.experiment.objective import Objective
from flushlab.record import SourceText, Value, Warning
from flushlab.settings.candidates import Candidate
from flushlab.settings.fit import Scaled
from flushlab.spec.kinds import TuneSpec
from flushlab.workload import Timing


class TuneRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A tuning, with everything decided that must not change when it is resumed.

    Attributes:
        spec: what was asked for, with everything settled that another machine or another day would settle
            differently: it repeats the campaign.
        build: name of the build, exact version.
        build_id: its key; a resumed campaign must find the same binary.
        folder: that it was asked for in, where a command runs.
        workload_digest: changes with the content of its file; a resumed campaign must find the same.
        sources: the texts that it runs, as they were when it started.
        base: the user's settings as they run here, raised to the floor.
        original: the user's settings as they were.
        yours: the user's settings as they run here, where they are below the floor and may be measured; None:
            `base` is theirs, or they do not run.
        raised_why: what was changed to reach the floor, in words.
        scaled: what of the user's settings this machine cannot hold; `base` has it as it runs here.
        notes: doubts that were known before the first trial.
        candidates: what may be tried.
        timing: of warm-up and window.
        steady_state: windows outlast the redo log, and what needs that may be tried.
        objective: what is compared.
        dataset_key: what the user's data held; a resumed campaign must find the same.
        side_by_side: servers that stand at once and take turns; 0: each trial has a fresh one.
        why_fresh: why they are fresh where that was not asked for; empty otherwise.
        crash_fail: what crashes before the winner is handed over.
        persisted: what SET PERSIST has stored there; None: not known.
        has: settings of `original` that nobody asked for: that server has them.
    """

    spec: TuneSpec
    build: str
    build_id: str
    folder: str = ""
    workload_digest: str = ""
    sources: tuple[SourceText, ...] = ()
    base: Mapping[str, Value]
    original: Mapping[str, Value]
    yours: Mapping[str, Value] | None = None
    raised_why: tuple[str, ...] = ()
    scaled: tuple[Scaled, ...] = ()
    notes: tuple[Warning, ...] = ()
    candidates: tuple[Candidate, ...]
    timing: Timing
    steady_state: bool = False
    objective: Objective = "throughput"
    dataset_key: Mapping[str, str] = {}
    side_by_side: int = 0
    why_fresh: str = ""
    crash_fail: Literal["process", "os", "power"] = "power"
    persisted: Mapping[str, str] | None = None
    has: Mapping[str, Value] = {}
    kind: Literal["tune"] = "tune"

    @property
    def workload(self) -> str:
        """Its name."""
        return self.spec.workload.name

    @property
    def seed(self) -> int:
        """Of every random order."""
        return self.spec.seed or 0

    @property
    def crash_images(self) -> int:
        """Crashes of the winner before it is handed over; 0: none."""
        return self.spec.crash_images or 0

    @property
    def budget_s(self) -> float | None:
        """The budget in seconds, or None if it counts trials."""
        return None if self.spec.minutes is None else self.spec.minutes * 60

    @property
    def raised(self) -> dict[str, Value]:
        """What raises the user's settings to the floor; what was only scaled to this machine is not in it."""
        scaled = {one.name for one in self.scaled}
        return {
            name: value
            for name, value in self.base.items()
            if name not in scaled and self.original.get(name) != value
        }

    @property
    def run(self) -> list[Mapping[str, Value]]:
        """All settings that a server may run with, apart from mixtures of candidates."""
        yours = [] if self.yours is None else [self.yours]
        return [self.base, *yours, *({**self.base, **one.settings} for one in self.candidates)]
