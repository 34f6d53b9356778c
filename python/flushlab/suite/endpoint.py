"""Endpoint: an HTTP address on loopback, where a suite resets its servers and takes others from the pool.

Suite layer. `curl -fsS -X POST "$FLUSHLAB_RESET_URL"` returns when the database is pristine again; a POST to
`$FLUSHLAB_POOL_URL/databases` returns a pristine one. The address contains a random word, because all users
of the machine share the loopback. A reset takes GET like POST: not every test framework posts easily. The
HTTP code is minimal, because importing `http.server` delays the start.
"""

from __future__ import annotations

import json
import math
import secrets
import select
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import NamedTuple, Self
from urllib.parse import parse_qsl

import msgspec

from flushlab.errors import FlushlabError, ServerError, UsageError
from flushlab.suite.command import shield_thread
from flushlab.suite.pool import LEASE_S, LONGEST_LEASE_S, Pool
from flushlab.suite.servers import SuiteServer

HOST = "127.0.0.1"
_CONNECTIONS = {"kill": True, "keep": False}
"""Values of `connections` behind an address and a question mark: whether all of them end, or only those in a
transaction."""
_LONGEST = 65536
"""Of a request's head, and of its body."""

Body = Mapping[str, object]


class _Refused(Exception):
    """An answer that is none."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    is_open: Callable[[], bool]


class SuiteEndpoint(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False  # nobody waits for a reset that was begun at the end
    request_queue_size = 128  # many tests may begin at once

    def __init__(
        self, servers: Sequence[SuiteServer], pool: Pool, fields: Callable[[SuiteServer], Mapping[str, str]]
    ) -> None:
        self._root = f"/{secrets.token_hex(8)}"
        self._servers = {f"{self._root}/reset/{i}": server for i, server in enumerate(servers, 1)}
        self._pool = pool
        self._fields = fields
        super().__init__((HOST, 0), _Answer)
        self._thread = threading.Thread(target=self._serve, name="endpoint", daemon=True)

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(self._url(path) for path in self._servers)

    @property
    def pool_url(self) -> str:
        return self._url(self._root)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        threading.Thread(target=self.shutdown, daemon=True).start()  # waits for the other thread's next look

    def answer(self, request: _Request) -> tuple[str, Body]:
        """Status and body of an answer."""
        try:
            return "200 OK", self._find(request.path)(request)
        except _Refused as refused:
            return refused.status, {"error": str(refused)}
        except UsageError as error:
            return "410 Gone", {"error": error.message}
        except (FlushlabError, OSError) as error:
            return "500 Internal Server Error", {"error": str(error)}

    def _find(self, path: str) -> Callable[[_Request], Body]:
        """What answers at a path."""
        if (server := self._servers.get(path)) is not None:
            return lambda request: _reset(server, request)
        match path.removeprefix(self._root).strip("/").split("/") if path.startswith(self._root) else ():
            case ["databases"]:
                return self._take
            case ["databases", lease]:
                return lambda request: self._give_back(lease, request)
            case ["databases", lease, "reset"]:
                return lambda request: _reset(self._pool.find(lease), request)
            case [""]:
                raise _Refused("404 Not Found", "POST to /databases behind this address takes a database")
        raise _Refused("404 Not Found", "there is nothing at this address")

    def _take(self, request: _Request) -> Body:
        _require(request, ("POST",), "lease")
        lease_s = _lease_s(request.query.get("lease", ""))
        try:
            lease = self._pool.take(lease_s, is_wanted=request.is_open)
        except ServerError as error:
            raise _Refused("503 Service Unavailable", str(error)) from error
        address = self._url(f"{self._root}/databases/{lease.id}")
        own = {"lease_url": address, "reset_url": f"{address}/reset", "lease_seconds": lease_s}
        fields = self._fields(lease.server)
        return {**fields, "port": int(fields["port"]), **own}

    def _give_back(self, lease: str, request: _Request) -> Body:
        _require(request, ("DELETE",), "connections")
        self._pool.give_back(lease, cut=_cut(request, usual=True))
        return {}

    def _url(self, path: str) -> str:
        return f"http://{HOST}:{self.server_address[1]}{path}"

    def _serve(self) -> None:
        shield_thread()  # and so those of the requests: a thread starts with its creator's mask
        try:
            self.serve_forever(0.2)
        finally:
            self.server_close()  # here: a number closed by another thread could be somebody's at once


class _Answer(StreamRequestHandler):
    timeout = 30
    server: SuiteEndpoint

    def handle(self) -> None:
        try:
            request = self._requested()
        except (OSError, ValueError):
            return
        status, body = self.server.answer(request)
        text = f"{json.dumps(body)}\n"
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        with suppress(OSError):  # whoever asked is gone
            self.wfile.write(f"{head}Connection: close\r\n\r\n{text}".encode())

    def _requested(self) -> _Request:
        """A request; its head and body are read and left alone. Raises ValueError if it is none."""
        method, path, _ = self.rfile.readline(_LONGEST).decode("latin-1").split(" ", 2)
        left, length = _LONGEST, 0
        while (line := self.rfile.readline(left)).strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
            left -= len(line)
        if not line:
            raise ValueError("the head does not end")
        self.rfile.read(min(length, _LONGEST))
        path, _, query = path.partition("?")
        return _Request(method, path, dict(parse_qsl(query, keep_blank_values=True)), self._is_open)

    def _is_open(self) -> bool:
        readable = select.poll()
        readable.register(self.connection, select.POLLIN)
        try:
            return not readable.poll(0) or self.connection.recv(1, socket.MSG_PEEK) != b""
        except OSError:
            return False


def _reset(server: SuiteServer, request: _Request) -> Body:
    _require(request, ("POST", "GET"), "connections")
    done = server.reset(cut=_cut(request, usual=False))
    told = msgspec.structs.asdict(done) | {"seconds": round(done.seconds, 4)}
    return {**told, "resets": len(server.resets)}


def _require(request: _Request, methods: Sequence[str], parameter: str) -> None:
    if request.method not in methods:
        raise _Refused("405 Method Not Allowed", f"{request.method} does nothing here: use {methods[0]}")
    for name in request.query:
        if name != parameter:
            raise _Refused("400 Bad Request", f"{name} is not known here, only {parameter}")


def _cut(request: _Request, *, usual: bool) -> bool:
    if not request.query:
        return usual
    value = request.query["connections"]
    if value not in _CONNECTIONS:
        raise _Refused("400 Bad Request", f"connections={value} is not known: use kill or keep")
    return _CONNECTIONS[value]


def _lease_s(text: str) -> float:
    try:
        seconds = float(text or LEASE_S)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_LEASE_S:
        raise _Refused("400 Bad Request", f"lease={text} is not a number of seconds up to a day")
    return seconds
