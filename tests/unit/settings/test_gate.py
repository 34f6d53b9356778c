from __future__ import annotations

import re

import pytest

from flushlab.errors import UsageError
from flushlab.record.machine import Flavor
from flushlab.settings.admission import A_PATH, barred, inside, kept_out, require_admitted_words
from flushlab.settings.option_names import load_option_names

PATH = "/srv/theirs/file"
PREFIXES = (
    "",
    "loose-",
    "skip-",
    "enable-",
    "disable-",
    "maximum-",
    "loose-skip-",
    "loose_enable_",
    "LOOSE-",
)
LOCATION = re.compile(
    r".*_(dir|file|path|directory|directories|filename|basename|home_dir)|datadir|tmpdir|basedir|socket|"
    r"pid_file|log_error|log_bin_index|relay_log|relay_log_index|chroot|init_file|log_tc|debug"
)
SERVERS: tuple[tuple[Flavor, tuple[int, ...]], ...] = tuple(
    (one.flavor, one.version) for one in load_option_names().releases
)


@pytest.mark.parametrize(("flavor", "version"), SERVERS)
def test_no_option_of_any_server_takes_a_path_in(flavor: Flavor, version: tuple[int, ...]) -> None:
    for name in load_option_names().names():
        for prefix in PREFIXES:
            word = inside(f"--{prefix}{name.replace('_', '-')}={PATH}")
            assert barred(word, flavor, version) or not A_PATH.search(word), word


@pytest.mark.parametrize(("flavor", "version"), SERVERS)
def test_no_option_of_any_server_that_names_a_file_enters_even_without_a_path(
    flavor: Flavor, version: tuple[int, ...]
) -> None:
    for name in load_option_names().names():
        if LOCATION.fullmatch(name) and kept_out(name, "x"):
            for prefix in PREFIXES:
                assert barred(f"--{prefix}{name}=x", flavor, version), name


@pytest.mark.parametrize("version", [version for flavor, version in SERVERS if flavor == "mariadb"])
def test_an_abbreviation_is_every_option_that_it_may_stand_for(version: tuple[int, ...]) -> None:
    names = load_option_names()
    for name in names.names():
        if kept_out(name, "1") and names.knows(name, "mariadb", version):
            for short in (name[:4], name[: len(name) // 2], name[:-1]):
                whole = names.knows(short, "mariadb", version)
                assert whole or barred(f"--loose-{short}=1", "mariadb", version), (short, name)


@pytest.mark.parametrize(
    "word",
    [
        "--datadir",
        "--data-dir=x",
        "--DATADIR=x",
        "--loose-loose-datadir=x",
        "--loose-skip-skip-networking",
        "--skip-grant-tables",
        "--plugin-load-add=auth_socket",
        "--init-file=x",
        "--slow-query-log-file=slow.log",
        "--innodb-data-file-path=/srv/ibdata1:12M",
        "--innodb-data-file-path=../ibdata1:12M",
        "--general-log=..\\x",
        "--default-storage-engine=federated",
        "-h",
        "---datadir=x",
        "datadir",
        "--foo: /srv",
        "--",
        "--port=3306",
        "--wsrep-cluster-address=gcomm:",
    ],
)
def test_words_that_do_not_enter(word: str) -> None:
    assert barred(word, "mariadb", (10, 11, 19))
    assert barred(word, "mysql", (8, 0, 15))
    with pytest.raises(UsageError, match=re.escape(word.partition("=")[0])):
        require_admitted_words(["--sync-binlog=1", word], "mysql", (8, 0, 15))


@pytest.mark.parametrize(
    "word",
    [
        "--sync-binlog=1",
        "--loose_sync-binlog=1",
        "--skip-log-bin",
        "--log-bin",
        "--log_bin=binlog",
        "--maximum-sort-buffer-size=1M",
        "--no-such-option=1",
        "--foo: 3",
        "--skip-name-resolve",
    ],
)
def test_words_that_enter(word: str) -> None:
    assert not barred(word, "mariadb", (10, 11, 19))
    assert not barred(word, "mysql", (8, 0, 15))


@pytest.mark.parametrize("option", ["--log-bin", "--log_bin", "--loose-log-bin", "--LOG_BIN"])
def test_binary_logs_elsewhere_are_tried_in_the_sandbox(option: str) -> None:
    assert inside(f"{option}={PATH}") == f"{option}=binlog"
    assert inside(f"{option}=mysql-bin") == f"{option}=mysql-bin"
    assert inside(f"{option}-index={PATH}") == f"{option}-index={PATH}"
