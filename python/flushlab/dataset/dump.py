"""Dump: one file of SQL as mysqldump, mariadb-dump and graphical clients write it, plain or compressed.

Sits in `dataset`. A client's `source` in it is followed within its folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.dataset.filling import Filling
from flushlab.dataset.script import Script, stem
from flushlab.dataset.survey import Survey
from flushlab.record import Value


class Dump(msgspec.Struct, frozen=True, kw_only=True):
    """One file of SQL.

    Attributes:
        path: absolute.
    """

    path: str

    @property
    def files(self) -> tuple[Path, ...]:
        """The file itself; its survey says which ones it reads."""
        return (Path(self.path),)

    @property
    def takes_any(self) -> bool:
        """It names no database itself, so it can be loaded into any."""
        return not self.survey().databases

    @property
    def databases(self) -> tuple[str, ...]:
        """Those that it uses; one by its header or its own name if it uses none."""
        found = self.survey()
        return found.all_databases or (found.named or stem(Path(self.path)),)

    @property
    def key(self) -> Mapping[str, str]:
        """Its digest."""
        return {"dataset": f"dump {self.survey().digest}"}

    def survey(self) -> Survey:
        """What is in it; remembered."""
        return self._script.survey()

    def settings(self) -> dict[str, Value]:
        """None: what it sets holds for its own statements."""
        return {}

    def load(self, filling: Filling) -> None:
        """Runs its statements in their order."""
        found = self.survey()
        database = found.begins_in if found.databases else filling.database
        self._script.run(filling, database=database, created=found.created)

    @property
    def _script(self) -> Script:
        return Script(file=Path(self.path))
