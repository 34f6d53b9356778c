"""A feed for tests of the page of `flushlab watch`: the real web server, with samples of the test."""

from __future__ import annotations

import math
from typing import Any, Self

import msgspec

from flushlab.watch.http import LOOPBACK, WebServer
from flushlab.watch.sampler import Sample
from flushlab.watch.threads import Meter, Ring

ARMS = ("base", "control", "flush=2", "sync_binlog=0")


def sample(t: float, **instead: Any) -> dict[str, Any]:
    """A second of a campaign on MariaDB, with figures that depend on the time alone."""
    turn = int(t / 6)
    arm = ARMS[turn % len(ARMS)]
    speed = (1 + 0.25 * (turn % len(ARMS))) * (1 + 0.08 * math.sin(t / 3) + 0.05 * math.sin(t * 1.7))
    known: dict[str, Any] = {
        "t": t,
        "server": {
            "up": True,
            "name": "mariadb@10.11.19",
            "since": t - 900,
            "missing": [],
            "slow_s": 0.004,
            "why": "",
        },
        "running": {
            "kind": "tune",
            "campaign": "20261122-140312-tune",
            "arm": arm,
            "stage": "confirm" if t % 600 > 200 else "screen",
            "round": 1 + turn // len(ARMS) % 40,
            "left_s": 80.0,
            "server": "mariadb@10.11",
            "workload": "oltp_update_non_index",
            "floor": "second",
        },
        "throughput": 8200 * speed,
        "unit": "transactions/s",
        "p50_ms": 1.9 / speed,
        "p99_ms": 9.0 / speed * (1 + 0.3 * math.sin(t / 11) ** 8),
        "redo": {"checkpoint_age": int(52e6 + 30e6 * math.sin(t / 90)), "capacity": 100_663_296},
        "dirty": 0.31 + 0.1 * math.sin(t / 70),
        "fsyncs": {"redo": 410 * speed, "data": 60 + 20 * math.sin(t / 9), "binlog": 395 * speed},
        "commits_per_group": 18 + 4 * math.sin(t / 5),
        "lock_waits": {"now": int(2 + 2 * math.sin(t)), "per_s": 11 + 6 * math.sin(t / 4)},
        "binlog_bytes_per_s": 4.1e6 * speed,
        "rows_per_s": {"inserted": 120.0, "updated": 8200 * speed, "deleted": 118.0},
        "machine": {
            "cpu_pressure": 0.24 + 0.1 * math.sin(t / 13),
            "io_pressure": 0.41 + 0.1 * math.sin(t / 8),
            "memory_pressure": 0.0,
            "others": 0.06 + 0.04 * math.sin(t / 21),
            "steal": 0.004,
        },
        "connections": [
            {"user": "app", "command": "Sleep", "count": 120, "oldest_s": 9000, "in_transaction": 2},
            {"user": "app", "command": "Query", "count": 9, "oldest_s": 1, "in_transaction": 9},
            {"user": "flushlab", "command": "Execute", "count": 16, "oldest_s": 0, "in_transaction": 16},
            {"user": "backup", "command": "Sleep", "count": 1, "oldest_s": 86_400 * 2, "in_transaction": 0},
        ],
        "wait_timeout": 28_800,
        "max_connections": 151,
        "fill": None,
        "ratios": [
            {"arm": "flush=2", "low": 1.40, "mid": 1.45, "high": 1.50, "early": True},
            {"arm": "sync_binlog=0", "low": 1.62, "mid": 1.71, "high": 1.83, "early": False},
        ],
        "marks": [{"t": t, "kind": "slice", "text": arm}] if int(t) % 6 == 0 else [],
        "own_cpu_s": 0.006 * (t % 100_000),
    }
    if int(t) % 600 in (0, 201):
        known["marks"].append({"t": t, "kind": "stage", "text": known["running"]["stage"]})
    return known | instead


def gone(t: float, since: float) -> dict[str, Any]:
    """A second in which the server did not answer."""
    return {
        "t": t,
        "server": {
            "up": False,
            "name": "mariadb@10.11.19",
            "since": since,
            "missing": [],
            "slow_s": None,
            "why": "Connection refused",
        },
        "own_cpu_s": 1.0,
    }


class Feed:
    """The page and its feed on loopback. A context manager; `push` gives the next second to all viewers."""

    def __init__(self, samples: list[dict[str, Any]]) -> None:
        self.samples = list(samples)
        self._ring = Ring(1)
        self._server: WebServer | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{LOOPBACK}:{self._port}/"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listens, on the same port as before if it did, with all samples so far."""
        self._ring = Ring(1)
        for one in self.samples:
            self._ring.push(_encoded(one))
        self._server = WebServer(self._ring, lambda _: ("text/plain", b""), "", Meter(), LOOPBACK, self._port)
        self._port = self._server.server_port
        self._server.start()

    def stop(self) -> None:
        """Ends all streams and listens no more."""
        if self._server is not None:
            self._ring.close()
            self._server.close()
            self._server = None

    def push(self, sample: dict[str, Any]) -> None:
        """The next second."""
        self.samples.append(sample)
        self._ring.push(_encoded(sample))


def _encoded(sample: dict[str, Any]) -> bytes:
    return msgspec.json.encode(msgspec.convert(sample, Sample))
