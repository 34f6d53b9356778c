"""Records what sysbench 1.0.20 says for each of its OLTP workloads: tests/integration/sysbench/NAME.txt.

Each file has the statements that one connection prepares (sorted), then those of its first event in order, as
MariaDB's general log shows them, with drawn values taken out. Run with .venv/bin/python; needs sysbench.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.sysbench_log import logged, without_values

from flushlab.build import find_build
from flushlab.server import Sandbox, SandboxSpec
from flushlab.workload.tables import OLTP_NAMES

FOLDER = Path(__file__).parents[1] / "tests" / "integration" / "sysbench"
VARIANTS = dict.fromkeys(OLTP_NAMES, ()) | {
    "oltp_read_write-varied": (
        *("--point-selects=2", "--simple-ranges=2", "--sum-ranges=0", "--distinct-ranges=2"),
        *("--index-updates=2", "--non-index-updates=2", "--delete-inserts=2", "--skip-trx=on"),
    ),
    "oltp_write_only-varied": ("--delete-inserts=3", "--non-index-updates=0"),
    "oltp_read_only-varied": ("--range-selects=off", "--point-selects=3"),
}


def main() -> None:
    """Writes every file."""
    FOLDER.mkdir(exist_ok=True)
    with (
        Sandbox.start(SandboxSpec(find_build("mariadb@10.11"), settings={})) as server,
        tempfile.NamedTemporaryFile("w", suffix=".cfg") as config,
    ):
        endpoint = server.endpoint
        config.write(
            f"mysql-user={endpoint.user}\nmysql-password={endpoint.password}\nmysql-socket={endpoint.socket}\n"
        )
        config.flush()
        server.query("CREATE DATABASE sbtest")
        for variant, options in VARIANTS.items():
            name = variant.partition("-")[0]
            common = ["sysbench", f"--config-file={config.name}", name, "--table-size=100"]
            subprocess.run([*common, "prepare"], check=True, stdout=subprocess.DEVNULL)
            with logged(server) as said:
                run = [*common, "--threads=1", "--events=1", "--time=0", *options, "run"]
                subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
            subprocess.run([*common, "cleanup"], check=True, stdout=subprocess.DEVNULL)
            prepared = sorted({text for kind, text in said if kind == "Prepare"})
            event = [f"{kind} {without_values(text)}" for kind, text in said if kind != "Prepare"]
            lines = [f"Prepare {text}" for text in prepared] + event
            (FOLDER / f"{variant}.txt").write_text("\n".join([" ".join(options), *lines]) + "\n")


if __name__ == "__main__":
    main()
