"""Start: a sandbox by the name of its build, with settings as people give them. Sits in `server`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flushlab.build import Progress, find_build, silent
from flushlab.datadir import DataRoot
from flushlab.errors import StartFailed
from flushlab.record import Value
from flushlab.server.refusal import refusal
from flushlab.server.sandbox import Sandbox
from flushlab.settings.catalog import load_catalog
from flushlab.settings.given import parse_settings

_KEPT = "sandbox:"


def sandbox(
    *,
    server: str = "mariadb",
    settings: Mapping[str, Value] | None = None,
    name: str | None = None,
    kept: bool = False,
    port: int | None = None,
    basedir: Path | str | None = None,
    data_root: Path | str | None = None,
    progress: Progress = silent,
) -> Sandbox:
    """Starts a private server; as a context manager it ends with the context.

    The arguments are those of `flushlab server start` under the same names.

    Args:
        server: a build (`mariadb`, `mysql@5.7`), a tarball or a URL; `sandbox:NAME` is one that runs already.
        settings: of the server (`--set`).
        name: its name; a random one if None.
        kept: it lives until `flushlab server stop NAME`, as those of `flushlab server start` do.
        port: on 127.0.0.1; a free one if None.
        basedir: use the server installed there.
        data_root: where its data directory goes.
        progress: takes a line at a time.

    Returns:
        The server: `endpoint` says how to reach it, `query` asks it, `apply` changes settings.

    Raises:
        UsageError: settings that there are not, or that the server refuses.
        BuildNotFound, StartFailed, StorageError: it could not be started.
    """
    if server.startswith(_KEPT):
        return Sandbox.attach(server.removeprefix(_KEPT))
    build = find_build(server, basedir=Path(basedir) if basedir else None, progress=progress)
    given = parse_settings(settings or {}, build.flavor, build.version, load_catalog())
    root = DataRoot.open(Path(data_root) if data_root else None)
    try:
        return Sandbox.start(
            build, settings=given, data_root=root, name=name, kept=kept, port=port, progress=progress
        )
    except StartFailed as error:
        if error.refusal is None:
            raise
        raise refusal(error.refusal, build) from error
