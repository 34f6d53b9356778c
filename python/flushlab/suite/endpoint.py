"""Endpoint: an HTTP address on loopback that resets a worker's server.

Suite layer. `curl -fsS -X POST "$FLUSHLAB_RESET_URL"` returns when the database is pristine again. The
address contains a random word, because all users of the machine share the loopback. GET works like POST: not
every test framework posts easily. The HTTP code is minimal, because importing `http.server` delays the start.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Sequence
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Self

import msgspec

from flushlab.errors import FlushlabError
from flushlab.suite.command import shield_thread
from flushlab.suite.servers import SuiteServer

HOST = "127.0.0.1"
CUT = "connections=kill"
"""Behind the address and a question mark: all connections end, not only those in a transaction."""
_LONGEST = 65536
"""Of a request's head, and of its body."""


class ResetEndpoint(ThreadingTCPServer):
    """Answers while the suite runs, with a thread per request; a context manager."""

    daemon_threads = True
    block_on_close = False  # nobody waits for a reset that was begun at the end

    def __init__(self, servers: Sequence[SuiteServer]) -> None:
        self.servers = {f"/{secrets.token_hex(8)}/reset/{i}": server for i, server in enumerate(servers, 1)}
        super().__init__((HOST, 0), _Answer)
        self._thread = threading.Thread(target=self._serve, name="reset", daemon=True)

    @property
    def urls(self) -> tuple[str, ...]:
        """Reset address of each worker."""
        return tuple(f"http://{HOST}:{self.server_address[1]}{path}" for path in self.servers)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        threading.Thread(target=self.shutdown, daemon=True).start()  # waits for the other thread's next look

    def _serve(self) -> None:
        shield_thread()  # and so those of the requests: a thread starts with its creator's mask
        try:
            self.serve_forever(0.2)
        finally:
            self.server_close()  # here: a number closed by another thread could be somebody's at once


class _Answer(StreamRequestHandler):
    """Answers one HTTP request; anything else gets no answer."""

    timeout = 30
    server: ResetEndpoint

    def handle(self) -> None:
        try:
            path = self._requested()
        except (OSError, ValueError):
            return
        status, body = self._reset(path)
        text = f"{json.dumps(body)}\n"
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        self.wfile.write(f"{head}Connection: close\r\n\r\n{text}".encode())

    def _requested(self) -> str:
        """The path of a request; its head and body are read and left alone. Raises ValueError if it is
        none."""
        method, path, _ = self.rfile.readline(_LONGEST).decode("latin-1").split(" ", 2)
        if method not in ("GET", "POST"):
            raise ValueError(f"the method {method} is not supported")
        left, length = _LONGEST, 0
        while (line := self.rfile.readline(left)).strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
            left -= len(line)
        if not line:
            raise ValueError("the head does not end")
        self.rfile.read(min(length, _LONGEST))
        return path

    def _reset(self, path: str) -> tuple[str, dict[str, object]]:
        path, _, query = path.partition("?")
        server = self.server.servers.get(path)
        if server is None:
            return "404 Not Found", {"error": "there is nothing at this address"}
        if query not in ("", CUT):
            return "400 Bad Request", {"error": f"{query} is not known here; {CUT} ends the connections"}
        try:
            done = server.reset(cut=query == CUT)
            told = msgspec.structs.asdict(done) | {"seconds": round(done.seconds, 4)}
            return "200 OK", {**told, "resets": len(server.resets)}
        except (FlushlabError, OSError) as error:
            return "500 Internal Server Error", {"error": str(error)}
