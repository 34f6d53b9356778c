"""The table in a terminal and its lines in a file."""

from __future__ import annotations

import io
from typing import cast

import msgspec
import pytest

from flushlab.cli import watch as watch_table
from flushlab.cli.consoles import PlainConsole
from flushlab.cli.watch import line, table
from flushlab.record.running import FillProgress, ShownRatio
from flushlab.telemetry.live.status import Connections, LockWaits, Redo
from flushlab.watch import Watch
from flushlab.watch.sampler import (
    DiagnosisNow,
    FindingNow,
    MachineNow,
    RunningNow,
    Sample,
    ServerNow,
)

SAMPLE = Sample(
    t=1.0,
    server=ServerNow(up=True, name="mariadb@10.11.19", since=1.0, missing=("PROCESS",)),
    running=RunningNow(
        kind="compare", campaign="compare-1", arm="flush=2", stage="arms", round=3, left_s=80.0
    ),
    throughput=12_345.6,
    unit="transactions/s",
    p50_ms=1.234,
    p99_ms=9.87,
    redo=Redo(checkpoint_age=10 << 20, capacity=100 << 20),
    dirty=0.123,
    fsyncs={"redo": 700.0, "data": 3.25, "binlog": None},
    commits_per_group=3.4,
    lock_waits=LockWaits(now=2, per_s=0.5),
    binlog_bytes_per_s=2048.0,
    rows_per_s={"inserted": 1.0, "updated": 12_345.0, "deleted": None},
    machine=MachineNow(cpu_pressure=0.5, others=0.02),
    connections=(
        Connections(user="app\x1b[31m", command="Sleep", count=120, oldest_s=9000, in_transaction=2),
    ),
    fill=FillProgress(
        table="users", rows=50, total=100, rows_per_s=9.0, bytes=1, left_s=5.5, bound_by="the server's CPU"
    ),
    ratios=(ShownRatio(arm="flush=2", low=1.4, mid=1.45, high=1.5, early=True),),
)


def shown(sample: Sample) -> list[str]:
    console = PlainConsole(file=io.StringIO(), width=80)
    with console.capture() as printed:
        console.print(table(sample))
    return printed.get().splitlines()


def test_ratios_name_the_objective_if_it_is_not_throughput() -> None:
    (ratio,) = SAMPLE.ratios
    latency = msgspec.structs.replace(SAMPLE, ratios=(msgspec.structs.replace(ratio, objective="p99"),))
    assert "lower p99    flush=2  1.45  1.40 – 1.50  (interim)" in "\n".join(shown(latency))


def test_a_second_in_which_nothing_was_seen_says_why() -> None:
    failed = Sample(t=1.0, server=ServerNow(up=False), failed="internal error: KeyError: 'x'")
    assert shown(failed)[0] == "nothing is seen: internal error: KeyError: 'x'"
    assert line(failed) == "nothing is seen: internal error: KeyError: 'x'"


def test_a_page_without_a_table_warns_once_of_seconds_in_which_nothing_was_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(watch_table, "print_warning", warned.append)
    failed = msgspec.structs.replace(SAMPLE, failed="a")
    seconds = iter([failed, failed, SAMPLE, failed, msgspec.structs.replace(SAMPLE, failed="b")])
    monkeypatch.setattr(watch_table, "_samples", lambda _: seconds)
    watch_table.follow(cast(Watch, None), shown=False)
    assert warned == ["nothing is seen: a", "nothing is seen: a", "nothing is seen: b"]


def test_the_essentials_fit_a_terminal() -> None:
    lines = shown(SAMPLE)
    assert [line.rstrip() for line in lines] == [
        "mariadb@10.11.19",
        "not shown    what takes PROCESS",
        "running      compare compare-1, arms 3, flush=2, 1 min 20 s left",
        "throughput   12,346 transactions/s, p50 1.23 ms, p99 9.87 ms",
        "ratio        flush=2  1.45  1.40 – 1.50  (interim)",
        "fill         users 50 of 100 rows (50%), 9 rows/s",
        "             5.5 s left, bound by the server's CPU",
        "redo         10 MiB of 100 MiB (10%)",
        "dirty pages  12.3% of the buffer pool",
        "fsyncs/s     redo 700, data 3.2",
        "binlog       2 KiB/s",
        "group commit 3.4 transactions a group",
        "rows/s       1.0 inserted, 12,345 updated",
        "lock waits   2 now, 0.5/s",
        "machine      CPU pressure 50%, others 2%",
        "connections  120 app?[31m Sleep, the oldest 2 h 30 min, 2 inside a transaction",
    ]


def test_a_server_that_is_gone_says_why() -> None:
    gone = Sample(t=1.0, server=ServerNow(up=False, name="mysql@9.7.4", since=1.0, why="no route (2003)"))
    assert shown(gone) == ["mysql@9.7.4: down, no route (2003)"]
    nobody = Sample(t=1.0, server=ServerNow(up=False, why="no server runs now"))
    assert shown(nobody) == ["no server runs now"]


DIAGNOSIS = DiagnosisNow(
    answer="Writes are bound: commits wait for the sync of redo log and binary log. Without it, at most 14×.",
    seconds=30.0,
    samples=118,
    writers=16,
    waits={"client": 1.5, "commit": 14.1, "reading": 0.01},
    findings=(
        FindingNow(
            name="commit_sync",
            title="commits wait for the sync of redo log and binary log",
            strength="binds",
            low=0.85,
            mid=0.89,
            high=0.93,
            at_most=14.29,
        ),
        FindingNow(name="binlog_cache", title="large transactions …", strength="hint"),
    ),
)


def test_what_bounds_writes_is_in_the_table() -> None:
    found = [one.rstrip() for one in shown(msgspec.structs.replace(SAMPLE, diagnosis=DIAGNOSIS))]
    for one in (
        "binds        89%, at most 14×: commits wait for the sync of redo log and binary",
        "hints        binlog_cache",
        "writers      commit 14.1, client's turn 1.5",
    ):
        assert any(row.startswith(one) for row in found), found
    idle = msgspec.structs.replace(DIAGNOSIS, answer="Nothing bounds writes: …", findings=(), waits={})
    found = [one.rstrip() for one in shown(msgspec.structs.replace(SAMPLE, diagnosis=idle))]
    assert "writes       Nothing bounds writes: …" in found
    assert not any(one.startswith(("hints", "writers")) for one in found)


def test_into_a_file_a_second_is_a_line() -> None:
    rows, parts = shown(SAMPLE), line(SAMPLE).split(" · ")
    assert [part.split() for part in parts] == [row.split() for row in rows], "all that the table has"


def test_hundreds_of_kinds_of_connections_do_not_flood_it() -> None:
    many = tuple(msgspec.structs.replace(SAMPLE.connections[0], user=f"u{n}") for n in range(300))
    lines = shown(msgspec.structs.replace(SAMPLE, connections=many))
    assert lines[-1].strip() == "and 294 kinds more"
