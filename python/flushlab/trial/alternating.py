"""The alternating runner: all arms on one running server, settings switched by SET GLOBAL between windows.

Stands beside `TrialRunner`, for settings that are meant to be switched while the server runs. It costs no
restart, and it sees no restart either: what one window leaves behind (dirty pages, checkpoint age) is there
in the next, for every arm alike, as the order is random.

    start once -> SET what differs -> READ BACK every setting -> warm up -> window -> record -> SET … -> kill
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from flushlab.record import Arm, Stage, Trial, Value
from flushlab.server import Sandbox
from flushlab.trial.measurement import NOT_STARTED, Draft, measure
from flushlab.trial.runner import TrialRunner


@dataclass
class AlternatingRunner:
    """Runs trials on one server; a context manager that ends it.

    Attributes:
        trials: everything of a trial that is not its arm.
        base: settings that the server starts with.
    """

    trials: TrialRunner
    base: Mapping[str, Value]
    _server: Sandbox | None = None
    _initial: dict[str, Value] = field(default_factory=dict)
    _switched: set[str] = field(default_factory=set)

    def run(self, arm: Arm, *, stage: Stage, block: int, variant: int = 0) -> Trial:
        """Runs one trial; starts the server if it does not run.

        Raises:
            NoSpace, StorageError: as `TrialRunner.run`.
        """
        draft = Draft(arm=arm, stage=stage, block=block, variant=variant)
        try:
            server = self._running()
            refused = self._switch(server, arm)
        except NOT_STARTED as error:
            self.close()
            return draft.not_started(error)
        if refused:
            return draft.ended("refused", refused)
        trials = self.trials
        trial = measure(
            draft,
            server,
            trials.workloads[variant],
            trials.timing,
            trials.catalog,
            outlast_redo=trials.outlast_redo,
        )
        if not server.alive():
            self.close()
        return trial

    def close(self) -> None:
        """Kills the server; its data directory is thrown away."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._initial.clear()
        self._switched.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running(self) -> Sandbox:
        if self._server is None:
            arm = Arm(name="base", settings=self.base)
            self._server = self.trials.start(arm)
        return self._server

    def _switch(self, server: Sandbox, arm: Arm) -> str:
        """Sets what the arm sets and puts back what an earlier arm had set; the reason if it is refused.

        A setting that needs a restart is refused here: the server that alternates must go on running.
        """
        new = arm.settings.keys() - self._initial.keys()
        self._initial |= server.read_back(new)
        wanted = {name: self._initial[name] for name in self._switched if name in self._initial}
        wanted |= {name: value for name, value in arm.settings.items() if self.base.get(name) != value}
        if not wanted:
            return ""
        pid = server.pid
        applied = server.apply(wanted)
        self._switched |= wanted.keys()
        if applied.restarted or server.pid != pid:
            self.close()
            return "it cannot be changed while the server runs, and the plan alternates"
        return "; ".join(f"{one.name}={one.value}: {one.reason}" for one in applied.refused)
