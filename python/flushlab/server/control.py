"""Control: one connection over which flushlab asks a server questions and sets its variables.

Server layer. PyMySQL, over the unix socket. A connection that is gone is made anew before the next statement
is sent; a statement that was sent is never sent again, for it may have been carried out. Not for load. One
statement at a time: other threads wait.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pymysql
from pymysql.constants import CR, ER

from flushlab.errors import ServerError, UsageError
from flushlab.record import Endpoint, SslMode

OTHER_PROTOCOL = CR.CR_VERSION_ERROR
PASSWORD_EXPIRED = 1820
"""ER_MUST_CHANGE_PASSWORD: the login succeeds, and no statement but a change of the password."""
NOT_IN_THE_CLEAR = CR.CR_AUTH_PLUGIN_ERR
"""As MySQL's clients refuse to send a password in the clear."""
ACCESS_DENIED = {1044, 1045, 1130, 1698}
"""ER_DBACCESS_DENIED_ERROR, ER_ACCESS_DENIED_ERROR, ER_HOST_NOT_PRIVILEGED,
ER_ACCESS_DENIED_NO_PASSWORD_ERROR."""

_LOGIN = (
    "check user and password, from which hosts the account may log in, and whether it or the server requires"
    " TLS (ssl-mode)"
)
_TLS = "set ssl-mode in the group [flushlab] of the option file, or in the DSN, to the server's demand"
_PLUGIN = (
    "use an account with mysql_native_password, caching_sha2_password or, on MariaDB, ed25519;"
    " MySQL may name another plugin if there is no such account"
)
_EXPIRED = "log in with the server's own client and change the password: ALTER USER USER() IDENTIFIED BY '…'"
_UNLOCK = "unlock the account: ALTER USER … ACCOUNT UNLOCK"
_STRANGER = "is it the address and port of a MySQL or MariaDB server?"
_FINAL: Mapping[int, str] = {
    1044: _LOGIN,
    1045: _LOGIN,
    1129: "find the client on this host that fails to connect, then unblock the host on the server: FLUSH"
    " HOSTS, or from MySQL 8.4 on TRUNCATE TABLE performance_schema.host_cache",
    1130: "use an account that may log in from this host, or the server's socket",
    1184: "correct init_connect on the server, or use an account for which it is not run (SUPER; MySQL:"
    " CONNECTION_ADMIN)",
    1251: _PLUGIN,
    1524: "load the account's plugin on the server, or give the account another one",
    1698: _LOGIN,
    PASSWORD_EXPIRED: _EXPIRED,
    1862: _EXPIRED,
    CR.CR_SSL_CONNECTION_ERROR: _TLS,
    OTHER_PROTOCOL: _STRANGER,
    CR.CR_AUTH_PLUGIN_CANNOT_LOAD: _PLUGIN,
    NOT_IN_THE_CLEAR: "use ssl-mode=required",
    3118: _UNLOCK,
    3159: "set ssl-mode=required in the group [flushlab] of the option file, or in the DSN",
    3955: f"correct the password, then wait until the lock ends or {_UNLOCK}",
    4150: "correct the password, then let the server forget the failed logins: FLUSH PRIVILEGES",
    4151: _UNLOCK,
}
"""Errors that another try meets again, or makes worse: servers lock accounts and hosts after failed
logins."""
_PASSING: Mapping[int, str] = {
    1040: "close connections or raise max_connections; one more is kept for accounts with SUPER (from MySQL"
    " 8.0 on CONNECTION_ADMIN, from MariaDB 10.5 on CONNECTION ADMIN)",
    1203: "close connections of this account, or raise max_user_connections",
    1226: "raise the limit of this account: ALTER USER … WITH …",
    3032: "end the server's offline_mode, or use an account with SUPER (MySQL: CONNECTION_ADMIN)",
}
_ANSWERS = "does it answer other clients? Watch it from its own machine, by its socket"
_WORDS: Mapping[str, str] = {
    r"\[ssl|certificate": _TLS,
    "greeting": "does it answer other clients, and is it the port of a MySQL or MariaDB server? One that"
    " stalls sends no greeting, nor do web servers and PostgreSQL",
    "its version": _STRANGER,
    "refused": "does a server listen at this address and port?",
    "name or service|name resolution|no address": "check the name of the host",
    "no such file": "check the path of the socket; it exists only while its server runs",
    "permission denied": "let this user enter the folder of the socket, or connect by TCP",
    r"can't connect.*timed out|unreachable|no route": "check the address and the firewalls",
    "timed out": _ANSWERS,
}


