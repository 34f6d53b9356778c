"""What a load's limit was."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.bulk.limits import Evidence, bound

IDLE = Evidence(
    seconds=10.0,
    cores=4,
    connections=2,
    rows=1_000_000,
    statements=20,
    commits=20,
    client_cpu_s=1.0,
    server_cpu_s=5.0,
    send_s=10.0,
    answer_s=5.0,
    commit_s=1.0,
)


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        ({}, "server"),
        ({"held": {"replica lag": 4.0, "flow control": 1.0}, "client_cpu_s": 19.0}, "replica lag"),
        ({"held": {"replica lag": 1.0}}, "server"),
        ({"client_cpu_s": 19.0}, "client CPU"),
        ({"server_cpu_s": 18.0}, "server CPU"),
        ({"server_cpu_s": 18.0, "connections": 8}, "server"),
        ({"server_cpu_s": 20.0, "client_cpu_s": 14.0, "connections": 8}, "CPU"),
        ({"pool_waits": 500}, "buffer pool"),
        ({"io_share": 0.6}, "disk"),
        ({"others_share": 0.5, "io_share": 0.6, "server_cpu_s": 10.0}, "other programs"),
        ({"others_share": 0.5, "io_share": 0.6}, "disk"),
        ({"others_share": 0.5, "commit_s": 15.0, "commits": 2000, "log_syncs": 1500}, "log syncs"),
        ({"commit_s": 15.0, "commits": 2000, "log_syncs": 1500}, "log syncs"),
        ({"commit_s": 15.0, "commits": 2000, "log_syncs": 10}, "server"),
        ({"statements": 50_000, "commits": 50_000, "rows": 50_000, "answer_s": 18.0}, "round trips"),
        ({"statements": 10_000, "answer_s": 18.0}, "server"),
        ({"statements": 10_000, "answer_s": 18.0, "server_cpu_s": None}, "round trips"),
        (
            {"statements": 5_000, "commits": 5_000, "rows": 5_000, "answer_s": 18.0, "log_syncs": 5_000},
            "log syncs",
        ),
        ({"server_cpu_s": None}, "server"),
    ],
)
def test_the_limit_is_what_the_figures_say(seen: dict[str, object], what: str) -> None:
    found = bound(msgspec.structs.replace(IDLE, **seen))
    assert found.what == what
    assert found.why


def test_what_a_server_elsewhere_takes_is_not_told() -> None:
    seen = msgspec.structs.replace(IDLE, statements=10_000, answer_s=18.0, server_cpu_s=None)
    assert bound(seen).why == "1,000 statements/s of 100 rows; client 10% of a core, 4 cores"
