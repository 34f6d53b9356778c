"""Dump: one file of SQL as mysqldump, mariadb-dump and graphical clients write it, plain or compressed.

Sits in `dataset`. A client's `source` in it is followed within its folder.
"""

from __future__ import annotations

from pathlib import Path

from flushlab.dataset.filling import Filling
from flushlab.dataset.script import Script, stem
from flushlab.dataset.sql_data import SqlData
from flushlab.dataset.survey import Survey


class Dump(SqlData, frozen=True, kw_only=True):
    """One file of SQL."""

    KIND = "dump"

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

    def survey(self) -> Survey:
        """What is in it; remembered."""
        return self._script.survey()

    def load(self, filling: Filling) -> None:
        """Runs its statements in their order."""
        found = self.survey()
        database = found.begins_in if found.databases else filling.database
        self._script.run(filling, database=database, created=found.created)

    @property
    def _script(self) -> Script:
        return Script(file=Path(self.path))
