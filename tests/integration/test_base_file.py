"""Option files of production servers as a base, on every server: they run, and reach nothing outside.

Each file names, beside its tuning, what a server must not touch here: data directories, indexes of binary
logs whose files are due for deletion, a cluster, credentials, keys that only their owner reads.
"""

from __future__ import annotations

import hashlib
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from flushlab.server import Sandbox
from flushlab.server.sandbox.base_file import read_base_file
from tests.conftest import StartSandbox, flavors, require_build

BUILDS = flavors(
    "mariadb@10.11", "mysql@8.0", "mysql@5.7", "mysql@9.7", "mariadb@11.8", "mariadb@11.4", first=2
)
FILES = sorted((Path(__file__).parent / "base_files").glob("*.cnf"))
SECRET = "s3cret"
FOLDERS = ("data", "tmp", "log", "run", "redo", "undo", "aria", "binlog", "relay", "gcache")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Folders that any user may write to, as far as the modes go, with files that must stay as they are."""
    root = tmp_path / "outside"
    for name in FOLDERS:
        folder = root / name
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        (folder / "theirs").write_text("theirs\n")
    for folder in (root, *root.parents[:3]):
        folder.chmod(0o755)
    for name in ("mysql-bin.000001", "mysql-bin.000002"):
        file = root / "binlog" / name
        file.write_bytes(b"\xfebin" + bytes(100))
        file.chmod(0o666)
    index = root / "binlog" / "index"
    index.write_text(f"{root}/binlog/mysql-bin.000001\n{root}/binlog/mysql-bin.000002\n")
    index.chmod(0o666)
    keys = root / "keys"
    keys.mkdir(mode=0o700)
    for name in ("ca.pem", "node.pem"):
        (keys / name).write_text("only for its owner\n")
    return root


@pytest.fixture
def cluster() -> Iterator[socket.socket]:
    """A port that a node would connect to; whoever does so is seen."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def write(file: Path, outside: Path, port: int = 1) -> Path:
    text = file.read_text().replace("OUTSIDE", str(outside)).replace("CLUSTER", str(port))
    own = outside.parent / file.name
    own.write_text(text.replace("PROVIDER", "/usr/lib/galera/libgalera_smm.so"))
    return own


def seen(root: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path): (
            path.stat().st_mode,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(root.rglob("*"))
    }


@pytest.mark.parametrize("name", BUILDS)
def test_production_files_run_on_every_server_and_touch_nothing_outside(
    name: str, outside: Path, cluster: socket.socket, sandbox: StartSandbox
) -> None:
    build, before = require_build(name), seen(outside)
    whole = outside.parent / "my.cnf"
    whole.write_text("".join(f"!include {file.name}\n" for file in FILES))
    for file in FILES:
        write(file, outside, cluster.getsockname()[1])
    base = read_base_file(whole, build, build.identity)
    assert not [value for value in base.settings.values() if str(outside) in str(value)]
    server = sandbox(name, settings=base.settings)
    assert server.read_back(["max_connect_errors", "server_id"]) == {
        "max_connect_errors": 1000000,
        "server_id": 7,
    }
    assert server.query("SHOW GLOBAL VARIABLES LIKE 'log_bin'") == [("log_bin", "ON")]
    server.restart()
    check_secrets(server)
    server.stop()
    assert seen(outside) == before
    with pytest.raises(BlockingIOError):
        cluster.accept()


def check_secrets(server: Sandbox) -> None:
    options = server.folder / "my.cnf"
    assert SECRET not in options.read_text()
    assert stat.S_IMODE(options.stat().st_mode) & 0o007 == 0, "an option file is not for everybody"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_left_out_is_said_by_class_and_without_values(file: Path, outside: Path) -> None:
    build = require_build("mariadb@10.11")
    base = read_base_file(write(file, outside), build, build.identity)
    (said,) = [note for note in base.notes if "left out" in note]
    assert SECRET not in f"{base}"
    assert "did you mean" not in said
    expected = {
        "debian_mariadb": ("datadir", "file locations", "init_connect", "default_time_zone"),
        "docker_mysql": ("secure_file_priv", "accounts, keys and TLS", "default_authentication_plugin"),
        "percona": ("log_bin_index", "innodb_undo_directory", "audit_log_file"),
        "galera": ("wsrep_provider", "wsrep_sst_auth", "(cluster)"),
        "replica": ("relay_log_index", "report_password", "(replication)", "read_only", "ssl_key"),
    }[file.stem]
    assert [word for word in expected if word not in said] == []
