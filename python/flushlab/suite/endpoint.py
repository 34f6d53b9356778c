"""Endpoint: an HTTP address on loopback, where a suite resets its servers and takes others from the pool.

Suite layer. `curl -fsS -X POST "$FLUSHLAB_RESET_URL"` returns when the database is pristine again; a POST to
`$FLUSHLAB_POOL_URL/databases` returns a pristine one. The address contains a random word, because all users
of the machine share the loopback. A reset takes GET like POST: not every test framework posts easily. The
HTTP code is minimal, because importing `http.server` delays the start.

`SuiteMonitor` samples free memory and the suite's schema changes meanwhile. A server in memory holds pages
that the kernel cannot reclaim. When free memory falls below half of the reserve, or the tmpfs is nearly
full, its data directory moves to disk. It starts again on the same port: the suite loses its connections
once, but continues. Every server counts statements by kind (`Com_…`), without performance_schema: a suite
may drop and migrate again although its server was prepared. The seconds are the sum of the sample intervals
with such statements.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import NamedTuple, Self
from urllib.parse import parse_qsl

import msgspec

from flushlab.errors import FlushlabError, ServerError, UsageError
from flushlab.machine import available_memory_bytes
from flushlab.record import Value
from flushlab.server.sql import SYSTEM_LIST
from flushlab.suite.command import shield_thread
from flushlab.suite.pool import LEASE_S, LONGEST_LEASE_S, Pool
from flushlab.suite.profile import reserve_bytes
from flushlab.suite.servers import SuiteServer
from flushlab.units import format_size

HOST = "127.0.0.1"
_CONNECTIONS = {"kill": True, "keep": False}
"""Values of `connections` behind an address and a question mark: whether all of them end, or only those in a
transaction."""
_LONGEST = 65536
"""Of a request's head, and of its body."""

Body = Mapping[str, object]


class _Refused(Exception):
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
        try:
            return "200 OK", self._find(request.path)(request)
        except _Refused as refused:
            return refused.status, {"error": str(refused)}
        except UsageError as error:
            return "410 Gone", {"error": error.message}
        except (FlushlabError, OSError) as error:
            return "500 Internal Server Error", {"error": str(error)}

    def _find(self, path: str) -> Callable[[_Request], Body]:
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
        text = request.query.get("lease", "")
        lease_s = math.nan
        with suppress(ValueError):
            lease_s = float(text or LEASE_S)
        if not 0 < lease_s <= LONGEST_LEASE_S:
            raise _Refused("400 Bad Request", f"lease={text} is not a number of seconds up to a day")
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

        def is_open() -> bool:
            readable = select.poll()
            readable.register(self.connection, select.POLLIN)
            try:
                return not readable.poll(0) or self.connection.recv(1, socket.MSG_PEEK) != b""
            except OSError:
                return False

        return _Request(method, path, dict(parse_qsl(query, keep_blank_values=True)), is_open)


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


INTERVAL_S = 0.25

_LEAST_TMPFS_BYTES = 48 << 20

DROPS = ("Com_drop_table", "Com_drop_view", "Com_drop_procedure", "Com_drop_function", "Com_drop_trigger")
CREATES = tuple(name.replace("drop", "create") for name in DROPS)
DATABASES = ("Com_drop_db", "Com_create_db")
_NAMES = (*DROPS, *CREATES, *DATABASES)
_SQL = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({', '.join(repr(name) for name in _NAMES)})"

OBJECTS = f"SELECT COUNT(*) FROM information_schema.tables WHERE LOWER(table_schema) NOT IN {SYSTEM_LIST}"

_LEAST = 5
"""Fewer objects dropped and created again are a test's own business."""
_MOST = 3
"""And so are more than this many times what was there: the tests are about DDL."""


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    seconds: float


class Habits:
    def __init__(self, server: SuiteServer) -> None:
        self._server = server
        self._last = self._counters()
        self._last_at = time.monotonic()
        self._there = sum(int(row[0]) for row in server.ask(OBJECTS))
        self._counted = dict.fromkeys(_NAMES, 0)
        self._seconds = 0.0

    def sample(self) -> None:
        now, at = self._counters(), time.monotonic()
        if now:
            is_counted = False
            for name in _NAMES:
                before, after = self._last.get(name, 0), now.get(name, 0)
                new = after - before if after >= before else after  # a reset started the server again
                self._counted[name] += new
                is_counted |= new > 0
            if is_counted:
                self._seconds += at - self._last_at
            self._last = now
        self._last_at = at

    @property
    def recreated(self) -> Objects | None:
        dropped = sum(self._counted[name] for name in DROPS)
        if self._counted["Com_drop_db"] and self._counted["Com_create_db"]:
            dropped = max(dropped, self._there)
        again = min(dropped, sum(self._counted[name] for name in CREATES))
        if not max(_LEAST, self._there // 2) <= again <= _MOST * self._there:
            return None
        return Objects(count=again, seconds=self._seconds)

    @property
    def created(self) -> Objects | None:
        count = sum(self._counted[name] for name in CREATES)
        kept = count - sum(self._counted[name] for name in DROPS)
        return Objects(count=count, seconds=self._seconds) if kept >= max(_LEAST, count // 2) else None

    def _counters(self) -> dict[str, int]:
        return {str(name): int(value) for name, value in self._server.ask(_SQL)}


class SuiteMonitor:
    def __init__(
        self, servers: Sequence[SuiteServer], settings: Mapping[str, Value], pool: Pool | None = None
    ) -> None:
        self._servers = servers
        self._pool = pool
        self._settings = settings
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._floor_bytes = reserve_bytes() // 2
        self.notes: list[str] = []
        self.habits = [Habits(server) for server in servers]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        for habits in self.habits:
            habits.sample()

    def _run(self) -> None:
        shield_thread()
        while not self._end.wait(INTERVAL_S):
            self._make_room()
            for server in (*self._servers, *(self._pool.servers if self._pool is not None else ())):
                server.trim_log()
            if self._pool is not None:
                self._pool.look()
            for habits in self.habits:
                habits.sample()

    def _make_room(self) -> None:
        for server in (*self._servers, *(self._pool.leased if self._pool is not None else ())):
            if not server.sandbox.storage.in_memory or server.stopped_for:
                continue
            short = self._shortage(server)
            if short is None:
                return
            name = server.name
            if self._pool is not None and self._pool.give_up():
                self.notes.append(f"memory ran short ({short}): free servers of the pool were stopped")
                return
            if server.give_up_clones():
                self.notes.append(f"memory ran short ({short}): the standby servers of {name} were stopped")
                return
            try:
                server.move_to_disk(self._settings)
                self.notes.append(
                    f"memory ran short ({short}): the server {name} was moved to disk during the suite,"
                    " and open connections were cut"
                )
            except (FlushlabError, OSError) as error:
                server.stopped_for = (
                    f"memory ran short ({short}) and the server could not be moved to disk: {error}"
                )

    def _shortage(self, server: SuiteServer) -> str | None:
        available = available_memory_bytes()
        if available < self._floor_bytes:
            return f"{format_size(available)} left"
        facts = os.statvfs(server.sandbox.datadir.parent)
        free = facts.f_bavail * facts.f_frsize
        return f"{format_size(free)} left in its tmpfs" if free < _LEAST_TMPFS_BYTES else None
