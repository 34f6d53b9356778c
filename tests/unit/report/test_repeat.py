"""The command on a campaign's page asks for the same campaign: it is given to the command line again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from flushlab.campaign import campaign, target
from flushlab.campaign.crash import crash
from flushlab.campaign.crash import experiment as crash_request
from flushlab.campaign.facts import resuming
from flushlab.campaign.pool import room, sandboxes, settings
from flushlab.campaign.pool.remote import RemotePool, RemoteTarget
from flushlab.campaign.pool.sandboxes import SandboxPool
from flushlab.campaign.pool.settings import SandboxSettings
from flushlab.cli.app import make_app
from flushlab.datadir import DataRoot, Volume
from flushlab.plan.parse import find_plan
from flushlab.record import Endpoint, Storage
from flushlab.report.stored import command, request_of
from flushlab.server.remote import login
from flushlab.server.remote.login import Address
from flushlab.server.sandbox import base_file
from flushlab.spec import fields
from flushlab.spec.kinds import CompareSpec, CrashSpec, SeriesSpec, TuneSpec
from flushlab.store import Store
from tests.fakes.server import DEFAULTS, FakeServer
from tests.unit.builds import MARIADB, build
from tests.unit.report import campaigns as made

UPSERT = ["--workload", "upsert"]
BY_FILE = ["--defaults-file", "{tmp}/client.cnf", "--allow-writes", "--allow-set-global"]
BY_FLAGS = [
    *("-h", "db1", "-P", "3307", "-u", "me", "-p", "--defaults-group-suffix", "_two"),
    *("--allow-writes", "--allow-set-global"),
]
BY_SOCKET = ["-S", "{tmp}/mysqld.sock", "--allow-writes", "--allow-set-global"]
OWN = ["--dsn", "mysql://me:secret@db1/shop", "--allow-writes", "--allow-set-global"]
TUNE = {
    "server": ["--server", "mariadb@10.6.7"],
    "dsn": [*OWN, "--set", "sync_binlog=7", "--fixed", "innodb_flush_method"],
    "defaults_file": BY_FILE,
    "host": BY_FLAGS,
    "socket": BY_SOCKET,
    "workload": ["--workload", "oltp_read_write"],
    "floor": ["--floor", "throwaway"],
    "offer": ["--offer", "throwaway"],
    "minutes": ["--minutes", "90"],
    "trials": ["--trials", "77"],
    "base": ["--base", "{tmp}/my.cnf"],
    "settings": ["--set", "sync_binlog=7"],
    "fixed": ["--fixed", "innodb-flush-method", "--fixed", "sync_binlog"],
    "dataset": ["--dataset", "dump.sql", "--workload", "data"],
    "database": ["--dataset", "dump.sql", "--database", "shop", "--workload", "data"],
    "threads": ["--threads", "1,8"],
    "memory": ["--memory", "64M"],
    "pool_ratio": ["--table-size", "100000", "--pool-ratio", "0.5"],
    "objective": ["--objective", "p99", "--rate", "100"],
    "p99_limit": ["--p99-limit", "3"],
    "rate": ["--objective", "p99", "--rate", "123456.5"],
    "no_replicas": ["--no-replicas"],
    "tables": ["--tables", "3"],
    "table_size": ["--table-size", "1234567"],
    "window": ["--window", "7"],
    "transport": ["--transport", "tcp"],
    "ssl_mode": ["--transport", "tcp", "--ssl-mode", "required"],
    "ssl_ca": ["--transport", "tcp", "--ssl-mode", "verify_ca", "--ssl-ca", "{tmp}/ca.pem"],
    "rand_type": ["--rand-type", "special"],
    "rows": [*UPSERT, "--rows", "10"],
    "key": [*UPSERT, "--key", "primary"],
    "hit_ratio": [*UPSERT, "--hit-ratio", "0.25"],
    "commit": [*UPSERT, "--commit", "1 s"],
    "basedir": ["--basedir", "server"],
    "data_root": ["--data-root", "data"],
    "disk": ["--disk", "gp3"],
    "cluster": ["--cluster", "3"],
    "network_latency": ["--cluster", "3", "--network-latency", "500us"],
    "seed": ["--seed", "5"],
    "fresh": ["--fresh"],
    "crash": ["--crash"],
    "crashes": ["--crash", "--crashes", "7"],
    "an option that only some workloads have": ["--skip-trx", "--point-selects", "3"],
}
SERIES = {
    "plan": ["{tmp}/mine.toml"],
    "server": ["insert-on-duplicate", "--server", "mariadb@10.6.7"],
    "defaults_file": ["insert-on-duplicate", *BY_FILE],
    "host": ["insert-on-duplicate", *BY_FLAGS],
    "socket": ["insert-on-duplicate", *BY_SOCKET],
    "dsn": ["insert-on-duplicate", *OWN],
    "base": ["insert-on-duplicate", "--base", "{tmp}/my.cnf"],
    "memory": ["insert-on-duplicate", "--base", "{tmp}/my.cnf", "--memory", "2G"],
    "dataset": ["insert-on-duplicate", "--dataset", "dump.sql"],
    "database": ["insert-on-duplicate", "--dataset", "dump.sql", "--database", "shop"],
    "only": ["insert-on-duplicate", "--only", "H", "--only", "B primary key"],
    "precision": ["insert-on-duplicate", "--blocks", "30", "--precision", "2.5%"],
    "floor": ["insert-on-duplicate", "--floor", "second"],
    "objective": ["{tmp}/rated.toml", "--objective", "p99"],
    "blocks": ["insert-on-duplicate", "--blocks", "3"],
    "window": ["insert-on-duplicate", "--window", "7"],
    "scale": ["insert-on-duplicate", "--scale", "0.123456789"],
    "threads": ["insert-on-duplicate", "--threads", "3"],
    "basedir": ["insert-on-duplicate", "--basedir", "server"],
    "data_root": ["insert-on-duplicate", "--data-root", "data"],
    "disk": ["insert-on-duplicate", "--disk", "gp3"],
    "cluster": ["insert-on-duplicate", "--cluster", "3"],
    "network_latency": ["insert-on-duplicate", "--cluster", "3", "--network-latency", "500us"],
    "seed": ["insert-on-duplicate", "--seed", "5"],
    "fresh": ["insert-on-duplicate", "--fresh"],
}
TWO = ["base", "sync_binlog=1"]
COMPARE = {
    "configurations": ["{tmp}/my.cnf", "sync_binlog=1", "two: sync_binlog=2 sql_mode='ANSI,TRADITIONAL'"],
    "configurations with options": ["a: --workload upsert --rows 3", "base --threads 4"],
    "configurations with nothing but workloads": ["a: --workload upsert", "base --workload oltp_insert"],
    "server": [*TWO, "--server", "mariadb@10.6.7"],
    "defaults_file": [*TWO, *BY_FILE],
    "host": [*TWO, *BY_FLAGS],
    "socket": [*TWO, *BY_SOCKET],
    "dsn": [*TWO, *OWN],
    "own_load": [*TWO, "--own-load", "--floor", "throwaway", *OWN[:2], OWN[3]],
    "server, repeated": [*TWO, "--server", "mariadb", "--server", "mysql@8.0.36"],
    "workload": [*TWO, "--workload", "oltp_read_write"],
    "settings": [*TWO, "--set", "innodb_io_capacity=300", "--set", "sql_mode=ANSI,TRADITIONAL"],
    "duration": [*TWO, "--duration", "77"],
    "blocks": [*TWO, "--blocks", "30"],
    "precision": [*TWO, "--precision", "2.5%"],
    "floor": [*TWO, "--floor", "second"],
    "objective": [*TWO, "--objective", "p99", "--rate", "100"],
    "threads": [*TWO, "--threads", "3"],
    "base": [*TWO, "--base", "{tmp}/my.cnf"],
    "memory": [*TWO, "--base", "{tmp}/my.cnf", "--memory", "2G"],
    "dataset": [*TWO, "--dataset", "dump.sql", "--workload", "oltp_update_non_index"],
    "database": [*TWO, "--dataset", "dump.sql", "--database", "shop", "--workload", "data"],
    "basedir": [*TWO, "--basedir", "server"],
    "data_root": [*TWO, "--data-root", "data"],
    "disk": [*TWO, "--disk", "flush=1ms,iops=3000"],
    "cluster": [*TWO, "--cluster", "3"],
    "network_latency": [*TWO, "--cluster", "3", "--network-latency", "500us"],
    "seed": [*TWO, "--seed", "5"],
    "fresh": [*TWO, "--fresh"],
    "an option that only some workloads have": [
        "base",
        "--skip-trx",
        "--point-selects",
        "3",
        "a: sync_binlog=1",
    ],
}
LYING = ["--failure", "lying-disk"]
CRASH = {
    "configurations": ["{tmp}/my.cnf", "sync_binlog=1", "two: sync_binlog=2"],
    "server, as it is": [],
    "server": ["--server", "mariadb@10.6.7"],
    "basedir": ["--basedir", "server"],
    "cluster": ["--cluster", "3"],
    "network_latency": ["--cluster", "3", "--network-latency", "500us"],
    "workload": ["--workload", "oltp_write_only", "--tables", "2"],
    "background": ["--background", "command: true"],
    "failure": ["--failure", "os"],
    "crashes": ["--crashes", "7"],
    "duration": ["--duration", "2.5"],
    "threads": ["--threads", "2"],
    "rows": ["--rows", "3"],
    "settings": ["--set", "sync_binlog=1"],
    "base": ["--base", "{tmp}/my.cnf"],
    "fs": ["--fs", "xfs"],
    "tear": ["--tear", "4096"],
    "dropped_flushes": [*LYING, "--dropped-flushes", "3"],
    "disk_size": ["--disk-size", "2048"],
    "disk": ["--disk", "gp3"],
    "data_root": ["--data-root", "data"],
    "positive_control": ["--no-positive-control"],
    "seed": ["--seed", "5"],
    "nodes": ["--cluster", "3", "--nodes", "all"],
    "replica": ["--replica"],
    "save_recording": ["--save-recording", "records"],
}
CHANGES_NO_REQUEST = {
    *("user", "ask_pass", "port", "defaults_group_suffix"),  # with "host"
    *(
        "json",
        "out",
        "resume",
        "init",
        "force",
        "help",
        "no_scale",
        "wait_for_quiet",
        "dry_run",
        "fleet",
        "client",
        "watch",
        "replay",
    ),
    *("allow_writes", "allow_set_global"),  # with --dsn the command has them all
}


class Somebodys(FakeServer):
    """A server that runs already."""

    name = "db1:3306"
    address = Address(endpoint=Endpoint(user="me", password="", host="db1", port=3306))

    def __init__(self) -> None:
        connections = {"SHOW GLOBAL STATUS LIKE 'Threads_connected'": [("Threads_connected", "1")]}
        super().__init__(values={**DEFAULTS, "max_connections": 1000}, answers=connections)


class Decided(Exception):
    """Stands for the campaign that would run."""


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Gives words to the command line and returns the request that they come to."""
    decided: list[Any] = []

    @contextmanager
    def opened(server: Any, *_: object, **__: object) -> Iterator[SandboxPool]:
        root = DataRoot(path=tmp_path, storage=Storage(filesystem="ext4"))
        found = build("mariadb", 10, 6, 7) if server.build.endswith("@10.6.7") else MARIADB
        yield SandboxPool(found, Volume(root), nodes=server.cluster or 1)

    @contextmanager
    def reached(own: RemoteTarget, _: object) -> Iterator[RemotePool]:
        server: Any = Somebodys()
        yield RemotePool(server, own)

    def carry_out(request: object, *_: object) -> None:
        decided.append(
            msgspec.json.decode(msgspec.json.encode(request), type=type(request))
        )  # as it is stored
        raise Decided

    monkeypatch.setattr(target, "open_servers", opened)
    monkeypatch.setattr(RemoteTarget, "open", reached)
    monkeypatch.setattr(crash, "open_servers", opened)
    monkeypatch.setattr(crash, "open_store", lambda: Store(tmp_path / "store.sqlite"))
    monkeypatch.setattr(crash, "_crash_all", carry_out)
    for name in ("require_fault_disk", "require_images"):
        monkeypatch.setattr(crash_request, name, lambda _: None)
    monkeypatch.setattr(SandboxSettings, "require_taken", lambda *_: None)
    monkeypatch.setattr(SandboxSettings, "read", lambda *_, **__: {})
    monkeypatch.setattr(campaign, "open_store", lambda: Store(tmp_path / "store.sqlite"))
    monkeypatch.setattr(campaign, "carry_out", carry_out)
    monkeypatch.setattr(sandboxes, "find_build", lambda *_, **__: build("mysql", 8, 0, 36))
    for module in (sandboxes, settings, room):  # what is free differs by the moment
        monkeypatch.setattr(module, "available_memory_bytes", lambda: 8 << 30)
    judged = base_file.examine
    monkeypatch.setattr(
        base_file, "examine", lambda file, text, identity, _: judged(file, text, identity, None)
    )
    monkeypatch.setattr(login, "USUAL_FILES", ())
    monkeypatch.setattr(login, "ask_password", lambda _: "secret")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.cnf").write_text("[mysqld]\nsync_binlog = 9\nsql_mode = 'ANSI,TRADITIONAL'\n")
    (tmp_path / "client.cnf").write_text("[client]\nuser = me\npassword = secret\nhost = db1\n")
    (tmp_path / "ca.pem").touch()
    (tmp_path / "dump.sql").write_text("SELECT 1;\n")
    shipped = find_plan("insert-on-duplicate").read_text()
    (tmp_path / "mine.toml").write_text(shipped)
    (tmp_path / "rated.toml").write_text(shipped.replace("[workload]", "[workload]\nrate = 100", 1))

    def asked(*words: str) -> Any:
        done = CliRunner().invoke(make_app(), [word.format(tmp=tmp_path) for word in words])
        assert isinstance(done.exception, Decided), done.exception or done.output
        return decided[-1]

    return asked


