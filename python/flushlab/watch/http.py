"""HTTP: the page, its data and `/metrics`, on loopback, for whoever may look.

The standard library's server: a thread per viewer, each handed the same frozen bytes once a second. Promises:

- GET and HEAD only.
- A Host header that does not name this machine is refused: a page elsewhere could point its own name here.
- Other addresses than this machine's get nothing without the token.
- A viewer that does not read is disconnected after `WRITE_S`, and comes back with Last-Event-ID.
- More than `MOST_VIEWERS` at once are sent away.
"""

from __future__ import annotations

import gzip
import hmac
import ipaddress
import mimetypes
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from flushlab.errors import UsageError
from flushlab.watch.threads import Meter, Ring

LOOPBACK = "127.0.0.1"
WRITE_S = 20.0
KEEP_OPEN_S = 15.0
MOST_VIEWERS = 128
AT_ONCE = 60
"""So many samples are put together for a viewer who has missed many: all of an hour are megabytes."""
COOKIE = "flushlab_watch"
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Vary": "Accept, Accept-Encoding",
}


class Reply(NamedTuple):
    status: HTTPStatus
    kind: str
    body: bytes
    packable: bool = False


class WebServer(ThreadingHTTPServer):
    """Listens; a thread per viewer.

    Args:
        metrics: makes `/metrics` for an Accept header: its Content-Type and its body.
        token: required of viewers; empty on loopback.

    Raises:
        UsageError: the address is not this machine's, or the port is taken.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_port = False
    request_queue_size = 64

    def __init__(
        self,
        ring: Ring,
        metrics: Callable[[str], tuple[str, bytes]],
        token: str,
        meter: Meter,
        host: str = LOOPBACK,
        port: int = 0,
    ) -> None:
        self.ring, self.metrics, self.token, self.meter = ring, metrics, token, meter
        self.viewers = threading.BoundedSemaphore(MOST_VIEWERS)
        self.files = _page()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise UsageError(
                f"{host}:{port} cannot be listened on: {error.strerror}",
                hint="name another address or port with --listen",
            ) from error
        self._thread = threading.Thread(target=self._run, name="watch-http", daemon=True)

    def get(self, path: str, accept: str) -> Reply:
        if path == "/api/history":
            kept = self.ring.after(0)
            samples = b",\n".join(data for _, data in kept)  # a line each: the page reads a few at a time
            body = b'{"last":%d,"samples":[\n%s\n]}' % (kept[-1][0] if kept else 0, samples)
            return Reply(HTTPStatus.OK, "application/json", body, packable=True)
        if path == "/metrics":
            return Reply(HTTPStatus.OK, *self.metrics(accept))
        file = "index.html" if path == "/" else path.removeprefix("/static/")
        if (path == "/" or path.startswith("/static/")) and file in self.files:
            return Reply(HTTPStatus.OK, *self.files[file])
        return _plain(HTTPStatus.NOT_FOUND, "there is /, /events, /api/history and /metrics")

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        if host in ("0.0.0.0", "::"):
            host = os.uname().nodename
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}/"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self.shutdown()
        self._thread.join(5)
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A viewer that went away is nobody's fault."""

    def server_bind(self) -> None:
        """Without asking who this machine is, which may take the name server's time."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self.serve_forever(poll_interval=0.1)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        super().process_request_thread(request, client_address)
        self.meter.lap()


class _Handler(BaseHTTPRequestHandler):
    server: WebServer
    protocol_version = "HTTP/1.1"
    server_version = "flushlab"
    sys_version = ""
    timeout = WRITE_S

    def do_GET(self) -> None:
        server, asked = self.server, urlsplit(self.path)
        if (refused := self._refused(asked.query)) is not None:
            self._answer(refused)
        elif asked.path == "/events":
            self._stream(asked.query)
        elif "token" in parse_qs(asked.query) and server.token:
            self._let_in(asked.path)
        else:
            self._answer(server.get(asked.path, self.headers.get("Accept", "")))

    do_HEAD = do_GET

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._not_allowed
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a query may hold the token."""

    def version_string(self) -> str:
        return self.server_version

    def _not_allowed(self) -> None:
        self.close_connection = True
        self._answer(_plain(HTTPStatus.METHOD_NOT_ALLOWED, "only GET"), {"Allow": "GET, HEAD"})

    def _refused(self, query: str) -> Reply | None:
        token = self.server.token
        if not token:
            if _is_this_machine(self.headers.get("Host", "")):
                return None
            return _plain(
                HTTPStatus.FORBIDDEN, "this host name does not belong to this machine: use localhost"
            )
        kind, _, bearer = self.headers.get("Authorization", "").partition(" ")
        shown = [*parse_qs(query).get("token", ()), bearer.strip() if kind.lower() == "bearer" else ""]
        with suppress(CookieError):
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
            shown.append(cookie.value if cookie else "")
        if any(hmac.compare_digest(one.encode(), token.encode()) for one in shown):
            return None
        return _plain(HTTPStatus.UNAUTHORIZED, "the address that flushlab watch printed has the token")

    def _let_in(self, path: str) -> None:
        """Takes the token out of the address bar."""
        cookie = f"{COOKIE}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
        where = "/" + path.lstrip("/\\")
        self._answer(
            Reply(HTTPStatus.SEE_OTHER, "text/plain", b""), {"Location": where, "Set-Cookie": cookie}
        )

    def _answer(self, reply: Reply, headers: Mapping[str, str] = {}) -> None:
        body, length = reply.body, {}
        if reply.packable and "gzip" in self.headers.get("Accept-Encoding", ""):
            body, length = gzip.compress(body, 1, mtime=0), {"Content-Encoding": "gzip"}
        length["Content-Length"] = str(len(body))
        self._send_head(reply.status, reply.kind, {**headers, **length})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_head(self, status: HTTPStatus, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **_HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, query: str) -> None:
        self.close_connection = True
        if not self.server.viewers.acquire(blocking=False):
            full = _plain(HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST_VIEWERS} viewers are connected already")
            self._answer(full, {"Retry-After": "10"})
            return
        try:
            keep_out = {"Connection": "close", "X-Accel-Buffering": "no"}
            self._send_head(HTTPStatus.OK, "text/event-stream", keep_out)
            if self.command != "HEAD":
                self._send_samples(self._last_seen(query))
        finally:
            self.server.viewers.release()

    def _last_seen(self, query: str) -> int | None:
        told = self.headers.get("Last-Event-ID") or next(iter(parse_qs(query).get("after", ())), "")
        return int(told) if told.isascii() and told.isdigit() and len(told) < 20 else None

    def _send_samples(self, last: int | None) -> None:
        ring = self.server.ring
        self.wfile.write(b"retry: 1000\n\n")
        while not ring.closed:
            missed = ring.after(last)
            for begin in range(0, len(missed), AT_ONCE):
                few = missed[begin : begin + AT_ONCE]
                self.wfile.write(
                    b"".join(b"id: %d\nevent: sample\ndata: %s\n\n" % numbered for numbered in few)
                )
            last = missed[-1][0] if missed else last if last is not None else ring.last
            self.server.meter.lap()
            if not ring.wait(last, KEEP_OPEN_S) and not ring.closed:
                self.wfile.write(b": still here\n\n")


def _is_this_machine(host: str) -> bool:
    """Any port: a Host header may come through a tunnel."""
    with suppress(ValueError):
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    return False


def _plain(status: HTTPStatus, text: str) -> Reply:
    return Reply(status, "text/plain; charset=utf-8", f"{text}\n".encode())


def _page() -> dict[str, tuple[str, bytes]]:
    found, folder = {}, Path(__file__).parent / "page"
    for path in filter(Path.is_file, folder.rglob("*")):
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        if kind.startswith("text/") or kind.endswith(("javascript", "json")):
            kind += "; charset=utf-8"
        found[path.relative_to(folder).as_posix()] = kind, path.read_bytes()
    return found
