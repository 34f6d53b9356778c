"""`watching`: a page, its data and `/metrics` for a server or for what flushlab runs.

The function behind `flushlab watch`:

    with flushlab.watching(server="sandbox:demo") as watch:
        print(watch.url)
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import msgspec

from flushlab.build import Progress, silent
from flushlab.errors import UsageError
from flushlab.record.running import Running, WatchedServer
from flushlab.server import Sandbox
from flushlab.server.galera.cluster import Cluster
from flushlab.server.remote.server import from_dsn, from_option_file
from flushlab.server.start import sandbox
from flushlab.spec.build import build
from flushlab.spec.commands import WatchSpec
from flushlab.spec.sugar import taking
from flushlab.watch.cpu import Meter
from flushlab.watch.exporter import Exporter
from flushlab.watch.finding import WatchTarget, on_this_machine
from flushlab.watch.http import LOOPBACK, Server, Site, serve
from flushlab.watch.past import past
from flushlab.watch.poller import Poller, PollResult
from flushlab.watch.ring import Ring
from flushlab.watch.sample import Sample
from flushlab.watch.sampler import Sampler

PORT = 9194
"""Unless it is taken."""


class Watch:
    """Watches from `start` to `close`; a context manager.

    Args:
        reach: the server to ask now.
        running: the command that runs now, if any.
        pids: processes of the watched server and those beside it.
        host, port: where to listen; None: `PORT`, or a free one if that is taken.
        page: False: nothing is served.
        on_close: called when it ends.
    """

    def __init__(
        self,
        reach: Callable[[], WatchedServer | None],
        running: Callable[[], Running | None],
        pids: Callable[[], tuple[int, ...]],
        *,
        host: str = LOOPBACK,
        port: int | None = None,
        page: bool = True,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_close = on_close
        self._meter = Meter()
        self._reach, self._running = reach, running
        self._exporter = Exporter()
        self.ring = Ring(int(time.time()))
        self._poller = Poller(reach, self._meter)
        self._sampler = Sampler(self.ring, lambda: self._poller.known, running, pids, self._meter)
        self.token = "" if host in (LOOPBACK, "localhost", "::1") else secrets.token_urlsafe(24)
        site = Site(self.ring, self._metrics, self.token, self._meter)
        self._server = _listen(site, host, port) if page else None

    @property
    def url(self) -> str:
        """Where the page is, with the token that other addresses take."""
        assert self._server is not None, "nothing is served"
        return f"{self._server.url}?token={self.token}" if self.token else self._server.url

    @property
    def latest(self) -> Sample | None:
        """The newest sample; None before the first."""
        return self._sampler.latest

    @property
    def is_busy(self) -> bool:
        """Whether there is something to watch by now."""
        return self._reach() is not None or self._running() is not None

    @property
    def known(self) -> PollResult:
        """What is known of the server."""
        return self._poller.known

    def start(self) -> Self:
        """Begins."""
        self._poller.start()
        self._sampler.start()
        if self._server is not None:
            self._server.start()
        return self

    def close(self) -> None:
        """Ends: viewers are let go, the connection to the server is closed."""
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
    server, dsn, defaults_file, campaign = spec.server, spec.dsn, spec.defaults_file, spec.campaign
    host, port = spec.host, spec.port
    places = {"server": server, "dsn": dsn, "defaults-file": defaults_file, "campaign": campaign}
    named = [f"--{name}" for name, given in places.items() if given]
    if len(named) > 1:
        raise UsageError(f"{named[0]} and {named[1]} cannot be combined", hint="give one of them")
    if dsn or defaults_file:
        address = from_dsn(dsn) if dsn else from_option_file(Path(str(defaults_file)))
        reach = WatchedServer(
            key=address.name,
            endpoint=address.endpoint,
            transport=address.transport,
            ssl_mode=address.ssl_mode,
            ssl_ca=address.ssl_ca,
        )
        return Watch(lambda: reach, lambda: None, lambda: (), host=host, port=port, page=page)
    if server is None:
        return of(on_this_machine(campaign), host=host, port=port, page=page)
    box = sandbox(server=server, progress=progress)
    try:
        return _of_sandbox(box, host, port, page)
    except BaseException:
        _end(box)
        raise


def of(found: WatchTarget, *, host: str = LOOPBACK, port: int | None = None, page: bool = True) -> Watch:
    """Watches what is found, its last hour from the store included."""
    watch = Watch(found.reach, found.running, found.pids, host=host, port=port, page=page)
    running = found.running()
    if running is not None and running.campaign:
        for sample in past(running):
            watch.ring.push(msgspec.json.encode(sample))
    return watch


def _of_sandbox(box: Sandbox | Cluster, host: str, port: int | None, page: bool) -> Watch:
    reach = WatchedServer(key=box.name, endpoint=box.endpoint, pid=box.pid)

    def pids() -> tuple[int, ...]:
        return tuple(node.pid for node in box.nodes if node.pid is not None)

    return Watch(
        lambda: reach, lambda: None, pids, host=host, port=port, page=page, on_close=lambda: _end(box)
    )


def _end(box: Sandbox | Cluster) -> None:
    if not box.kept:
        box.kill()
        box.close()


def _listen(site: Site, host: str, port: int | None) -> Server:
    if port is not None:
        return serve(site, host, port)
    try:
        return serve(site, host, PORT)
    except UsageError:
        return serve(site, host, 0)
