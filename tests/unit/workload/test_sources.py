"""The texts of a workload are those that it was read from, whatever becomes of the files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from flushlab.workload.parse import MOST_BYTES, build_workload, source_text, sources_of

TXN = """setup_file = "shop.sql"
parameter.id = { type = "integer", low = 1, high = 10 }
[transaction.pay]
statements = ["UPDATE account SET n = n + 1 WHERE id = :id"]
"""
SETUP = "CREATE TABLE account (id INT PRIMARY KEY, n INT);\nCREATE USER a IDENTIFIED BY 'geheim';\n"


def test_transactions_bring_their_text_and_their_setup(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(TXN)
    (tmp_path / "shop.sql").write_text(SETUP)
    workload = build_workload("txn:shop.toml", {}, folder=tmp_path)
    (tmp_path / "shop.toml").write_text("# another one")
    (tmp_path / "shop.sql").unlink()
    text, setup = sources_of(workload)
    assert (text.kind, text.name, text.text) == ("transactions", "shop.toml", TXN)
    assert text.sha256 == hashlib.sha256(TXN.encode()).hexdigest()
    assert (setup.kind, setup.name, setup.size_bytes) == ("setup", "shop.sql", len(SETUP))
    assert setup.text == SETUP.replace("'geheim'", "***")


def test_a_script_is_a_source(tmp_path: Path) -> None:
    (tmp_path / "load.sql").write_text("SELECT 1;\n")
    (source,) = sources_of(build_workload("sql:load.sql", {}, folder=tmp_path))
    assert (source.kind, source.name, source.text) == ("script", "load.sql", "SELECT 1;\n")


def test_a_command_brings_the_scripts_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "load.sh").write_text("#!/bin/sh\nmysql -pgeheim < rows.sql\n")
    (tmp_path / "load.sh").chmod(0o755)
    (tmp_path / "tool").write_bytes(b"\x7fELF\0")
    (source,) = sources_of(build_workload("command: ./load.sh tool 5", {}, folder=tmp_path))
    assert (source.name, source.text) == ("./load.sh", "#!/bin/sh\nmysql -p*** < rows.sql\n")


def test_files_that_are_no_scripts_are_no_sources(tmp_path: Path) -> None:
    """No word marks the only line of a file as a password."""
    for name in ("pass", "key.pem", "client.cnf", "data.csv"):
        (tmp_path / name).write_text("geheim")
    (tmp_path / "load.sh").write_text("true\n")
    line = "command: sh -c './load.sh --secret-file=pass <pass' pass --key key.pem --from data.csv client.cnf"
    (source,) = sources_of(build_workload(line, {}, folder=tmp_path))
    assert (source.name, source.text) == ("./load.sh", "true\n")


def test_a_private_key_in_a_script_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "load.py").write_text(
        "KEY = '-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----'\n"
    )
    (source,) = sources_of(build_workload("command: python load.py", {}, folder=tmp_path))
    assert source.text == "KEY = '-----BEGIN PRIVATE KEY-----***-----END PRIVATE KEY-----'\n"


def test_a_workload_without_files_has_no_sources() -> None:
    assert sources_of(build_workload("oltp_update_non_index", {})) == ()


def test_the_digest_of_a_text_with_a_password_does_not_let_anybody_try_passwords_out() -> None:
    content = b"[client]\npassword = geheim\n"
    source = source_text("option file", "my.cnf", content)
    assert source.text == "[client]\npassword = ***\n"
    assert source.sha256 == hashlib.sha256(source.text.encode()).hexdigest()
    plain = source_text("script", "x.sql", b"SELECT 1")
    assert plain.sha256 == hashlib.sha256(b"SELECT 1").hexdigest()


@pytest.mark.parametrize("content", [b"x" * (MOST_BYTES + 1), b"\xff\xfe", b"a\0b"])
def test_what_is_long_or_no_text_is_named_by_its_digest(content: bytes) -> None:
    source = source_text("script", "x", content)
    assert (source.text, source.size_bytes) == (None, len(content))
    assert source.sha256 == hashlib.sha256(content).hexdigest()
