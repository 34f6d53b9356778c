"""Options that several commands have in functions of their own, each as its specification declares it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from flushlab.spec.option import Option, fields
from flushlab.spec.parts import DataSpec, FileSpec, RemoteAccess, ServerSpec, StorageSpec

BaseDir = Annotated[Path | None, fields(ServerSpec)["basedir"].option]
Cluster = Annotated[int | None, fields(ServerSpec)["cluster"].option]
DataRoot = Annotated[Path | None, fields(StorageSpec)["data_root"].option]
DiskIops = Annotated[int | None, fields(StorageSpec)["disk_iops"].option]
Disk = Annotated[str | None, fields(StorageSpec)["disk"].option]
Dataset = Annotated[Path | None, fields(DataSpec)["dataset"].option]
Base = Annotated[Path | None, fields(FileSpec)["base"].option]
Exact = Annotated[bool, fields(FileSpec)["exact"].option]
Server = Annotated[str | None, fields(ServerSpec)["server"].option]
Dsn = Annotated[
    str | None, Option("Your own server: mysql://USER:PASSWORD@HOST:PORT, optionally with /DATABASE.")
]
DefaultsFile = Annotated[Path | None, fields(RemoteAccess)["defaults_file"].option]
Settings = Annotated[list[str] | None, Option("A setting, NAME=VALUE; repeatable.", flag="set")]
Watch = Annotated[bool, Option("Serve a live page and metrics on loopback while it runs.")]
WatchPort = Annotated[
    int | None,
    Option("Port of the page; default: 9194, or a free one if that is taken.", least=1, most=65535),
]
Json = Annotated[str | None, Option("Write the result as JSON to a file; - is stdout.", metavar="FILE")]
