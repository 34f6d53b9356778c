"""Which builds clusters can be made of, and where their Galera library comes from."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from flushlab.build.galera import galera_for
from flushlab.errors import BuildNotFound, UsageError
from tests.unit.builds import MARIADB, MYSQL80


def test_a_mysql_server_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match="cannot run in a Galera cluster") as refused:
        galera_for(MYSQL80)
    assert refused.value.hint == "use --server mariadb@10.11"


def test_a_server_of_before_galera_4_is_refused() -> None:
    old = msgspec.structs.replace(MARIADB, version=(10, 3, 39))
    with pytest.raises(UsageError, match=r"Galera 4 came with MariaDB 10\.4"):
        galera_for(old)


def test_a_tarballs_own_library_and_scripts_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in ("bin/mariadbd", "bin/wsrep_sst_rsync", "lib/galera/libgalera_smm.so"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(b"\x7fELF")
    (tmp_path / "bin" / "wsrep_sst_rsync").chmod(0o755)
    found_by = shutil.which
    monkeypatch.setattr("shutil.which", lambda name, **more: found_by(name, **more) or f"/usr/bin/{name}")
    found = galera_for(
        msgspec.structs.replace(MARIADB, source="tarball", mysqld=str(tmp_path / "bin" / "mariadbd"))
    )
    assert found.provider == str(tmp_path / "lib" / "galera" / "libgalera_smm.so")
    assert found.folders == (str(tmp_path / "bin"),)
    assert found.id.startswith("galera-")


def test_a_build_without_a_library_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flushlab.build.apt.available", lambda: False)
    build = msgspec.structs.replace(MARIADB, source="tarball", mysqld=str(tmp_path / "bin" / "mariadbd"))
    with pytest.raises(BuildNotFound, match="no Galera library") as refused:
        galera_for(build)
    assert "galera-4" in (refused.value.hint or "")
