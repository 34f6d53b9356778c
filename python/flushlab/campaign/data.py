"""Data: the user's data set as a campaign has it: what it is, and which of its databases the workload uses.

Sits in `campaign`. The data set is opened before anything else. A path that is no data set, or a database
that the data set lacks, is reported before a server is fetched or started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign.request import ComparingRequest
from flushlab.dataset import Dataset, choose_database, estimated_bytes, open_dataset
from flushlab.errors import UsageError
from flushlab.spec.parts import DataSpec, WorkloadSpec
from flushlab.units import format_size
from flushlab.workload import ON_DATA

_WORTH_A_WORD = 256 << 20


@dataclass(frozen=True, kw_only=True)
class Data:
    """A data set and the workload's database; empty if the workload makes its own."""

    dataset: Dataset
    database: str


def open_data(data: DataSpec, workload: str = "", progress: Progress = silent) -> Data | None:
    """The user's data; None if there is none.

    Args:
        data: where they are, and which of their databases was named.
        workload: its name: one that makes its own tables needs none of the databases.
        progress: told what takes long.

    Raises:
        UsageError: there is no such database, or there are several and none was asked for.
        StorageError: there is no such data set, or it cannot be read.
    """
    path, database = data.dataset, data.database
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


def needing_data(workloads: Mapping[str, WorkloadSpec]) -> str:
    """The name of the first workload that runs in one of the data's databases, or else of the first."""
    names = [workload.name for workload in workloads.values()]
    return next((name for name in names if name.startswith(ON_DATA)), names[0])


def bytes_of(data: Data | None) -> int | None:
    """Of its tables and indexes in InnoDB, about; None without data.

    Raises:
        StorageError: they cannot be read.
    """
    return estimated_bytes(data.dataset) if data is not None else None


def data_of(request: ComparingRequest, progress: Progress = silent) -> Data | None:
    """The data of a campaign's request, which may have been made long ago; None if it has none.

    Raises:
        UsageError: they are not the same any more.
        StorageError: they cannot be read.
    """
    asked = request.spec.data
    if asked.dataset is None:
        return None  # the database, if any, is one of somebody's own server
    data = open_data(asked, request.workload, progress)
    if data is not None and dict(data.dataset.key) != dict(request.dataset_key):
        raise UsageError(
            f"the data set {asked.dataset} has changed since the campaign began",
            hint="restore it, or start a new campaign: results of two data sets are not comparable",
        )
    return data


def settled_data(asked: DataSpec, data: Data | None, own_database: str | None) -> DataSpec:
    """The data as a campaign keeps them: with the database that was found.

    Args:
        asked: what was asked for.
        data: as it was opened, or None.
        own_database: the workload's on the user's own server, or None.
    """
    database = (data.database or None) if data is not None else own_database
    return msgspec.structs.replace(asked, database=database)
