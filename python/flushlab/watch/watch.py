"""`watching`: a page, its data and `/metrics` for a server or for what flushlab runs.

The function behind `flushlab watch`:

    with flushlab.watching(server="sandbox:demo") as watch:
        print(watch.url)

What runs is asked for at most a few times a second, whoever wants to know. Of servers that run side by side
one is watched for as long as it runs: its counters then go on, and connections do not come and go.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from flushlab.errors import FlushlabError, UsageError
from flushlab.process import running as process_running
from flushlab.process.running import RunningProcess
from flushlab.progress import Progress, silent
from flushlab.record import Trial
from flushlab.record.running import Running, WatchedServer
from flushlab.server import Sandbox
from flushlab.server.galera.cluster import Cluster
from flushlab.server.remote.login import addresses_of
from flushlab.server.remote.server import watched_at
from flushlab.server.start import sandbox
from flushlab.spec.build import build, taking
from flushlab.spec.commands import WatchSpec
from flushlab.store import existing_store
from flushlab.telemetry.live.status import Redo
from flushlab.watch.exporter import Exporter
from flushlab.watch.http import LOOPBACK, WebServer
from flushlab.watch.live_diagnosis import LiveDiagnosis
from flushlab.watch.poller import Poller, PollResult
from flushlab.watch.sampler import Mark, RunningNow, Sample, Sampler, ServerNow
from flushlab.watch.threads import HOUR, Meter, Ring

PORT = 9194
"""Unless it is taken."""
FRESH_S = 0.4
LOOK_FOR_S = 1.0
"""So long what was found stays as it is, and so often something is looked for where nothing runs."""


class WatchTarget:
    def __init__(
        self,
        look: Callable[[], Running | None] = lambda: None,
        server: WatchedServer | None = None,
        nodes: Callable[[], tuple[int, ...]] = lambda: (),
    ) -> None:
        self._look, self.server, self._nodes = look, server, nodes
        self._lock = threading.Lock()
        self._running: Running | None = None
        self._at_s = -LOOK_FOR_S
        self._watched = ""

    def running(self) -> Running | None:
        with self._lock:
            now = time.monotonic()
            if now - self._at_s >= (FRESH_S if self._running else LOOK_FOR_S):
                self._running = self._look()
                self._at_s = time.monotonic()
            return self._running

    def reach(self) -> WatchedServer | None:
        if self.server is not None:
            return self.server
        with self._lock:
            if self._running is not None:
                self._at_s = -LOOK_FOR_S
        running = self.running()
        servers = running.servers if running else ()
        chosen = next((one for one in servers if one.key == self._watched), servers[0] if servers else None)
        self._watched = chosen.key if chosen else ""
        return chosen

    def pids(self) -> tuple[int, ...]:
        running = self.running()
        return running.pids if running else self._nodes()


def in_this_process() -> WatchTarget:
    return WatchTarget(process_running.current_status)


def on_this_machine(campaign: str | None = None) -> WatchTarget:
    place: Path | None = None

    def look() -> Running | None:
        nonlocal place
        running = process_running.ask(place) if place is not None else None
        if running is None:
            found = _found(campaign)
            place, running = (found.place, found.running) if found else (None, None)
        return running

    if campaign is not None and _found(campaign) is None:
        others = ", ".join(filter(None, (one.running.campaign for one in process_running.find())))
        raise UsageError(
            f"campaign {campaign} is not running",
            hint=f"these are: {others}" if others else f"flushlab report {campaign} shows one that has ended",
        )
    return WatchTarget(look)


def _found(campaign: str | None) -> RunningProcess | None:
    every = process_running.find()
    return next((one for one in every if campaign in (None, one.running.campaign)), None)


class Watch:
    """Watches from `start` to `close`; a context manager.

    Args:
        host, port: where to listen; None: `PORT`, or a free one if that is taken.
        diagnoses: find what bounds the target's one server; asks for the state of its connections.
    """

    def __init__(
        self,
        target: WatchTarget,
        *,
        host: str = LOOPBACK,
        port: int | None = None,
        page: bool = True,
        diagnoses: bool = True,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._target, self._on_close = target, on_close
        self._meter, self._exporter = Meter(), Exporter()
        self.ring = Ring(int(time.time()))
        live = LiveDiagnosis() if diagnoses and target.server is not None else None
        self._poller = Poller(target.reach, self._meter, live)
        self._sampler = Sampler(
            self.ring, lambda: self._poller.known, target.running, target.pids, self._meter
        )
        self.token = "" if host in (LOOPBACK, "localhost", "::1") else secrets.token_urlsafe(24)
        self._server = self._listen(host, port) if page else None

    def _listen(self, host: str, port: int | None) -> WebServer:
        try:
            return WebServer(
                self.ring, self._metrics, self.token, self._meter, host, PORT if port is None else port
            )
        except UsageError:
            if port is not None:
                raise
            return WebServer(self.ring, self._metrics, self.token, self._meter, host)

    @property
    def url(self) -> str:
        assert self._server is not None, "nothing is served"
        return f"{self._server.url}?token={self.token}" if self.token else self._server.url

    @property
    def latest(self) -> Sample | None:
        return self._sampler.latest

    @property
    def is_busy(self) -> bool:
        return self._target.reach() is not None or self._target.running() is not None

    @property
    def known(self) -> PollResult:
        return self._poller.known

    def start(self) -> Self:
        self._poller.start()
        self._sampler.start()
        if self._server is not None:
            self._server.start()
        return self

    def close(self) -> None:
        self.ring.close()
        if self._server is not None:
            self._server.close()
        self._sampler.close()
        self._poller.close()
        self._on_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _metrics(self, accept: str) -> tuple[str, bytes]:
        return self._exporter.exposition(
            self._poller.known, self._sampler.running, self._meter.seconds, accept, self._sampler.failures
        )


@taking(
    WatchSpec,
    page="False: nothing is served; `latest` and `ring` have the samples.",
    progress="Takes a line at a time.",
)
def watching(*, page: bool = True, progress: Progress = silent, **given: Any) -> Watch:
    """Watches a server, or what flushlab runs on this machine; a context manager with the page's `url`.

    The arguments are those of `flushlab watch` under the same names.

    Raises:
        UsageError: an argument makes no sense, or the address cannot be listened on.
        FlushlabError: the sandbox could not be started.
    """
    spec = build(WatchSpec, given)
    server, campaign = spec.server, spec.campaign
    host, port = spec.address
    places = {"--server": server, spec.remote.named_by: spec.remote.named_by, "--campaign": campaign}
    named = [flag for flag, given in places.items() if given]
    if len(named) > 1:
        raise UsageError(f"{named[0]} and {named[1]} cannot be combined", hint="give one of them")
    if by := spec.remote.named_by:
        address, *others = addresses_of(spec.remote)
        if others:
            raise UsageError(f"{by} names several servers", hint="watch one node at a time")
        return Watch(WatchTarget(server=watched_at(address)), host=host, port=port, page=page)
    if server is None:
        return of(on_this_machine(campaign), host=host, port=port, page=page)
    box = sandbox(server=server, progress=progress)
    try:
        return _of_sandbox(box, host, port, page)
    except BaseException:
        _end(box)
        raise


def of(found: WatchTarget, *, host: str = LOOPBACK, port: int | None = None, page: bool = True) -> Watch:
    watch = Watch(found, host=host, port=port, page=page)
    running = found.running()
    if running is not None and running.campaign:
        for sample in past(running):
            watch.ring.push(msgspec.json.encode(sample))
    return watch


def _of_sandbox(box: Sandbox | Cluster, host: str, port: int | None, page: bool) -> Watch:
    reach = WatchedServer(key=box.name, endpoint=box.endpoint, pid=box.pid)

    def nodes() -> tuple[int, ...]:
        return tuple(node.pid for node in box.nodes if node.pid is not None)

    target = WatchTarget(server=reach, nodes=nodes)
    return Watch(target, host=host, port=port, page=page, on_close=lambda: _end(box))


def _end(box: Sandbox | Cluster) -> None:
    if not box.kept:
        box.kill()
        box.close()


def past(running: Running) -> list[Sample]:
    since = time.time() - HOUR
    with suppress(FlushlabError), existing_store() as store:
        return [
            _sample(running, ended, trial)
            for ended, trial in store.dated_trials(running.campaign)
            if ended >= since
        ][-HOUR:]
    return []


def _sample(running: Running, ended: float, trial: Trial) -> Sample:
    latency = trial.load.latency_us if trial.load is not None else None
    return Sample(
        t=ended,
        server=ServerNow(up=trial.server is not None, name=trial.server.name if trial.server else ""),
        running=msgspec.structs.replace(
            msgspec.convert(running, RunningNow, from_attributes=True),
            arm=trial.arm.name,
            stage=trial.stage,
            round=trial.block + 1,
            left_s=None,
        ),
        throughput=trial.result if trial.higher_is_better else None,
        unit=trial.unit if trial.higher_is_better else "",
        p50_ms=latency.p50 / 1000 if latency else None,
        p99_ms=latency.p99 / 1000 if latency else None,
        redo=Redo(checkpoint_age=trial.after.checkpoint_age_bytes if trial.after else None),
        marks=(Mark(t=ended, kind="trial", text=trial.arm.name),),
    )
