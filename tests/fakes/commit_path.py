"""A commit path without disk and threads, for tests: results by a formula, refusals by the same rules.

One group is under way at a time; it takes `group_us`, and its size is what arrived meanwhile.
"""

from __future__ import annotations

from typing import Any

import msgspec

from flushlab import _core

SYNC_US, COMMIT_US = 1_000.0, 10.0
"""Of one fsync, and of the work that one commit is to a thread of its own."""

_GAIN = {"serial": 1.0, "parallel": 1.6, "redo": 1.0, "two-syncs": 1.0}


class FakeCommitPath:
    """One run, over at once.

    Raises:
        CoreError: usage, if the sync settings do not permit the binlog write strategy.
    """

    def __init__(self, spec: bytes) -> None:
        self._spec: dict[str, Any] = msgspec.json.decode(spec)
        self._waited = 0
        _refuse(self._spec)

    def start(self) -> None:
        """Does nothing."""

    def stop(self) -> None:
        """Does nothing."""

    def progress(self) -> bytes:
        """As many commits as the rate gives by now."""
        seconds = 0.05 * self._waited
        return msgspec.json.encode(
            {"phase": "measuring", "seconds": seconds, "commits": int(seconds * self._rate())}
        )

    def wait(self, seconds: float) -> bytes | None:
        """The result, at the sixth call."""
        self._waited += 1
        return None if self._waited < 6 else msgspec.json.encode(self._result())

    def _syncs(self) -> int:
        """Fsyncs that a commit waits for."""
        if self._spec["binlog_strategy"] in ("redo", "two-syncs"):
            return 1  # or two at the same time
        return int(self._spec["trx_commit"] in (1, 3)) + int(self._spec["sync_binlog"] == 1)

    def _rate(self) -> float:
        committers, syncs = float(self._spec["committers"]), self._syncs()
        commit_us = COMMIT_US + float(self._spec["think_us"])
        bound_by_cpu = 1e6 / commit_us * _GAIN[self._spec["binlog_strategy"]]
        return min(bound_by_cpu, committers * 1e6 / (syncs * SYNC_US + commit_us))

    def _result(self) -> dict[str, Any]:
        rate, syncs = self._rate(), self._syncs()
        seconds = self._spec["seconds"]
        group = float(self._spec["committers"]) if syncs else 1.0
        return {
            "commits": int(rate * seconds),
            "seconds": seconds,
            "commits_per_s": rate,
            "latency_us": {
                "p50": syncs * SYNC_US + COMMIT_US,
                "p99": 2 * syncs * SYNC_US + 5 * COMMIT_US,
                "max": 3 * syncs * SYNC_US + 9 * COMMIT_US,
            },
            "group_size": group,
            "fsyncs_per_s": syncs * rate / group,
            "bytes_at_risk": 0 if syncs else int(rate * 700),
            "cpu_us_per_commit": COMMIT_US + float(self._spec["think_us"]),
            "ordered_ns_per_commit": 2_000 if self._spec["binlog_strategy"] == "serial" else 200,
            "encode_ns_per_commit": 500,
            "last_gtid": int(rate * seconds),
            "phases": self._phases(rate * seconds),
        }

    def _phases(self, commits: float) -> list[dict[str, Any]]:
        strategies = [
            self._spec["binlog_strategy"],
            *(change["binlog_strategy"] for change in self._spec["changes"]),
        ]
        seconds, each = self._spec["seconds"] / len(strategies), int(commits / len(strategies))
        return [
            {
                "binlog_strategy": strategy,
                "switch_us": 50.0 * bool(number),
                "seconds": seconds,
                "commits": each,
            }
            for number, strategy in enumerate(strategies)
        ]


def _refuse(spec: dict[str, Any]) -> None:
    strategy, trx_commit, sync_binlog = spec["binlog_strategy"], spec["trx_commit"], spec["sync_binlog"]
    if strategy == "parallel" and sync_binlog == 1:
        raise _usage(
            f"binlog strategy {strategy} contradicts sync_binlog=1: it acknowledges a commit before the"
            " binlog is synced",
            "give sync_binlog 0 or above 1, or the binlog strategy serial, redo or two-syncs",
        )
    if strategy in ("redo", "two-syncs") and (sync_binlog != 1 or trx_commit in (0, 2)):
        why = "one fsync covers both logs" if strategy == "redo" else "both logs are synced at each commit"
        raise _usage(
            f"binlog strategy {strategy} needs trx_commit 1 or 3 and sync_binlog 1, not {trx_commit} and"
            f" {sync_binlog}: {why}",
            "give trx_commit 1 and sync_binlog 1, or the binlog strategy serial or parallel",
        )


def _usage(message: str, hint: str) -> _core.CoreError:
    error = _core.CoreError(message)
    error.kind, error.errno, error.sqlstate, error.message, error.hint = "usage", None, None, message, hint
    return error
