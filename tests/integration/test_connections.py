"""How the load connects: every transport with every authentication, and what stops it, on real servers."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import msgspec
import pymysql
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from flushlab import _core
from flushlab.build import Build, debian
from flushlab.build.debian import SERIES
from flushlab.errors import ServerError
from flushlab.progress import silent
from flushlab.record import Endpoint, LoadResult, LoadSpec, ScriptSpec
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.control import StatementFailed
from flushlab.server.remote.login import Address
from flushlab.server.remote.server import RemoteServer
from flushlab.workload.engine import native
from tests.conftest import flavors, require_build
from tests.waiting import PATIENCE_S, wait_until

PASSWORD = "a password of more than twenty characters"
NATIVE, SHA2 = "mysql_native_password", "caching_sha2_password"
DATABASE = "connections"
# Where a session's own status is read: the version of its TLS, empty if it has none.
STATUS = {"mysql": "performance_schema.session_status", "mariadb": "information_schema.session_status"}

Servers = Callable[[str], Sandbox]


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """ca.pem, and cert.pem for 127.0.0.1 with key.pem that it signed; stranger.pem, which signed nothing."""
    folder = Path(tempfile.mkdtemp(prefix="flt-"))
    folder.chmod(0o755)  # the servers' user must reach it
    ca_key, stranger_key, key = (rsa.generate_private_key(65537, 2048) for _ in range(3))
    local = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    authority = x509.BasicConstraints(ca=True, path_length=None)
    for file, content in {
        "ca.pem": certificate("ca", ca_key, "ca", ca_key, authority),
        "stranger.pem": certificate("stranger", stranger_key, "stranger", stranger_key, authority),
        "cert.pem": certificate("server", key, "ca", ca_key, local),
        "key.pem": key.private_bytes(
            Encoding.PEM,
            PrivateFormat.TraditionalOpenSSL,  # the form that MySQL 5.7 reads
            NoEncryption(),
        ),
    }.items():
        (folder / file).write_bytes(content)
    yield folder
    shutil.rmtree(folder)


def certificate(
    name: str, key: RSAPrivateKey, issuer: str, signer: RSAPrivateKey, extension: x509.ExtensionType
) -> bytes:
    """Valid from yesterday on, for the clock may jump."""
    subject, by = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, issuer))
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(by, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(extension, critical=False)
        .sign(signer, SHA256())
        .public_bytes(Encoding.PEM)
    )


@pytest.fixture(scope="module")
def servers(certificates: Path) -> Iterator[Servers]:
    """Servers by the names of their builds, each started once; the older ones with our certificate."""
    running: dict[str, Sandbox] = {}

    def get(name: str) -> Sandbox:
        if name not in running:
            ours = name in ("mariadb@10.11", "mysql@5.7")
            words = [f"--ssl-{what}={certificates / what}.pem" for what in ("ca", "cert", "key") if ours]
            build = require_build(name)
            if plugins := debian_plugins(build, certificates):
                words.append(f"--plugin-dir={plugins}")
            running[name] = stack.enter_context(Sandbox.start(SandboxSpec(build, arguments=words)))
            running[name].query(f"CREATE DATABASE {DATABASE}")
            running[name].query(f"CREATE TABLE {DATABASE}.seen (account TEXT, tls TEXT)")
        return running[name]

    with ExitStack() as stack:
        yield get


def debian_plugins(build: Build, folder: Path) -> Path | None:
    """auth_ed25519's folder for a Debian build, whose own packages lack it; None if it cannot be had."""
    if build.source != "debian" or build.flavor != "mariadb":
        return None
    prefix = folder / build.id
    suite = next(one.suite for one in SERIES if one.numbers == build.version[:2])
    try:
        debian.unpack_alone(["mariadb-server"], prefix, silent, suite if build.launcher else "")
    except ServerError:
        return None
    return next(prefix.rglob("auth_ed25519.so")).parent


def account(server: Sandbox, plugin: str, more: str = "") -> Endpoint:
    """A fresh account by that plugin, named after it."""
    how = (
        f"VIA {plugin} USING PASSWORD('{PASSWORD}')"
        if server.build.flavor == "mariadb"
        else f"WITH {plugin} BY '{PASSWORD}'"
    )
    for host in ("localhost", "127.0.0.1"):
        server.query(f"DROP USER IF EXISTS '{plugin}'@'{host}'")
        server.query(f"CREATE USER '{plugin}'@'{host}' IDENTIFIED {how} {more}")
        server.query(f"GRANT ALL ON *.* TO '{plugin}'@'{host}'")
    return msgspec.structs.replace(server.endpoint, user=plugin, password=PASSWORD)


