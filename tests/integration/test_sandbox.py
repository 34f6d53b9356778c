"""Sandboxes of real servers: where they listen, as whom they run, how they end."""

from __future__ import annotations

import os
import pwd
import re
import signal
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest

from flushlab.build import Build
from flushlab.datadir import DataRoot, SnapshotKey, Snapshots
from flushlab.errors import (
    NoSpace,
    NotWritable,
    PortTaken,
    ServerDied,
    ServerError,
    StartFailed,
    UsageError,
)
from flushlab.machine import server_user
from flushlab.process import all_records, run_folder
from flushlab.record import Endpoint
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.control import connect
from flushlab.server.sandbox.contents import initialised
from tests.conftest import flavors
from tests.waiting import unmount, wait_until

StartSandbox = Callable[..., Sandbox]

BUILDS = ("mariadb@10.11", "mysql@8.0")
"""Accounts, logs and refusals of MariaDB and of MySQL differ."""
EACH_BUILD = flavors(*BUILDS, "mysql@5.7", first=2)
each_build = pytest.mark.parametrize("name", EACH_BUILD)


@pytest.fixture(scope="module", params=EACH_BUILD)
def server(request: pytest.FixtureRequest, shared_sandbox: StartSandbox) -> Sandbox:
    """For tests that change nothing."""
    return shared_sandbox(request.param)


@pytest.fixture(scope="module", params=EACH_BUILD)
def used(request: pytest.FixtureRequest, shared_sandbox: StartSandbox) -> Sandbox:
    """For tests that restart or kill it; the last one ends it."""
    return shared_sandbox(request.param, settings={"log_bin": "ON"})


@pytest.fixture(scope="module")
def mariadb(shared_sandbox: StartSandbox) -> Sandbox:
    """For tests that leave it running."""
    return shared_sandbox("mariadb@10.11")


def log_in(endpoint: Endpoint, transport: str) -> str:
    with connect(endpoint, transport) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        return str(cursor.fetchone()[0])


