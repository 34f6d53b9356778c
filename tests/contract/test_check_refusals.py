"""Whatever an option file holds that a server refuses, `settings --check` says something about it."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.build.inspect import Answer, verbose_help
from flushlab.server.sandbox import base_file
from flushlab.settings.check import unusable
from tests.conftest import flavors, require_build

BUILDS = flavors(
    "mariadb@10.11", "mysql@9.7", "mysql@8.0", "mysql@5.7", "mariadb@11.8", "mariadb@11.4", first=2
)
"""With a check of options that is the server's own, and without one."""
LINES = (
    *("Innodb_doublewrite = OFF", "SKIP-innodb-doublewrite", "Loose_innodb_doublewrite=OFF"),
    *("sort_buffer_size=", "sort_buffer_size", "sort_buffer_size=abc", "sort_buffer_size=1.5M"),
    *("sort_buffer_size=30\\0K", "sort_buffer_size 300K", "sort_buffer_size:300K", "sort buffer size=3"),
    *("sort_buffer_size='300K", "set-variable=sort_buffer_size=300K", "--sort_buffer_size=300K", "=5"),
    *("foo bar", "defaults-file=/x", "sort_buffer=300K", "innodb_log_=1", "maximum-sort-buffer-size=256K"),
    *("innodb_flush_method=O_BANANA", "log_output=BANANA", "innodb_page_size=5000", "sync_binlog=-4"),
    *("sql_mode=NO_AUTO_CREATE_USER", "character_set_server=utf8", "character_set_server=klingon"),
    *("query_cache_size=1M", "innodb_file_format=Barracuda", "expire_logs_days=7", "skip-host-cache"),
    *("default-authentication-plugin=mysql_native_password", "innodb_support_xa=1", "log_warnings=2"),
    *("wsrep_on=maybe", "relay_log=/x/y", "binlog_format=", "transaction_isolation=DIRTY", "no_such_thing=1"),
    *("max_connections=many", "innodb_buffer_pool_size=2.5G", "binlog_row_image=most", "tx_isolation=x"),
)
WHOLE = {
    "before any group": "sync_binlog=1\n[mysqld]\n",
    "a group without its end": "[mysqld\nsync_binlog=1\n",
    "a byte order mark": "\ufeff[mysqld]\nsync_binlog=1\n",
    "a missing directory": "[mysqld]\n!includedir /no/such/directory/\n",
    "a missing file": "[mysqld]\n!include /no/such/file\n",
    "no directive": "[mysqld]\n!foo bar\n",
    "a long comment": f"[mysqld]\n#{'x' * 5000}\n",
    "carriage returns alone": "[mysqld]\rno_such=1\r",
    "a NUL byte in a group": "[mys\0qld]\nsync_binlog=1\n",
    "a NUL byte in a name": "[mysqld]\nsync\0_binlog=1\n",
    "a NUL byte in a value": "[mysqld]\nsync_binlog=o\0ften\n",
    "UTF-16": "[mysqld]\nsync_binlog=1\n".encode("utf-16-le").decode(),
    "a template": "[mysqld]\nsync_binlog={{ sync_binlog }}\n",
    "a template's statement": "[mysqld]\n{% if replica %}\nsync_binlog=1\n{% endif %}\n",
    "YAML": "apiVersion: v1\nkind: ConfigMap\ndata:\n  my.cnf: |\n    [mysqld]\n    sync_binlog=1\n",
}


def refused(build: Build, file: Path) -> bool:
    """Whether the server itself ends with the file; its own check of options where it has one."""
    share = [f"--lc-messages-dir={build.share}"] if build.share else []
    way = ["--verbose", "--help"]
    if build.flavor == "mysql" and build.version >= (8, 0, 16):
        way = ["--secure-file-priv=NULL", f"--datadir={file.parent}", "--validate-config"]
        way += ["--user=nobody"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*build.command, f"--defaults-file={file}", *share, *way],
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **build.environment},
        cwd="/",
        capture_output=True,
        check=False,
        timeout=900,
    )
    return done.returncode != 0


@cache
def help_of(build_id: str) -> Answer:
    return verbose_help(require_build(build_id))


@pytest.mark.parametrize("name", BUILDS)
def test_nothing_that_a_server_refuses_goes_unmentioned(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = require_build(name)
    monkeypatch.setattr(
        base_file, "verbose_help", lambda of, words=(): verbose_help(of, words) if words else help_of(name)
    )
    file, unmentioned, refusals = tmp_path / "my.cnf", [], 0
    for text in [*WHOLE.values(), *(f"[mysqld]\n{line}\n" for line in LINES)]:
        file.write_text(text)
        stops = refused(build, file)
        asks_names = build.flavor == "mariadb" or build.version >= (8, 0, 16)
        assert stops or not (asks_names and unusable(text)), text
        if stops:
            refusals += 1
            if unusable(text):
                continue
            found = base_file.examine(file, base_file.content(file), build.identity, build).findings
            # what is included may be where the server runs: its absence here is only a warning
            if not [one for one in found if one.severity == "error" or one.kind == "include"]:
                unmentioned.append((text[:60], [one.text for one in found]))
    assert unmentioned == []
    assert refusals >= 15, "the files are of no use unless servers refuse them"