def connect(server: Sandbox, endpoint: Endpoint, **how: Any) -> str:
    """Logs in; the version of TLS that the server saw."""
    note = (
        f"INSERT INTO seen SELECT CURRENT_USER(), variable_value FROM {STATUS[server.build.flavor]}"
        " WHERE variable_name = 'Ssl_version'"
    )
    spec = ScriptSpec(endpoint=endpoint, database=DATABASE, limit_s=PATIENCE_S, **how)
    _core.run_script(msgspec.json.encode(spec), f"DELETE FROM seen; {note}".encode())
    ((user, tls),) = server.query(f"SELECT account, tls FROM {DATABASE}.seen")
    assert str(user).startswith(f"{endpoint.user}@")
    return str(tls)


def control(endpoint: Endpoint, *, transport: str, ssl_mode: Any = "disabled") -> str:
    """Asks as of a server that is not flushlab's; who asked."""
    if transport == "tcp":
        endpoint = msgspec.structs.replace(endpoint, socket=None)
    with RemoteServer(Address(endpoint=endpoint, ssl_mode=ssl_mode)) as server:
        ((user,),) = server.query("SELECT CURRENT_USER()")
    return str(user)


def refusal(server: Sandbox, endpoint: Endpoint, **how: Any) -> _core.CoreError:
    with pytest.raises(_core.CoreError) as caught:
        connect(server, endpoint, **how)
    assert endpoint.password not in f"{caught.value!r} {caught.value.hint}"
    return caught.value


TRANSPORTS = (
    {"transport": "socket"},
    {"transport": "tcp"},
    {"transport": "tcp", "ssl_mode": "required"},
)


@pytest.mark.parametrize(
    ("build", "plugin", "tls"),
    flavors(
        ("mariadb@10.11", NATIVE, "TLSv1.3"),
        ("mariadb@10.11", "ed25519", "TLSv1.3"),
        ("mysql@8.0", NATIVE, None),  # see test_mysql_built_with_an_old_openssl_…
        ("mysql@8.0", SHA2, None),
        ("mysql@9.7", SHA2, "TLSv1.3"),
        ("mariadb@11.8", NATIVE, "TLSv1.3"),
        ("mariadb@11.8", "ed25519", "TLSv1.3"),
        first=5,
    ),
)
def test_every_transport_lets_in_by_every_plugin(
    servers: Servers, build: str, plugin: str, tls: str | None
) -> None:
    server = servers(build)
    if plugin == "ed25519":
        try:
            server.query("INSTALL SONAME 'auth_ed25519'")
        except StatementFailed as error:
            pytest.skip(f"{server.build.name} comes without auth_ed25519: {error.text}")
    endpoint = account(server, plugin)
    wrong = msgspec.structs.replace(endpoint, password="wrong-password")
    for how in TRANSPORTS if tls else TRANSPORTS[:2]:
        seen = tls if "ssl_mode" in how else ""
        server.query("FLUSH PRIVILEGES")  # empties the cache of caching_sha2_password
        assert control(endpoint, **how).startswith(f"{endpoint.user}@"), "what asks and sets"
        server.query("FLUSH PRIVILEGES")
        assert connect(server, endpoint, **how) == seen, "in full"
        assert connect(server, endpoint, **how) == seen, "by the cache"
        refused = refusal(server, wrong, **how)
        assert (refused.kind, refused.errno) == ("server", 1045)
        assert "Access denied" in refused.message


def test_a_servers_rsa_key_is_taken_only_where_the_endpoint_says_so(servers: Servers) -> None:
    server = servers("mysql@8.0")
    assert server.endpoint.get_server_public_key, "a sandbox is on loopback"
    trusting = account(server, SHA2)
    endpoint = msgspec.structs.replace(trusting, get_server_public_key=False)
    server.query("FLUSH PRIVILEGES")  # empties the cache of caching_sha2_password
    refused = refusal(server, endpoint, transport="tcp")
    assert (refused.kind, refused.errno) == ("server", None)
    assert "RSA key" in refused.message
    assert "--ssl-mode required" in str(refused.hint)
    with pytest.raises(StatementFailed, match="over an encrypted connection only") as not_asked:
        control(endpoint, transport="tcp")
    assert not_asked.value.hint == "use ssl-mode=required"
    connect(server, trusting, transport="tcp")  # now the cache knows the password, and no key is needed
    connect(server, endpoint, transport="tcp")
    control(endpoint, transport="tcp")


