"""What the user asks `tune` for, as it is stored with the campaign: enough to go on after a kill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.experiment.guards import Guards
from flushlab.experiment.objective import Objective
from flushlab.record import SourceText, Value, Warning
from flushlab.settings.candidate import Candidate
from flushlab.settings.fit import Scaled
from flushlab.settings.floor import Floor
from flushlab.workload import Shape, Timing


class TuneRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A tuning, with everything decided that must not change when it is resumed.

    Attributes:
        build: name of the build, exact version.
        build_id: its key; a resumed campaign must find the same binary.
        basedir: where the build is, if the user named a directory.
        workload: as the user wrote it.
        folder: that it was asked for in, where a command runs.
        workload_digest: changes with the content of its file; a resumed campaign must find the same.
        sources: the texts that it runs, as they were when it started.
        shape: of an OLTP workload; `threads` is replaced by each of `threads`.
        threads: thread counts; each is a variant that runs in every block.
        floor: the least guarantees that the user accepts.
        minutes, trials: the budget; one of both.
        base: the user's settings as they run here, lifted to the floor.
        original: the user's settings as they were.
        yours: the user's settings as they run here, where they are below the floor and may be measured; None:
            `base` is theirs, or they do not run.
        lifted: what was changed to reach the floor, in words.
        scaled: what of the user's settings this machine cannot hold; `base` has it as it runs here.
        notes: doubts that were known before the first trial.
        candidates: what may be tried.
        timing: of warm-up and window.
        steady_state: windows outlast the redo log, and what needs that may be tried.
        objective: what is compared.
        p99_limit: a winner's p99 may be at most this many times the base's.
        standalone: there are no replicas to care for.
        dataset: path of the user's data, or None.
        dataset_key: what it held; a resumed campaign must find the same.
        database: of the user's data, that the workload is for.
        fresh: each trial was to have a fresh server.
        side_by_side: servers that stand at once and take turns; 0: each trial has a fresh one.
        why_fresh: why they are fresh where that was not asked for; empty otherwise.
        keep: settings that had to stay as they are.
        crash_images: crashes of the winner before it is handed over; 0: none.
        crash_fail: what crashes then.
        memory: that the server may use, as the user wrote it, or None.
        data_root, disk_iops, disk: where, and how slow.
        cluster: nodes of the Galera cluster that takes the server's place, or None.
        latency_s: between them, or None.
        seed: of every random order.
        external: where somebody's own server is; empty if flushlab starts them.
        has: settings of `original` that nobody asked for: that server has them.
    """

    build: str
    build_id: str
    basedir: str | None = None
    workload: str
    folder: str = ""
    workload_digest: str = ""
    sources: tuple[SourceText, ...] = ()
    shape: Shape
    threads: tuple[int, ...]
    floor: Floor
    minutes: float | None = None
    trials: int | None = None
    base: Mapping[str, Value]
    original: Mapping[str, Value]
    yours: Mapping[str, Value] | None = None
    lifted: tuple[str, ...] = ()
    scaled: tuple[Scaled, ...] = ()
    notes: tuple[Warning, ...] = ()
    candidates: tuple[Candidate, ...]
    timing: Timing
    steady_state: bool = False
    fresh: bool = False
    side_by_side: int = 0
    why_fresh: str = ""
    objective: Objective = "throughput"
    p99_limit: float = Guards().p99_ratio
    standalone: bool = False
    dataset: str | None = None
    dataset_key: Mapping[str, str] = {}
    database: str | None = None
    keep: tuple[str, ...] = ()
    memory: str | None = None
    data_root: str | None = None
    disk_iops: int | None = None
    disk: str | None = None
    cluster: int | None = None
    latency_s: float | None = None
    seed: int = 1
    external: str = ""
    has: Mapping[str, Value] = {}
    crash_images: int = 0
    crash_fail: Literal["process", "os", "power"] = "power"
    kind: Literal["tune"] = "tune"

    @property
    def budget_s(self) -> float | None:
        """The budget in seconds, or None if it counts trials."""
        return None if self.minutes is None else self.minutes * 60

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
