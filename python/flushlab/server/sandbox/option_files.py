"""Option files: where a sandbox's files lie, what its server and its clients read, and flushlab's account.

Server layer. A sandbox NAME has `run/NAME` in flushlab's home: option files and log, which only flushlab may
write to, and `server`, which belongs to the servers' user. Its data directory and temporary files lie in
`NAME` in the data root. The account's random password is in the clients' option file (mode 0600). Until the
server is ready, a file of SQL that the server reads once has it, too.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from flushlab import atomic
from flushlab.build import Build
from flushlab.datadir import DataRoot
from flushlab.errors import UsageError
from flushlab.machine import ServerUser
from flushlab.process import run_folder
from flushlab.process.run_record import NAME, NAME_HINT
from flushlab.record import Endpoint, Value
from flushlab.server import clients
from flushlab.server.clients import Access
from flushlab.server.sandbox.node import HOST, Membership
from flushlab.settings.admission import BINARY_LOG, require_admitted
from flushlab.settings.catalog import load_catalog
from flushlab.settings.optionfile import option_value, without_parts

SOCKET_PATH_BYTES = 107
"""unix(7): sun_path has 108 bytes, the last one for the terminating zero."""


class SandboxPaths(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    folder: Path
    data_folder: Path

    @classmethod
    def choose(cls, name: str | None, data_root: DataRoot) -> SandboxPaths:
        if name is not None and not NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a valid sandbox name", hint=NAME_HINT)
        name = name or f"s{secrets.token_hex(4)}"
        paths = cls(name=name, folder=run_folder() / name, data_folder=data_root.path / name)
        length = len(os.fsencode(paths.socket))
        if length > SOCKET_PATH_BYTES:
            raise UsageError(
                f"the socket path {paths.socket} has {length} bytes; the system allows {SOCKET_PATH_BYTES}",
                hint="set FLUSHLAB_HOME to a directory with a shorter path",
            )
        return paths

    def on(self, data_root: DataRoot) -> SandboxPaths:
        return msgspec.structs.replace(self, data_folder=data_root.path / self.name)

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.folder,) if self.folder == self.data_folder else (self.folder, self.data_folder)

    @property
    def of_server(self) -> tuple[Path, ...]:
        return (self.datadir, self.temporary, self.server_folder)

    @property
    def datadir(self) -> Path:
        return self.data_folder / "data"

    @property
    def temporary(self) -> Path:
        return self.data_folder / "tmp"

    @property
    def server_folder(self) -> Path:
        return self.folder / "server"

    @property
    def socket(self) -> Path:
        return self.server_folder / "mysqld.sock"

    @property
    def init_file(self) -> Path:
        return self.server_folder / "init.sql"

    @property
    def log(self) -> Path:
        return self.folder / "error.log"

    @property
    def server_options(self) -> Path:
        return self.folder / "my.cnf"

    @property
    def client_options(self) -> Path:
        return self.folder / "client.cnf"

    @property
    def certificate(self) -> Path:
        return self.folder / "tls.pem"

    def make(self, user: ServerUser) -> None:
        for folder, mode in ((self.server_folder, 0o711), (self.temporary, 0o700)):
            folder.mkdir(mode=mode)
            give(folder, user)

    def clear_socket(self) -> None:
        for file in (
            self.socket,
            self.socket.with_name("mysqld.sock.lock"),
            self.server_folder / "mysqld.pid",
        ):
            file.unlink(missing_ok=True)


def give(path: Path, user: ServerUser) -> None:
    if path.stat().st_uid != user.uid:
        os.chown(path, user.uid, user.gid)


_SINCE = (11, 4)
_VALID = timedelta(days=3650)


def self_signed() -> str:
    """A new key and its certificate, in PEM; on the curve P-256, which takes no time to find."""
    from cryptography import x509  # 0.05 s, for few builds
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "flushlab")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _VALID)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    return (
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(pem)
    ).decode()


def server_option_file(
    build: Build,
    paths: SandboxPaths,
    endpoint: Endpoint,
    settings: Mapping[str, Value],
    membership: Membership | None = None,
    *,
    has_clients: bool = False,
) -> str:
    # MariaDB 11.4 and later makes a key at every start. A node of a cluster makes its own: what copies its
    # data to another node would read these lines, too.
    makes_its_own = build.flavor == "mariadb" and build.version >= _SINCE
    is_given_one = has_clients or (makes_its_own and membership is None)
    settings, provider_options = without_parts(settings, build.flavor, build.version)
    lines = [
        "[mysqld]",
        f"basedir = {Path(build.mysqld).parent.parent}",
        f"datadir = {paths.datadir}",
        f"tmpdir = {paths.temporary}",
        f"socket = {paths.socket}",
        f"pid_file = {paths.server_folder / 'mysqld.pid'}",
        f"init_file = {paths.init_file}",
        f"bind_address = {endpoint.host}",
        f"port = {endpoint.port}",
        *always(build),
        *_alone(build),
        *(f"{name} = {paths.certificate}" for name in ("ssl_cert", "ssl_key") if is_given_one),
        *(membership.options(provider_options) if membership else ()),
    ]
    # MySQL 5.7 refuses log_bin without a server_id; 1 is the default of MariaDB and of MySQL 8.0.
    if "server_id" not in settings:
        lines.append("server_id = 1")
    lines += [option_line(build, name, value) for name, value in settings.items()]
    return "\n".join(lines) + "\n"


def always(build: Build) -> list[str]:
    lines = [f"lc_messages_dir = {build.share}"] if build.share else []
    if build.flavor == "mysql":
        # Distributions' builds expect a directory of the system's server here; NULL is the tarballs' default.
        lines.append("secure_file_priv = NULL")
        if build.version >= (8, 0):
            lines.append("loose_mysqlx = OFF")  # it would listen on port 33060
    return lines


def _alone(build: Build) -> list[str]:
    """Lines that keep what a data directory brings from acting: replication, events, persisted settings.

    A table's DATA DIRECTORY is ignored, too; InnoDB of MySQL before 8.0.21 follows it all the same, and newer
    ones refuse it by themselves.
    """
    mysql = build.flavor == "mysql"
    replica = "replica" if mysql and build.version >= (8, 0, 26) else "slave"
    mysql_8 = mysql and build.version >= (8, 0)
    last = "persisted_globals_load = OFF" if mysql_8 else "skip_symbolic_links"
    return [f"skip_{replica}_start", "event_scheduler = OFF", last]


def option_line(build: Build, name: str, value: Value) -> str:
    require_admitted({name: value})
    catalog = load_catalog()
    here = catalog.here(name, build.flavor, build.version) if name in catalog else None
    if here is None:
        return f"{name} = {option_value(str(value))}"
    if here.entry.switch and here.parse(value) == "ON":
        return f"{name} = {BINARY_LOG}"  # without a value the name would hold the machine's
    if here.type in ("string", "set"):
        return f"{name} = {option_value(here.render(value))}"
    return here.option(value)


def client_option_file(endpoint: Endpoint) -> str:
    return (
        "[client]\n"
        f"user = {endpoint.user}\n"
        f"password = {endpoint.password}\n"
        f"socket = {endpoint.socket}\n"
        f"host = {endpoint.host}\n"
        f"port = {endpoint.port}\n"
    )


USER = "flushlab"
CONNECT_S = 60.0
"""Longest wait for a login of a load: the server is there, but the machine may be busy."""


def sandbox_endpoint(paths: SandboxPaths, host: str, port: int, password: str) -> Endpoint:
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
        lines += _grants(f"'{USER}'@'{host}'", identified, " WITH GRANT OPTION")
    if access is not None:
        identified = f"{_identified(build, access.password)} REQUIRE SSL"
        for host in access.hosts:
            lines += _grants(f"'{clients.USER}'@'{host}'", identified)
    return "\n".join(lines) + "\n"


def _grants(account: str, identified: str, more: str = "") -> list[str]:
    return [
        f"CREATE USER IF NOT EXISTS {account} {identified};",
        f"ALTER USER {account} {identified};",
        f"GRANT ALL PRIVILEGES ON *.* TO {account}{more};",
    ]


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
    return f"aZ9-{secrets.token_hex(16)}"


def write_secret(file: Path, content: str, owner: ServerUser | None = None) -> None:
    """Writes a file that only its owner can read, from the first byte on."""
    atomic.write(file, content, mode=0o600, owner=(owner.uid, owner.gid) if owner else (-1, -1))


def write_private(file: Path, content: str, reader: ServerUser) -> None:
    """Writes a file of flushlab's that the servers' user may read, and nobody else."""
    other = os.geteuid() != reader.uid
    atomic.write(file, content, mode=0o640 if other else 0o600, owner=(-1, reader.gid if other else -1))


def client_environment(fields: Mapping[str, str]) -> dict[str, str]:
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