def way_out(errno: int, text: str) -> str:
    if known := _FINAL.get(errno) or _PASSING.get(errno):
        return known
    return next(
        (hint for words, hint in _WORDS.items() if re.search(words, text, re.IGNORECASE)),
        "is it running, and does it answer other clients?",
    )


def is_final(errno: int, text: str) -> bool:
    return errno in _FINAL or way_out(errno, text) == _TLS


NOT_ALLOWED = {*ACCESS_DENIED, 1227}  # ER_SPECIFIC_ACCESS_DENIED_ERROR: a privilege is missing
WRONG_ARGUMENTS = 1210  # ER_WRONG_ARGUMENTS
READ_ONLY_VARIABLE = 1238  # ER_INCORRECT_GLOBAL_LOCAL_VAR

_GONE = {
    CR.CR_CONNECTION_ERROR,
    CR.CR_CONN_HOST_ERROR,
    CR.CR_SERVER_GONE_ERROR,
    CR.CR_SERVER_LOST,
    ER.SERVER_SHUTDOWN,
    0,
}
Connection: TypeAlias = "pymysql.connections.Connection[Any]"

_CONNECT_S = 600.0
_BANNER_S = 1.0
_BANNERS = {
    b"SSH-": "SSH",
    b"HTTP/": "HTTP",
    b"220": "SMTP or FTP",
    b"\x05\0\0\0\x0b": "the X Protocol of MySQL",
}
_NO_KEY = b"none"
"""In the place of a server's RSA key, so that PyMySQL takes none from whoever answers."""


class StatementFailed(ServerError):
    def __init__(self, errno: int, text: str, sql: str) -> None:
        shown = sql if len(sql) <= 120 else f"{sql[:117]}…"
        super().__init__(f"the server refused {shown!r}: {text} (error {errno})")
        self.errno = errno
        self.text = text


class ConnectionRefused(StatementFailed):
    def __init__(self, errno: int, text: str) -> None:
        ServerError.__init__(
            self, f"the server refused the connection: {text} (error {errno})", hint=way_out(errno, text)
        )
        self.errno = errno
        self.text = text
        self.is_final = is_final(errno, text)


class ConnectionGone(Exception):
    @property
    def hint(self) -> str:
        return way_out(0, str(self))


class Control:
    """A control connection, opened at its first use; `connect_s` of None waits while a server starts up."""

    def __init__(
        self,
        endpoint: Endpoint,
        transport: str = "socket",
        *,
        ssl_mode: SslMode = "disabled",
        ssl_ca: str = "",
        connect_s: float | None = None,
    ) -> None:
        self._connect_s = connect_s or _CONNECT_S
        self._endpoint = endpoint
        self._transport = transport
        self._tls = tls_context(ssl_mode, ssl_ca)
        self._connection: Connection | None = None
        self._turn = threading.Lock()

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        with self._turn:
            if self._connection is not None:
                answer_within(self._connection, answer_s)
            self._drop_if_gone(answer_s)
            return self._run(sql, args, answer_s)

    def close(self) -> None:
        with self._turn:
            self._drop()

    def cut(self) -> None:
        """Ends the wait of another thread for an answer, which finds the connection gone."""
        end = vars(self._connection).get("_sock") if self._connection is not None else None
        if end is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(end, socket.SHUT_RDWR)  # TLS's own would wait for its peer

    def _run(self, sql: str, args: Sequence[Any], answer_s: float | None) -> list[tuple[Any, ...]]:
        try:
            if self._connection is None:
                self._connection = self._connected(answer_s)
            with self._connection.cursor() as cursor:
                cursor.execute(sql, tuple(args) or None)
                return list(cursor.fetchall())
        except (pymysql.err.InterfaceError, OSError) as error:
            self._drop()
            raise ConnectionGone(str(error)) from error
        except pymysql.MySQLError as error:
            errno, text = explain(error)
            if errno in _GONE:
                self._drop()
                raise ConnectionGone(text) from error
            if errno == PASSWORD_EXPIRED:
                raise ConnectionRefused(errno, text) from error
            raise StatementFailed(errno, text, sql) from error
        except BaseException:
            self._drop()  # interrupted in the middle of an answer: the connection is out of step
            raise

    def _connected(self, answer_s: float | None) -> Connection:
        limit_s = min(self._connect_s, answer_s or self._connect_s)
        try:
            connection = connect(
                self._endpoint, self._transport, answer_s=limit_s, connect_s=limit_s, tls=self._tls
            )
        except pymysql.MySQLError as error:
            errno, text = explain(error)
            if errno in _GONE:
                raise
            raise ConnectionRefused(errno, text) from error
        answer_within(connection, answer_s)
        return connection

    def _drop_if_gone(self, answer_s: float | None) -> None:
        if self._connection is None:
            return
        began = time.monotonic()
        try:
            self._connection.ping(reconnect=False)
        except (pymysql.MySQLError, OSError) as error:
            self._drop()
            if answer_s is not None and time.monotonic() - began >= answer_s:
                text = explain(error)[1] if isinstance(error, pymysql.MySQLError) else str(error)
                raise ConnectionGone(text) from error  # it is silent, not closed
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(pymysql.MySQLError, OSError):  # its farewell may find nobody
                self._connection.close()
            self._connection = None


