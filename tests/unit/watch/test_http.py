"""The web server: what it gives, to whom, and whom it refuses."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress

import pytest

from flushlab.errors import UsageError
from flushlab.watch import http as watch_http
from flushlab.watch.http import LOOPBACK, WebServer
from flushlab.watch.threads import Meter, Ring
from tests.waiting import PATIENCE_S, wait_until


def metrics(accept: str) -> tuple[str, bytes]:
    return f"text/{accept or 'plain'}", b"mysql_up 1\n"


@contextmanager
def site(token: str = "", *, samples: int = 3) -> Iterator[tuple[WebServer, Ring]]:
    ring = Ring(100)
    for number in range(samples):
        ring.push(b'{"t":%d}' % number)
    server = WebServer(ring, metrics, token, Meter(), LOOPBACK, 0)
    server.start()
    try:
        yield server, ring
    finally:
        ring.close()
        server.close()


def ask(
    server: WebServer, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection(LOOPBACK, server.server_port, timeout=PATIENCE_S)) as connection:
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def stream(server: WebServer, headers: str = "", path: str = "/events") -> socket.socket:
    viewer = socket.create_connection((LOOPBACK, server.server_port), timeout=PATIENCE_S)
    viewer.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
    return viewer


def read_until(viewer: socket.socket, text: bytes) -> bytes:
    told = b""
    while text not in told:
        piece = viewer.recv(65536)
        assert piece, f"the stream ended before {text!r}: {told!r}"
        told += piece
    return told


def test_history_metrics_and_unknown_paths() -> None:
    with site() as (server, _):
        status, headers, body = ask(server, "/api/history")
        assert (status, json.loads(body)) == (200, {"last": 102, "samples": [{"t": 0}, {"t": 1}, {"t": 2}]})
        assert headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert ask(server, "/metrics", {"Accept": "own"})[1]["Content-Type"] == "text/own"
        for path in ("/nonsense", "/static/../http.py", "/static/%2e%2e/http.py", "/static/", "//etc/passwd"):
            assert ask(server, path)[0] == 404, path


def test_a_history_is_packed_for_who_can_unpack_it() -> None:
    with site() as (server, _):
        _, headers, body = ask(server, "/api/history", {"Accept-Encoding": "gzip"})
        assert headers["Content-Encoding"] == "gzip"
        assert json.loads(gzip.decompress(body))["last"] == 102


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "NONSENSE"])
def test_only_get_is_taken(method: str) -> None:
    with site() as (server, _):
        status, headers, _ = ask(server, "/", method=method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9194", "localhost.evil.example", "10.1.2.3", "["]
)
def test_a_name_that_is_not_of_this_machine_is_refused(host: str) -> None:
    with site() as (server, _):
        assert ask(server, "/api/history", {"Host": host})[0] == 403
        assert ask(server, "/events", {"Host": host})[0] == 403


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:9194", "LOCALHOST"])
def test_this_machine_may_be_called_by_any_port_as_through_a_tunnel(host: str) -> None:
    with site() as (server, _):
        assert ask(server, "/metrics", {"Host": host})[0] == 200


def test_without_its_token_another_address_tells_nothing() -> None:
    with site("sesame") as (server, _):
        for path in ("/", "/metrics", "/events", "/api/history", "/?token=wrong", "/?token=%C3%A9"):
            assert ask(server, path)[0] == 401, path
        status, headers, _ = ask(server, "/?token=sesame")
        assert (status, headers["Location"]) == (303, "/")
        cookie = headers["Set-Cookie"].partition(";")[0]
        assert "HttpOnly" in headers["Set-Cookie"]
        assert ask(server, "/api/history", {"Cookie": cookie, "Host": "db.example"})[0] == 200
        assert ask(server, "/metrics", {"Authorization": "Bearer sesame"})[0] == 200


def test_a_viewer_who_comes_back_misses_nothing() -> None:
    with site() as (server, ring), closing(stream(server, "Last-Event-ID: 100\r\n")) as viewer:
        told = read_until(viewer, b"id: 102")
        assert b'id: 101\nevent: sample\ndata: {"t":1}\n\n' in told
        assert b"id: 100" not in told
        ring.push(b'{"t":3}')
        read_until(viewer, b'id: 103\nevent: sample\ndata: {"t":3}\n\n')


def test_a_viewer_who_slept_for_an_hour_gets_all_of_it_in_order() -> None:
    with site(samples=3600) as (server, _), closing(stream(server, "Last-Event-ID: 100\r\n")) as viewer:
        told = read_until(viewer, b'data: {"t":3599}\n\n')
    assert [int(number) for number in re.findall(rb"^id: (\d+)$", told, re.MULTILINE)] == [*range(101, 3700)]


def test_a_page_that_has_the_history_goes_on_behind_it() -> None:
    with site() as (server, _), closing(stream(server, path="/events?after=101")) as viewer:
        assert b"id: 101" not in read_until(viewer, b"id: 102")


def test_fifty_viewers_all_see_the_next_second() -> None:
    with site() as (server, ring):
        viewers = [stream(server) for _ in range(50)]
        try:
            for viewer in viewers:
                read_until(viewer, b"id: 102")
            ring.push(b'{"t":3}')
            for viewer in viewers:
                read_until(viewer, b"id: 103")
        finally:
            for viewer in viewers:
                viewer.close()


def test_a_viewer_too_many_is_sent_away_and_let_in_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_http, "MOST_VIEWERS", 1)
    with site() as (server, ring):
        with closing(stream(server)) as viewer:
            read_until(viewer, b"id: 102")
            status, headers, _ = ask(server, "/events")
            assert (status, headers["Retry-After"]) == (503, "10")

        def is_let_in() -> bool:
            ring.push(b"{}")  # who is gone is found out when something is sent
            with closing(stream(server)) as another:
                return b"200 OK" in another.recv(64)

        wait_until(is_let_in, "a place is free again")


def impatient(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """A stream on which nobody is waited for longer than 0.2 s, its own request included."""
    with monkeypatch.context() as quick:
        quick.setattr(watch_http._Handler, "timeout", 0.2)
        while True:
            viewer = stream(server)
            with suppress(AssertionError, OSError):
                read_until(viewer, b"id: 102")
                return viewer
            viewer.close()


def test_a_viewer_who_sleeps_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with site() as (server, ring), closing(impatient(server, monkeypatch)) as asleep:
        asleep.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(64):
            ring.push(b'"%s"' % (b"x" * 1_000_000))
        with closing(stream(server, "Last-Event-ID: 165\r\n")) as awake:
            read_until(awake, b"id: 166")
        wait_until(lambda: server.viewers._value >= watch_http.MOST_VIEWERS - 1, "it is let go")


def test_a_taken_port_is_said() -> None:
    with site() as (server, ring), pytest.raises(UsageError, match=f"{LOOPBACK}:{server.server_port} cannot"):
        WebServer(ring, metrics, "", Meter(), LOOPBACK, server.server_port)


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(UsageError, match=r"192\.0\.2\.1:0 cannot be listened on"):
        WebServer(Ring(1), metrics, "t", Meter(), "192.0.2.1", 0)
