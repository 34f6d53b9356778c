"""Files for Grafana and Prometheus: two dashboards with provisioning, a scrape each second, six alerts.

They are in the folder `files`, as a user gets them. The dashboards have the classic schema, which Grafana 9
to 13 read. Their data source is a variable of type `datasource`, so that import by hand and provisioning both
work (file provisioning fills no `__inputs`, grafana issue 10786).
"""

from __future__ import annotations

from pathlib import Path

from flushlab import atomic
from flushlab.errors import NotWritable, UsageError

_FILES = Path(__file__).parent / "files"
GRAFANA, PROMETHEUS = _FILES / "grafana", _FILES / "prometheus"


def copy(files: Path, folder: Path) -> list[Path]:
    """Copies `GRAFANA` or `PROMETHEUS` into a folder, over no file that differs: it may have been edited.

    Raises:
        UsageError: another file has one of the names; nothing is written then.
        NotWritable: the folder cannot be written.
    """
    texts = {folder / path.relative_to(files): path.read_bytes() for path in sorted(files.rglob("*.*"))}
    try:
        for path, text in texts.items():
            if path.is_symlink() or (path.exists() and path.read_bytes() != text):
                raise UsageError(
                    f"{path} exists and is not what would be written",
                    hint="name another folder, or move it away",
                )
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(path, text)
    except OSError as error:
        raise NotWritable(
            f"{folder} cannot be written: {error.strerror}", hint="name another folder"
        ) from error
    return list(texts)
