"""Placement: where a sandbox's files lie, and the option files that say so to the server and to clients.

Server layer. A sandbox NAME has `run/NAME` in flushlab's home: option files and log, which only flushlab may
write to, and `server`, which belongs to the servers' user. Its data directory and temporary files lie in
`NAME` in the data root. No secret stands in the server's option file or in its arguments; the password is in
the clients' option file (mode 0600) and, until the server is ready, in a file that the server reads once.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.build import Build
from flushlab.datadir import DataRoot
from flushlab.errors import UsageError
from flushlab.machine import ServerUser
from flushlab.process import run_folder
from flushlab.record import Endpoint, Value
from flushlab.settings.catalog import canonical, load_catalog

HOST = "127.0.0.1"
USER = "flushlab"

SOCKET_PATH_BYTES = 107
"""unix(7): sun_path has 108 bytes, the last one for the terminating zero."""

PLACED = frozenset(
    {
        *("basedir", "bind_address", "datadir", "init_file", "lc_messages_dir", "log_error", "pid_file"),
        *("plugin_dir", "port", "skip_networking", "socket", "tmpdir", "user"),
    }
)
"""Variables that a sandbox sets itself: they say where it is, not how it works."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_VARIABLE = re.compile(r"[a-z][a-z0-9_.]*")
_PLAIN = re.compile(r"[\w.,:/+@%=-]*")


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of one sandbox.

    Attributes:
        name: of the sandbox.
        folder: option files and log.
        data_folder: data directory and temporary files; the same as `folder` unless a data root was chosen.
    """

    name: str
    folder: Path
    data_folder: Path

    @classmethod
    def choose(cls, name: str | None, data_root: DataRoot) -> Placement:
        """Paths for a new sandbox.

        Raises:
            UsageError: the name is not allowed, or the socket's path would be too long.
        """
        if name is not None and not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} is not a sandbox's name",
                hint="use at most 40 lower-case letters, digits, dots, hyphens and underscores",
            )
        name = name or f"s{secrets.token_hex(4)}"
        placement = cls(name=name, folder=run_folder() / name, data_folder=data_root.path / name)
        length = len(os.fsencode(placement.socket))
        if length > SOCKET_PATH_BYTES:
            raise UsageError(
                f"the socket's path {placement.socket} has {length} bytes;"
                f" the system allows {SOCKET_PATH_BYTES}",
                hint="set FLUSHLAB_HOME to a directory with a shorter path",
            )
        return placement

    @property
    def folders(self) -> tuple[Path, ...]:
        """Directories that go with the sandbox."""
        return (self.folder,) if self.folder == self.data_folder else (self.folder, self.data_folder)

    @property
    def datadir(self) -> Path:
        """The data directory."""
        return self.data_folder / "data"

    @property
    def temporary(self) -> Path:
        """The server's temporary files."""
        return self.data_folder / "tmp"

    @property
    def server_folder(self) -> Path:
        """Belongs to the servers' user: socket, pid file, start-up SQL."""
        return self.folder / "server"

    @property
    def socket(self) -> Path:
        """The unix socket."""
        return self.server_folder / "mysqld.sock"

    @property
    def init_file(self) -> Path:
        """SQL that the server runs before it lets anybody in."""
        return self.server_folder / "init.sql"

    @property
    def log(self) -> Path:
        """The error log."""
        return self.folder / "error.log"

    @property
    def server_options(self) -> Path:
        """The server's option file."""
        return self.folder / "my.cnf"

    @property
    def client_options(self) -> Path:
        """The clients' option file, with the password."""
        return self.folder / "client.cnf"

    def make(self, user: ServerUser) -> None:
        """Makes the folders, and gives to the servers' user what is its own."""
        for folder in self.folders:
            folder.mkdir(mode=0o711)
        for folder in (self.server_folder, self.temporary):
            folder.mkdir(mode=0o755)
            give(folder, user)

    def clear_socket(self) -> None:
        """Removes what a killed server left: a later process with its number would look like its holder."""
        for file in (
            self.socket,
            self.socket.with_name("mysqld.sock.lock"),
            self.server_folder / "mysqld.pid",
        ):
            file.unlink(missing_ok=True)


def give(path: Path, user: ServerUser) -> None:
    """Changes the owner of `path` if it is another one's."""
    if path.stat().st_uid != user.uid:
        os.chown(path, user.uid, user.gid)


