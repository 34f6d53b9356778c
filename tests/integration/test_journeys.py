"""What people come for, from the first file to the last, on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.campaign.option_check import Judged, judge
from tests.conftest import require_build

pytestmark = pytest.mark.spread

OF_57 = """\
[client]
socket = /var/run/mysqld/mysqld.sock
[mysqld]
user = mysql
datadir = /var/lib/mysql
socket = /var/run/mysqld/mysqld.sock
skip-external-locking
table_cache = 2000
thread_concurrency = 8
max_connections = 400
sort_buffer_size = 1M
query_cache_type = 0
query_cache_size = 0
innodb_buffer_pool_size = 24G
innodb_additional_mem_pool_size = 16M
innodb_file_format = Barracuda
innodb_large_prefix = ON
innodb_support_xa = 1
innodb_flush_log_at_trx_commit = 1
sync_binlog = 1
server_id = 12
log_bin = mysql-bin
log_warnings = 2
expire_logs_days = 7
sql_mode = STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION
"""


def mended(file: Path, found: Judged) -> str:
    """The file as its owner mends it: what each finding says, at its line, and no more."""
    lines = file.read_text().splitlines()
    for finding in found.findings:
        if not finding.fatal:
            continue
        hint, at = finding.hint or "", finding.line - 1
        if hint.startswith("write "):
            _, equals, value = lines[at].partition("=")
            lines[at] = f"{hint.removeprefix('write ')} {equals}{value}"
        elif "from the list" in hint:
            member = hint.split()[1]
            lines[at] = lines[at].replace(f"{member},", "").replace(f",{member}", "")
        else:
            assert hint.startswith("remove the line"), f"{finding.name}: {hint}"
            lines[at] = ""
    return "\n".join(lines) + "\n"


def test_an_option_file_of_57_is_mended_as_the_check_says_and_starts_on_80(tmp_path: Path) -> None:
    release = f"mysql@{'.'.join(map(str, require_build('mysql@8.0').version))}"
    file = tmp_path / "my.cnf"
    file.write_text(OF_57)
    before = judge(file, release, basedir=None, floor=None)
    assert not before.starts
    assert len([one for one in before.findings if one.fatal]) == 10
    file.write_text(mended(file, before))
    after = judge(file, release, basedir=None, floor=None, start=True)
    assert after.starts
    assert after.started is not None
    assert (after.started.ran, after.started.refusal) == (True, "")
    kept = {"table_open_cache": "2000", "log_error_verbosity": "2", "max_connections": "400"}
    assert kept.items() <= after.checked.others.items()
    assert after.checked.settings["sql_mode"] == "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ENGINE_SUBSTITUTION"
