"""Galera: what makes nodes of a cluster out of a MariaDB build: the provider library and the SST scripts.

Build layer. Where the build brings them along (tarballs, the system's packages) those are taken. For Debian's
builds this module unpacks `galera-4` and `mariadb-server` (its scripts only) of the same release privately.
The scripts run `rsync`; if this system has none, its package is unpacked too. Needs no root.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import msgspec

from flushlab import atomic
from flushlab.build import apt
from flushlab.build.apt import Package
from flushlab.build.build import Build
from flushlab.build.debian import unpack_alone
from flushlab.build.prefix import publish_prefix
from flushlab.errors import BuildNotFound, UsageError
from flushlab.machine import home_path
from flushlab.progress import Progress, silent

PROVIDER = "galera-4"
SCRIPTS = "mariadb-server"
"""The package, of which only the scripts are used."""

SST_METHOD = "rsync"
SST_SCRIPT = f"wsrep_sst_{SST_METHOD}"

_LEAST_VERSION = (10, 4)
"""Of MariaDB with Galera 4."""

_LIBRARIES = ("libgalera_smm.so", "libgalera_enterprise_smm.so")
_FOLDERS = ("lib/galera", "lib64/galera-4", "lib/galera-4", "lib64/galera", "lib")
_DOCUMENT = "galera.json"
_NEEDED_BYTES = 60 << 20


class Galera(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    folders: tuple[str, ...]
    library_path: tuple[str, ...] = ()
    id: str
    origin: tuple[Package, ...] = ()


def require_galera_flavor(build: Build) -> None:
    if build.flavor != "mariadb":
        raise UsageError(
            f"{build.name} cannot run in a Galera cluster: --cluster needs MariaDB",
            hint="use --server mariadb@10.11",
        )
    if build.version[:2] < _LEAST_VERSION:
        least = ".".join(map(str, _LEAST_VERSION))
        raise UsageError(
            f"{build.name} is too old for a cluster: Galera 4 came with MariaDB {least}",
            hint="use --server mariadb@10.11",
        )


def galera_for(build: Build, progress: Progress = silent) -> Galera:
    require_galera_flavor(build)
    own = _beside(build)
    if own is not None:
        return own
    if not apt.available():
        raise BuildNotFound(
            f"there is no Galera library for {build.name}: nothing like"
            f" {Path(build.prefix) / _FOLDERS[0] / _LIBRARIES[0]}",
            hint="install galera-4, rsync and the server's wsrep_sst scripts, or use Debian's mariadb@10.11",
        )
    # the release that a Debian build came from, if it is not this system's
    suite = Path(build.prefix).name.removeprefix("debian-").partition("-")[0] if build.launcher else ""
    key = f"galera-{suite or 'own'}-{'.'.join(map(str, build.version[:2]))}"
    return publish_prefix(
        key,
        _published,
        lambda staging, final: _fill(suite, staging, final, progress),
        needed_bytes=_NEEDED_BYTES,
    )


def _beside(build: Build) -> Galera | None:
    base = Path(build.mysqld).parent.parent
    bases = [base] if build.source != "path" else [base, Path("/usr")]
    libraries = (one / folder / name for one in bases for folder in _FOLDERS for name in _LIBRARIES)
    provider = next((one for one in libraries if one.is_file()), None)
    folders = os.pathsep.join((str(base / "bin"), os.environ.get("PATH", os.defpath)))
    script = shutil.which(SST_SCRIPT, path=folders)  # folders that are closed to us are passed over
    if provider is None or script is None or shutil.which("rsync") is None:
        return None
    return Galera(provider=str(provider), folders=(str(Path(script).parent),), id=_id(provider))


def _published(key: str) -> Galera | None:
    prefix = home_path() / "builds" / key
    document = atomic.read_json(prefix / _DOCUMENT, Galera)
    galera = document and _in(prefix.resolve(), document)
    return galera if galera and Path(galera.provider).is_file() else None


def _in(prefix: Path, found: Galera) -> Galera:
    return msgspec.structs.replace(
        found,
        provider=str(prefix / found.provider),
        folders=tuple(str(prefix / one) for one in found.folders),
        library_path=tuple(str(prefix / one) for one in found.library_path),
    )


def _fill(suite: str, staging: Path, final: Path, progress: Progress) -> Galera:
    origin = unpack_alone([PROVIDER, SCRIPTS], staging, progress, suite)
    _leave_only_galera(staging)
    programs = Path("usr/bin")
    tools = [] if shutil.which("rsync") else ["rsync"]
    tools += [] if shutil.which("ss") or shutil.which("lsof") else ["lsof"]
    if tools:
        origin += apt.unpack(tools, staging, progress)
    provider = Path("usr/lib") / _LIBRARIES[0]
    binaries = [staging / programs / one for one in tools] + ([] if suite else [staging / provider])
    if binaries:
        origin += apt.complete_libraries(binaries, staging, progress)
    found = Galera(
        provider=str(provider),
        folders=(str(programs),),
        library_path=tuple(str(Path(one).relative_to(staging)) for one in apt.library_folders(staging)),
        id=_id(staging / provider),
        origin=tuple(origin),
    )
    (staging / _DOCUMENT).write_bytes(msgspec.json.encode(found))
    return _in(final.parent.resolve() / final.name, found)


def _leave_only_galera(prefix: Path) -> None:
    for folder in ("etc", "var", "lib", "usr/share"):
        shutil.rmtree(prefix / folder, ignore_errors=True)
    for one in (prefix / "usr" / "lib").iterdir():
        if one.is_dir():
            shutil.rmtree(one)
    for program in (prefix / "usr" / "bin").iterdir():
        if not program.name.startswith("wsrep_sst_"):
            program.unlink()


def _id(provider: Path) -> str:
    return f"galera-{hashlib.sha256(provider.read_bytes()).hexdigest()[:12]}"
