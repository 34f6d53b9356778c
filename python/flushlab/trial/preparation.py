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
from flushlab.record import Value
from flushlab.server import Sandbox, Server
from flushlab.server.identifier import quoted
from flushlab.settings.catalog import Catalog
from flushlab.settings.layout import layout_of
from flushlab.trial.dataset import Dataset, adopt
from flushlab.workload import Workload

_LOADING: Mapping[str, Value] = {"innodb_flush_log_at_trx_commit": 0}
"""How the server runs while data are loaded; it is stopped in an orderly way before the snapshot."""

_NO_PLUGINS = "--plugin-dir=/nonexistent"
"""A copied directory names libraries that its server loaded; this one finds none, and then forgets them."""

FORMAT = "3"
"""Raise this when the way snapshots are filled changes."""


@dataclass(frozen=True)
class Preparation:
    """Finds or makes snapshots for a build.

    Attributes:
        build: whose data directories these are.
        catalog: says which settings shape files.
        data_root: where the filling server runs.
        dataset: the user's data, or None.
        snapshots: where they are kept.
        progress: told what is being made.
    """

    build: Build
    catalog: Catalog
    data_root: DataRoot
    dataset: Dataset | None
    snapshots: Snapshots
    progress: Callable[[str], None]

    def snapshot(self, workload: Workload, settings: Mapping[str, Value]) -> Snapshot:
        """The snapshot for a workload under settings; made if it is not there.

        Raises:
            NoSpace, StorageError: it could not be written.
            StartFailed, MeasurementError: the data could not be loaded.
        """
        layout = layout_of(settings, self.catalog)
        data_set = self.dataset.key if self.dataset else {}
        key = SnapshotKey(
            {
                "format": FORMAT,
                "build": self.build.id,
                **{f"set:{name}": str(value) for name, value in layout.items()},
                **data_set,
                **workload.data_key,
            }
        )
        found = self.snapshots.find(key)
        if found is not None:
            return found
        self.progress(f"preparing data for {workload.name} on {self.build.name}")
        return self.snapshots.make(key, lambda target: self._fill(target, workload, layout))

    def _fill(self, target: Path, workload: Workload, layout: Mapping[str, Value]) -> None:
        copied = self._start_point()
        with Sandbox.start(
            self.build,
            settings={**layout, **_LOADING},
            arguments=[_NO_PLUGINS] if copied else [],
            data_root=self.data_root,
            snapshot=copied,
        ) as server:
            if copied:
                adopt(server)
            elif self.dataset:
                self.dataset.load_dump(server)
            workload.prepare(server)
            analyze(server)
            server.stop()
            server.move_datadir(target)

    def _start_point(self) -> Snapshot | None:
        """The user's data directory as a snapshot, or None for the build's own initialised one."""
        if self.dataset is None or not self.dataset.is_directory:
            return None
        return self.snapshots.make(
            SnapshotKey({"format": FORMAT, **self.dataset.key}), self.dataset.copy_directory
        )


USER_TABLES = (
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
    "AND table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')"
)


def analyze(server: Server) -> None:
    """Brings the statistics of all user tables up to date: a server that is stopped soon after a load would
    save those of nearly empty tables."""
    for schema, table in server.query(USER_TABLES):
        server.query(f"ANALYZE TABLE {quoted(schema, table)}")
