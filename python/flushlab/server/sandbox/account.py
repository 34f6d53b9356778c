"""Account: flushlab's own account on a sandbox, its random password, and the option file of clients.

Server layer. The password is in the clients' option file (mode 0600) and, until the server is ready, in a
file of SQL that the server reads once.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from flushlab import atomic
from flushlab.build import Build
from flushlab.machine import ServerUser
from flushlab.record import Endpoint
from flushlab.server import clients
from flushlab.server.clients import Access
from flushlab.server.sandbox.option_files import SandboxPaths
from flushlab.server.sandbox.ports import HOST

USER = "flushlab"
CONNECT_S = 60.0
"""Longest wait for a login of a load: the server is there, but the machine may be busy."""


def endpoint(paths: SandboxPaths, host: str, port: int, password: str) -> Endpoint:
    return Endpoint(
        user=USER,
        password=password,
        socket=str(paths.socket),
        host=host,
        port=port,
        option_file=str(paths.client_options),
        get_server_public_key=True,  # on loopback, from a server that is ours
        connect_timeout_s=CONNECT_S,
    )


def account_sql(build: Build, password: str, access: Access | None = None) -> str:
    """SQL that makes flushlab's account, or gives it this password; one statement per line, none binlogged.

    With clients it logs in from this machine only, and they have an account of their own.

    `mysql_native_password` where the server has it on by default, so that every client can log in; MySQL has
    it off since 8.4.
    """
    identified = _identified(build, password)
    # Where an address is resolved, the server takes both `localhost` and `127.0.0.1` for exact, and MySQL 8.0
    # logs in as either. `%` is for servers that resolve none: they listen on loopback only.
    lines = ["SET sql_log_bin = 0;", f"DROP USER IF EXISTS '{USER}'@'{HOST}';"]
    for host in ("localhost", access.address if access else "%"):
        lines += [
            f"CREATE USER IF NOT EXISTS '{USER}'@'{host}' {identified};",
            f"ALTER USER '{USER}'@'{host}' {identified};",
            f"GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'{host}' WITH GRANT OPTION;",
        ]
    if access is not None:
        identified = f"{_identified(build, access.password)} REQUIRE SSL"
        for host in access.hosts:
            lines += [
                f"CREATE USER IF NOT EXISTS '{clients.USER}'@'{host}' {identified};",
                f"ALTER USER '{clients.USER}'@'{host}' {identified};",
                f"GRANT ALL PRIVILEGES ON *.* TO '{clients.USER}'@'{host}';",
            ]
    return "\n".join(lines) + "\n"


def _identified(build: Build, password: str) -> str:
    if build.flavor == "mariadb":
        return f"IDENTIFIED VIA mysql_native_password USING PASSWORD('{password}')"
    if not logs_in_by_sha2(build):
        return f"IDENTIFIED WITH mysql_native_password BY '{password}'"
    return f"IDENTIFIED BY '{password}'"


def logs_in_by_sha2(build: Build) -> bool:
    """True if flushlab's account has `caching_sha2_password`; MySQL 9 has no `mysql_native_password`.

    Its first login after a start needs a private channel, or the server's RSA key. From then on the server
    remembers a digest.

    Source: MySQL 8.4 manual, 8.4.1.2, Caching SHA-2 Pluggable Authentication.
    """
    return build.flavor == "mysql" and build.version >= (8, 4)


def new_password() -> str:
    """A random password that passes the servers' password policies and needs no quoting anywhere."""
    return f"aZ9-{secrets.token_hex(16)}"


def write_secret(file: Path, content: str, owner: ServerUser | None = None) -> None:
    """Writes a file that only its owner can read, from the first byte on."""
    atomic.write(file, content, mode=0o600, owner=(owner.uid, owner.gid) if owner else (-1, -1))


def write_private(file: Path, content: str, reader: ServerUser) -> None:
    """Writes a file of flushlab's that the servers' user may read, and nobody else."""
    other = os.geteuid() != reader.uid
    atomic.write(file, content, mode=0o640 if other else 0o600, owner=(-1, reader.gid if other else -1))


def client_environment(fields: Mapping[str, str]) -> dict[str, str]:
    """Variables for a server.

    `MYSQL_HOST`, `MYSQL_TCP_PORT`, `MYSQL_UNIX_PORT` and `MYSQL_PWD` are those that the servers' own clients
    read (MySQL 8.0 reference manual, 4.9), the other `MYSQL_…` those of container images and frameworks.

    Args:
        fields: `host`, `port`, `socket`, `user`, `password`, `database`, `url`; an empty one has no variable.
    """
    named = {
        "MYSQL_HOST": fields["host"],
        "MYSQL_PORT": fields["port"],
        "MYSQL_TCP_PORT": fields["port"],
        "MYSQL_UNIX_PORT": fields["socket"],
        "MYSQL_USER": fields["user"],
        "MYSQL_PASSWORD": fields["password"],
        "MYSQL_PWD": fields["password"],
        "MYSQL_DATABASE": fields["database"],
        "DATABASE_URL": fields["url"],
    }
    return {name: value for name, value in named.items() if value}
