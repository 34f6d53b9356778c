"""Kept: a sandbox or a cluster that lives until `flushlab server stop`, for a single run.

Sits in `campaign.pool`.
"""

from __future__ import annotations

import msgspec

from flushlab.campaign.other_load import check_other_load
from flushlab.campaign.pool.clusters import co_located
from flushlab.campaign.pool.protocol import Once
from flushlab.campaign.watcher import Watcher
from flushlab.errors import UsageError
from flushlab.machine import home_path
from flushlab.record import Trial
from flushlab.server import Sandbox
from flushlab.server.sandbox.failures import refusal
from flushlab.server.start import attach
from flushlab.settings.admission import parse_settings
from flushlab.settings.catalog import load_catalog
from flushlab.spec import fields
from flushlab.spec.build import names_given
from flushlab.spec.kinds import BenchSpec
from flushlab.workload.engine_options import seeded


def require_running(spec: BenchSpec) -> None:
    """Refuses options that have no effect on a kept server: it runs already.

    Raises:
        UsageError: one is given.
    """
    name = spec.server.build
    for key in names_given(spec) - {"server"}:
        field = fields(BenchSpec)[key]
        if field.option.started or key == "database":
            raise UsageError(f"{field.flag} needs a fresh server, but {name} runs already", hint="remove it")
    if spec.workload.options.get("reset") == "each":
        kind, _, own = name.partition(":")
        reset = f"; flushlab server reset {own} makes the data pristine" if kind == "sandbox" else ""
        raise UsageError(
            f"--reset each needs a fresh server for each run, but {name} runs already",
            hint=f"remove it{reset}",
        )


def once_on_kept(asked: Once, watcher: Watcher) -> Trial:
    """One run on a kept server; settings are applied and stay."""
    spec, workload, name = asked.spec, seeded(asked.workload, asked.spec.seed), asked.spec.server.build
    if spec.wait_for_quiet:
        check_other_load(home_path(), watcher, wait=True)
    server = attach(name)
    if spec.base.settings and isinstance(server, Sandbox) and server.membership is not None:
        cluster = server.membership.cluster
        raise UsageError(
            f"{server.name} is a node of the cluster {cluster}: settings go to every node",
            hint=f"use --server cluster:{cluster}",
        )
    nodes, build = server.identity.nodes, server.build
    given = parse_settings(spec.base.settings, build.flavor, build.version, load_catalog(), nodes=nodes)
    for refused in server.apply(given).refused:
        raise refusal(f"{refused.name}={refused.value}: {refused.reason}", build)
    workload.prepare(server)
    watcher.say(f"running the workload {workload.name} on {name}")
    trial = asked.measured(server, workload, given, name)
    if trial.lost_nodes:
        again = name.partition(":")[2]
        watcher.say(
            f"{name} runs without some of its nodes: flushlab server start --name {again} brings them back"
        )
    caveats = (co_located(nodes, 0.0),) if nodes > 1 else ()
    return msgspec.structs.replace(trial, warnings=(*caveats, *trial.warnings))
