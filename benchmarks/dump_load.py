"""Loading a dump for `--dataset` beside the plain client piping the same file into the same stock server.

A dump as mysqldump writes it is generated: three tables with secondary indexes, statements of about 1 MB.
Both sides start from an empty server; the time runs from the first statement until the server has answered
the last one and has been stopped in an orderly way. Pairs alternate in who begins. Both must end with the
same definitions and the same rows. The bar: the geometric mean of plain ÷ flushlab is at least 1.5.

Run: .venv/bin/python benchmarks/dump_load.py [--server mariadb@10.11] [--megabytes 2048] [--pairs 3]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flushlab.build import Build, find_build
from flushlab.datadir import DataRoot
from flushlab.dataset import choose_database, open_dataset
from flushlab.dataset.dump import Dump
from flushlab.dataset.filling import Filling
from flushlab.dataset.loaded import fast_settings
from flushlab.server import Sandbox, SandboxSpec

BAR = 1.5
STATEMENT_BYTES = 1 << 20
WORDS = ("it", "was", "a", "bright", "cold", "day", "in", "April", "and", "the", "clocks", "were", "striking")
TABLES = ("customer", "product", "purchase")
HEAD = """-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;
USE `shop`;
"""
TABLE = """DROP TABLE IF EXISTS `{0}`;
CREATE TABLE `{0}` (
  `id` int NOT NULL AUTO_INCREMENT,
  `number` int NOT NULL,
  `email` varchar(60) NOT NULL,
  `at` datetime NOT NULL,
  `note` varchar(200) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `number` (`number`),
  KEY `email` (`email`),
  KEY `at` (`at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
LOCK TABLES `{0}` WRITE;
"""


def write_dump(file: Path, size_bytes: int) -> None:
    """A dump of about that size."""
    chance = random.Random(1)
    with file.open("w") as out:
        out.write(HEAD)
        for table in TABLES:
            out.write(TABLE.format(table))
            begun, row = out.tell(), 0
            while out.tell() - begun < size_bytes / len(TABLES):
                rows, length = [], 0
                while length < STATEMENT_BYTES:
                    row += 1
                    number = chance.randrange(1 << 30)
                    note = " ".join(chance.choices(WORDS, k=18)).replace("clocks", "clock\\'s")
                    day = f"2024-{number % 12 + 1:02}-{number % 28 + 1:02} {number % 24:02}:00:00"
                    rows.append(f"({row},{number},'{number:x}@example.org','{day}','{note}')")
                    length += len(rows[-1])
                out.write(f"INSERT INTO `{table}` VALUES {','.join(rows)};\n")
            out.write("UNLOCK TABLES;\n")
        out.write("-- Dump completed\n")


def state(server: Sandbox) -> list[object]:
    """What the tables are and what is in them."""
    shown = [server.query(f"SHOW CREATE TABLE shop.{table}") for table in TABLES]
    return [shown, server.query(f"CHECKSUM TABLE {', '.join(f'shop.{table}' for table in TABLES)} EXTENDED")]


def plain(build: Build, client: str, dump: Path, root: DataRoot) -> tuple[float, list[object]]:
    """Seconds of the client on a stock server, and the end."""
    with Sandbox.start(SandboxSpec(build, data_root=root)) as server:
        began = time.monotonic()
        with dump.open("rb") as stream:
            command = [client, f"--defaults-file={server.endpoint.option_file}"]
            subprocess.run(command, stdin=stream, check=True)
        return stopped(server, began)


def stopped(server: Sandbox, began: float) -> tuple[float, list[object]]:
    """Seconds until it is, and what it holds when it runs again."""
    server.stop()
    seconds = time.monotonic() - began
    server.start_again()
    return seconds, state(server)


def ours(build: Build, dump: Path, root: DataRoot) -> tuple[float, list[object]]:
    """Seconds of flushlab's way, and the end."""
    data = open_dataset(dump)
    assert isinstance(data, Dump)
    survey = data.survey()
    settings = fast_settings(build, survey)
    arguments = ["--debug-no-sync"] if build.flavor == "mariadb" else []
    with Sandbox.start(SandboxSpec(build, settings=settings, arguments=arguments, data_root=root)) as server:
        began = time.monotonic()
        data.load(Filling(server, survey, choose_database(data, None), lambda _: None, data.path))
        return stopped(server, began)


def main() -> int:
    """Runs the pairs, prints them and their ratio; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="mariadb@10.11", help="a build; mariadb@10.11 lends its client")
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--data-root", type=Path, help="for the dump and the data directories")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    given = parser.parse_args()
    build = find_build(given.server)
    client = build.client or find_build("mariadb@10.11").client
    assert client is not None
    with tempfile.TemporaryDirectory(dir=given.data_root) as folder:
        dump = Path(folder) / "shop.sql"
        write_dump(dump, given.megabytes << 20)
        size = dump.stat().st_size / 1e6
        root = DataRoot.open()
        open_dataset(dump).databases  # noqa: B018 - reads it once, so that both find it in the page cache
        found = []
        for number in range(given.pairs):
            if number % 2:
                theirs, end = plain(build, client, dump, root)
                mine, other = ours(build, dump, root)
            else:
                mine, other = ours(build, dump, root)
                theirs, end = plain(build, client, dump, root)
            if other != end:
                raise SystemExit("error: the two ways end with different tables")
            found.append((theirs, mine))
            sys.stdout.write(
                f"{size / found[-1][0]:8.1f} MB/s plain  {size / found[-1][1]:8.1f} MB/s flushlab\n"
            )
            sys.stdout.flush()
    logs = [math.log(theirs / mine) for theirs, mine in found]
    ratio = math.exp(statistics.fmean(logs))
    spread = math.exp(2 * statistics.stdev(logs) / math.sqrt(len(logs))) if len(logs) > 1 else float("nan")
    sys.stdout.write(f"ratio {ratio:.2f} ×/÷ {spread:.2f} on {build.name}; bar: at least {BAR}\n")
    if given.json:
        given.json.write_text(json.dumps({"pairs": found, "ratio": ratio, "megabytes": size}) + "\n")
    return int(ratio < BAR)


if __name__ == "__main__":
    sys.exit(main())
