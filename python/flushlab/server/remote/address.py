"""Address: where a server is and how to connect to it; read from a DSN or from the options of a MySQL client.

Server layer. A DSN is `mysql://user:password@host:port/database?socket=PATH&ssl-mode=MODE&ssl-ca=FILE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import msgspec

from flushlab.errors import UsageError
from flushlab.record import Endpoint, SslMode

_PORT = 3306


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is and how to connect to it.

    Attributes:
        ssl_ca: a file of certificates; empty for none.
        database: the default database; empty for none.
    """

    endpoint: Endpoint
    ssl_mode: SslMode = "disabled"
    ssl_ca: str = ""
    database: str = ""

    @property
    def transport(self) -> Literal["socket", "tcp"]:
        """The transport of connections to it."""
        return "socket" if self.endpoint.socket else "tcp"

    @property
    def name(self) -> str:
        """The socket, or HOST:PORT, for messages."""
        return self.endpoint.socket or f"{self.endpoint.host}:{self.endpoint.port}"


def from_dsn(dsn: str, flag: str = "--dsn") -> Address:
    """The address of a DSN.

    Args:
        dsn: the DSN.
        flag: the option that gave the DSN, for messages.

    Raises:
        UsageError: the text is not a DSN. The message never repeats the text, which may hold a password.
    """
    form = "mysql://USER:PASSWORD@HOST:PORT/DATABASE"
    try:
        parts = urlsplit(dsn)
        port = parts.port
        more = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError as error:
        raise UsageError(f"{flag} is not a DSN", hint=f"write {form}") from error
    if parts.scheme not in ("mysql", "mariadb") or not (parts.hostname or "socket" in more):
        raise UsageError(f"{flag} is not a DSN of a server", hint=f"write {form}")
    for name in more.keys() - {"socket", "ssl-mode", "ssl-ca"}:
        raise UsageError(f"{flag} has no parameter {name}", hint="it takes socket, ssl-mode and ssl-ca")
    return address_of(
        {
            "user": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
            "host": parts.hostname or "",
            "port": str(port or ""),
            "database": unquote(parts.path.removeprefix("/")),
            **more,
        }
    )


def from_nodes(dsn: str) -> tuple[Address, ...]:
    """The addresses of a DSN with one host, or with several hosts between commas: the nodes of a cluster.

    Raises:
        UsageError: as `from_dsn`.
    """
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return (from_dsn(dsn),)  # raises the error
    account, at, hosts = parts.netloc.rpartition("@")
    named = (parts._replace(netloc=f"{account}{at}{host}") for host in hosts.split(","))
    return tuple(from_dsn(urlunsplit(one)) for one in named)


def other_address(address: Address, place: str) -> Address:
    """The address of another server for the same account, with TLS unless the server is on loopback.

    Args:
        address: of a server that the account logs in to.
        place: `HOST:PORT` of the other server.

    Raises:
        ValueError: `place` is not HOST:PORT.
    """
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    if not host or not int(port):
        raise ValueError("the node reports no address")
    mode = "required" if address.ssl_mode == "disabled" and not _is_loopback(host) else address.ssl_mode
    endpoint = msgspec.structs.replace(
        address.endpoint, socket=None, host=host, port=int(port), get_server_public_key=_is_loopback(host)
    )
    return msgspec.structs.replace(address, endpoint=endpoint, ssl_mode=mode)


def address_of(given: Mapping[str, str]) -> Address:
    """The address that a MySQL client's options give.

    Args:
        given: the known ones of `user`, `password`, `host`, `port`, `socket`, `database`, `ssl-mode` and
            `ssl-ca`. A host other than localhost means TCP, also beside a socket.

    Raises:
        UsageError: the port is not a number, or the ssl-mode is unknown.
    """
    socket, host = given.get("socket", ""), given.get("host", "") or "127.0.0.1"
    if socket and given.get("host", "localhost") not in ("", "localhost"):
        socket = ""
    if not given.get("port", "").isdigit() and given.get("port"):
        raise UsageError(f"the port {given['port']!r} is not a number")
    near = bool(socket) or _is_loopback(host)
    ca = given.get("ssl-ca", "")
    asked = given.get("ssl-mode", "").lower() or ("verify_ca" if ca else "disabled" if near else "required")
    if asked not in get_args(SslMode):
        raise UsageError(f"the ssl-mode {asked} is unknown", hint=f"use {', '.join(get_args(SslMode))}")
    mode: SslMode = msgspec.convert(asked, SslMode)
    return Address(
        endpoint=Endpoint(
            user=given.get("user", ""),
            password=given.get("password", ""),
            socket=socket or None,
            host=None if socket else "127.0.0.1" if host == "localhost" else host,
            port=None if socket else int(given.get("port") or _PORT),
            get_server_public_key=near,
        ),
        ssl_mode=mode,
        ssl_ca=str(Path(ca).absolute()) if ca else "",
        database=given.get("database", ""),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
