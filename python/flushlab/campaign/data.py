"""Data: the user's data set as a campaign has it: what it is, and which of its databases the workload uses.

Sits in `campaign`. It is opened before anything else happens: a path that is no data set, or a database that
it does not have, is found out before a server is fetched or started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flushlab.build import Progress, silent
from flushlab.dataset import Dataset, choose_database, estimated_bytes, open_dataset
from flushlab.errors import UsageError
from flushlab.units import format_size
from flushlab.workload import ON_DATA

_WORTH_A_WORD = 256 << 20


class OnData(Protocol):
    """A request with a data set."""

    @property
    def dataset(self) -> str | None:
        """Its path."""
        ...

    @property
    def dataset_key(self) -> Mapping[str, str]:
        """What it held when the campaign began."""
        ...

    @property
    def database(self) -> str | None:
        """The workload's."""
        ...

    @property
    def workload(self) -> str:
        """Its name."""
        ...


@dataclass(frozen=True, kw_only=True)
class Data:
    """A data set and the workload's database; empty if the workload makes its own."""

    dataset: Dataset
    database: str


def open_data(
    path: Path | str | None, database: str | None, workload: str = "", progress: Progress = silent
) -> Data | None:
    """The user's data; None if there is none.

    Args:
        path: of the data, or None.
        database: of them that the user names, or None.
        workload: its name: one that makes its own tables needs none of the databases.
        progress: told what takes long.

    Raises:
        UsageError: there is no such database, or there are several and none was asked for.
        StorageError: there is no such data set, or it cannot be read.
    """
    if path is None:
        if database is not None:
            raise UsageError("--database needs --dataset", hint="add --dataset PATH")
        return None
    dataset = open_dataset(path)
    size = sum(file.stat().st_size for file in dataset.files)
    if size >= _WORTH_A_WORD:
        progress(f"reading {dataset.path} ({format_size(size)})")
    needed = database is not None or workload.startswith(ON_DATA)
    return Data(dataset=dataset, database=choose_database(dataset, database) if needed else "")


def bytes_of(data: Data | None) -> int | None:
    """Of its tables and indexes in InnoDB, about; None without data.

    Raises:
        StorageError: they cannot be read.
    """
    return estimated_bytes(data.dataset) if data is not None else None


def data_of(request: OnData, progress: Progress = silent) -> Data | None:
    """The data of a campaign's request, which may have been made long ago; None if it has none.

    Raises:
        UsageError: they are not the same any more.
        StorageError: they cannot be read.
    """
    if request.dataset is None:
        return None  # the database, if any, is one of somebody's own server
    data = open_data(request.dataset, request.database or None, request.workload, progress)
    if data is not None and dict(data.dataset.key) != dict(request.dataset_key):
        raise UsageError(
            f"the data set {request.dataset} has changed since the campaign began",
            hint="restore it, or start a new campaign: figures of two data sets are not comparable",
        )
    return data
