"""Own load: arms alternate on the user's running server under the load that it has; flushlab adds none.

Sits in `campaign.pool`, below `remote_use`, which has what a use under any load takes: permission, rights,
changes and their undoing. A setting that open connections do not notice is refused before anything is set.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from flushlab.diagnosis.load import LoadObserver
from flushlab.errors import CountersReset, LoadPaused, MeasurementError, ServerDied, UsageError
from flushlab.experiment.protocol import LEAST_COMMITS
from flushlab.progress import Progress
from flushlab.record import ObservedLoad, Value, together
from flushlab.server.control import READ_ONLY_VARIABLE, StatementFailed
from flushlab.server.remote.server import RemoteGroup, watched_at
from flushlab.server.sql import quoted
from flushlab.settings.configuration import Configuration
from flushlab.trial.runner import ArmRunner, RemoteRunner, Running
from flushlab.workload.protocol import (
    OWN_LOAD_LEAD_S,
    OWN_LOAD_SLICE_S,
    OWN_LOAD_UNIT,
    Measured,
    Timing,
    Workload,
)
from flushlab.workload.sliced import Sliceable

_WITHOUT = "measure it with a load of flushlab's own: leave out --own-load"
_MADE_ONCE = (
    *("binlog_cache_size", "binlog_stmt_cache_size"),
    *("max_binlog_cache_size", "max_binlog_stmt_cache_size"),
)
"""Global alone, and copied into each connection's cache of the binary log all the same
(https://github.com/mysql/mysql-server/blob/8.0/sql/binlog.cc, THD::binlog_setup_trx_data)."""
_SINGLE = "group_replication_single_primary_mode"
_GROUP = "SHOW GLOBAL VARIABLES LIKE 'group\\_replication\\_%'"
_OFF = {"OFF", "0"}
CONNECTIONS = 2
"""Of flushlab: one that reads, one that changes settings."""
_FIRST_S = 10.0
"""Longest wait for the first answers of a connection: whoever pays for a change cannot wait longer."""
TRIES = 3
"""At a slice whose counters somebody sets back: a monitor that does so each minute spoils one of many."""


def require_observable(
    server: RemoteGroup, arms: Sequence[Mapping[str, Value]], changing: Sequence[str]
) -> None:
    _require_difference(server, arms)
    _require_no_group(server)
    _require_noticed(server, changing)


def _require_difference(server: RemoteGroup, arms: Sequence[Mapping[str, Value]]) -> None:
    names, same = sorted({name for arm in arms for name in arm}), Configuration({}, server.identity).same
    for node in server.nodes:
        now = node.read_back(names)
        first, *others = ({**now, **arm} for arm in arms)
        for arm, values in zip(arms[1:], others, strict=True):
            if all(same(name, first.get(name), values.get(name)) for name in names):
                words = ", ".join(f"{name}={value}" for name, value in arm.items()) or "base"
                raise UsageError(
                    f"{words} changes nothing: {node.address.name} has these values in the first"
                    " configuration, too",
                    hint="give another value; base is what the server has now",
                )


def _require_no_group(server: RemoteGroup) -> None:
    """Others write in a group too: its commits would count theirs, and only one member would change."""
    for node in server.nodes:
        told = {str(name): str(value) for name, value in node.query(_GROUP)}
        if told.get("group_replication_group_name") and told.get(_SINGLE, "ON").upper() in _OFF:
            raise UsageError(
                f"{node.address.name} is set up for a group with several primaries: commits of the others"
                " count there, too",
                hint="compare on a sandbox, with your transactions",
            )


def _require_noticed(server: RemoteGroup, names: Sequence[str]) -> None:
    """A connection copies some settings when it opens: the load's connections are open."""
    for name in names:
        if name in _MADE_ONCE:
            raise UsageError(
                f"{name}: a connection makes its cache with the first transaction and keeps it, so your load"
                " would not notice it",
                hint=_WITHOUT,
            )
        try:
            server.query(f"SELECT @@SESSION.{quoted(name)}")
        except StatementFailed as error:
            if error.errno == READ_ONLY_VARIABLE:  # global alone: no connection has a copy
                continue
            raise
        raise UsageError(
            f"{name}: open connections keep the value that they copied, so your load would not notice it",
            hint=_WITHOUT,
        )


@dataclass(frozen=True, kw_only=True)
class ObservingRunner(RemoteRunner):
    observer: LoadObserver
    has_telemetry: ClassVar[bool] = False

    def sliceable(self, workload: Workload, server: Running, number: int) -> Sliceable:
        return ObservedSlices(self.observer, self.server.alive)

    def close(self) -> None:
        self.observer.close()


def runner(
    workloads: tuple[Workload, ...], timing: Timing, progress: Progress, server: RemoteGroup
) -> ArmRunner:
    nodes = [watched_at(node.address) for node in server.nodes]
    observer = LoadObserver(nodes, one_source=True, first_s=_FIRST_S)
    return ObservingRunner(workloads, timing, progress, server=server, observer=observer)


class ObservedSlices:
    least_slice_s = OWN_LOAD_SLICE_S
    warm_up_s = 0.0

    def __init__(self, observer: LoadObserver, lives: Callable[[], bool]) -> None:
        self._observer, self._lives, self._counted = observer, lives, observer.commits

    def slice(
        self, seconds: float, window: Callable[[], None] = lambda: None, lead_s: float = 0.0
    ) -> ObservedLoad:
        """After a lead that does not count; again if somebody set the counters back, or an answer did not
        come."""
        time.sleep(max(lead_s, OWN_LOAD_LEAD_S))
        for left in reversed(range(TRIES)):
            window()
            try:
                found = self._observer.observe(seconds)
            except CountersReset as error:
                if not left:
                    raise CountersReset(
                        f"{error}, in each of {TRIES} slices of {seconds:g} s", hint=error.hint
                    ) from error
            except ServerDied:  # or one answer took too long
                if not left or not self._lives():
                    raise
            else:
                window()
                return found
        raise AssertionError("the last try returns or raises")

    def measured(self, results: Sequence[ObservedLoad]) -> Measured:
        """If this arm alone committed nothing in a block, that counts."""
        whole, seen = together(results), self._observer.commits
        of_block, self._counted = seen - self._counted, seen
        if not of_block and seen:
            raise LoadPaused(f"nothing was committed within {whole.seconds:.1f} s")
        if not of_block:
            raise MeasurementError(
                f"nothing was committed within {whole.seconds:.1f} s: the server has no load to measure",
                hint="run it while your application writes, or leave out --own-load",
            )
        return Measured(
            result=whole.throughput or LEAST_COMMITS / whole.seconds,
            unit=OWN_LOAD_UNIT,
            higher_is_better=True,
            warm_up_s=0.0,
            window_s=whole.seconds,
            observed=whole,
        )

    def stop(self) -> None:
        self._observer.close()
