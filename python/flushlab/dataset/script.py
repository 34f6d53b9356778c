"""Script: one file of SQL as the servers' client runs it, with the files that it reads.

Sits in `dataset`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from flushlab.dataset.filling import Filling
from flushlab.dataset.pieces import pieces
from flushlab.dataset.survey import Survey, survey

_NO_NAME = re.compile(r"[^A-Za-z0-9_$]+")
COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
_ENDINGS = {".sql", ".dump", *COMPRESSED}


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """One file of SQL.

    Attributes:
        file: absolute.
    """

    file: Path

    def survey(self) -> Survey:
        """What is in it; remembered."""
        return survey(self.file, [self.file], within=self.file.resolve().parent)

    def run(self, filling: Filling, *, database: str | None, created: Iterable[str]) -> None:
        """Runs its statements in their order.

        Args:
            filling: target of the statements.
            database: default of the first statements.
            created: databases that are there, or that it creates before it uses them.
        """
        found = self.survey()
        for name in found.databases:
            if name not in created:
                filling.create(name)
        sql = pieces(self.file, filling.read)
        follow = {Path(one.path) for one in found.followed}
        filling.run(sql, self.file.name, database=database, alone=True, script=self.file, followed=follow)


def stem(path: Path) -> str:
    """A database's name from a file's or a folder's."""
    while path.suffix in _ENDINGS:
        path = path.with_suffix("")
    return _NO_NAME.sub("_", path.name).strip("_") or "dump"