def check_names(settings: Mapping[str, Value]) -> dict[str, Value]:
    """Settings under their variables' names.

    Raises:
        UsageError: a name is no variable's, or is one that the sandbox sets itself.
    """
    checked = {canonical(name): value for name, value in settings.items()}
    for name in checked:
        if name in PLACED:
            raise UsageError(f"{name} is set by the sandbox itself", hint="leave it out of the settings")
        if not _VARIABLE.fullmatch(name):
            raise UsageError(f"{name!r} is not the name of a server variable")
    return checked


def server_option_file(build: Build, placement: Placement, port: int, settings: Mapping[str, Value]) -> str:
    """Content of the server's option file: the sandbox's own lines first, then the settings."""
    lines = [
        "[mysqld]",
        f"basedir = {Path(build.mysqld).parent.parent}",
        f"datadir = {placement.datadir}",
        f"tmpdir = {placement.temporary}",
        f"socket = {placement.socket}",
        f"pid_file = {placement.server_folder / 'mysqld.pid'}",
        f"init_file = {placement.init_file}",
        f"bind_address = {HOST}",
        f"port = {port}",
        *always(build),
    ]
    # MySQL 5.7 refuses log_bin without a server_id; 1 is the default of MariaDB and of MySQL 8.0.
    if "server_id" not in settings:
        lines.append("server_id = 1")
    lines += [option_line(build, name, value) for name, value in settings.items()]
    return "\n".join(lines) + "\n"


def always(build: Build) -> list[str]:
    """Lines that every start of a build needs, its initialisation included."""
    lines = [f"lc_messages_dir = {build.share}"] if build.share else []
    if build.flavor == "mysql" and build.version >= (8, 0):
        lines.append("loose_mysqlx = OFF")  # it would listen on port 33060
    if build.flavor == "mysql":
        # Distributions' builds expect a directory of the system's server here; NULL is the tarballs' default.
        lines.append("secure_file_priv = NULL")
    return lines


def option_line(build: Build, name: str, value: Value) -> str:
    """A setting as a line of an option file; what the catalog does not know is passed on as it is."""
    catalog = load_catalog()
    here = catalog.here(name, build.flavor, build.version) if name in catalog else None
    if here is None:
        return f"{name} = {_quoted(str(value))}"
    if here.entry.switch and here.parse(value) == "ON":
        return f"{name} = binlog"  # without a value the name would hold the machine's
    if here.type == "string":
        return f"{name} = {_quoted(here.render(value))}"
    return here.option(value)


def client_option_file(endpoint: Endpoint) -> str:
    """Content of the clients' option file."""
    return (
        "[client]\n"
        f"user = {endpoint.user}\n"
        f"password = {endpoint.password}\n"
        f"socket = {endpoint.socket}\n"
        f"host = {endpoint.host}\n"
        f"port = {endpoint.port}\n"
    )


def account_sql(build: Build, password: str) -> str:
    """SQL that makes flushlab's account, or gives it this password; one statement per line, none binlogged.

    `mysql_native_password` where the server has it on by default, so that every client can log in; MySQL has
    it off since 8.4.
    """
    if build.flavor == "mariadb":
        identified = f"IDENTIFIED VIA mysql_native_password USING PASSWORD('{password}')"
    elif not logs_in_by_sha2(build):
        identified = f"IDENTIFIED WITH mysql_native_password BY '{password}'"
    else:
        identified = f"IDENTIFIED BY '{password}'"
    lines = ["SET sql_log_bin = 0;"]
    for host in ("localhost", HOST):
        lines += [
            f"CREATE USER IF NOT EXISTS '{USER}'@'{host}' {identified};",
            f"ALTER USER '{USER}'@'{host}' {identified};",
            f"GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'{host}' WITH GRANT OPTION;",
        ]
    return "\n".join(lines) + "\n"


def logs_in_by_sha2(build: Build) -> bool:
    """True if flushlab's account has `caching_sha2_password`; MySQL 9 has no `mysql_native_password`.

    Its first login after a start needs a private channel, or the server's RSA key; from then on the server
    remembers a digest (MySQL 8.4 manual, 8.4.1.2, Caching SHA-2 Pluggable Authentication).
    """
    return build.flavor == "mysql" and build.version >= (8, 4)


def new_password() -> str:
    """A random password that passes the servers' password policies and needs no quoting anywhere."""
    return f"aZ9-{secrets.token_hex(16)}"


def write_secret(file: Path, content: str, owner: ServerUser | None = None) -> None:
    """Writes a file that only its owner can read, from the first byte on."""
    file.unlink(missing_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(content)
    if owner is not None:
        give(file, owner)


def _quoted(text: str) -> str:
    """A value as option files take it; `#` starts a comment and blanks at the ends are cut off."""
    if text and _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
