"""Endpoint: an HTTP address on loopback that resets a worker's server.

Suite layer. `curl -fsS -X POST "$FLUSHLAB_RESET_URL"` returns when the database is pristine again. The
address holds a random word, for loopback is everybody's on the machine. GET does the same: not every test
framework posts easily.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import Sequence
from typing import Self

from flushlab.errors import FlushlabError
from flushlab.suite.command import shield_thread
from flushlab.suite.servers import SuiteServer

HOST = "127.0.0.1"


class ResetEndpoint:
    """Answers while the suite runs; a context manager."""

    def __init__(self, servers: Sequence[SuiteServer]) -> None:
        self._servers = {f"/{secrets.token_hex(8)}/reset/{i}": server for i, server in enumerate(servers, 1)}
        self._socket = socket.create_server((HOST, 0))
        self._port = self._socket.getsockname()[1]
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="reset", daemon=True)

    @property
    def urls(self) -> tuple[str, ...]:
        """Each worker's address."""
        return tuple(f"http://{HOST}:{self._port}{path}" for path in self._servers)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()  # the thread closes the socket: a number closed here could be another's at once

    def _serve(self) -> None:
        """Accepts until the end; one thread per request."""
        shield_thread()
        with self._socket:
            self._socket.settimeout(0.2)
            while not self._end.is_set():
                try:
                    connection, _ = self._socket.accept()
                except TimeoutError:
                    continue
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(30)
            try:
                path = _requested(connection)
            except (OSError, ValueError):
                return
            status, body = self._reset(path)
            text = f"{json.dumps(body)}\n".encode()
            head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
            connection.sendall(f"{head}Connection: close\r\n\r\n".encode() + text)

    def _reset(self, path: str) -> tuple[str, dict[str, object]]:
        server = self._servers.get(path)
        if server is None:
            return "404 Not Found", {"error": "there is nothing at this address"}
        try:
            return "200 OK", {"seconds": round(server.reset(), 4), "resets": server.resets}
        except (FlushlabError, OSError) as error:
            return "500 Internal Server Error", {"error": str(error)}


def _requested(connection: socket.socket) -> str:
    """The path of a request; its head and body are read and left alone.

    Raises:
        ValueError: it is none.
    """
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connection.recv(4096)
        if not chunk or len(received) > 65536:
            raise ValueError("not a request")
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ", 2)
    if method not in ("GET", "POST"):
        raise ValueError(f"the method {method} is not supported")
    lengths = [line.partition(":")[2] for line in lines if line.lower().startswith("content-length:")]
    wanted = int(lengths[0]) if lengths else 0
    while len(body) < min(wanted, 65536):
        chunk = connection.recv(4096)
        if not chunk:
            break
        body += chunk
    return path