def connect(
    endpoint: Endpoint,
    transport: str,
    *,
    answer_s: float | None = None,
    connect_s: float = _CONNECT_S,
    tls: ssl.SSLContext | None = None,
    local_infile: bool = False,
) -> Connection:
    """A new connection; a server that starts up is waited for as long as it lives.

    A password that `caching_sha2_password` has not seen since the server's start needs a private channel, or
    encryption with the server's key. The key is accepted unseen only if the endpoint allows it. `answer_s` of
    None waits for ever.
    """
    where: dict[str, Any] = {"host": endpoint.host, "port": endpoint.port}
    if transport == "socket":
        where, tls = {"unix_socket": endpoint.socket}, None
    if tls is None:  # else PyMySQL asks for TLS, over a socket too
        where["ssl_disabled"] = True
    else:
        where["ssl"] = tls
    connection = pymysql.connect(
        user=endpoint.user,
        password=endpoint.password.encode(),  # as clients send it; PyMySQL would encode it in latin1
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=connect_s,
        read_timeout=answer_s,
        local_infile=local_infile,
        server_public_key=None if endpoint.get_server_public_key else _NO_KEY,
        defer_connect=True,
        **where,
    )
    try:
        connection.connect()
    except (ValueError, IndexError, struct.error, AssertionError, pymysql.InternalError) as error:
        is_of_key = type(error) is ValueError and "int()" not in str(error)
        if is_of_key and endpoint.get_server_public_key:
            raise
        if is_of_key:
            text = "the account's plugin takes its password over an encrypted connection only"
            raise pymysql.OperationalError(NOT_IN_THE_CLEAR, text) from error
        # PyMySQL reads the first bytes as a greeting, and the greeting's version as a number.
        raise pymysql.OperationalError(OTHER_PROTOCOL, _stranger(endpoint, transport)) from error
    except pymysql.OperationalError as error:
        errno, text = explain(error)
        if errno != CR.CR_SERVER_LOST or vars(connection).get("server_version"):
            raise
        timed_out = answer_s and "timed out" in text
        until = f"within {answer_s:g} s" if timed_out else "before it closed the connection"
        raise pymysql.OperationalError(errno, f"it sent no greeting {until}") from error
    return connection


def _stranger(endpoint: Endpoint, transport: str) -> str:
    first = b""
    if transport != "socket":
        with (
            contextlib.suppress(OSError),
            socket.create_connection((endpoint.host, endpoint.port), _BANNER_S) as opened,
        ):
            first = opened.recv(16)
    speaks = next((name for begins, name in _BANNERS.items() if first.startswith(begins)), "")
    also = f": it speaks {speaks}" if speaks else ""
    return f"it does not speak the protocol of MySQL and MariaDB{also}"


def answer_within(connection: Connection, seconds: float | None) -> None:
    vars(connection)["_read_timeout"] = seconds


def tls_context(mode: SslMode, ca: str = "") -> ssl.SSLContext | None:
    if mode == "disabled":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = mode == "verify_identity"
    if mode == "required":
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the certificates in {ca!r} cannot be read: {error}", hint="name a PEM file"
        ) from error
    return context


def explain(error: pymysql.MySQLError) -> tuple[int, str]:
    match error.args:
        case (int(number), *more):
            return number, str(more[0]) if more else ""
    return 0, str(error)