def repeated(kind: str, request: Any) -> list[str]:
    """The words of the command on the page of a campaign of this request."""
    row = msgspec.structs.replace(made.row("tune", None), kind=kind, plan=msgspec.json.encode(request))
    stored = request_of(row)
    assert stored is not None
    return shlex.split(command(stored).replace("\\\n", " "))[1:]


@pytest.mark.parametrize("flag", TUNE)
def test_the_command_repeats_every_flag_of_tune(flag: str, ask: Any) -> None:
    plain = ask("tune", "--seed", "1")
    request = ask("tune", *(() if flag == "seed" else ("--seed", "1")), *TUNE[flag])
    assert request != plain
    again = ask(*repeated("tune", request))
    if flag == "base":  # whose settings the command has, so that it names no file
        assert not again.sources
        request = msgspec.structs.replace(request, sources=())
    assert again == request


@pytest.mark.parametrize("flag", SERIES)
def test_the_command_repeats_every_flag_of_series(flag: str, ask: Any) -> None:
    plain = ask("series", "insert-on-duplicate")
    request = ask("series", *SERIES[flag])
    assert request != plain
    assert ask(*repeated("series", request)) == request


@pytest.mark.parametrize("flag", COMPARE)
def test_the_command_repeats_every_flag_of_compare(flag: str, ask: Any) -> None:
    plain = ask("compare", *TWO)
    request = ask("compare", *COMPARE[flag])
    assert request != plain
    assert ask(*repeated("compare", request)) == request


