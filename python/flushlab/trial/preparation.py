"""Preparation: the snapshot that trials start from, made once and kept.

A snapshot holds an initialised data directory with the data set and the workload's tables in it. Its
key is everything that its content depends on: the build, the settings that shape files, the data
set, the workload's data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from flushlab.build.build import Build
from flushlab.datadir import DataRoot, Snapshot, SnapshotKey, Snapshots
from flushlab.dataset import Dataset, analyze, loaded
from flushlab.record import Value
from flushlab.server import DataDirectory, Sandbox
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import layout_of
from flushlab.workload import Workload

_LOADING: Mapping[str, Value] = {"innodb_flush_log_at_trx_commit": 0}
"""How the server runs while data are loaded; it is stopped in an orderly way before the snapshot."""

FORMAT = "4"
"""Raise this when the way snapshots are filled changes."""


@dataclass(frozen=True)
class Preparation:
    """Finds or makes snapshots for a build.

    Attributes:
        build: whose data directories these are.
        data_root: where the filling server runs.
        dataset: the user's data, or None.
        database: of the user's data, that the workload is for.
        snapshots: where they are kept.
        progress: told what is being made.
    """

    build: Build
    data_root: DataRoot
    dataset: Dataset | None
    snapshots: Snapshots
    progress: Callable[[str], None]
    database: str = ""

    def load(self, settings: Mapping[str, Value]) -> Snapshot | None:
        """The snapshot of the user's data alone under settings; made if it is not there. None without data.

        Raises:
            DumpRefused: the server did not take it.
            NoSpace, StorageError: it could not be written.
        """
        if self.dataset is None:
            return None
        return loaded(
            self.build,
            self.dataset,
            database=self.database,
            layout=layout_of(settings, load_catalog()),
            data_root=self.data_root,
            snapshots=self.snapshots,
            progress=self.progress,
        )

    def snapshot(self, workload: Workload, settings: Mapping[str, Value]) -> Snapshot:
        """The snapshot for a workload under settings; made if it is not there.

        Raises:
            NoSpace, StorageError: it could not be written.
            StartFailed, MeasurementError: the data could not be loaded.
        """
        start = self.load(settings)
        if start is not None and not workload.data_key:
            return start
        layout = layout_of(settings, load_catalog())
        key = SnapshotKey(
            {
                "format": FORMAT,
                "build": self.build.id,
                **{f"set:{name}": str(value) for name, value in layout.items()},
                **({"data": start.key.digest, **start.key.parts} if start else {}),
                **workload.data_key,
            }
        )
        found = self.snapshots.find(key)
        if found is not None:
            return found
        self.progress(f"preparing the workload {workload.name} on {self.build.name}")
        return self.snapshots.make(key, lambda target: self._fill(target, start, workload, layout))

    def _fill(
        self, target: Path, start: Snapshot | None, workload: Workload, layout: Mapping[str, Value]
    ) -> None:
        with Sandbox.start(
            self.build,
            settings={**layout, **_LOADING},
            data=DataDirectory(self.data_root, snapshot=start, snapshots=self.snapshots),
        ) as server:
            workload.prepare(server)
            analyze(server)
            server.stop()
            server.move_datadir(target)
