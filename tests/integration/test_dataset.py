"""The user's own data as the start of every trial: dumps, folders and backups by the tools that make them.

The tools are those on PATH, and those that the builds bring; a test whose tool is absent says so.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pymysql
import pytest
import zstandard

from flushlab import _core
from flushlab.build import Build
from flushlab.campaign.bench import bench
from flushlab.datadir import DataRoot, Snapshot, Snapshots
from flushlab.dataset import Survey, choose_database, loaded, open_dataset
from flushlab.dataset.loaded import fast_settings
from flushlab.errors import DumpRefused, StorageError
from flushlab.record import StreamProgress, StreamSpec
from flushlab.server import Sandbox, SandboxSpec
from flushlab.suite.database import database
from tests.conftest import StartSandbox, flavors, require_build

SHOP = (Path(__file__).parent / "shop.sql").read_bytes()
CLERK = "clerk@'10.0.0.%'"
Load = Callable[..., Sandbox]

KEYS = """
SET NAMES utf8mb4;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
SET autocommit=0;
{tables}
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
"""
TABLE = """
CREATE TABLE {name} (
  `id` int NOT NULL,
  `a` varchar(40) NOT NULL DEFAULT '; `',
  `b` int DEFAULT NULL,{definition}
) ENGINE={engine} DEFAULT CHARSET=utf8mb4{partitions};
LOCK TABLES {name} WRITE;
/*!40000 ALTER TABLE {name} DISABLE KEYS */;
INSERT INTO {name} (`id`,`a`,`b`) VALUES (0,'x',3),(2,'INSERT INTO `y`',NULL);
INSERT INTO {name} (`id`,`a`,`b`) VALUES (3,'it\\'s',3);
/*!40000 ALTER TABLE {name} ENABLE KEYS */;
UNLOCK TABLES;
COMMIT;
CREATE TRIGGER {trigger} BEFORE INSERT ON {name} FOR EACH ROW SET NEW.`b` = 1;
"""
PRIMARY, KEY = "\n  PRIMARY KEY (`id`)", ",\n  KEY `k` (`b`)"
BOUND = ",\n  CONSTRAINT {0} FOREIGN KEY (`b`) REFERENCES {1} (`{2}`) ON DELETE SET NULL"
LATE: dict[str, tuple[str, str]] = {
    "`child`": (f"{PRIMARY}{KEY}{BOUND.format('`f`', '`parent`', 'id')}", "InnoDB"),
    "`grow`": (
        "\n  KEY `z` (`b`,`a`(7)),\n  UNIQUE KEY `u` (`id`),\n  KEY `y` (`a`) COMMENT 'a, b'",
        "InnoDB",
    ),
    "`is`": ("\n  KEY `z` (`b` DESC) USING BTREE,\n  KEY `y` (`id`,`b`)", "InnoDB"),
    "`of`": (f"{PRIMARY}{BOUND.format('`o`', '`to`', 'b')}", "InnoDB"),
    "`parent`": (PRIMARY + KEY, "InnoDB"),
    "`self`": (f"{PRIMARY}{KEY}{BOUND.format('`s`', '`self`', 'id')}", "InnoDB"),
    "`split`": (PRIMARY + KEY, "InnoDB"),
}
"""Tables whose indexes wait; a foreign key brings one."""
BOUND_TO = (
    "SELECT constraint_name, table_name, referenced_table_name, unique_constraint_name, delete_rule"
    " FROM information_schema.referential_constraints WHERE constraint_schema = %s ORDER BY 1"
)
EARLY: dict[str, tuple[str, str]] = {
    "`always`": (f"\n  `c` int GENERATED ALWAYS AS (`id` + 1) VIRTUAL,{PRIMARY},\n  KEY `c` (`c`)", "InnoDB"),
    "`file`": (PRIMARY + KEY, "MyISAM"),
    "`größer`": ("\n  `ß` int,\n  KEY `ß` (`ß`)", "InnoDB"),
    "`plain`": (PRIMARY, "InnoDB"),
    "`text`": (f"{PRIMARY}{KEY},\n  FULLTEXT KEY `a` (`a`)", "InnoDB"),
    "`to`": (PRIMARY + KEY, "InnoDB"),
    "`tick``s`": (PRIMARY + KEY, "InnoDB"),
}
"""Those that keep them; the foreign key of `of` needs the index of `to`."""


END_OF_LINE = ";\n"


def big(first: int, verb: str = "INSERT INTO", more: str = "", table: str = "many") -> str:
    """A statement that is worth handing over."""
    rows = ",".join(f"({first + at},'{at} it\\'s {'x' * 200}',{at})" for at in range(100))
    return f"{verb} `{table}` VALUES {rows}{more}{END_OF_LINE}"


def large(table: str, more: str = "") -> str:
    return (
        f"CREATE TABLE `{table}` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  `a` varchar(300) DEFAULT NULL,\n"
        f"  `b` int DEFAULT NULL,\n  PRIMARY KEY (`id`),\n  KEY `k` (`b`),\n  KEY `l` (`a`){more}\n)"
        f" ENGINE=InnoDB DEFAULT CHARSET=latin1{END_OF_LINE}LOCK TABLES `{table}` WRITE{END_OF_LINE}"
        f"/*!40000 ALTER TABLE `{table}` DISABLE KEYS */{END_OF_LINE}"
    )


def ended(table: str) -> str:
    return f"/*!40000 ALTER TABLE `{table}` ENABLE KEYS */{END_OF_LINE}UNLOCK TABLES{END_OF_LINE}"


MANY = "".join(
    (
        "SET NAMES latin1;\nSET foreign_key_checks=0, unique_checks=0, time_zone='+00:00';\n",
        "SET sql_mode='NO_AUTO_VALUE_ON_ZERO,PIPES_AS_CONCAT';\n",
        *(large("line", BOUND.format("`f`", "`order`", "id")), big(101, table="line")),
        *(big(1, table="line"), big(301, table="line"), ended("line")),
        *(large("many"), big(201), big(101), big(1)),
        "INSERT INTO `many` (`a`,`b`) VALUES ('numbered by the server',1);\n",
        *(big(401), big(501), big(701), "INSERT INTO `many` VALUES (NULL,'numbered, too',2);\n", big(1001)),
        *("REPLACE INTO `many` VALUES (5,'another',5);\n", big(150, "INSERT IGNORE INTO"), big(1201)),
        *(big(150, more=" ON DUPLICATE KEY UPDATE b = b + VALUES(b)"), big(1301), big(1401)),
        *("SET @x = (SELECT MAX(id) FROM `many`);\n", "INSERT INTO `many` VALUES (9000,@x,7);\n"),
        *(big(1501), big(1601), "INSERT INTO `many` SELECT id + 10000, a, b FROM `many`;\n", big(1701)),
        *(big(1801), big(1901), ended("many")),
        *(
            large("order"),
            big(101, table="order"),
            big(1, table="order"),
            big(201, table="order"),
            ended("order"),
        ),
        *("CREATE TABLE `seen` (`id` int, `b` int);\nINSERT INTO `seen` SELECT id, b FROM `order`;\n",),
        *(
            "CREATE TRIGGER `t` BEFORE INSERT ON `order` FOR EACH ROW SET NEW.b = 3;\n",
            big(401, table="order"),
        ),
        *(big(501, table="order"), big(601, table="order"), "SET foreign_key_checks=1;\n"),
    )
)
"""Rows that may come in any order, among those that may not; a child before its parent."""


def tool(*names: str) -> str:
    """A program of a build that is here, else on PATH; absent, it skips the test."""
    folders = [Path(build.client).parent for build in map(_brings, ("mysql@9.7",)) if build and build.client]
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    found = next(filter(None, (shutil.which(name, path=path) for name in names)), None)
    if found is None:
        pytest.skip(f"{names[0]} is not installed")
    return found


def _brings(name: str) -> Build | None:
    try:
        return require_build(name)
    except pytest.skip.Exception:
        return None


def run(*command: str | Path, to: Path | None = None, timeout_s: float = 900) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False, timeout=timeout_s)
    assert done.returncode == 0, done.stderr.decode()
    if to is not None:
        to.write_bytes(done.stdout)


def filled(server: Sandbox) -> Sandbox:
    """A server with the sample shop, whose clerk has left."""
    server.query(f"CREATE USER {CLERK}")
    server.query(f"GRANT ALL ON *.* TO {CLERK}")
    server.query("CREATE DATABASE shop CHARACTER SET utf8mb4")
    stream = _core.ScriptStream(msgspec.json.encode(StreamSpec(endpoint=server.endpoint, database="shop")))
    stream.feed(SHOP)
    stream.finish()
    server.query(f"DROP USER {CLERK}")
    return server


@pytest.fixture
def shop(sandbox: StartSandbox) -> Callable[..., Sandbox]:
    """Starts a server with the shop."""
    return lambda name, **more: filled(sandbox(name, **more))


@pytest.fixture(scope="module")
def mariadb_shop(shared_sandbox: StartSandbox) -> Sandbox:
    """One on MariaDB, for those who only read it."""
    return filled(shared_sandbox("mariadb@10.11"))


def snapshot(build: Build, path: Path, snapshots: Snapshots, said: list[str] | None = None) -> Snapshot:
    data = open_dataset(path)
    return loaded(
        build,
        data,
        database=choose_database(data, None),
        layout={},
        data_root=DataRoot.open(),
        snapshots=snapshots,
        progress=(said if said is not None else []).append,
    )


def check_shop(build: Build, found: Snapshot, snapshots: Snapshots) -> None:
    """Everything is there, and what runs as the clerk runs."""
    with Sandbox.start(SandboxSpec(build, snapshot=found, snapshots=snapshots)) as server:
        server.query("USE shop")
        assert server.query("SELECT name, HEX(note) FROM customer WHERE id IN (1, 4)") == [
            ('Ada; "the first"', b"it's -- no comment".hex().upper()),
            ("日本", "001A"),
        ]
        assert server.query("SELECT HEX(picture), CAST(gross AS CHAR) FROM product WHERE id = 1") == [
            ("00FF27225C0A0D1A", "1.79")
        ]
        server.query("CALL buy(1, 2)")
        assert server.query("SELECT value FROM total") == [(4,)]
        assert server.query("SELECT name, count FROM bought_much") == [('Ada; "the first"', 10)]
        assert server.query("SELECT COUNT(*) FROM visit") == [(2,)]
        assert server.query("SELECT event_name FROM information_schema.events") == [("tidy",)]
        assert server.read_back(["event_scheduler", "innodb_doublewrite"])["event_scheduler"] == "OFF"


def test_mysqldump_of_everything_loads_without_its_accounts_and_gtids(
    shop: Load, build: Callable[[str], Build], tmp_path: Path, snapshots: Snapshots
) -> None:
    mysqldump = tool("mysqldump")
    gtid = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON", "log_bin": "ON"}
    server = shop("mysql@9.7", settings=gtid, arguments=["--log-bin-trust-function-creators=1"])
    dump = tmp_path / "all.sql"
    options = ["--all-databases", "--routines", "--events", "--triggers", "--single-transaction"]
    run(mysqldump, f"--defaults-file={server.endpoint.option_file}", *options, to=dump)
    assert b"GTID_PURGED" in dump.read_bytes()
    compressed = tmp_path / "all.sql.gz"
    compressed.write_bytes(gzip.compress(dump.read_bytes()))
    said: list[str] = []
    check_shop(server.build, snapshot(server.build, compressed, snapshots, said), snapshots)
    notes = [line for line in said if line.startswith("warning")]
    assert "left out the server's own databases (mysql)" in notes[0]
    assert "SET GLOBAL (" in notes[1]
    with pytest.raises(DumpRefused) as refused:
        snapshot(build("mariadb@10.11"), compressed, snapshots)
    number, excerpt = refused.value.message.split("\n")
    assert number.startswith("all.sql.gz, statement ")
    assert number.endswith("ERROR 1273 (HY000): Unknown collation: 'utf8mb4_0900_ai_ci'")
    assert excerpt.startswith("  CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` ")
    assert len(excerpt) < 90
    assert "the dump is from MySQL 9.7" in str(refused.value.hint)


def test_mariadb_dump_of_one_database_goes_where_its_header_says(
    mariadb_shop: Sandbox, tmp_path: Path, snapshots: Snapshots
) -> None:
    dump, server = tmp_path / "nightly.sql.zst", mariadb_shop
    run(
        *(tool("mariadb-dump"), f"--defaults-file={server.endpoint.option_file}"),
        *("--routines", "--events", "--triggers", "--single-transaction", "shop"),
        to=dump,
    )
    assert b"enable the sandbox mode" in dump.read_bytes()
    dump.write_bytes(zstandard.compress(dump.read_bytes()))
    check_shop(server.build, snapshot(server.build, dump, snapshots), snapshots)


def test_mydumpers_folder_loads(mariadb_shop: Sandbox, tmp_path: Path, snapshots: Snapshots) -> None:
    server, folder = mariadb_shop, tmp_path / "dump"
    command = (
        *(tool("mydumper"), f"--defaults-file={server.endpoint.option_file}", "-u", server.endpoint.user),
        *("-p", server.endpoint.password, "-S", str(server.endpoint.socket), "-B", "shop", "-G", "-E", "-R"),
        *("-c", "-o", folder),
    )
    try:
        run(*command, timeout_s=120)
    except subprocess.TimeoutExpired:  # mydumper 0.10 was seen to wait forever, with its connections idle
        shutil.rmtree(folder)
        run(*command)
    check_shop(server.build, snapshot(server.build, folder, snapshots), snapshots)


def test_backup_loads_once_it_is_prepared(
    mariadb_shop: Sandbox, tmp_path: Path, snapshots: Snapshots
) -> None:
    server, folder, backup = mariadb_shop, tmp_path / "backup", tool("mariabackup", "mariadb-backup")
    options = f"--defaults-file={server.endpoint.option_file}"
    run(backup, options, "--backup", f"--target-dir={folder}", f"--datadir={server.datadir}")
    with pytest.raises(StorageError, match="was not prepared"):
        open_dataset(folder)
    run(backup, "--prepare", f"--target-dir={folder}")
    data = open_dataset(folder)
    assert data.settings()["innodb_data_file_path"] == "ibdata1:12M:autoextend"
    found = snapshot(server.build, folder, snapshots)
    with Sandbox.start(SandboxSpec(server.build, snapshot=found, snapshots=snapshots)) as copy:
        assert copy.query("SELECT COUNT(*) FROM shop.customer") == [(4,)]


def test_folder_of_mysql_shell_loads(
    build: Callable[[str], Build], tmp_path: Path, snapshots: Snapshots
) -> None:
    """Made here in the documented format: MySQL Shell itself is in no distribution that we use."""

    def write(name: str, content: object) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        packed = name.endswith(".zst")
        (tmp_path / name).write_bytes(zstandard.compress(text.encode()) if packed else text.encode())

    options = {"columns": ["id", "note", "picture"], "decodeColumns": {"picture": "FROM_BASE64"}}
    pictures = [base64.b64encode(bytes(range(256))).decode(), base64.b64encode(b"\t\n\\").decode()]
    write("@.json", {"dumper": "mysqlsh Ver 8.0.36", "serverVersion": "8.0.36", "schemas": ["shop"]})
    write("@.done.json", {"end": "2024-01-01 00:00:00"})
    write("shop.json", {"schema": "shop", "tables": ["item"], "views": ["v"], "basenames": {"v": "shop@v"}})
    write("shop.sql", "-- a schema\nCREATE DATABASE IF NOT EXISTS `shop`;\nUSE `shop`;\n")
    write("shop@item.json", {"options": options, "extension": "tsv.zst", "compression": "zstd"})
    write(
        "shop@item.sql",
        "CREATE TABLE IF NOT EXISTS `item` (`id` int NOT NULL PRIMARY KEY, `note` text, `picture` blob,"
        " `double` int GENERATED ALWAYS AS (`id` * 2) STORED) ENGINE=InnoDB;\n",
    )
    write("shop@v.pre.sql", "CREATE VIEW `v` AS SELECT 1 AS `id`;\n")
    write("shop@v.sql", "DROP VIEW `v`;\nCREATE DEFINER=`x`@`%` VIEW `v` AS SELECT `id` FROM `item`;\n")
    write("shop@item@0.tsv.zst", f"1\ttab \\t, back \\\\, 日本\t{pictures[0]}\n")
    write("shop@item@@1.tsv.zst", f"2\t\\N\t{pictures[1]}\n")
    found = build("mysql@9.7")
    made = snapshot(found, tmp_path, snapshots)
    with Sandbox.start(SandboxSpec(found, snapshot=made, snapshots=snapshots)) as server:
        assert server.query("SELECT id, note, HEX(picture), `double` FROM shop.item ORDER BY id") == [
            (1, "tab \t, back \\, 日本", bytes(range(256)).hex().upper(), 2),
            (2, None, "090A5C", 4),
        ]
        assert server.query("SELECT COUNT(*) FROM shop.v") == [(2,)]


def test_dump_that_reads_other_files_loads_as_the_employees_sample_does(
    build: Callable[[str], Build], tmp_path: Path, snapshots: Snapshots
) -> None:
    (tmp_path / "employees.sql").write_text(
        "-- Sample database\nDROP DATABASE IF EXISTS employees;\nCREATE DATABASE IF NOT EXISTS employees;\n"
        "USE employees;\ntee /tmp/never\nSELECT 'CREATING DATABASE STRUCTURE' as 'INFO';\n"
        "CREATE TABLE employees (emp_no INT NOT NULL, PRIMARY KEY (emp_no));\n"
        "CREATE TABLE salaries (emp_no INT NOT NULL, FOREIGN KEY (emp_no) REFERENCES employees (emp_no));\n"
        "flush /*!50503 binary */ logs;\nSELECT 'LOADING' as 'INFO';\nsource load_employees.dump ;\n"
        "source load_salaries1.dump ;\n\nsource show_elapsed.sql ;\n"
    )
    (tmp_path / "load_employees.dump").write_text("INSERT INTO `employees` VALUES (10001),\n(10002);\n")
    (tmp_path / "load_salaries1.dump").write_text("INSERT INTO `salaries` VALUES (10001);\n")
    (tmp_path / "show_elapsed.sql").write_text("-- nothing\nselect COUNT(*)\nfrom salaries\\G\n")
    said: list[str] = []
    made = build("mariadb@10.11")
    found = snapshot(made, tmp_path / "employees.sql", snapshots, said)
    assert f"warning: {tmp_path / 'employees.sql'}: left out commands of the client: tee" in said
    with Sandbox.start(SandboxSpec(made, snapshot=found, snapshots=snapshots)) as server:
        assert server.query("SELECT COUNT(*) FROM employees.employees") == [(2,)]
        assert server.query("SELECT COUNT(*) FROM employees.salaries") == [(1,)]
    (tmp_path / "load_salaries1.dump").write_text("\nINSERT INTO `salaries` VALUES (9);\n")
    with pytest.raises(
        DumpRefused, match=r"employees\.sql, line 2 of load_salaries1\.dump: ERROR 1452"
    ) as refused:
        snapshot(made, tmp_path / "employees.sql", snapshots)
    assert refused.value.message.endswith("\n  INSERT INTO `salaries` VALUES (9)")


def test_folder_with_a_file_for_each_table_loads(
    build: Callable[[str], Build], tmp_path: Path, snapshots: Snapshots
) -> None:
    """As MySQL Workbench writes it: views of views, and foreign keys, before what they are of."""
    files = {
        "a_view": "CREATE DEFINER=`clerk`@`10.%` VIEW `a_view` AS SELECT doubled(id) AS id FROM `b_view`;\n",
        "b_view": "CREATE VIEW `b_view` AS SELECT id FROM `line`;\n",
        "line": "CREATE TABLE `line` (`id` int NOT NULL PRIMARY KEY, CONSTRAINT `f` FOREIGN KEY (`id`)"
        " REFERENCES `order` (`id`));\nINSERT INTO `line` VALUES (1),(2);\n",
        "order": "CREATE TABLE `order` (`id` int NOT NULL PRIMARY KEY);\n"
        "INSERT INTO `order` VALUES (1),(2);\n",
        "routines": "DELIMITER ;;\nCREATE FUNCTION doubled(x int) RETURNS int DETERMINISTIC RETURN 2 * x;;\n"
        "DELIMITER ;\nGRANT ALL ON *.* TO `clerk`@`10.%`;\n",
        "triggers": "CREATE TRIGGER t BEFORE INSERT ON `order` FOR EACH ROW SET NEW.id = NEW.id + 100;\n",
    }
    for name, text in files.items():
        header = "-- MySQL dump 10.13  Distrib 8.0.36\n--\n-- Host: localhost    Database: shop\n"
        (tmp_path / f"shop_{name}.sql").write_text(
            f"{header}{text}-- Dump completed on 2024-01-01 10:00:00\n"
        )
    made, said = build("mysql@5.7"), list[str]()
    found = snapshot(made, tmp_path, snapshots, said)
    assert [line for line in said if line.startswith("warning")] == [
        f"warning: {tmp_path}: left out statements about the server itself: GRANT (1)"
    ]
    with Sandbox.start(SandboxSpec(made, snapshot=found, snapshots=snapshots)) as server:
        assert server.query("SELECT id FROM shop.a_view ORDER BY 1") == [(2,), (4,)]
        assert server.query("SELECT id FROM shop.`order` ORDER BY 1") == [(1,), (2,)]
        assert server.query(
            "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = 'shop'"
        ) == [("t",)]
        server.query("INSERT INTO shop.`order` VALUES (3)")
        assert server.query("SELECT MAX(id) FROM shop.`order`") == [(103,)]


def test_dump_is_the_commands_database_and_is_found_again_by_content(
    build: Callable[[str], Build], tmp_path: Path
) -> None:
    build("mariadb@10.11")
    dump, out = tmp_path / "orders.sql", tmp_path / "out"
    dump.write_text(f"-- {uuid.uuid4()}\nCREATE TABLE item (id INT);\nINSERT INTO item VALUES (1);\n")
    said: list[str] = []
    workload = f"command: echo $FLUSHLAB_DATABASE $DATABASE_URL > {out}"

    def measure(file: Path, **more: Any) -> None:
        bench(server="mariadb@10.11", dataset=file, workload=workload, progress=said.append, **more)

    measure(dump)
    name, url = out.read_text().split()
    assert name == "orders"
    assert url.endswith("/orders")
    measure(dump, settings={"sync_binlog": 0})
    assert sum(line.startswith("loading") for line in said) == 1, said
    dump.write_text(dump.read_text() + "INSERT INTO item VALUES (2);\n")
    measure(dump)
    assert sum(line.startswith("loading") for line in said) == 2, said


def test_statement_that_fails_is_tried_once_and_quoted_by_number(
    build: Callable[[str], Build], tmp_path: Path
) -> None:
    build("mariadb@10.11")
    dump, said = tmp_path / "broken.sql", list[str]()
    dump.write_text("CREATE TABLE a (x INT);\n\nINSERT INTO nowhere VALUES ('" + "x" * 100_000 + "');\n")
    with pytest.raises(DumpRefused) as refused:
        bench(server="mariadb@10.11", dataset=dump, workload="command: true", progress=said.append)
    assert refused.value.message == (
        "broken.sql, statement 2 (line 3): ERROR 1146 (42S02): Table 'broken.nowhere' doesn't exist\n"
        f"  INSERT INTO nowhere VALUES ('{'x' * 51}…"
    )
    assert sum(line.startswith("loading") for line in said) == 1


def test_stopped_servers_data_directory_is_copied_and_only_read(
    shop: Load, build: Callable[[str], Build], tmp_path: Path, snapshots: Snapshots
) -> None:
    server = shop("mariadb@10.11")
    with pytest.raises(StorageError, match="is in use by process"):
        open_dataset(server.datadir)
    server.stop()
    datadir = tmp_path / "their-data"
    shutil.copytree(server.datadir, datadir)
    before = {file: file.stat().st_mtime_ns for file in datadir.rglob("*")}
    found = snapshot(build("mariadb@10.11"), datadir, snapshots)
    with Sandbox.start(SandboxSpec(server.build, snapshot=found, snapshots=snapshots)) as copy:
        assert copy.query("SELECT COUNT(*) FROM shop.customer") == [(4,)]
    assert {file: file.stat().st_mtime_ns for file in datadir.rglob("*")} == before


def test_test_suite_starts_with_the_dump(build: Callable[[str], Build], tmp_path: Path) -> None:
    build("mariadb@10.11")
    dump = tmp_path / "crm.sql"
    dump.write_text(f"-- {uuid.uuid4()}\nCREATE TABLE item (id INT);\nINSERT INTO item VALUES (1);\n")
    with database(server="mariadb@10.11", dataset=dump) as place:
        assert place.database == "crm"
        with pymysql.connect(
            unix_socket=place.socket, user=place.user, password=place.password, database="crm"
        ) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT id FROM item")
            assert cursor.fetchall() == ((1,),)


@pytest.fixture(
    scope="module", params=flavors("mariadb@10.11", "mysql@8.0", "mysql@9.7", "mysql@5.7", first=2)
)
def fast(request: pytest.FixtureRequest, shared_sandbox: StartSandbox) -> Sandbox:
    """A server as dumps are loaded into it."""
    build = require_build(request.param)
    settings = fast_settings(build, Survey(digest="", bytes=0, sql_bytes=0, databases=()))
    old = {"restrict_fk_on_non_standard_key": "OFF"} if request.param == "mysql@9.7" else {}
    return shared_sandbox(request.param, settings={**settings, **old})


def test_tables_whose_indexes_wait_for_their_rows_end_as_the_dump_has_them(fast: Sandbox) -> None:
    tables, server = {**LATE, **EARLY}, fast

    def load(database: str, from_bytes: int | None, connections: int = 1) -> tuple[list[Any], int]:
        before = altered(server)
        run_script(server, database, dump(tables), from_bytes, connections)
        bound = server.query(BOUND_TO, [database])
        return [*state(server, database, sorted(tables)), bound], altered(server) - before

    plain, statements = load("one", None)
    late, with_indexes = load("two", 1)
    assert late == plain
    assert all(isinstance(checksum, int) for _, checksum in late[:-1])
    bound = sum("CONSTRAINT" in definition for definition, _ in LATE.values())
    assert with_indexes - statements == 2 * len(LATE) + bound
    assert load("three", 1, connections=3)[0] == plain


def test_several_connections_leave_what_one_would(fast: Sandbox) -> None:
    server = fast

    def load(database: str, connections: int) -> tuple[list[Any], int]:
        beside = run_script(server, database, MANY, 1, connections)
        return state(server, database, ["`many`", "`line`", "`order`", "`seen`"]), beside

    alone, beside = load("alone", 1)
    assert not beside
    together, beside = load("together", 3)
    assert together == alone
    assert beside
    with pytest.raises(_core.CoreError) as refused:
        run_script(server, "refused", MANY + big(5001) + big(1) + big(5101) + big(1) + big(5201), 1, 3)
    assert refused.value.args[0].startswith(f"statement {MANY.count(END_OF_LINE) + 2} ")
    assert "Duplicate entry '1' for key" in refused.value.args[0]


def run_script(server: Sandbox, database: str, script: str, from_bytes: int | None, connections: int) -> int:
    """Loads a dump into a new database; how many statements ran beside the others."""
    server.query(f"CREATE DATABASE {database}")
    spec = StreamSpec(
        endpoint=server.endpoint,
        database=database,
        late_indexes_from_bytes=from_bytes,
        connections=connections,
    )
    stream = _core.ScriptStream(msgspec.json.encode(spec))
    stream.feed(script.encode())
    stream.finish()
    return msgspec.json.decode(stream.progress(), type=StreamProgress).beside


def state(server: Sandbox, database: str, tables: list[str]) -> list[Any]:
    """Definition and checksum of each table."""
    server.query(f"USE {database}")
    return [
        (
            server.query(f"SHOW CREATE TABLE {table}"),
            server.query(f"CHECKSUM TABLE {table} EXTENDED")[0][1],
        )
        for table in tables
    ]


def altered(server: Sandbox) -> int:
    """ALTER TABLE statements that the server has run."""
    return int(str(server.query("SHOW GLOBAL STATUS LIKE 'Com_alter_table'")[0][1]))


def dump(tables: dict[str, tuple[str, str]]) -> str:
    """As mysqldump writes them, in the order of their names."""
    found = [
        TABLE.format(
            name=table,
            trigger=f"`before {at}`",
            definition=definition,
            engine=engine,
            partitions=" PARTITION BY HASH (`id`) PARTITIONS 2" if table == "`split`" else "",
        )
        for at, (table, (definition, engine)) in enumerate(sorted(tables.items()))
    ]
    return KEYS.format(tables="".join(found))
