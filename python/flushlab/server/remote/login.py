"""Login: the address and account of the user's server, found as every MySQL client finds them.

Server layer. The command's flags win over the option files, and the option files win over the environment.
`--defaults-file` replaces the usual files. In option files, the last line wins, whatever its group.
https://dev.mysql.com/doc/refman/8.0/en/option-files.html,
https://mariadb.com/kb/en/configuring-mariadb-with-option-files/

`~/.mylogin.cnf`, which mysql_config_editor obfuscates, is not read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from getpass import getpass, getuser
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import msgspec

from flushlab.errors import StorageError, UsageError
from flushlab.machine import is_open_to_all
from flushlab.record import Endpoint, SslMode
from flushlab.settings.optionfile import INCLUDES_AT_MOST, OptionLine, lines
from flushlab.spec.parts import RemoteAccess

_PORT = 3306


class Address(msgspec.Struct, frozen=True, kw_only=True):
    endpoint: Endpoint
    ssl_mode: SslMode = "disabled"
    ssl_ca: str = ""
    database: str = ""

    @property
    def transport(self) -> Literal["socket", "tcp"]:
        return "socket" if self.endpoint.socket else "tcp"

    @property
    def name(self) -> str:
        return self.endpoint.socket or f"{self.endpoint.host}:{self.endpoint.port}"


def from_dsn(dsn: str, flag: str = "--dsn") -> Address:
    """The address of a DSN; an error never repeats the text, which may hold a password."""
    form = "write mysql://USER:PASSWORD@HOST:PORT/DATABASE"
    try:
        parts = urlsplit(dsn)
        port = parts.port
        more = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError as error:
        raise UsageError(f"{flag} is not a DSN", hint=form) from error
    if parts.scheme not in ("mysql", "mariadb") or not (parts.hostname or "socket" in more):
        raise UsageError(f"{flag} is not a DSN of a server", hint=form)
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
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return (from_dsn(dsn),)  # raises the error
    account, at, hosts = parts.netloc.rpartition("@")
    named = (parts._replace(netloc=f"{account}{at}{host}") for host in hosts.split(","))
    return tuple(from_dsn(urlunsplit(one)) for one in named)


def other_address(address: Address, place: str) -> Address:
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
    """Address of a MySQL client's options: a host other than localhost means TCP, also beside a socket."""
    socket, host = given.get("socket", ""), given.get("host", "") or "127.0.0.1"
    if socket and given.get("host", "localhost") not in ("", "localhost"):
        socket = ""
    if (port := given.get("port")) and not port.isdigit():
        raise UsageError(f"the port {given['port']!r} is not a number")
    near = bool(socket) or _is_loopback(host)
    ca = given.get("ssl-ca", "")
    asked = given.get("ssl-mode", "").lower() or ("verify_ca" if ca else "disabled" if near else "required")
    mode: SslMode | None = next((mode for mode in get_args(SslMode) if mode == asked), None)
    if mode is None:
        raise UsageError(f"the ssl-mode {asked} is unknown", hint=f"use {', '.join(get_args(SslMode))}")
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


_HINT = "use an option file such as ~/.my.cnf, of mode 0600, with user and password in its group [client]"


def ask_password(prompt: str) -> str:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        raise UsageError("there is no terminal to ask for the password", hint=_HINT) from None
    try:
        return getpass(prompt)
    except EOFError:
        raise UsageError("no password was entered", hint=_HINT) from None


GROUPS = ("client", "client-server", "client-mariadb", "mysql", "mariadb-client", "flushlab")
"""The groups of MySQL's and MariaDB's command-line clients, and flushlab's own."""
USUAL_FILES = ("/etc/my.cnf", "/etc/mysql/my.cnf", "~/.my.cnf")
"""In reading order."""
USUAL_SOCKETS = ("/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock")
"""Of the servers of Debian, of the vendors' packages and of the vendors' tarballs."""
_ENVIRONMENT = {
    "host": "MYSQL_HOST",
    "port": "MYSQL_TCP_PORT",
    "socket": "MYSQL_UNIX_PORT",
    "password": "MYSQL_PWD",
}
"""https://dev.mysql.com/doc/refman/8.0/en/environment-variables.html. Clients read MYSQL_PWD, though it is
deprecated."""
_SUFFIX = "MYSQL_GROUP_SUFFIX"
_NO = ("0", "off", "false")

Options = dict[str, str | None]


