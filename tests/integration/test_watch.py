"""Watching real servers: what each of them tells, what an account may not see, and finding what runs."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest

from flushlab.record import Endpoint
from flushlab.record.running import WatchedServer
from flushlab.server import Sandbox
from flushlab.server.sandbox.option_files import logs_in_by_sha2
from flushlab.watch import Watch, live_diagnosis, metrics
from flushlab.watch.poller import PollResult
from flushlab.watch.sampler import DiagnosisNow, Sample
from flushlab.watch.watch import WatchTarget
from tests.command import flushlab
from tests.conftest import flavors, require_build
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("patient")


def watching(server: Sandbox, *, diagnoses: bool = False, **endpoint: Any) -> Watch:
    own = server.endpoint
    who = {"user": own.user, "password": own.password, **endpoint}
    reach = WatchedServer(key=server.name, endpoint=Endpoint(socket=own.socket, **who), pid=server.pid)
    return Watch(WatchTarget(server=reach, nodes=lambda: (server.pid or 0,)), page=False, diagnoses=diagnoses)


def told(watch: Watch) -> tuple[Sample, PollResult]:
    wait_until(lambda: watch.latest and watch.latest.throughput is not None, "it has been asked twice")
    assert watch.latest is not None
    return watch.latest, watch.known


def users_in(watch: Watch) -> set[str]:
    return {one.user for one in watch.latest.connections} if watch.latest else set()


@pytest.mark.parametrize("build", ["mariadb@10.11", "mysql@5.7"])
def test_a_server_tells_the_same_under_the_same_names_and_an_account_only_what_it_may_see(
    build: str, servers: Callable[[str], Sandbox]
) -> None:
    server = servers(build)
    by = "" if logs_in_by_sha2(server.build) else "aZ9-watch"
    server.query(f"CREATE USER watcher@localhost IDENTIFIED BY '{by}'")
    with watching(server) as watch, watching(server, user="watcher", password=by) as limited:
        less, little = told(limited)
        wait_until(lambda: len(users_in(watch)) == 2, "both are seen")
        sample, known = told(watch)
    assert sample.server.name == server.identity.name
    assert sample.redo.checkpoint_age is not None and sample.redo.checkpoint_age >= 0
    assert sample.redo.capacity is not None and sample.redo.capacity > 1 << 20
    assert sample.dirty is not None and sample.rows_per_s["inserted"] is not None
    assert sorted(one.user for one in sample.connections) == ["flushlab", "watcher"]
    assert all(one.in_transaction == 0 for one in sample.connections)
    seen = known.seen
    assert seen is not None and (seen.failed, seen.missing) == (frozenset(), ())
    for part in metrics.PARTS.values():
        assert sum(len(family.samples) for family in part(seen)) > 3
    wait = int(server.query("SELECT @@GLOBAL.wait_timeout")[0][0])
    assert sample.wait_timeout == wait

    assert less.server.up and "PROCESS" in less.server.missing
    assert less.redo.capacity is not None and less.dirty is not None
    assert little.seen is not None and "global_status" not in little.seen.failed


def test_a_server_that_is_gone_in_the_middle_is_watched_again_when_it_is_back(
    servers: Callable[[str], Sandbox],
) -> None:
    server = servers("mariadb@10.11")
    with watching(server) as watch:
        told(watch)
        server.kill()
        wait_until(lambda: watch.latest and not watch.latest.server.up, "it is seen to be gone")
        assert watch.latest is not None and watch.latest.server.why
        assert b"mysql_up 0.0" in watch._metrics("")[1]
        server.start_again()
        wait_until(lambda: watch.latest and watch.latest.server.up, "it is back")


@pytest.mark.parametrize(
    "build", flavors("mariadb@10.11", "mysql@5.7", "mysql@8.0", "mysql@9.7", "mariadb@11.8", "mariadb@11.4")
)
def test_what_bounds_the_writes_is_found_live(
    build: str, servers: Callable[[str], Sandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_diagnosis, "FIRST_S", 1.0)
    server = servers(build)
    own = server.endpoint

    def connected() -> Any:
        return pymysql.connect(unix_socket=own.socket, user=own.user, password=own.password, database="test")

    def blocked() -> None:
        with connected() as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE t SET n = n + 1 WHERE id = 1")

    def judged() -> DiagnosisNow | None:
        found = watch.latest.diagnosis if watch.latest else None
        first = found.findings[0] if found and found.findings else None
        return found if first and (first.name, first.strength) == ("metadata_locks", "binds") else None

    with connected() as holder, watching(server, diagnoses=True) as watch:
        holder.cursor().execute("LOCK TABLES t WRITE")
        writer = threading.Thread(target=blocked)
        writer.start()
        try:
            wait_until(judged, "the lock is found")
            found = judged()
            text = watch._metrics("")[1].decode()
        finally:
            holder.cursor().execute("UNLOCK TABLES")
            writer.join()
    assert found is not None
    assert found.waits["metadata lock"] > 0
    assert 'flushlab_finding_share_ratio{bound="mid",finding="metadata_locks"}' in text
    assert 'flushlab_writer_wait_seconds_total{wait="metadata lock"}' in text


SUITE = """
import json, sys, time
import flushlab
with flushlab.watching(page=False) as watch:
    until = time.monotonic() + 250
    sample = None
    while not (sample and sample.server.up and sample.running) and time.monotonic() < until:
        time.sleep(0.05)
        sample = watch.latest
json.dump([sample.server.up, sample.running.kind, sample.running.workload], open(sys.argv[1], "w"))
"""


def test_a_suite_that_runs_is_found_by_another_process(furnished_home: Path, tmp_path: Path) -> None:
    """In a home of its own: other tests run something at the same time, and the newest is found."""
    found = tmp_path / "found"
    suite = [sys.executable, "-c", SUITE, str(found)]
    require_build("mariadb@10.11")
    flushlab("test", "--server", "mariadb@10.11", "--", *suite)
    assert json.loads(found.read_text()) == [True, "test", f"command: {sys.executable}"]