@pytest.mark.parametrize("flag", CRASH)
def test_the_command_repeats_every_flag_of_crash(flag: str, ask: Any) -> None:
    request = ask("crash", *CRASH[flag])
    assert flag == "server, as it is" or request != ask("crash")
    assert ask(*repeated("crash", request)) == request


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("tune", ["--rate", "100"]),
        ("series", ["{tmp}/rated.toml"]),
        ("compare", [*TWO, "--rate", "100"]),
    ],
)
def test_the_command_says_what_was_compared_also_where_nobody_asked(
    kind: str, words: list[str], ask: Any
) -> None:
    again = repeated(kind, ask(kind, *words))
    assert again[again.index("--objective") + 1] == "p99"


def test_the_command_names_the_fleet_and_the_machines_that_drove_the_load(ask: Any) -> None:
    request = ask("compare", *TWO)
    driven = msgspec.structs.replace(request, fleet="10.0.0.1:9377", clients=("load1", "load2"))
    again = repeated("compare", driven)
    assert again[again.index("--fleet") + 1] == "10.0.0.1:9377"
    assert [again[at + 1] for at, word in enumerate(again) if word == "--client"] == ["load1", "load2"]


@pytest.mark.parametrize(
    ("kind", "flags"), [("tune", TUNE), ("series", SERIES), ("compare", COMPARE), ("crash", CRASH)]
)
def test_no_flag_is_forgotten_here(kind: str, flags: dict[str, list[str]]) -> None:
    specs = {"tune": TuneSpec, "series": SeriesSpec, "compare": CompareSpec, "crash": CrashSpec}
    declared = fields(specs[kind])
    assert {*declared} - CHANGES_NO_REQUEST <= set(flags)


