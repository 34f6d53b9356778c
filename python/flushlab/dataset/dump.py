"""Dump: one file of SQL as mysqldump or mariadb-dump writes it, plain or compressed.

Sits in `dataset`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.dataset.filling import Filling
from flushlab.dataset.pieces import pieces
from flushlab.dataset.survey import Survey, survey
from flushlab.record import Value

_NO_NAME = re.compile(r"[^A-Za-z0-9_$]+")
_ENDINGS = {".sql", ".gz", ".zst", ".xz", ".bz2", ".dump"}


class Dump(msgspec.Struct, frozen=True, kw_only=True):
    """One file of SQL.

    Attributes:
        path: absolute.
    """

    path: str

    @property
    def files(self) -> tuple[Path, ...]:
        """The file itself."""
        return (Path(self.path),)

    @property
    def takes_any(self) -> bool:
        """It names no database itself, so it can be loaded into any."""
        return not self.survey().databases

    @property
    def databases(self) -> tuple[str, ...]:
        """Those that it uses; one by its header or its own name if it uses none."""
        found = self.survey()
        return found.databases or (found.named or self._stem,)

    @property
    def key(self) -> Mapping[str, str]:
        """Its digest."""
        return {"dataset": f"dump {self.survey().digest}"}

    def survey(self) -> Survey:
        """What is in it; remembered."""
        return survey(Path(self.path), self.files)

    def settings(self) -> dict[str, Value]:
        """None: what it sets holds for its own statements."""
        return {}

    def load(self, filling: Filling) -> None:
        """Runs its statements in their order."""
        database = None if self.survey().databases else filling.database
        file = Path(self.path)
        filling.run(pieces(file, filling.read), file.name, database=database, alone=True)

    @property
    def _stem(self) -> str:
        path = Path(self.path)
        while path.suffix in _ENDINGS:
            path = path.with_suffix("")
        return _NO_NAME.sub("_", path.name).strip("_") or "dump"
