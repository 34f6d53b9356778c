"""The way out of a connection that failed, and who answers in the place of a server."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
import pytest

from flushlab.errors import ServerDied
from flushlab.record import Endpoint
from flushlab.server.control import ConnectionRefused, Control, connect, explain, is_final, way_out
from flushlab.server.remote.login import Address
from flushlab.server.remote.server import RemoteServer


@contextmanager
def answering(first: bytes, *, closes: bool = True) -> Iterator[Endpoint]:
    """Whoever listens on a port and begins with these bytes."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                peer.sendall(first)
                if closes:
                    peer.close()
                else:
                    kept.append(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield Endpoint(user="me", password="secret", host="127.0.0.1", port=listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for peer in kept:
                peer.close()


def refusal(errno: int, text: str) -> bytes:
    """The error that a server greets with."""
    payload = struct.pack("<BH", 0xFF, errno) + text.encode()
    return struct.pack("<I", len(payload))[:3] + b"\0" + payload


def failed(endpoint: Endpoint, answer_s: float = 10.0) -> tuple[int, str]:
    with pytest.raises(pymysql.MySQLError) as raised:
        connect(endpoint, "tcp", answer_s=answer_s, connect_s=10.0)
    return explain(raised.value)


@pytest.mark.parametrize(
    ("errno", "text", "hint", "final"),
    [
        (1045, "Access denied for user 'me'@'db' (using password: YES)", "check user and password", True),
        (1698, "Access denied for user 'root'@'localhost'", "check user and password", True),
        (1130, "Host '10.0.0.9' is not allowed to connect to this server", "from this host", True),
        (1129, "Host '10.0.0.9' is blocked because of many connection errors", "host_cache", True),
        (
            1184,
            "Aborted connection 9 to db: 'unconnected' (init_connect command failed)",
            "init_connect",
            True,
        ),
        (1251, "Client does not support authentication protocol requested", "caching_sha2_password", True),
        (1524, "Plugin 'auth_pam' is not loaded", "load the account's plugin", True),
        (1820, "You must reset your password using ALTER USER statement", "change the password", True),
        (1862, "Your password has expired", "change the password", True),
        (2007, "it does not speak the protocol of MySQL and MariaDB", "address and port", True),
        (2026, "SSL connection error: certificate verify failed", "set ssl-mode", True),
        (
            2003,
            "Can't connect to MySQL server on 'db' ([SSL: CERTIFICATE_VERIFY_FAILED])",
            "set ssl-mode",
            True,
        ),
        (2059, "Authentication plugin 'b'auth_gssapi_client'' not configured", "caching_sha2_password", True),
        (2061, "the account's plugin takes its password encrypted", "ssl-mode=required", True),
        (3118, "Access denied for user 'me'@'db'. Account is locked.", "ACCOUNT UNLOCK", True),
        (4151, "Access denied, this account is locked", "ACCOUNT UNLOCK", True),
        (3159, "Connections using insecure transport are prohibited", "ssl-mode=required", True),
        (
            3955,
            "Account is blocked for 1 day(s) due to 3 consecutive failed logins",
            "correct the password",
            True,
        ),
        (4150, "User is blocked because of too many credential errors", "FLUSH PRIVILEGES", True),
        (1040, "Too many connections", "max_connections", False),
        (1203, "User me already has more than 'max_user_connections'", "max_user_connections", False),
        (1226, "User 'me' has exceeded the 'max_connections_per_hour' resource", "ALTER USER", False),
        (3032, "The server is currently in offline mode", "offline_mode", False),
        (2003, "Can't connect to MySQL server on 'db' ([Errno 111] Connection refused)", "listen", False),
        (2003, "Can't connect to MySQL server on 'db' (timed out)", "firewall", False),
        (2003, "Can't connect to MySQL server on 'db' ([Errno 113] No route to host)", "firewall", False),
        (2003, "Can't connect to MySQL server on 'd' ([Errno -2] Name or service not known)", "name", False),
        (2003, "Can't connect to MySQL server on 'localhost' ([Errno 2] No such file)", "socket", False),
        (
            2003,
            "Can't connect to MySQL server on 'localhost' ([Errno 13] Permission denied)",
            "folder",
            False,
        ),
        (2013, "it sent no greeting within 2 s", "PostgreSQL", False),
        (2013, "Lost connection to MySQL server during query (timed out)", "other clients", False),
        (2013, "Lost connection to MySQL server during query", "is it running", False),
    ],
)
def test_each_refusal_has_its_own_way_out(errno: int, text: str, hint: str, *, final: bool) -> None:
    assert hint in way_out(errno, text)
    assert is_final(errno, text) is final


def test_a_server_that_is_full_says_so_in_its_greeting() -> None:
    with answering(refusal(1040, "Too many connections")) as endpoint:
        with pytest.raises(ConnectionRefused, match="Too many connections") as refused:
            Control(endpoint, "tcp", connect_s=10.0).query("SELECT 1")
        assert "max_connections" in (refused.value.hint or "") and not refused.value.is_final


@pytest.mark.parametrize(
    ("first", "speaks"),
    [
        (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", ": it speaks SSH"),
        (b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n", ": it speaks HTTP"),
        (b"220 mail.example.com ESMTP\r\n", ": it speaks SMTP or FTP"),
        (b"\x05\0\0\0\x0b\x08\x05\x1a\0", ": it speaks the X Protocol of MySQL"),
        (b"what do you want?\n" * 4, ""),
    ],
)
def test_another_protocol_is_named(first: bytes, speaks: str) -> None:
    with answering(first) as endpoint:
        errno, text = failed(endpoint)
    assert text == f"it does not speak the protocol of MySQL and MariaDB{speaks}"
    assert is_final(errno, text)


def test_a_web_server_waits_for_its_client() -> None:
    with answering(b"", closes=False) as endpoint:
        _, text = failed(endpoint, answer_s=0.2)
        assert text == "it sent no greeting within 0.2 s"
        with pytest.raises(ServerDied, match="sent no greeting") as silent:
            RemoteServer(Address(endpoint=endpoint), connect_s=0.2)
    assert "web servers" in (silent.value.hint or "")


def test_a_connection_that_is_closed_at_once_sent_no_greeting() -> None:
    with answering(b"") as endpoint:
        assert failed(endpoint)[1] == "it sent no greeting before it closed the connection"