@pytest.mark.parametrize("words", [["tune"], ["series", "insert-on-duplicate"], ["compare", *TWO]])
def test_no_account_of_somebodys_own_server_is_stored(words: list[str], ask: Any) -> None:
    stored = msgspec.json.encode(ask(*words, *OWN)).decode()
    assert "mysql://USER:PASSWORD@db1:3306" in stored
    assert "secret" not in stored


@pytest.mark.parametrize("words", [["tune"], ["series", "insert-on-duplicate"], ["compare", *TWO]])
def test_a_password_that_was_asked_for_is_asked_for_again(words: list[str], ask: Any) -> None:
    request = ask(*words, *BY_FLAGS)
    again = " ".join(repeated(words[0], request))
    assert "--host db1 --user me --ask-pass --port 3307 --defaults-group-suffix _two" in again
    assert "--dsn" not in again
    assert "--ask-pass" in resuming(words[0], "x-1", request.spec.remote)
    assert "secret" not in msgspec.json.encode(request).decode()


@pytest.mark.parametrize("words", [["tune"], ["series", "insert-on-duplicate"], ["compare", *TWO]])
def test_a_server_named_by_an_option_file_is_named_by_it_again(
    words: list[str], ask: Any, tmp_path: Path
) -> None:
    request = ask(*words, *BY_FILE)
    again, file = " ".join(repeated(words[0], request)), tmp_path / "client.cnf"
    assert f"--defaults-file {file}" in again and "--dsn" not in again
    assert f"--defaults-file {file} --allow-writes" in resuming(words[0], "x-1", request.spec.remote)
    assert "--dsn … --allow-writes" in resuming(words[0], "x-1", ask(*words, *OWN).spec.remote)
    assert "secret" not in msgspec.json.encode(request).decode()