def test_a_load_runs_over_tls(servers: Servers) -> None:
    server = servers("mariadb@10.11")
    spec = LoadSpec(
        workload="oltp_update_non_index",
        endpoint=server.endpoint,
        transport="tcp",
        ssl_mode="required",
        threads=4,
        table_size=1000,
    )
    server.query("CREATE DATABASE sbtest")
    _core.prepare_tables(msgspec.json.encode(spec))
    run = _core.LoadRun(msgspec.json.encode(spec))
    accepts = "SELECT variable_value FROM information_schema.global_status"
    before = int(server.query(f"{accepts} WHERE variable_name = 'Com_stmt_execute'")[0][0])
    run.start()
    run.open_window()
    opened = msgspec.json.decode(run.progress())["events"]
    wait_until(lambda: msgspec.json.decode(run.progress())["events"] >= opened + 2000, "2,000 events")
    result = msgspec.json.decode(run.close_window(), type=LoadResult)
    run.stop()
    executed = int(server.query(f"{accepts} WHERE variable_name = 'Com_stmt_execute'")[0][0]) - before
    assert 0 < result.events <= executed
    assert result.errors == ()


def test_certificates_are_verified_as_far_as_the_mode_says(servers: Servers, certificates: Path) -> None:
    server = servers("mariadb@10.11")
    endpoint = server.endpoint
    by_name = msgspec.structs.replace(endpoint, host="localhost")
    ours, strange = str(certificates / "ca.pem"), str(certificates / "stranger.pem")

    def tcp(mode: str, ca: str) -> dict[str, str]:
        return {"transport": "tcp", "ssl_mode": mode, "ssl_ca": ca}

    assert connect(server, endpoint, **tcp("verify_ca", ours)) == "TLSv1.3"
    assert connect(server, endpoint, **tcp("verify_identity", ours)) == "TLSv1.3"
    assert connect(server, by_name, **tcp("verify_ca", ours)) == "TLSv1.3"
    for who, how in (
        (endpoint, tcp("verify_ca", strange)),
        (endpoint, tcp("verify_identity", strange)),
        (by_name, tcp("verify_identity", ours)),
    ):
        refused = refusal(server, who, **how)
        assert refused.kind == "server"
        assert "its certificate is not accepted" in refused.message
        assert "ssl_ca" in str(refused.hint)


def test_mysqls_own_certificate_authority_verifies_its_certificate(servers: Servers, tmp_path: Path) -> None:
    server = servers("mysql@9.7")
    ca = tmp_path / "ca.pem"
    ca.write_bytes((server.datadir / "ca.pem").read_bytes())
    how: dict[str, str] = {"transport": "tcp", "ssl_ca": str(ca)}
    assert connect(server, server.endpoint, ssl_mode="verify_ca", **how) == "TLSv1.3"
    refused = refusal(server, server.endpoint, ssl_mode="verify_identity", **how)
    assert "its certificate is not accepted" in refused.message, "it bears no host's name"


def test_an_account_that_requires_tls_gets_in_by_tls_only(servers: Servers) -> None:
    server = servers("mariadb@10.11")
    endpoint = account(server, NATIVE, "REQUIRE SSL")
    assert refusal(server, endpoint, transport="tcp").errno == 1045
    assert connect(server, endpoint, transport="tcp", ssl_mode="required") == "TLSv1.3"


def test_a_server_that_requires_tls_says_so_with_the_way_out(servers: Servers) -> None:
    server = servers("mysql@8.0")
    server.query("SET GLOBAL require_secure_transport = ON")
    try:
        refused = refusal(server, server.endpoint, transport="tcp")
    finally:
        server.query("SET GLOBAL require_secure_transport = OFF")
    assert refused.errno == 3159
    assert "--ssl-mode required" in str(refused.hint)


