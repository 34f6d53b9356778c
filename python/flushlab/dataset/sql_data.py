"""SQL data: what all dumps have in common, whether a file or a folder of some tool's.

Sits in `dataset`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import msgspec

from flushlab.dataset.filling import Filling
from flushlab.dataset.survey import Survey, survey
from flushlab.record import Value


class SqlData(msgspec.Struct, frozen=True, kw_only=True):
    """A dump. Kinds of it have `files`, `databases` and `load` of their own.

    Attributes:
        path: absolute.
    """

    KIND: ClassVar[str]
    """In its key."""

    path: str

    @property
    def files(self) -> tuple[Path, ...]:
        """What it consists of.

        Raises:
            StorageError: it lacks files, or has rows in a form that is not SQL.
        """
        raise NotImplementedError

    @property
    def databases(self) -> tuple[str, ...]:
        """Those that it holds, without the server's own; the one that it is for, if it names none itself.

        Raises:
            StorageError: it cannot be read.
        """
        raise NotImplementedError

    @property
    def takes_any(self) -> bool:
        """It names no database itself, so it can be loaded into any."""
        return False

    @property
    def key(self) -> Mapping[str, str]:
        """Changes with what is in it.

        Raises:
            StorageError: it cannot be read.
        """
        return {"dataset": f"{self.KIND} {self.survey().digest}"}

    def survey(self) -> Survey:
        """What is in it; remembered."""
        return survey(Path(self.path), self.files)

    def settings(self) -> dict[str, Value]:
        """None: what it sets holds for its own statements."""
        return {}

    def load(self, filling: Filling) -> None:
        """Loads it."""
        raise NotImplementedError