def listening(pid: int) -> set[str]:
    """Addresses that a process listens on: TCP as ip:port, unix sockets as paths."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has been closed
            target = str(link.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and fields[3] == "0A":
                address, port = fields[1].split(":")
                number = bytes.fromhex(address)[::-1]
                text = socket.inet_ntoa(number) if len(number) == 4 else address
                found.add(f"{text}:{int(port, 16)}")
    for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[6] in inodes and fields[3] == "00010000" and len(fields) > 7:
            found.add(fields[7])
    return found


def test_ready_means_that_both_ways_in_answer(server: Sandbox) -> None:
    assert {log_in(server.endpoint, transport) for transport in ("socket", "tcp")} == {"flushlab@localhost"}


def test_second_sandbox_of_a_build_initialises_no_data_directory(
    sandbox: StartSandbox, mariadb: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(*_: object, **__: object) -> None:
        raise AssertionError("the first one's data directory was kept for this")

    monkeypatch.setattr(Snapshots, "make", again)
    second = sandbox(mariadb.build.name)
    assert second.seconds.keys() == {"restore", "start"}
    assert second.restored is not None
    assert second.restored.bytes > 10_000_000
    assert second.endpoint.password != mariadb.endpoint.password
    assert second.endpoint.port != mariadb.endpoint.port


def test_it_listens_on_its_socket_and_on_one_loopback_port_only(server: Sandbox) -> None:
    assert server.pid is not None
    assert listening(server.pid) == {f"127.0.0.1:{server.endpoint.port}", str(server.endpoint.socket)}


def test_it_runs_as_an_unprivileged_user_who_owns_its_data(server: Sandbox) -> None:
    user = server_user()
    status = Path(f"/proc/{server.pid}/status").read_text()
    uids = re.search(r"^Uid:\s+(.*)$", status, re.MULTILINE)
    assert uids is not None
    assert set(uids[1].split()) == {str(user.uid)}
    assert user.uid != 0
    assert server.datadir.stat().st_uid == user.uid
    assert stat.S_IMODE(server.datadir.stat().st_mode) & 0o007 == 0


def test_password_stands_in_the_clients_option_file_only(used: Sandbox) -> None:
    server = used
    server.restart()
    password = server.endpoint.password.encode()
    option_file = Path(str(server.endpoint.option_file))
    assert stat.S_IMODE(option_file.stat().st_mode) == 0o600
    assert option_file.stat().st_uid == os.geteuid()
    assert password in option_file.read_bytes()
    for file in [*server.folder.rglob("*"), *run_folder().glob(f"{server.name}.json")]:
        with suppress(FileNotFoundError):  # the server removes some of its own
            if file.is_file() and file != option_file:
                assert password not in file.read_bytes(), file
    assert password not in Path(f"/proc/{server.pid}/cmdline").read_bytes()
    assert password not in Path(f"/proc/{server.pid}/environ").read_bytes()


def test_nobody_gets_in_without_the_password(server: Sandbox) -> None:
    for user in ("root", "flushlab", "", "mysql", "nobody"):
        with pytest.raises(pymysql.OperationalError) as caught:
            pymysql.connect(unix_socket=server.endpoint.socket, user=user, password="")
        assert caught.value.args[0] in (1045, 1698, 3118), user  # denied, denied by the socket plugin, locked


def test_account_for_any_host_is_not_shadowed_on_loopback(mariadb: Sandbox) -> None:
    mariadb.query("CREATE USER 'app'@'%' IDENTIFIED BY 'secret'")
    assert mariadb.endpoint.port is not None
    with pymysql.connect(
        host="127.0.0.1", port=mariadb.endpoint.port, user="app", password="secret"
    ) as connection:
        assert connection.open


def test_a_data_directory_elsewhere_is_ignored(mariadb: Sandbox) -> None:
    server = mariadb
    server.query("CREATE DATABASE d")
    with tempfile.TemporaryDirectory() as name:
        elsewhere = Path(name)
        elsewhere.chmod(0o777)
        for engine in ("InnoDB", "MyISAM"):
            server.query(f"CREATE TABLE d.{engine} (a INT) ENGINE={engine} DATA DIRECTORY='{elsewhere}'")
        assert not list(elsewhere.iterdir())
    assert {file.name for file in (server.datadir / "d").iterdir()} >= {"InnoDB.ibd", "MyISAM.MYD"}


def test_exception_ends_the_sandbox(build: Callable[[str], Build]) -> None:
    with pytest.raises(RuntimeError), Sandbox.start(SandboxSpec(build("mariadb@10.11"))) as server:
        pid = server.pid
        raise RuntimeError
    assert not Path(f"/proc/{pid}").exists()
    assert not server.folder.exists()


def test_data_survive_sigkill_of_the_server(used: Sandbox) -> None:
    server = used
    server.query("CREATE DATABASE d")
    server.query("CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=InnoDB")
    server.query("INSERT INTO d.t VALUES (42)")
    first = server.pid
    server.kill()
    assert not server.alive()
    assert server.pid is None
    server.start_again()
    assert server.pid not in (None, first)
    assert server.query("SELECT id FROM d.t") == [(42,)]


def test_restart_takes_new_settings_in_place_of_the_old(sandbox: StartSandbox) -> None:
    server = sandbox(settings={"sync_binlog": 5, "innodb_io_capacity": 300})
    server.restart({"sync_binlog": 6})
    assert server.read_back(["sync_binlog", "innodb_io_capacity"]) == {
        "sync_binlog": 6,
        "innodb_io_capacity": 200,
    }


def test_server_that_dies_is_noticed_and_its_last_words_are_told(sandbox: StartSandbox) -> None:
    server = sandbox()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSEGV)
    wait_until(lambda: not server.alive(), "the server is dead")
    with pytest.raises(ServerDied, match=r"(?s)is no longer running; its log says:.*\[ERROR\] .*got signal"):
        server.query("SELECT 1")
    assert "got signal 11" in server.log_tail(80)


def test_connection_that_was_cut_is_made_again(mariadb: Sandbox) -> None:
    server = mariadb
    ((number,),) = server.query("SELECT CONNECTION_ID()")
    with connect(server.endpoint, "socket") as other:
        other.cursor().execute(f"KILL {number}")
    assert server.query("SELECT 1") == [(1,)]


def test_statement_that_was_sent_is_not_sent_again(mariadb: Sandbox) -> None:
    server = mariadb
    ((number,),) = server.query("SELECT CONNECTION_ID()")

    def cut() -> None:
        busy = f"SELECT 1 FROM information_schema.processlist WHERE id = {number} AND info LIKE '%SLEEP%'"
        with connect(server.endpoint, "socket") as other, other.cursor() as cursor:
            wait_until(lambda: cursor.execute(busy), "the statement runs")
            cursor.execute(f"KILL {number}")

    other = threading.Thread(target=cut)
    other.start()
    with pytest.raises(ServerError, match="does not answer"):
        server.query("SELECT SLEEP(600)")
    other.join()
    assert server.query("SELECT 1") == [(1,)]


@each_build
def test_refused_setting_at_the_start_comes_with_the_servers_reason(
    name: str, build: Callable[[str], Build]
) -> None:
    own = f"refused-{os.getpid()}"
    foreign = "binlog_commit_wait_count" if "mysql" in name else "binlog_transaction_compression"
    with pytest.raises(StartFailed) as caught:
        Sandbox.start(SandboxSpec(build(name), settings={foreign: 1}, name=own))
    assert caught.value.refusal is not None
    assert f"unknown variable '{foreign}=1'" in caught.value.refusal
    assert not (run_folder() / own).exists()


def test_refused_setting_at_a_restart_is_a_value_and_the_server_runs_without(used: Sandbox) -> None:
    server = used
    applied = server.apply({"innodb_data_file_path": "ibdata1", "innodb_log_buffer_size": 8 << 20})
    (refused,) = applied.refused
    assert refused.name == "innodb_data_file_path"
    assert "innodb_data_file_path" in refused.reason or "ibdata1" in refused.reason
    assert applied.settings == {"innodb_log_buffer_size": 8 << 20}
    assert server.alive()
    assert "innodb_data_file_path" not in server.settings


def test_end_removes_process_folder_and_record(used: Sandbox) -> None:
    pid = used.pid
    assert pid is not None
    assert used.name in {record.name for record in all_records()}
    used.close()
    assert not Path(f"/proc/{pid}").exists()
    assert not used.folder.exists()
    assert used.name not in {record.name for record in all_records()}


def test_rounded_value_is_a_warning(mariadb: Sandbox) -> None:
    applied = mariadb.apply({"innodb_buffer_pool_size": 200_000_000})
    assert applied.settings == {"innodb_buffer_pool_size": 199_229_440}  # MariaDB 10.11: multiples of 2 MiB
    assert [warning.slug for warning in applied.warnings] == ["rounded"]


def test_port_that_is_taken_is_refused(build: Callable[[str], Build]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PortTaken, match="cannot be used"):
            Sandbox.start(SandboxSpec(build("mariadb@10.11"), port=taken.getsockname()[1]))


def test_port_that_is_lost_meanwhile_is_replaced(
    sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flushlab.server.sandbox import sandbox as module
    from flushlab.server.sandbox.node import free_port

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        given = list[int]()

        def port(host: str) -> int:
            given.append(free_port() if given else taken.getsockname()[1])
            return given[-1]

        monkeypatch.setattr(module, "free_port", port)
        assert sandbox().endpoint.port == given[-1] != given[0]


def test_name_that_is_taken_is_refused_and_its_holder_is_left_alone(sandbox: StartSandbox) -> None:
    name = f"twin-{os.getpid()}"
    first = sandbox(name=name)
    with pytest.raises(UsageError, match=f"'{name}' already exists"):
        Sandbox.start(SandboxSpec(first.build, name=name))
    assert first.query("SELECT 1") == [(1,)]


def test_data_directory_lies_in_the_data_root_and_goes_with_the_sandbox(
    sandbox: StartSandbox, furnished_home: Path
) -> None:
    root = furnished_home / "disk"
    server = sandbox(data_root=DataRoot.open(root))
    assert server.datadir.is_relative_to(root)
    ((datadir, tmpdir),) = server.query("SELECT @@datadir, @@tmpdir")
    assert Path(datadir) == server.datadir
    assert Path(tmpdir).is_relative_to(root)
    server.close()
    assert list(root.iterdir()) == []


def test_data_root_that_is_not_writable_is_refused(private_home: Path) -> None:
    file = private_home / "file"
    file.touch()
    with pytest.raises(NotWritable):
        DataRoot.open(file)


def test_stopped_servers_data_become_a_snapshot_and_start_again(
    sandbox: StartSandbox, furnished_home: Path
) -> None:
    server, own = sandbox(), Snapshots(furnished_home / "own")
    server.query("CREATE DATABASE kept")
    server.stop()
    made = own.make(SnapshotKey({"what": "a test"}), server.move_datadir)
    server.close()
    copy = sandbox(snapshot=made, snapshots=own)
    assert copy.query("SHOW DATABASES LIKE 'kept'") == [("kept",)]
    assert copy.endpoint.password != server.endpoint.password


def test_layout_of_files_is_part_of_the_initialised_data_directory(sandbox: StartSandbox) -> None:
    server = sandbox(settings={"innodb_page_size": 4096})
    assert server.read_back(["innodb_page_size"]) == {"innodb_page_size": 4096}


@pytest.fixture
def small_disk(private_home: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder = private_home / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=170m,mode=755", "none", str(folder)], check=True)
    yield folder
    unmount(folder)


@each_build
def test_disk_that_fills_up_at_the_start_is_no_space(
    name: str, build: Callable[[str], Build], small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLUSHLAB_HOME")
    with pytest.raises(NoSpace) as caught:
        Sandbox.start(
            SandboxSpec(
                build(name), data_root=DataRoot.open(small_disk), settings={"innodb_log_file_size": 400 << 20}
            )
        )
    assert caught.value.exit_code == 5
    assert list(small_disk.iterdir()) == []


def test_library_that_is_gone_is_named(build: Callable[[str], Build]) -> None:
    found = build("mysql@8.0")
    program = Path(found.mysqld)
    initialised(found, {})
    copy = program.parent / f".without-libraries-{os.getpid()}"
    copy.mkdir()
    try:
        # The jar's server finds libssl beside itself; a copy elsewhere does not.
        alone = copy / "mysqld"
        alone.write_bytes(program.read_bytes())
        alone.chmod(0o755)
        import msgspec

        from flushlab.errors import LibraryMissing

        with pytest.raises(LibraryMissing, match=r"libssl\.so\.1\.0\.0|libcrypto\.so\.1\.0\.0"):
            Sandbox.start(SandboxSpec(msgspec.structs.replace(found, mysqld=str(alone))))
    finally:
        subprocess.run(["rm", "-r", str(copy)], check=True)


def test_user_of_servers_exists() -> None:
    assert pwd.getpwuid(server_user().uid)


def test_a_server_with_a_key_of_flushlabs_is_verified_by_the_password_as_one_that_made_its_own(
    sandbox: StartSandbox,
) -> None:
    """Clients of MariaDB since 11.4 do so if nobody has signed the certificate."""
    server = sandbox("mariadb@11.8")
    assert server.query("SELECT @@ssl_cert, @@ssl_key") == [(str(server.folder / "tls.pem"),) * 2]
    assert server.build.client is not None
    asked = ["--ssl-verify-server-cert", "--protocol=tcp", "-NBe", "SHOW STATUS LIKE 'Ssl_cipher'"]
    options = f"--defaults-file={server.endpoint.option_file}"
    done = subprocess.run([server.build.client, options, *asked], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert "TLS_" in done.stdout
