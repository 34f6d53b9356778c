"""Paper: servers of a dry run. Nothing is fetched, made, limited or cleaned up. Sits in `campaign.pool`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flushlab.build import Progress, find_build
from flushlab.build.build import Build
from flushlab.build.verbose_help import verbose_help
from flushlab.campaign.pool.clusters import ClusterPool
from flushlab.campaign.pool.sandboxes import SandboxPool
from flushlab.campaign.volumes import PaperVolumes, Volumes
from flushlab.campaign.watcher import Watcher
from flushlab.record import Launch, Value
from flushlab.settings.configuration import Configuration
from flushlab.settings.option_names import read_help


@dataclass(frozen=True)
class PaperPool(SandboxPool):
    """Servers that would be started."""

    def settings(
        self, base: Mapping[str, Value], launch: Launch, watcher: Watcher, also: Iterable[str] = ()
    ) -> dict[str, Value]:
        """The defaults of the catalog, and for others the binary's own help."""
        configuration = Configuration(base, self.identity)
        names = self.catalog.names(self.build.flavor, self.build.version)
        known = {name: value for name in names if (value := configuration.value(name)) is not None}
        strange = {*also} - {*names}
        told = read_help(verbose_help(self.build).text).values if strange else {}
        return {**known, **{name: told[name] for name in strange if name in told}, **base}

    def _found(self, server: str, progress: Progress) -> Build:
        return find_build(server, get=False, progress=progress)

    def volumes(self, progress: Progress) -> Volumes:
        """Data roots that arms would have."""
        return PaperVolumes(self.volume, progress)


@dataclass(frozen=True)
class PaperClusterPool(PaperPool, ClusterPool):
    """Galera clusters that would be started."""
