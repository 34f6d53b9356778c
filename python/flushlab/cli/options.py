"""Options that several commands share: spelled once, explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Server = Annotated[
    str,
    typer.Option(
        "--server",
        help="A build (mariadb, mariadb@10.11, mysql@5.7), a tarball (path or URL, perhaps with #sha256=…)"
        " or a kept sandbox (sandbox:NAME).",
    ),
]
BaseDir = Annotated[
    Path | None, typer.Option("--basedir", help="Use the server installed there instead of a known build.")
]
Workload = Annotated[
    str,
    typer.Option(
        "--workload",
        help="oltp_update_non_index, upsert, sql:FILE, or any program: 'command: ./load.sh'.",
    ),
]
Tables = Annotated[int, typer.Option("--tables", help="Tables of an OLTP workload or of upsert.")]
TableSize = Annotated[int, typer.Option("--table-size", help="Rows per table.")]
Transport = Annotated[str, typer.Option("--transport", help="How the load connects: socket or tcp.")]
RandType = Annotated[
    str | None,
    typer.Option(
        "--rand-type",
        help="Which rows are hit: special (sysbench 1.0; of OLTP the default) or uniform (of upsert).",
        show_default=False,
    ),
]
Rate = Annotated[
    float,
    typer.Option(
        "--rate", help="Intended transactions/s, of upsert rows/s (open loop); 0: as fast as possible."
    ),
]
Rows = Annotated[
    int | None, typer.Option("--rows", help="upsert: rows per statement; 1 if absent.", show_default=False)
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        help="upsert: rows conflict in a unique index or in the primary key: unique or primary (default).",
        show_default=False,
    ),
]
HitRatio = Annotated[
    float | None,
    typer.Option(
        "--hit-ratio",
        help="upsert: share of the rows that exist already; 0.5 if absent.",
        show_default=False,
    ),
]
Commit = Annotated[
    str | None,
    typer.Option(
        "--commit",
        help="upsert: when a connection commits: autocommit (default), '1000 rows' or '1 s'.",
        show_default=False,
    ),
]
DataRoot = Annotated[Path | None, typer.Option("--data-root", help="Where data directories lie.")]
DiskIops = Annotated[
    int | None,
    typer.Option("--disk-iops", help="Make a slow disk: at most this many writes/s (root, cgroups)."),
]
Json = Annotated[str | None, typer.Option("--json", help="Write the result as JSON to a file, - for stdout.")]
