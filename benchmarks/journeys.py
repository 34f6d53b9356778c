"""The user's own case on four servers, as `examples/shop` has it, each from a fresh home, with its real time.

Run by `make bench`, all four servers in about an hour:

    .venv/bin/python benchmarks/journeys.py [--server mysql@8.0] [--minutes 12]

(a) my.cnf of production + gzipped mysqldump + shell script -> `tune` -> a proven gain or an honest none;
    its my.cnf passes `settings --check` at the floor. The bar: 15 minutes from the first command to the last.
(c) a plan from `series --init`, edited by hand -> series on the same data -> page.

The builds are not downloaded anew; all else is made in the fresh home. Exits with 1 if the bar is missed. On
a disk that is too slow for trials of 2,000 orders, set ORDERS, as anybody with such a disk would.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from flushlab.build import find_build
from flushlab.machine.home import home_path

SHOP = Path(__file__).parents[1] / "examples" / "shop"
SERVERS = ("mysql@5.7", "mysql@8.0", "mysql@9.7", "mariadb@10.11")
BAR_S = 15 * 60

PLAN = """title = "What do the shop's imports gain?"
blocks = 3

[workload]
name = "command: ./load.sh"

[base]
settings = { innodb_flush_log_at_trx_commit = 1 }

[[arm]]
name = "trx_commit=2"
settings = { innodb_flush_log_at_trx_commit = 2 }

[[claim]]
text = "trx_commit=2 is faster by a tenth"
arm = "trx_commit=2"
at_least = 1.1
"""
"""What is left of the plan that `--init` writes once somebody has edited it; the same keys, fewer lines."""


class Journey:
    """A folder with the shop's files and a fresh home; commands run as in a shell."""

    def __init__(self, folder: Path, minutes: float, server: str) -> None:
        self.folder, self.minutes = folder, minutes
        self.home = folder / "home"
        self.home.mkdir()
        (self.home / "builds").symlink_to(home_path() / "builds")
        shutil.copytree(SHOP, folder / "shop")
        self.environment = {**os.environ, "FLUSHLAB_HOME": str(self.home), "PATH": self._path(server)}

    def _path(self, server: str) -> str:
        """PATH with the server's own client as `mysql`: another flavor's may not know its way to log in."""
        client = find_build(server).client or shutil.which("mysql") or find_build("mariadb@10.11").client
        assert client is not None, "no client in mariadb@10.11"
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "mysql").write_text(f'#!/bin/sh\nexec {client} "$@"\n')
        (tools / "mysql").chmod(0o755)
        return f"{tools}:{os.environ['PATH']}"

    def run(self, *words: str) -> None:
        """Runs flushlab; its output goes to this terminal.

        Raises:
            CalledProcessError: it failed.
        """
        command = [sys.executable, "-m", "flushlab", *words]
        subprocess.run(command, cwd=self.folder / "shop", env=self.environment, check=True)

    def read(self, file: str) -> dict[str, Any]:
        """A JSON file that was written in the shop's folder."""
        read: dict[str, Any] = json.loads((self.folder / "shop" / file).read_text())
        return read

    def tune(self, server: str) -> str:
        """Journey (a): what came out, in words."""
        self.run(
            *("tune", "--server", server, "--base", "my.cnf", "--dataset", "shop.sql.gz"),
            *("--workload", "command: ./load.sh", "--minutes", f"{self.minutes:g}", "--out", "tuned"),
            *("--floor", "second"),
        )
        result = self.read("tuned/tune.json")
        winner, base = result["tuning"]["winner"], result["base"]["result"]
        if winner is None:
            seen = result["tuning"]["detectable"]
            return f"base {base:.2f} s, none proven (detectable {seen:.0%})" if seen else "nothing confirmed"
        floor = winner["floor"]
        self.run("settings", "--check", "tuned/my.cnf", "--server", server, "--floor", floor)
        return f"base {base:.2f} s, {spelled(winner['ratio'])} at {floor}: {winner['settings']}"

    def series(self, server: str) -> str:
        """Journey (c): what came out, in words."""
        self.run("series", "mine.toml", "--init")
        (self.folder / "shop" / "mine.toml").write_text(PLAN)
        self.run("series", "mine.toml", "--server", server, "--dataset", "shop.sql.gz", "--out", "series")
        result = self.read("series/series.json")
        page = (self.folder / "shop" / "series" / "report.html").read_text()
        assert "trx_commit=2" in page
        ratio, claim = result["arms"][0]["comparison"]["ratio"], result["plan"]["claims"][0]
        return f"{spelled(ratio)}, claim {claim['answer']}"


def spelled(ratio: dict[str, float]) -> str:
    """`1.62 [1.55, 1.70]`."""
    return f"{ratio['estimate']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"


def main() -> int:
    """Runs the journeys and tells their times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", action="append", help="one of them; repeatable")
    parser.add_argument("--minutes", type=float, default=12.0)
    asked = parser.parse_args()
    told, late = [], False
    for server in asked.server or SERVERS:
        with tempfile.TemporaryDirectory(prefix="fj-", dir="/tmp") as made:
            folder = Path(made)
            folder.chmod(0o755)
            journey = Journey(folder, asked.minutes, server)
            for name, walk in (("a", journey.tune), ("c", journey.series)):
                began = time.monotonic()
                try:
                    what = walk(server)
                except subprocess.CalledProcessError as error:
                    what, late = f"ended with exit code {error.returncode}", True
                seconds = time.monotonic() - began
                late |= seconds > BAR_S
                told.append(f"({name}) {server:<14} {seconds / 60:5.1f} min  {what}")
                sys.stdout.write(f"{told[-1]}\n")
                sys.stdout.flush()
            subprocess.run(["/bin/chmod", "-R", "u+w", str(journey.home)], check=True)  # snapshots are sealed
    bar = f"the bar is {BAR_S // 60} minutes: {'missed' if late else 'met'}"
    sys.stdout.write("\n".join(("", *told, bar, "")))
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
