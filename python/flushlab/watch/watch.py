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
from typing import Self

from flushlab.build import Progress, silent
from flushlab.errors import UsageError
from flushlab.record.running import Running
from flushlab.server import Sandbox
from flushlab.server.attached import from_dsn, from_option_file
from flushlab.server.start import sandbox
from flushlab.watch.asker import Asker, Known, Reach
from flushlab.watch.cpu import Meter
from flushlab.watch.exporter import Exporter
from flushlab.watch.http import LOOPBACK, Server, Site, serve
from flushlab.watch.ring import Ring
from flushlab.watch.sample import Sample
from flushlab.watch.sampler import Sampler

PORT = 9194
"""Unless it is taken."""


class Watch:
    """Watches from `start` to `close`; a context manager.

    Args:
        reach: the server to ask now.
        running: what runs now.
        pids: processes of the watched server and those beside it.
        host, port: where to listen; None: `PORT`, or a free one if that is taken.
        on_close: called when it ends.
    """

    def __init__(
        self,
        reach: Callable[[], Reach | None],
        running: Callable[[], Running | None],
        pids: Callable[[], tuple[int, ...]],
        *,
        host: str = LOOPBACK,
        port: int | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_close = on_close
        self._meter = Meter()
        self._running = running
        self._exporter = Exporter()
        self.ring = Ring(int(time.time()))
        self._asker = Asker(reach, self._meter)
        self._sampler = Sampler(self.ring, lambda: self._asker.known, running, pids, self._meter)
        self.token = "" if host in (LOOPBACK, "localhost", "::1") else secrets.token_urlsafe(24)
        site = Site(self.ring, self._metrics, self.token, self._meter)
        self._server = _listen(site, host, port)

    @property
    def url(self) -> str:
        """Where the page is, with the token that other addresses take."""
        return f"{self._server.url}?token={self.token}" if self.token else self._server.url

    @property
    def latest(self) -> Sample | None:
        """The newest sample; None before the first."""
        return self._sampler.latest

    @property
    def known(self) -> Known:
        """What is known of the server."""
        return self._asker.known

    def start(self) -> Self:
        """Begins."""
        self._asker.start()
        self._sampler.start()
        self._server.start()
        return self

    def close(self) -> None:
        """Ends: viewers are let go, the connection to the server is closed."""
        self.ring.close()
        self._server.close()
        self._sampler.close()
        self._asker.close()
        self._on_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _metrics(self, accept: str) -> tuple[str, bytes]:
        return self._exporter.exposition(self._asker.known, self._running(), self._meter.seconds, accept)


def watching(
    *,
    server: str | None = None,
    dsn: str | None = None,
    defaults_file: Path | str | None = None,
    host: str = LOOPBACK,
    port: int | None = None,
    progress: Progress = silent,
) -> Watch:
    """Watches a server; a context manager, whose `url` is the page's.

    The arguments are those of `flushlab watch` under the same names.

    Args:
        server: a kept sandbox (`sandbox:NAME`), or a build (`mariadb@10.11`), whose new sandbox ends with
            watching.
        dsn: a server that is not a sandbox: `mysql://user:password@host:port`.
        defaults_file: the same, by an option file's group `[client]`.
        host: the address to listen on; any but loopback takes a token, which `url` has.
        port: to listen on; 9194, or a free one, if None.
        progress: takes a line at a time.

    Raises:
        UsageError: what makes no sense, or an address that cannot be listened on.
        FlushlabError: the sandbox could not be started.
    """
    places = {"server": server, "dsn": dsn, "defaults-file": defaults_file}
    named = [f"--{name}" for name, given in places.items() if given]
    if len(named) > 1:
        raise UsageError(f"{named[0]} and {named[1]} exclude each other", hint="give one of them")
    if dsn or defaults_file:
        reach = Reach.of(from_dsn(dsn) if dsn else from_option_file(Path(str(defaults_file))))
        return Watch(lambda: reach, lambda: None, lambda: (), host=host, port=port)
    assert server is not None
    box = sandbox(server=server, progress=progress)
    try:
        return _of_sandbox(box, host, port)
    except BaseException:
        _end(box)
        raise


def _of_sandbox(box: Sandbox, host: str, port: int | None) -> Watch:
    reach = Reach(key=box.name, endpoint=box.endpoint)

    def pids() -> tuple[int, ...]:
        return (box.pid,) if box.pid is not None else ()

    return Watch(lambda: reach, lambda: None, pids, host=host, port=port, on_close=lambda: _end(box))


def _end(box: Sandbox) -> None:
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
