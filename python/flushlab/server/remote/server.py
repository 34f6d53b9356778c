"""Remote server: one that is not flushlab's, reached by a DSN or an option file. Its settings are left alone.

Server layer; implements what `Server` can be asked without touching anything. A DSN is
`mysql://user:password@host:port/database?socket=PATH&ssl-mode=MODE&ssl-ca=FILE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import msgspec
import pymysql

from flushlab.errors import ServerDied, ServerError, StorageError, UsageError
from flushlab.record import Endpoint, Launch, ServerIdentity, SslMode, Storage, Value
from flushlab.server import variables
from flushlab.server.control import ConnectionGone, Control, explain
from flushlab.server.protocol import Applied, SingleServer
from flushlab.settings import optionfile
from flushlab.settings.catalog import version_of
from flushlab.spec.parts import RemoteAccess

_GROUPS = ("client", "mysql", "client-server", "client-mariadb")
_PORT = 3306
_ANSWER_S = 5.0
"""Longest wait for a sign of life."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is and how one connects to it.

    Attributes:
        ssl_ca: a file of certificates; empty for none.
        database: the default one; empty if none is named.
    """

    endpoint: Endpoint
    ssl_mode: SslMode = "disabled"
    ssl_ca: str = ""
    database: str = ""

    @property
    def transport(self) -> Literal["socket", "tcp"]:
        """`socket` or `tcp`."""
        return "socket" if self.endpoint.socket else "tcp"

    @property
    def name(self) -> str:
        """For people."""
        return self.endpoint.socket or f"{self.endpoint.host}:{self.endpoint.port}"


def from_dsn(dsn: str, flag: str = "--dsn") -> Address:
    """The address of a DSN; `flag` is what gave it.

    Raises:
        UsageError: it is none; the message never repeats it, for it may hold a password.
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
    return _address(
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
    """The addresses of a DSN that may name several hosts, with commas between them: nodes of a cluster.

    Raises:
        UsageError: as `from_dsn`.
    """
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return (from_dsn(dsn),)  # which says what is wrong
    account, at, hosts = parts.netloc.rpartition("@")
    named = (parts._replace(netloc=f"{account}{at}{host}") for host in hosts.split(","))
    return tuple(from_dsn(urlunsplit(one)) for one in named)


def addresses_of(access: RemoteAccess) -> tuple[Address, ...]:
    """The server, or nodes of a cluster, that a command names.

    Raises:
        UsageError: the address is none.
        StorageError: the option file cannot be read.
    """
    if access.dsn is not None:
        return from_nodes(access.dsn)
    return (from_option_file(Path(str(access.defaults_file))),)


def other_address(address: Address, place: str) -> Address:
    """Another server, `HOST:PORT`, as the same account; in the clear only as far as loopback.

    Raises:
        ValueError: that is no place.
    """
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    if not host or not int(port):
        raise ValueError("it tells no address")
    mode = "required" if address.ssl_mode == "disabled" and not _is_loopback(host) else address.ssl_mode
    endpoint = msgspec.structs.replace(
        address.endpoint, socket=None, host=host, port=int(port), get_server_public_key=_is_loopback(host)
    )
    return msgspec.structs.replace(address, endpoint=endpoint, ssl_mode=mode)


def from_option_file(file: Path) -> Address:
    """The address in the groups of an option file that the servers' clients read.

    Raises:
        StorageError: it cannot be read.
        UsageError: it names no user.
    """
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        raise StorageError(f"{file} cannot be read: {error.strerror}") from error
    given = {
        line.name.replace("_", "-"): line.text or ""
        for line in optionfile.lines(text, str(file))
        if line.group in _GROUPS and line.name
    }
    if "user" not in given:
        raise UsageError(
            f"{file} names no user", hint="it needs a group [client] with user, password and host"
        )
    return _address(given)


def _address(given: Mapping[str, str]) -> Address:
    socket, host = given.get("socket", ""), given.get("host", "") or "127.0.0.1"
    if socket and given.get("host", "localhost") not in ("", "localhost"):
        socket = ""  # as the servers' clients: a host means TCP
    if not given.get("port", "").isdigit() and given.get("port"):
        raise UsageError(f"the port {given['port']!r} is not a number")
    near = bool(socket) or _is_loopback(host)
    ca = given.get("ssl-ca", "")
    asked = given.get("ssl-mode", "").lower() or ("verify_ca" if ca else "disabled" if near else "required")
    if asked not in get_args(SslMode):
        raise UsageError(
            f"the ssl-mode {asked} is not known", hint=f"there are {', '.join(get_args(SslMode))}"
        )
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
        ssl_ca=ca,
        database=given.get("database", ""),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class RemoteServer(SingleServer):
    """A server that runs already; a context manager that closes its control connection.

    Args:
        address: of the server.
        connect_s: longest wait for a connection and the first answer; None waits as for a server that starts
            up.
    """

    storage = Storage(visible=False)
    launch = Launch()
    pid: int | None = None
    """It may run anywhere."""

    def __init__(self, address: Address, *, connect_s: float | None = None) -> None:
        self.address = address
        self.endpoint = address.endpoint
        self._control = Control(
            address.endpoint,
            address.transport,
            ssl_mode=address.ssl_mode,
            ssl_ca=address.ssl_ca,
            connect_s=connect_s,
        )
        # Not SELECT: a node without a quorum answers SHOW alone.
        ((_, text),) = self.query("SHOW GLOBAL VARIABLES LIKE 'version'", answer_s=connect_s)
        self.identity = ServerIdentity(
            flavor="mariadb" if "mariadb" in str(text).lower() else "mysql",
            version=version_of(str(text).partition("-")[0]),
            version_text=str(text),
        )

    def alive(self) -> bool:
        """Whether it answers, be it with an error."""
        try:
            self.query("SELECT 1", answer_s=_ANSWER_S)
        except ServerDied:
            return False
        except ServerError:
            return True
        return True

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        """Runs one statement on the control connection; waits for the answer as long as it takes if None.

        Raises:
            ServerDied: it does not answer.
            StatementFailed: it answered with an error.
        """
        try:
            return self._control.query(sql, args, answer_s=answer_s)
        except ConnectionGone as error:
            raise ServerDied(
                f"the server at {self.address.name} does not answer: {error}", hint="is it running?"
            ) from error
        except pymysql.MySQLError as error:
            raise ServerError(f"the server at {self.address.name}: {explain(error)[1]}") from error

    def read_back(self, names: Iterable[str]) -> dict[str, Value]:
        """Global variables as they are; unknown names are left out."""
        return variables.read_variables(self.query, self.identity, names)

    def apply(self, settings: Mapping[str, Value]) -> Applied:
        """Never: it is not ours."""
        raise AssertionError(f"an attached server's settings are left alone: {', '.join(settings)}")

    def log_tail(self, lines: int = 20) -> str:
        """It cannot be seen."""
        return ""

    def stop(self) -> None:
        """Lets go of it; it goes on."""
        self._control.close()

    def __enter__(self) -> RemoteServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
