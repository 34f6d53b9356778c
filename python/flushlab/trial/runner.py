"""The trial runner: one arm, one fresh server, one window, one record.

    restore snapshot -> start with the arm's settings -> READ BACK every setting -> warm up
        -> window (workload, telemetry around it) -> record -> kill and delete

Every arm starts alike: from the same snapshot, by the same restore, with a fresh server process.
What the arm or the server does is a fact in the record; only what stops the whole campaign (no
space, no build, a root that cannot be written) is raised.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from flushlab.build.build import Build
from flushlab.datadir import DataRoot, LimitedDisk
from flushlab.errors import MeasurementError, NoMemory, ServerError, StartFailed
from flushlab.record import Arm, Stage, Trial
from flushlab.server import Sandbox
from flushlab.settings.catalog import Catalog
from flushlab.trial.measurement import Draft, measure
from flushlab.trial.preparation import Preparation
from flushlab.workload import Timing, Workload


@dataclass(frozen=True)
class TrialRunner:
    """Everything of a trial that is not its arm.

    Attributes:
        build: the server that every trial starts.
        catalog: types and meaning of settings.
        workloads: the variants that a block may run; usually one.
        timing: of warm-up and window.
        preparation: makes and finds the snapshot that an arm starts from.
        data_root: where its data directory lies.
        disk_limit: the slow disk, or None.
        outlast_redo: windows go on until `REDO_WRAPS` times the redo capacity was written.
        arguments: of the server, alike for every arm.
    """

    build: Build
    catalog: Catalog
    workloads: tuple[Workload, ...]
    timing: Timing
    preparation: Preparation
    data_root: DataRoot
    disk_limit: LimitedDisk | None = None
    outlast_redo: bool = False
    arguments: tuple[str, ...] = ()

    def run(self, arm: Arm, *, stage: Stage, block: int, variant: int = 0) -> Trial:
        """Runs one trial; see the module's docstring.

        Raises:
            NoSpace: the data root or the snapshots are full.
            StorageError: a place cannot be read or written.
        """
        workload = self.workloads[variant]
        draft = Draft(arm=arm, stage=stage, block=block, variant=variant)
        try:
            server = self.start(arm, variant=variant)
        except StartFailed as error:
            return draft.ended("refused" if error.refusal else "failed", error.refusal or error.message)
        except NoMemory as error:
            return draft.ended("refused", error.message)
        except (ServerError, MeasurementError) as error:  # its data could not be loaded: the others' may be
            return draft.ended("failed", error.message)
        with server:
            draft.seconds.update(server.seconds)
            try:
                return measure(
                    draft, server, workload, self.timing, self.catalog, outlast_redo=self.outlast_redo
                )
            finally:
                server.kill()  # its data directory is thrown away: an orderly stop would be time lost

    def recovery_s(self, arm: Arm) -> float:
        """Seconds from SIGKILL under load to the first answered query, on a fresh data directory.

        Raises:
            ServerError: the server did not come back.
        """
        workload = self.workloads[-1]
        with self.start(arm, variant=-1) as server:
            with suppress(ServerError, MeasurementError):
                workload.run(server, self.timing, _killing(server))
            if server.alive():
                raise ServerError(f"{workload.name} ended before it could be interrupted")
            started = time.monotonic()
            server.start_again()
            return time.monotonic() - started

    def start(self, arm: Arm, *, variant: int = 0) -> Sandbox:
        """A server with the arm's settings on a fresh copy of the workload's data.

        Raises:
            StartFailed: it did not become ready.
            NoSpace, StorageError: as `run`.
        """
        return Sandbox.start(
            self.build,
            settings=arm.settings,
            arguments=self.arguments,
            data_root=self.data_root,
            snapshot=self.preparation.snapshot(self.workloads[variant], arm.settings),
            disk_limit=self.disk_limit,
        )


@contextmanager
def _killing(server: Sandbox) -> Iterator[None]:
    """A window that ends with SIGKILL of the server while the load still runs."""
    yield
    server.kill()
