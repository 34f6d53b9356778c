"""Options that several commands share: spelled once, explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Server = Annotated[
    str,
    typer.Option(
        "--server", help="A build (mariadb, mariadb@10.11, mysql@5.7) or a kept sandbox (sandbox:NAME)."
    ),
]
BaseDir = Annotated[
    Path | None, typer.Option("--basedir", help="Use the server installed there instead of a known build.")
]
Workload = Annotated[
    str, typer.Option("--workload", help="oltp_update_non_index, or any program: 'command: ./load.sh'.")
]
Tables = Annotated[int, typer.Option("--tables", help="Tables of an OLTP workload.")]
TableSize = Annotated[int, typer.Option("--table-size", help="Rows per table.")]
Transport = Annotated[str, typer.Option("--transport", help="How the load connects: socket or tcp.")]
RandType = Annotated[
    str, typer.Option("--rand-type", help="Which ids are hit: special (sysbench 1.0) or uniform.")
]
Rate = Annotated[
    float, typer.Option("--rate", help="Intended transactions/s (open loop); 0 is as fast as possible.")
]
DataRoot = Annotated[Path | None, typer.Option("--data-root", help="Where data directories lie.")]
DiskIops = Annotated[
    int | None,
    typer.Option("--disk-iops", help="Make a slow disk: at most this many writes/s (root, cgroups)."),
]
Json = Annotated[str | None, typer.Option("--json", help="Write the result as JSON to a file, - for stdout.")]
