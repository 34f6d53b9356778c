"""Comparison: the suite on a stock server and on the fast one alternately, with the counters of both.

Suite layer, on `telemetry` and `statistics`. Stock is the build's defaults on the data root's disk, from an
initialised data directory, shut down normally; fast is `flushlab test` with its template. Both run
with performance_schema on, for the counters; the template is created first.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence

import msgspec

from flushlab.datadir import Volume
from flushlab.progress import Progress
from flushlab.record import Performance, Ratio, Value
from flushlab.server import Sandbox, SandboxSpec
from flushlab.suite.command import run_listening
from flushlab.suite.profile import undoable
from flushlab.suite.request import SuiteRequest, create_database, fields_of, variables
from flushlab.suite.session import SuiteResult, SuiteSession, observed, require_prepared, settings_of
from flushlab.telemetry import Observation, performance


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds`: by part, as in `SuiteResult`; `told`: performance_schema's counters, by part; `settings`: as
    read back."""

    seconds: Mapping[str, float]
    exit_code: int
    told: Mapping[str, Performance] = {}
    fsyncs: int | None = None
    settings: Mapping[str, Value] = {}

    @property
    def total_s(self) -> float:
        return sum(self.seconds.values())

    @property
    def statements_s(self) -> float:
        kinds = (kind for one in self.told.values() for kind in one.statements_by_kind)
        return sum(kind.seconds or 0.0 for kind in kinds)

    @property
    def database_s(self) -> float:
        return self.seconds["ready"] + self.seconds["teardown"] + self.statements_s

    @property
    def application_s(self) -> float:
        return max(0.0, self.total_s - self.database_s)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """`ratio`: total seconds, stock over fast; one block: no interval. `database_ratio`: None if the suite
    resets."""

    stock: tuple[Side, ...]
    fast: tuple[Side, ...]
    prepared_s: float
    ratio: Ratio
    database_ratio: Ratio | None
    result: SuiteResult


def compare(request: SuiteRequest, blocks: int, volume: Volume, say: Progress) -> Compared:
    telling = msgspec.structs.replace(request, settings={**request.settings, **performance.SETTINGS})
    say("creating the template first")
    prepared_s = SuiteSession(telling, say).prepare()
    stock, fast = [], []
    result: SuiteResult | None = None
    for block in range(1, blocks + 1):
        say(f"block {block} of {blocks}: stock")
        stock.append(_run_stock(telling, volume))
        say(f"block {block} of {blocks}: fast")
        result = SuiteSession(telling, say).run(observe=True)
        seen = {"command": result.observation} if result.observation is not None else {}
        fast.append(_side(result.seconds, result.exit_code, seen, result.settings))
    assert result is not None, "there is at least one block"
    return Compared(
        stock=tuple(stock),
        fast=tuple(fast),
        prepared_s=prepared_s,
        ratio=ratio([one.total_s for one in stock], [one.total_s for one in fast]),
        database_ratio=None
        if result.resets
        else ratio([one.database_s for one in stock], [one.database_s for one in fast]),
        result=result,
    )


def ratio(slow: Sequence[float], fast: Sequence[float]) -> Ratio:
    if len(slow) > 1:
        from flushlab.statistics import compare as contrast  # imports scipy

        scores = {
            "stock": {block: -math.log(seconds) for block, seconds in enumerate(slow)},
            "fast": {block: -math.log(seconds) for block, seconds in enumerate(fast)},
        }
        (found,) = contrast(scores, base="stock")
        return found.ratio
    estimate = slow[0] / fast[0]
    return Ratio(estimate=estimate, low=estimate, high=estimate)


def _run_stock(request: SuiteRequest, volume: Volume) -> Side:
    began = time.monotonic()
    with Sandbox.start(
        SandboxSpec(
            request.build,
            settings=request.settings,
            data_root=volume.data_root,
            password=request.password,
            init_sql=[create_database(request.database, request.characters)],
        )
    ) as sandbox:
        seconds = {"ready": time.monotonic() - began, "prepare": 0.0}
        settings = settings_of(sandbox, undoable(request.build, "memory", request.settings))
        fields = fields_of(request.build, sandbox.endpoint, request.database)
        environment = {**os.environ, **variables([fields], request.templates)}
        performance.switch_on(sandbox)
        seen: dict[str, Observation] = {}
        if request.prepare:
            shell = ["/bin/sh", "-c", request.prepare]
            ended, seconds["prepare"], seen["prepare"] = observed(sandbox, shell, environment, run_listening)
            require_prepared(ended, request)
        ended, seconds["command"], seen["command"] = observed(sandbox, request.words, environment)
        closing = time.monotonic()
        sandbox.stop()
        seconds["teardown"] = time.monotonic() - closing
    if ended.interrupted:
        raise KeyboardInterrupt
    return _side(seconds, ended.exit_code, seen, settings)


def _side(
    seconds: Mapping[str, float],
    exit_code: int,
    seen: Mapping[str, Observation],
    settings: Mapping[str, Value],
) -> Side:
    counted = [one.watched.fsyncs_by_file for one in seen.values()]
    known = [sum(one.values()) for one in counted if one is not None]
    return Side(
        seconds=seconds,
        exit_code=exit_code,
        told={part: one.performance for part, one in seen.items() if one.performance is not None},
        fsyncs=sum(known) if known and len(known) == len(counted) else None,
        settings=settings,
    )
