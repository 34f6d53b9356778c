"""Kept: a sandbox or a cluster that lives until `flushlab server stop`, for a single run.

Sits in `campaign.pool`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from flushlab.build import Progress
from flushlab.campaign.data import Data
from flushlab.campaign.pool.clusters import co_located
from flushlab.campaign.pool.once import Once
from flushlab.campaign.quiet import look_around
from flushlab.campaign.watcher import Watcher
from flushlab.errors import UsageError
from flushlab.machine import home_path
from flushlab.process.running import publish_status
from flushlab.record import Arm, Trial
from flushlab.server import Sandbox
from flushlab.server.sandbox.refusal import refusal
from flushlab.server.start import attach
from flushlab.settings.admission import parse_settings
from flushlab.settings.catalog import load_catalog
from flushlab.spec import fields
from flushlab.spec.build import names_given
from flushlab.spec.kinds import BenchSpec
from flushlab.spec.parts import DataSpec
from flushlab.trial import Draft, measure
from flushlab.workload import Workload
from flushlab.workload.engine_options import seeded


@dataclass(frozen=True)
class KeptServer:
    """A kept sandbox or cluster, by its name: `sandbox:NAME` or `cluster:NAME`."""

    name: str

    @classmethod
    def of(cls, spec: BenchSpec) -> KeptServer:
        """The server that was named.

        Raises:
            UsageError: an option has no effect on a server that runs already.
        """
        name = spec.server.build
        for key in names_given(spec) - {"server"}:
            field = fields(BenchSpec)[key]
            if field.option.started or key == "database":
                raise UsageError(
                    f"{field.flag} needs a fresh server, but {name} runs already", hint="remove it"
                )
        if spec.workload.options.get("reset") == "each":
            kind, _, own = name.partition(":")
            reset = f"; flushlab server reset {own} makes the data pristine" if kind == "sandbox" else ""
            raise UsageError(
                f"--reset each needs a fresh server for each run, but {name} runs already",
                hint=f"remove it{reset}",
            )
        return cls(name)

    def require_files(self, memory: str | None, *sources: object) -> None:
        """Nothing: `of` has refused them."""

    def require_load(self, workload: Workload) -> None:
        """Nothing: the server's size is not known yet."""

    def open_data(self, data: DataSpec, workload: str, progress: Progress) -> Data | None:
        """None: the server has its own."""
        return None

    @contextmanager
    def open(self, progress: Progress) -> Iterator[KeptServer]:
        """The server, as it is."""
        yield self

    def once(self, asked: Once, watcher: Watcher) -> Trial:
        """One run; settings are applied and stay."""
        spec, workload = asked.spec, seeded(asked.workload, asked.spec.seed)
        if spec.wait_for_quiet:
            look_around(home_path(), watcher, wait=True)
        server, catalog = attach(self.name), load_catalog()
        if spec.base.settings and isinstance(server, Sandbox) and server.membership is not None:
            cluster = server.membership.cluster
            raise UsageError(
                f"{server.name} is a node of the cluster {cluster}: settings go to every node",
                hint=f"use --server cluster:{cluster}",
            )
        nodes, build = server.identity.nodes, server.build
        given = parse_settings(spec.base.settings, build.flavor, build.version, catalog, nodes=nodes)
        for refused in server.apply(given).refused:
            raise refusal(f"{refused.name}={refused.value}: {refused.reason}", build)
        workload.prepare(server)
        watcher.say(f"running {workload.name} on {self.name}")
        draft = Draft(arm=Arm(name="bench", settings=given), stage="bench", block=1, variant=0)
        with publish_status("bench", server=self.name, workload=workload.name):
            trial = measure(draft, server, workload, asked.timing, catalog)
        if trial.lost_nodes:
            again = self.name.partition(":")[2]
            watcher.say(
                f"{self.name} runs without some of its nodes: flushlab server start --name {again} brings"
                " them back"
            )
        doubts = (co_located(nodes, 0.0),) if nodes > 1 else ()
        return msgspec.structs.replace(trial, warnings=(*doubts, *trial.warnings))