def addresses_of(access: RemoteAccess) -> tuple[Address, ...]:
    if access.dsn is not None:
        found = from_nodes(access.dsn)
        if access.ask_pass and found[0].endpoint.password:
            raise UsageError("--dsn has a password, and -p asks for one", hint="remove one of them")
        return _with_password(found) if access.ask_pass else found
    options = _options(access)
    hosts = (options.get("host") or "").split(",")
    known = {name: value for name, value in options.items() if value is not None}
    found = tuple(address_of({**known, "host": host.strip()}) for host in hosts)
    return _with_password(found) if "password" in options and options["password"] is None else found


def from_option_file(file: Path) -> Address:
    found = addresses_of(RemoteAccess(defaults_file=str(file)))
    if len(found) > 1:
        raise UsageError(f"{file} names several hosts", hint="name one host")
    return found[0]


def _with_password(addresses: tuple[Address, ...]) -> tuple[Address, ...]:
    first = addresses[0]
    password = ask_password(f"Password of {first.endpoint.user} at {first.name}: ")
    return tuple(
        msgspec.structs.replace(one, endpoint=msgspec.structs.replace(one.endpoint, password=password))
        for one in addresses
    )


def _options(access: RemoteAccess) -> Options:
    given = {name: getattr(access, name) for name in ("host", "user", "port", "socket")}
    flags: Options = {name: str(value) for name, value in given.items() if value is not None}
    environment = {name: os.environ.get(variable) for name, variable in _ENVIRONMENT.items()}
    below: Options = {**{name: value for name, value in environment.items() if value}, **_of_files(access)}
    options = {"user": "root" if os.geteuid() == 0 else getuser(), **below, **flags}
    if access.ask_pass:
        options["password"] = None
    _choose_transport(options, flags)
    _choose_tls(options)
    return options


def _choose_transport(options: Options, flags: Mapping[str, str | None]) -> None:
    far = flags.get("host") not in (None, "", "localhost")
    if "socket" in flags:
        for other in ("host", "port"):
            if other in flags and (other == "port" or far):
                raise UsageError(f"--socket and --{other} cannot be combined", hint="remove one of them")
        options.pop("host", None)
        return
    protocol = (options.get("protocol") or "").lower()
    if far or "port" in flags or protocol == "tcp":
        options.pop("socket", None)
        return
    is_near = options.get("host") in (None, "", "localhost")
    if is_near and not options.get("socket") and not options.get("port"):
        options["socket"] = next((path for path in USUAL_SOCKETS if _is_socket(path)), "")


def _is_socket(path: str) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    return False


def _choose_tls(options: Options) -> None:
    if (options.get("ssl-mode") or "").lower() == "preferred":
        del options["ssl-mode"]
    if "ssl-mode" in options:
        return
    if "skip-ssl" in options or "disable-ssl" in options or _is_no(options, "ssl"):
        options["ssl-mode"] = "disabled"
    elif "ssl-verify-server-cert" in options and not _is_no(options, "ssl-verify-server-cert"):
        options["ssl-mode"] = "verify_identity"
    elif "ssl" in options and not options.get("ssl-ca"):
        options["ssl-mode"] = "required"


def _is_no(options: Options, name: str) -> bool:
    return (options.get(name) or "").lower() in _NO


def _of_files(access: RemoteAccess) -> Options:
    suffix = (access.defaults_group_suffix or os.environ.get(_SUFFIX, "")).lower()
    groups = {*GROUPS, *(f"{group}{suffix}" for group in GROUPS)}
    named = access.defaults_file
    files = [Path(named)] if named else [Path(one).expanduser() for one in USUAL_FILES]
    readable = [file for file in files if named or os.access(file, os.R_OK)]  # as the clients do
    lines_read = [line for file in readable for line in _lines(file) if line.group in groups]
    if named and not lines_read:
        raise UsageError(
            f"{named} has no group for clients", hint="add a group [client] with user, password and host"
        )
    return {
        line.name.lower().replace("_", "-").removeprefix("loose-"): line.text
        for line in lines_read
        if line.name and not line.problem
    }


def _lines(file: Path, depth: int = 0) -> Iterator[OptionLine]:
    try:
        if is_open_to_all(file):
            raise StorageError(f"{file} is world-writable: MySQL clients ignore it", hint=f"chmod o-w {file}")
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StorageError(f"{file} cannot be read: {error.strerror}") from error
    for line in lines(text, str(file)):
        if not line.include:
            yield line
        elif depth < INCLUDES_AT_MOST:
            target = file.parent / line.include
            included = sorted(target.glob("*.cnf")) if line.is_directory else [target]
            for one in included:
                if os.access(one, os.R_OK):
                    yield from _lines(one, depth + 1)
