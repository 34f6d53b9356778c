"""The alternating runner: all arms on one running server, settings switched by SET GLOBAL between windows.

Stands beside `TrialRunner`, for settings that are meant to be switched while the server runs. It costs no
restart, and it sees no restart either: what one window leaves behind (dirty pages, checkpoint age) is there
in the next, for every arm alike, as the order is random.

    start once -> SET what differs -> READ BACK every setting -> warm up -> window -> record -> SET … -> kill
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from flushlab.record import Arm, Stage, Trial, Value
from flushlab.trial.measurement import NOT_STARTED, Draft, measure
from flushlab.trial.protocol import ArmRunner, Running
from flushlab.trial.switching import Switching
from flushlab.workload.engine_options import drawing


@dataclass
class AlternatingRunner:
    """Runs trials on one server; a context manager that ends it.

    Attributes:
        trials: everything of a trial that is not its arm.
        base: settings that the server starts with.
    """

    trials: ArmRunner
    base: Mapping[str, Value]
    _server: Running | None = None
    _switching: Switching | None = None
    _windows: int = 0

    def run(self, arm: Arm, *, stage: Stage, block: int, variant: int = 0) -> Trial:
        """Runs one trial; starts the server if it does not run.

        Raises:
            NoSpace, StorageError: as `TrialRunner.run`.
        """
        draft = Draft(arm=arm, stage=stage, block=block, variant=variant)
        try:
            switching = self._running()
            refused = switching.become(arm)
        except NOT_STARTED as error:
            self.close()
            return draft.not_started(error)
        if refused is not None:
            return draft.ended(*refused)
        trials = self.trials
        self._windows += 1
        trial = measure(
            draft,
            switching.server,
            drawing(trials.workloads[variant], self._windows),
            trials.timing,
            trials.catalog,
            outlast_redo=trials.outlast_redo,
        )
        if not switching.server.alive():
            self.close()
        return trial

    def close(self) -> None:
        """Kills the server; its data directory is thrown away."""
        if self._server is not None:
            self._server.close()
        self._server = self._switching = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running(self) -> Switching:
        if self._switching is None:
            self._server = self.trials.start(Arm(name="base", settings=self.base))
            self._switching = self.trials.switching(self._server, self.base)
        return self._switching