def test_a_campaign_is_repeated_from_any_folder(ask: Any, tmp_path: Path) -> None:
    words = repeated(
        "tune", ask("tune", "--dataset", "dump.sql", "--data-root", "data", "--workload", "data")
    )
    assert words[words.index("--dataset") + 1] == str(tmp_path / "dump.sql")
    assert words[words.index("--data-root") + 1] == str(tmp_path / "data")


def test_versions_are_repeated_in_full(ask: Any) -> None:
    request = ask("compare", *TWO, "--server", "mariadb", "--server", "mysql@8.0")
    words = repeated("compare", request)
    assert [words[at + 1] for at, word in enumerate(words) if word == "--server"] == [
        MARIADB.name,
        "mysql@8.0.36",
    ]


def test_the_texts_of_a_campaign_are_those_of_its_start(ask: Any, tmp_path: Path) -> None:
    text = '[transaction.pay]\nstatements = ["DELETE FROM t"]\n'
    (tmp_path / "shop.toml").write_text(text)
    for words in (["tune", "--seed", "1"], ["compare", *TWO]):
        (source,) = ask(*words, "--workload", "txn:shop.toml").sources
        assert (source.kind, source.text) == ("transactions", text)
    (plan,) = ask("series", "mine.toml").sources
    assert (plan.kind, plan.text) == ("plan", (tmp_path / "mine.toml").read_text())


def test_option_files_are_among_the_texts_with_what_they_include_and_without_passwords(
    ask: Any, tmp_path: Path
) -> None:
    (tmp_path / "conf.d").mkdir()
    included, mine, new = (tmp_path / name for name in ("conf.d/more.cnf", "mine.cnf", "new.cnf"))
    included.write_text("[mysqld]\nsync_binlog = 1\n!include mine.cnf\n")
    mine.write_text("[client]\npassword = a b\n[mysqld]\nlog_bin\n!includedir conf.d\n")
    new.write_text("[mysqld]\nsync_binlog = 0\n")
    due = {
        str(mine): "[client]\npassword = ***\n[mysqld]\nlog_bin\n!includedir conf.d\n",
        str(included): included.read_text(),
    }
    for words in (["tune", "--base", "mine.cnf"], ["series", "insert-on-duplicate", "--base", "mine.cnf"]):
        sources = ask(*words).sources
        assert {one.name: one.text for one in sources if one.kind == "option file"} == due, words
    for words in (["compare", "mine.cnf", "new.cnf", "sync_binlog=7"], ["crash", "mine.cnf", "new.cnf"]):
        sources = ask(*words).sources
        found = {one.name: one.text for one in sources if one.kind == "option file"}
        assert found == due | {str(new): new.read_text()}, words
