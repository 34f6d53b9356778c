"""Repeat: the command line that a campaign's plan stands for. Pure.

Sits in `report`; the page shows it, and the terminal where the command is short enough to be of use.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec

from flushlab.plan.shipped import PIPED
from flushlab.report.stored import StoredPlan
from flushlab.store import CampaignRow
from flushlab.workload import Shape
from flushlab.workload.parse import flag

_SHAPE = {field.name: field.default for field in msgspec.structs.fields(Shape) if field.name != "options"}
"""Options of workloads, with the default that needs no mention."""

_WINDOW_S, _BESIDE_S = {False: 4.0, True: 20.0}, 1.0
"""Window that `tune` chooses by itself: first look, steady state; where servers stand side by side."""


def command(row: CampaignRow, plan: StoredPlan) -> str:
    """The command line, an option a line."""
    parts = list({"tune": _tune, "series": _series, "compare": _compare}[row.kind](plan))
    return " \\\n  ".join([f"flushlab {row.kind}", *parts])


def _tune(plan: StoredPlan) -> Iterator[str]:
    yield from _server(plan)
    yield _option("--workload", plan.workload)
    if plan.threads and not plan.workload.startswith("command:"):
        yield _option("--threads", ",".join(map(str, plan.threads)))
    options = {name: value for name, value in plan.shape.items() if name in _SHAPE and name != "threads"}
    if plan.workload.startswith("command:"):
        options = {}
    for name, value in {**options, **plan.shape.get("options", {})}.items():
        if value != _SHAPE.get(name):
            yield _option(flag(name), value)
    yield from _data(plan)
    yield _option("--floor", plan.floor)
    if plan.minutes is not None:
        yield _option("--minutes", plan.minutes)
    if plan.trials is not None:
        yield _option("--trials", plan.trials)
    own_s = _BESIDE_S if plan.side_by_side else _WINDOW_S[plan.steady_state]
    if plan.timing.seconds not in (None, own_s):
        yield _option("--seconds", plan.timing.seconds)
    if plan.fresh:
        yield "--fresh"
    if plan.crash_images:
        yield "--crash"
        yield _option("--crash-images", plan.crash_images)
    yield from _objective(plan)
    if plan.p99_limit not in (None, 2.0):
        yield _option("--p99-limit", plan.p99_limit)
    if plan.standalone:
        yield "--standalone"
    yield from _where(plan)
    for name in plan.keep:
        yield _option("--keep", name)
    if plan.memory is not None:
        yield _option("--memory", plan.memory)
    here = {one.name: plan.base.get(one.name) for one in plan.scaled}  # as it ran, whatever a machine holds
    for name, value in {**plan.original, **here}.items():
        if name not in plan.has:
            yield _option("--set", f"{name}={value}")


def _series(plan: StoredPlan) -> Iterator[str]:
    yield shlex.quote(plan.path or (f"{PIPED}.toml" if plan.plan == PIPED else plan.plan))
    yield from _server(plan)
    if plan.base_file:
        yield _option("--base", plan.base_file)
    if plan.memory is not None:
        yield _option("--memory", plan.memory)
    for name in plan.only:
        yield _option("--only", name)
    if plan.blocks is not None:
        yield _option("--blocks", plan.blocks)
    if plan.precision is not None:
        yield _option("--precision", plan.precision)
    if plan.floor:
        yield _option("--floor", plan.floor)
    yield from _objective(plan)
    if plan.timing.seconds is not None:
        yield _option("--seconds", plan.timing.seconds)
    if plan.asked_threads is not None:
        yield _option("--threads", plan.asked_threads)
    if plan.scale != 1:
        yield _option("--scale", plan.scale)
    if plan.fresh:
        yield "--fresh"
    yield from _data(plan)
    yield from _where(plan)


def _compare(plan: StoredPlan) -> Iterator[str]:
    for word in plan.configurations:
        yield shlex.quote(word)
    for server in plan.servers:
        yield _option("--server", server)
    if not plan.servers:
        yield from _server(plan)
    yield _option("--workload", plan.workload)
    for name, value in plan.base.get("options", {}).items():
        yield _option(flag(name), value)
    if plan.base_file:
        yield _option("--base", plan.base_file)
    if plan.memory is not None:
        yield _option("--memory", plan.memory)
    if plan.measured_s is not None:
        yield _option("--seconds", plan.measured_s)
    if plan.precision is not None:
        yield _option("--precision", plan.precision)
    if plan.floor:
        yield _option("--floor", plan.floor)
    yield from _objective(plan)
    if plan.fresh:
        yield "--fresh"
    if plan.asked_blocks is not None:
        yield _option("--blocks", plan.asked_blocks)
    yield from _data(plan)
    yield from _where(plan)


def _objective(plan: StoredPlan) -> Iterator[str]:
    if plan.objective != "throughput":
        yield _option("--objective", plan.objective)


def _data(plan: StoredPlan) -> Iterator[str]:
    if plan.dataset:
        yield _option("--dataset", plan.dataset)
    if plan.database:
        yield _option("--database", plan.database)


def _server(plan: StoredPlan) -> Iterator[str]:
    if plan.external:
        nodes = plan.external.replace(", ", ",")
        yield _option("--dsn", f"mysql://USER:PASSWORD@{nodes}")
        yield "--allow-writes"
        yield "--tune-server"
        return
    yield _option("--server", plan.build)
    if plan.basedir:
        yield _option("--basedir", plan.basedir)


def _where(plan: StoredPlan) -> Iterator[str]:
    if plan.data_root:
        yield _option("--data-root", plan.data_root)
    if plan.disk_iops is not None:
        yield _option("--disk-iops", plan.disk_iops)
    if plan.disk is not None:
        yield _option("--disk", plan.disk)
    if plan.cluster is not None:
        yield _option("--cluster", plan.cluster)
    if plan.latency_s is not None:
        yield _option("--network-latency", f"{plan.latency_s * 1000:g}ms")
    if plan.seed is not None:
        yield _option("--seed", plan.seed)


def _option(name: str, value: object) -> str:
    return f"{name} {shlex.quote(str(value).removesuffix('.0') if isinstance(value, float) else str(value))}"