def test_mysql_5_7_speaks_old_tls_only_and_is_refused_with_that_reason(servers: Servers) -> None:
    server = servers("mysql@5.7")
    assert server.query("SHOW VARIABLES LIKE 'have_ssl'") == [("have_ssl", "YES")]
    assert connect(server, server.endpoint, transport="tcp") == ""
    refused = refusal(server, server.endpoint, transport="tcp", ssl_mode="required")
    assert refused.kind == "server"
    assert "5.7.22" in refused.message
    assert "TLS 1.2" in refused.message
    assert "ssl_mode disabled" in str(refused.hint)


def test_mysql_built_with_an_old_openssl_is_refused_with_that_reason(servers: Servers) -> None:
    server = servers("mysql@8.0")
    refused = refusal(server, server.endpoint, transport="tcp", ssl_mode="required")
    assert refused.kind == "server"
    assert "shares no cipher suite" in refused.message
    assert "OpenSSL 1.0" in str(refused.hint)


def test_a_server_without_a_certificate_offers_no_tls(sandbox: Callable[..., Sandbox]) -> None:
    server = sandbox("mariadb@10.11")
    refused = refusal(server, server.endpoint, transport="tcp", ssl_mode="required")
    assert (refused.kind, refused.errno) == ("server", None)
    assert "offers no TLS" in refused.message
    assert "ssl_cert" in str(refused.hint)


def test_a_plugin_that_is_not_spoken_is_named(servers: Servers) -> None:
    server = servers("mysql@8.0")
    refused = refusal(server, account(server, "sha256_password"))
    assert refused.kind == "server"
    assert '"sha256_password"' in refused.message
    assert "caching_sha2_password" in str(refused.hint)


@pytest.mark.parametrize("build", ["mariadb@10.11", "mysql@5.7"])
def test_too_many_connections_is_the_servers_word_and_says_what_to_set(servers: Servers, build: str) -> None:
    server = servers(build)
    endpoint = server.endpoint
    connected = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"
    # A server lets go of connections that were closed before in its own time.
    wait_until(lambda: server.query(connected) == [("Threads_connected", "1")], "ours is the only one")
    server.query("SET GLOBAL max_connections = 10")
    try:
        with ExitStack() as held:
            for _ in range(11):
                try:
                    held.enter_context(
                        pymysql.connect(
                            unix_socket=endpoint.socket,
                            user=endpoint.user,
                            password=endpoint.password,
                            ssl_disabled=True,
                        )
                    )
                except pymysql.MySQLError:
                    break
            spec = ScriptSpec(endpoint=endpoint, database=DATABASE, limit_s=PATIENCE_S)
            with pytest.raises(ServerError, match="Too many connections") as caught:
                native(lambda: _core.run_script(msgspec.json.encode(spec), b"DO 1"), server)
    finally:
        server.query("SET GLOBAL max_connections = 151")
    assert "max_connections" in str(caught.value.hint)


GREETING = (
    b"\x0a8.0.15\0\x01\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\xff\x15"
    + bytes(10)
    + b"ijklmnopqrst\0mysql_native_password\0"
)
WHOLE = len(GREETING).to_bytes(3, "little") + b"\0" + GREETING


@pytest.mark.parametrize("says", [b"", WHOLE[:20], WHOLE], ids=["nothing", "half a greeting", "a greeting"])
@pytest.mark.parametrize("ssl_mode", ["disabled", "required"])
def test_a_peer_that_falls_silent_is_given_up_in_time(says: bytes, ssl_mode: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, answering(listener, says):
        port = listener.getsockname()[1]
        endpoint = Endpoint(user="u", password=PASSWORD, host="127.0.0.1", port=port, connect_timeout_s=1.0)
        spec = ScriptSpec(endpoint=endpoint, transport="tcp", ssl_mode=ssl_mode, database="d", limit_s=600)
        begun = time.monotonic()
        with pytest.raises(_core.CoreError, match="did not answer in time") as caught:
            _core.run_script(msgspec.json.encode(spec), b"DO 1")
    assert 0.9 < time.monotonic() - begun < PATIENCE_S, "the limit of the script is 600 s"
    assert caught.value.kind == "server"


@contextmanager
def answering(listener: socket.socket, says: bytes) -> Iterator[None]:
    """Sends some bytes to the first who connects, and holds the connection."""
    peers: list[socket.socket] = []

    def answer() -> None:
        peer, _ = listener.accept()
        peers.append(peer)
        peer.sendall(says)

    thread = threading.Thread(target=answer)
    thread.start()
    yield
    thread.join()
    for peer in peers:
        peer.close()
