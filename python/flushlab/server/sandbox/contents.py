"""Contents: what comes into a sandbox's data directory before a start, and where it goes afterwards.

Server layer, on `datadir`'s snapshots. The server is stopped, or was never started. A build's data directory
as its own program makes it is a snapshot, made once per build (and per layout of the files). Nobody can log
in to what it holds: MariaDB's anonymous users are removed, because they would win over `user@'%'` on
loopback; root is removed (MariaDB) or locked (MySQL). A sandbox makes flushlab's account when it starts.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from flushlab.build import Build
from flushlab.datadir import Restored, Snapshot, SnapshotKey, Snapshots
from flushlab.datadir.restore import copy_tree
from flushlab.errors import NoSpace, SnapshotDamaged, StartFailed
from flushlab.machine import server_user
from flushlab.process import Guard, Reach, run_folder
from flushlab.progress import Progress, silent
from flushlab.record import Value
from flushlab.server.sandbox import log
from flushlab.server.sandbox.option_files import always, give, option_line, write_private
from flushlab.settings.configuration import layout_of

FORMAT = "1"
"""Raise this when the way data directories are initialised changes."""

_LIMIT_S = 600.0

_MARIADB_SQL = "DELETE FROM mysql.global_priv WHERE User IN ('', 'root');\n"
_MYSQL_SQL = "ALTER USER 'root'@'localhost' ACCOUNT LOCK;\n"


def initialised(build: Build, settings: Mapping[str, Value], progress: Progress = silent) -> Snapshot:
    layout = layout_of(settings)
    key = SnapshotKey(
        {
            "what": "initialised data directory",
            "format": FORMAT,
            "build": build.id,
            **{f"set:{name}": str(value) for name, value in layout.items()},
        }
    )
    snapshots = Snapshots()
    if (snapshot := snapshots.find(key)) is not None:
        return snapshot
    progress(f"initializing a data directory of {build.name}")
    return snapshots.make(key, lambda target: initialise(build, layout, target))


def initialise(build: Build, layout: Mapping[str, Value], target: Path) -> None:
    name = f"init-{secrets.token_hex(4)}"
    folder = run_folder() / name
    user = server_user()
    with Guard(name, [folder]) as guard:
        temporary, sql, options = folder / "tmp", folder / "accounts.sql", folder / "my.cnf"
        temporary.mkdir()
        for place in (temporary, target):
            if place.is_dir():
                give(place, user)
        write_private(sql, _MARIADB_SQL if build.flavor == "mariadb" else _MYSQL_SQL, user)
        settings = [option_line(build, setting, value) for setting, value in layout.items()]
        lines = ["[mysqld]", *always(build), *settings, f"tmpdir = {temporary}"]
        write_private(options, "\n".join(lines) + "\n", user)
        process = guard.spawn(
            _command(build, options, target, sql),
            log=folder / "log",
            cwd=temporary,
            environment={**build.environment, "TMPDIR": str(temporary), "HOME": str(temporary)},
            reach=Reach((target, temporary)),
        )
        if (code := process.wait(_LIMIT_S)) == 0:
            return
        said = log.since(folder / "log", 0)
    if full := log.no_space(said):
        raise NoSpace(
            f"no space left while initializing a data directory of {build.name}: {full}",
            hint="make room, or set FLUSHLAB_HOME to another file system",
        )
    how = f"ended with {code}" if code is not None else f"did not end within {_LIMIT_S:.0f} s"
    raise StartFailed(
        f"initializing a data directory of {build.name} {how}:\n{log.digest(said)}",
        refusal=log.refusal_from_log(said, layout),
    )


def _command(build: Build, options: Path, target: Path, sql: Path) -> list[str]:
    if build.flavor == "mysql":
        return [
            *build.command,
            f"--defaults-file={options}",
            f"--datadir={target}",
            "--initialize-insecure",
            f"--init-file={sql}",
        ]
    if build.install_db is None:
        raise StartFailed(
            f"{build.prefix} has no mariadb-install-db, which creates data directories",
            hint="install the package that contains it, or use another build",
        )
    # mariadb-install-db starts programs of its base directory: they must run without a launcher
    base = Path(build.install_db if build.launcher else build.mysqld).parent.parent
    return [
        build.install_db,
        f"--defaults-file={options}",
        f"--basedir={base}",
        f"--datadir={target}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
        f"--extra-file={sql}",
    ]


def fill(
    target: Path, snapshots: Snapshots, content: Snapshot | Callable[[], Snapshot], *, settle: bool
) -> Restored:
    if isinstance(content, Snapshot):
        return restore(content, snapshots, target, settle=settle)
    own = content()
    try:
        return restore(own, snapshots, target, settle=False)
    except SnapshotDamaged:
        snapshots.remove(own.key)
        return restore(content(), snapshots, target, settle=False)


def restore(snapshot: Snapshot, snapshots: Snapshots, target: Path, *, settle: bool) -> Restored:
    """Fills `target` with a snapshot, for a server of its own: MySQL gives itself a new UUID."""
    user = server_user()
    restored = snapshots.restore(snapshot, target, uid=user.uid, gid=user.gid, settle=settle)
    (target / "auto.cnf").unlink(missing_ok=True)
    return restored


def move(datadir: Path, target: Path) -> None:
    if target.is_dir():
        target.rmdir()
    try:
        datadir.rename(target)
    except OSError:  # another file system
        copy_tree(datadir, target)


def fresh_copy(snapshot: Snapshot, snapshots: Snapshots, datadir: Path) -> Path:
    fresh = datadir.with_name(f"next-{secrets.token_hex(4)}")
    restore(snapshot, snapshots, fresh, settle=False)
    return fresh


def exchange(datadir: Path, fresh: Path) -> Path:
    """Puts `fresh`, on the same file system, in the place of a data directory; where the old one lies now."""
    old = datadir.with_name(f"old-{secrets.token_hex(4)}")
    datadir.rename(old)
    try:
        fresh.rename(datadir)
    except OSError:
        old.rename(datadir)
        raise
    return old
