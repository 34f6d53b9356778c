#!/usr/bin/env python3
"""Captures what real servers say: makes crates/protocol/tests/captures/BUILD.txt anew.

A proxy notes every packet between a client and a sandbox: the load engine logs in and is refused, PyMySQL
asks. The accounts and passwords in the captures exist in these sandboxes only.

Usage: scripts/capture_protocol.py [--plugin-dir DIR] [BUILD …]

`--plugin-dir`: where MariaDB finds auth_ed25519.so (Debian: package mariadb-server).
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pymysql

from flushlab import _core
from flushlab.build import find_build
from flushlab.record import Endpoint, ScriptSpec
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.control import StatementFailed

BUILDS = ("mysql@5.7", "mysql@8.0", "mysql@9.7", "mariadb@10.11", "mariadb@11.8")
FOLDER = Path(__file__).parents[1] / "crates" / "protocol" / "tests" / "captures"
PASSWORD = "a test password"
PREPARE, EXECUTE = 0x16, 0x17
SSL_REQUEST_BYTES = 4 + 32


class Proxy:
    """Stands between a client and a server and notes the packets of the latest connection."""

    def __init__(self, server: Endpoint, transport: str, folder: str) -> None:
        self._server = server
        self._transport = transport
        self._noted: list[tuple[str, bytes]] = []
        self._rest = {"C": b"", "S": b""}
        self._latest = 0
        self._lock = threading.Lock()
        if transport == "tcp":
            self._listener = socket.create_server(("127.0.0.1", 0))
            where: dict[str, Any] = {"host": "127.0.0.1", "port": self._listener.getsockname()[1]}
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(f"{folder}/proxy")
            self._listener.listen()
            where = {"socket": f"{folder}/proxy"}
        self.endpoint = msgspec.structs.replace(server, **where)
        threading.Thread(target=self._serve, daemon=True).start()

    def take(self) -> list[tuple[str, bytes]]:
        """The packets since the last call."""
        with self._lock:
            noted, self._noted = self._noted, []
            return noted

    def _serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._transport == "tcp":
                server = socket.create_connection((self._server.host or "", self._server.port or 0))
            else:
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server.socket or "")
            with self._lock:
                self._latest += 1
                self._noted, self._rest = [], {"C": b"", "S": b""}
            for side, source, target in (("C", client, server), ("S", server, client)):
                arguments = (self._latest, side, source, target)
                threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, number: int, side: str, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while read := source.recv(1 << 16):
                self._note(number, side, read)
                target.sendall(read)
            target.shutdown(socket.SHUT_WR)

    def _note(self, number: int, side: str, read: bytes) -> None:
        with self._lock:
            if number != self._latest:
                return  # the last words of an earlier one
            held = self._rest[side] + read
            while len(held) >= 4 and len(held) >= (length := 4 + int.from_bytes(held[:3], "little")):
                self._noted.append((side, held[:length]))
                held = held[length:]
            self._rest[side] = held


class Capture:
    """One file of captures."""

    def __init__(self, server: Sandbox) -> None:
        self._server = server
        self._lines = [
            f"# {server.identity.version_text} ({server.build.name}): packets of clients (C) and the",
            "# server (S) as they went over the network. Made by scripts/capture_protocol.py.",
        ]

    def add(self, name: str, packets: list[tuple[str, bytes]]) -> None:
        """A case: its name, then a packet a line."""
        assert packets, name
        self._lines += ["", f"[{name}]", *(f"{side} {packet.hex()}" for side, packet in packets)]

    def write(self) -> None:
        """Writes the file."""
        file = FOLDER / f"{self._server.build.name.partition('@')[0]}-{series(self._server)}.txt"
        file.write_text("\n".join(self._lines) + "\n", encoding="ascii")
        sys.stdout.write(f"{file}\n")


def series(server: Sandbox) -> str:
    """`10.11` of 10.11.19."""
    return ".".join(server.identity.version_text.split(".")[:2])


def log_in(proxy: Proxy, user: str, password: str = PASSWORD, **more: Any) -> list[tuple[str, bytes]]:
    """The packets of a login by the load engine, up to its outcome."""
    endpoint = msgspec.structs.replace(proxy.endpoint, user=user, password=password)
    transport = "socket" if proxy.endpoint.socket and not more.get("tcp") else "tcp"
    spec = ScriptSpec(
        endpoint=endpoint,
        transport="tcp" if transport == "tcp" else "socket",
        ssl_mode=more.get("ssl_mode", "disabled"),
        database="flushlab",
        limit_s=10,
    )
    with contextlib.suppress(_core.CoreError):
        _core.run_script(msgspec.json.encode(spec), b"DO 1")
    packets = proxy.take()
    for position, (side, packet) in enumerate(packets):
        if side == "C" and len(packet) == SSL_REQUEST_BYTES:
            return packets[: position + 1]
        if side == "S" and position and packet[4] in (0x00, 0xFF):
            return packets[: position + 1]
    return packets


def capture_logins(server: Sandbox, capture: Capture, folder: str) -> None:
    """Logins by every plugin that the server has, and its refusals."""
    unix, tcp = Proxy(server.endpoint, "socket", folder), Proxy(server.endpoint, "tcp", folder)
    mariadb = server.build.flavor == "mariadb"
    plugins = ["mysql_native_password", *([] if mariadb else ["caching_sha2_password", "sha256_password"])]
    server.query("CREATE DATABASE IF NOT EXISTS flushlab")
    if mariadb:
        with contextlib.suppress(StatementFailed):
            server.query("INSTALL SONAME 'auth_ed25519'")
            plugins.append("ed25519")
    for plugin in plugins:
        by = f"VIA {plugin} USING PASSWORD('{PASSWORD}')" if mariadb else f"WITH {plugin} BY '{PASSWORD}'"
        try:
            for host in ("localhost", "127.0.0.1"):
                server.query(f"CREATE USER '{plugin}'@'{host}' IDENTIFIED {by}")
                server.query(f"GRANT ALL ON *.* TO '{plugin}'@'{host}'")
        except StatementFailed as error:
            sys.stdout.write(f"{server.build.name}: no {plugin}: {error.text}\n")
            continue
        if plugin == "caching_sha2_password":
            capture.add("login caching_sha2_password full unix", log_in(unix, plugin))
            capture.add("login caching_sha2_password fast unix", log_in(unix, plugin))
            server.query("FLUSH PRIVILEGES")
            capture.add("login caching_sha2_password full tcp", log_in(tcp, plugin, tcp=True))
        elif plugin == "sha256_password":
            capture.add("login unspoken sha256_password", log_in(unix, plugin))
        else:
            capture.add(f"login {plugin} unix", log_in(unix, plugin))
    user = "caching_sha2_password" if series(server) == "9.7" else "mysql_native_password"
    capture.add("refused password", log_in(unix, user, "a wrong password"))
    capture.add("refused account", log_in(unix, "nobody"))
    if (
        server.query("SHOW GLOBAL VARIABLES LIKE 'have_ssl'")[0:1] == [("have_ssl", "YES")]
        or series(server) == "9.7"
    ):
        capture.add("request for TLS", log_in(tcp, user, tcp=True, ssl_mode="required"))
    too_many(server, unix, capture)


def too_many(server: Sandbox, unix: Proxy, capture: Capture) -> None:
    """The error that comes instead of a greeting."""
    server.query("SET GLOBAL max_connections = 10")
    endpoint = server.endpoint
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            try:
                connection = pymysql.connect(
                    unix_socket=endpoint.socket,
                    user=endpoint.user,
                    password=endpoint.password,
                    ssl_disabled=True,
                )
            except pymysql.MySQLError:
                break
            stack.callback(connection.close)
        endpoint = msgspec.structs.replace(unix.endpoint, user=endpoint.user, password=endpoint.password)
        spec = ScriptSpec(endpoint=endpoint, database="flushlab", limit_s=10)
        with contextlib.suppress(_core.CoreError):
            _core.run_script(msgspec.json.encode(spec), b"DO 1")
    capture.add("too many connections", [one for one in unix.take() if one[0] == "S"][:1])
    server.query("SET GLOBAL max_connections = 151")


SETUP = (
    "CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(300))",
    "CREATE PROCEDURE two() BEGIN SELECT 1; SELECT id FROM t; END",
)
TEXT = (
    ("ok", "INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, REPEAT('x', 300))"),
    ("ok of nothing", "UPDATE t SET c = 'none' WHERE id = 4"),
    ("rows", "SELECT id, c FROM t ORDER BY id"),
    ("row of NULL first", "SELECT NULL, 1"),
    ("no rows", "SELECT id FROM t WHERE id = 4"),
    ("rows with a warning", "SELECT CAST('x' AS SIGNED)"),
    ("several results", "CALL two()"),
    ("error", "SELECT * FROM nowhere"),
    ("error among rows", "SELECT (SELECT id FROM t WHERE id < 3)"),
)
PREPARED = (
    ("update", "UPDATE t SET c = ? WHERE id = ?"),
    ("select", "SELECT id, c FROM t WHERE id <= ?"),
    ("begin", "COMMIT"),
)


def capture_answers(server: Sandbox, capture: Capture, folder: str) -> None:
    """Answers to statements as text and to prepared ones."""
    proxy = Proxy(server.endpoint, "socket", folder)
    endpoint = proxy.endpoint
    connection: Any = pymysql.connect(
        unix_socket=endpoint.socket,
        user=endpoint.user,
        password=endpoint.password,
        database="flushlab",
        autocommit=True,
        ssl_disabled=True,  # on its own it would talk TLS to servers that offer it, sockets or not
    )
    for sql in SETUP:
        connection.query(sql)
    for name, sql in TEXT:
        proxy.take()
        with contextlib.suppress(pymysql.MySQLError):
            connection.query(sql)
            while connection._result is not None and connection._result.has_next:
                connection.next_result()
        capture.add(f"query: {name}", proxy.take())
    for name, sql in PREPARED:
        proxy.take()
        connection._execute_command(PREPARE, sql)
        head = connection._read_packet().get_all_data()
        statement, columns, parameters = struct.unpack("<IHH", head[1:9])
        for count in (parameters, columns):
            for _ in range(count + bool(count)):
                connection._read_packet()
        capture.add(f"prepare {parameters} {columns}: {name}", proxy.take())
        execute = struct.pack("<IBI", statement, 0, 1)
        if parameters == 2:
            execute += b"\0\x01\xfe\0\x03\0" + b"\x05three" + struct.pack("<i", 3)
        elif parameters == 1:
            execute += b"\0\x01\x03\0" + struct.pack("<i", 2)
        connection._execute_command(EXECUTE, execute)
        ends = 2 if columns else 0
        while not (packet := connection._read_packet()).is_ok_packet() or ends:
            ends -= packet.is_eof_packet()
            if not ends:
                break
        capture.add(f"execute {name}", proxy.take())
    connection.close()


def main() -> None:
    """Captures the builds that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("builds", nargs="*", default=BUILDS)
    parser.add_argument("--plugin-dir")
    asked = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name in asked.builds:
        build = find_build(name)
        own = build.flavor == "mariadb" and asked.plugin_dir
        arguments = [f"--plugin-dir={asked.plugin_dir}"] if own else []
        with Sandbox.start(SandboxSpec(build, arguments=arguments)) as server, capturing(server) as capture:
            for part in (capture_logins, capture_answers):
                with tempfile.TemporaryDirectory() as folder:
                    part(server, capture, folder)


@contextlib.contextmanager
def capturing(server: Sandbox) -> Iterator[Capture]:
    """A capture that is written if nothing failed."""
    capture = Capture(server)
    yield capture
    capture.write()


if __name__ == "__main__":
    main()
