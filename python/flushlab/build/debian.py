"""Source `debian`: servers from Debian's packages, unpacked into a private prefix.

Those of this system's own release (Debian or Ubuntu) run with its libraries. Packages of other releases are
closed over their dependencies. Apt resolves these and verifies each download. Its sources, lists and caches
lie under flushlab's home, and it sees a system on which only perl is installed. So every library comes along,
the C library and the dynamic linker included, and a newer release's server runs here. The mirror is the one
that this system's apt uses for Debian, or `$FLUSHLAB_DEBIAN_MIRROR`; signatures are checked with Debian's
archive keyring.

The `-core` packages hold all that a server needs, and none starts anything when it is unpacked. Nothing needs
root. A release's versions move: a name promises a series, no exact version. The packages' hashes tell whether
two builds are the same. They are in the prefix's `build.json`, and shape its name.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from flushlab.atomic import locked_by_one
from flushlab.build import apt
from flushlab.build.apt import Package
from flushlab.build.build import Build
from flushlab.build.inspect import inspect
from flushlab.build.prefix import BuildSource, Obtainable, let_all_enter, publish, unpacked_by
from flushlab.errors import ServerError
from flushlab.progress import Progress
from flushlab.record.machine import Flavor, server_name

NAME = "debian"
MIRROR = "FLUSHLAB_DEBIAN_MIRROR"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
"""Of the package debian-archive-keyring."""
LAUNCH = "launch"
"""Folder of a prefix whose `bin` and `sbin` hold scripts that run the programs by the prefix's own linker."""

_SUITES = {"stable", "testing", "unstable", "sid", "oldstable", "oldoldstable"}
_TARGETS = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)"

# Scripts run with this system's perl; its package and modules would be a third of the prefix.
_STATUS = (
    "Package: perl",
    "Status: install ok installed",
    "Version: 99",
    "Architecture: {architecture}",
    "Multi-Arch: allowed",
    "Maintainer: none",
    "Description: this system's own",
)


def available() -> bool:
    return apt.available() and KEYRING.is_file() and mirror() is not None


def mirror() -> str | None:
    chosen = os.environ.get(MIRROR)
    if chosen:
        return chosen.rstrip("/")
    suites = _SUITES | {os_release().get("VERSION_CODENAME", "sid")}
    done = apt.run(["apt-get", *apt.options(), "indextargets", "--format", _TARGETS, "Created-By: Packages"])
    for line in done.stdout.splitlines():
        address, suite, component, *origin = line.split()
        unknown = origin[:1] == ["$(ORIGIN)"]  # while the lists are not fetched
        is_debian = origin == ["Debian"] or (unknown and os_release().get("ID") == "debian")
        if is_debian and suite in suites and component == "main" and not address.startswith("cdrom:"):
            return address.rstrip("/")
    return None


def os_release() -> dict[str, str]:
    try:
        text = Path("/etc/os-release").read_text()
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))


def candidate_version(suite: str, package: str) -> str | None:
    version = apt.candidate_version(package, suite)
    if version is None:
        _version_seen(suite, package).unlink(missing_ok=True)
    else:
        apt.write_once(_version_seen(suite, package), [version])
    return version


def known_version(suite: str, package: str) -> str | None:
    """The last answer of `candidate_version`: apt takes a second to read a suite's lists."""
    try:
        return _version_seen(suite, package).read_text().strip()
    except OSError:
        return None


def refresh_lists(suite: str, progress: Progress) -> None:
    if (address := mirror()) is None:
        raise ServerError(
            f"this system's apt has no Debian mirror to fetch Debian {suite} from",
            hint=f"set {MIRROR} to the address of one",
        )
    _configure(suite, address)
    apt.refresh_lists(progress, suite)


def unpack_alone(packages: Sequence[str], prefix: Path, progress: Progress, suite: str) -> list[Package]:
    refresh = partial(refresh_lists, suite) if suite else apt.refresh_lists
    return apt.unpack(packages, prefix, progress, suite=suite, refresh=refresh)


def resolve(suite: str, packages: Sequence[str]) -> list[Package]:
    done = apt.run([*_install(suite), "--print-uris", *packages])
    found = apt.listed(done.stdout)
    if done.returncode != 0 or not found:
        raise ServerError(
            f"apt cannot resolve {' '.join(packages)} in Debian {suite}: {_reason(done.stdout, done.stderr)}",
            hint="the release may be in transition: try again later",
        )
    return sorted(found, key=lambda package: package.file)


def unpack(
    suite: str, packages: Sequence[str], files: Sequence[Package], prefix: Path, progress: Progress
) -> None:
    progress(f"downloading {', '.join(packages)} of Debian {suite}, {len(files)} packages with libraries")
    archives = apt.folder_of(suite) / "cache" / "archives"
    done = apt.run([*_install(suite), "--download-only", *packages])
    if done.returncode != 0:
        raise ServerError(
            f"apt could not download {' '.join(packages)}: {_reason(done.stdout, done.stderr)}", hint=apt.HINT
        )
    progress(f"unpacking {', '.join(packages)}")
    apt.extract(files, archives, prefix)
    (archives.parent / "pkgcache.bin").unlink(missing_ok=True)  # 50 MB, made anew from the lists


def launcher(prefix: Path) -> tuple[str, ...]:
    folders = ("usr/lib/*", "lib/*", "usr/lib")
    linkers = [linker for folder in folders for linker in prefix.glob(f"{folder}/ld-linux*.so.*")]
    if not linkers:
        raise ServerError(f"the packages in {prefix} contain no dynamic linker")
    libraries = ":".join(apt.library_folders(prefix))
    return (str(linkers[0]), "--inhibit-cache", "--library-path", libraries)


def make_launchers(prefix: Path) -> Path:
    """A base directory whose programs run anywhere: scripts for binaries, links for all else.

    Scripts such as mariadb-install-db start programs of their base directory, and those of `prefix/usr` do
    not run by this system's dynamic linker.
    """
    base = prefix / LAUNCH
    linker, *options, libraries = (word.replace(str(prefix), "$prefix") for word in launcher(prefix))
    for folder in ("bin", "sbin"):
        (base / folder).mkdir(parents=True)
        for program in sorted((prefix / "usr" / folder).glob("*")):
            script = base / folder / program.name
            if not _is_elf(program):
                script.symlink_to(f"../../usr/{folder}/{program.name}")
                continue
            script.write_text(
                "#!/bin/sh\n"
                'prefix=$(cd "${0%/*}/../.." && pwd) || exit 1\n'
                f'exec "{linker}" {" ".join(options)} "{libraries}"'
                f' "$prefix/usr/{folder}/{program.name}" "$@"\n'
            )
            script.chmod(0o755)
    for folder in ("lib", "share"):
        (base / folder).symlink_to(f"../usr/{folder}")
    let_all_enter(base)
    return base


def _configure(suite: str, address: str) -> None:
    folder = apt.folder_of(suite)
    folder.mkdir(parents=True, exist_ok=True)
    architecture = apt.run(["dpkg", "--print-architecture"]).stdout.strip()
    status = apt.write_once(folder / "status", [line.format(architecture=architecture) for line in _STATUS])
    sources = apt.write_once(
        folder / "sources.list", [f"deb [arch={architecture} signed-by={KEYRING}] {address} {suite} main"]
    )
    apt.write_once(
        folder / "apt.conf",
        [
            *apt.QUIET,
            "#clear APT::Default-Release;",
            'Acquire::ForceHash "SHA256";',
            'APT::Install-Recommends "false";',
            'Dir::Etc::sourceparts "/dev/null";',
            'Dir::Etc::preferences "/dev/null";',
            'Dir::Etc::preferencesparts "/dev/null";',
            f'Dir::Etc::sourcelist "{sources}";',
            f'Dir::State "{folder}/state";',
            f'Dir::State::status "{status}";',
            f'Dir::Cache "{folder}/cache";',
            *apt.sandbox_user(),
        ],
    )


def _version_seen(suite: str, package: str) -> Path:
    return apt.folder_of(suite) / f"{package}.version"


def _install(suite: str) -> list[str]:
    return ["apt-get", *apt.options(suite), "-q", "-y", "install"]


def _reason(said: str, complained: str) -> str:
    unmet = [
        line.strip() for line in said.splitlines() if re.match(r"^ \S+ : |^\s+(Depends|PreDepends): ", line)
    ]
    return "; ".join([apt.last_line(complained), *unmet[:5]])


def _is_elf(file: Path) -> bool:
    with suppress(OSError):
        if file.is_file():
            with file.open("rb") as handle:
                return handle.read(4) == b"\x7fELF"
    return False


SERVER = "mariadb-server-core"
CLIENT = "mariadb-client-core"


class DebianSeries(msgspec.Struct, frozen=True, kw_only=True):
    """A series and the Debian release that carries it; `numbers` are known before its lists are fetched."""

    flavor: Flavor
    numbers: tuple[int, int]
    suite: str
    packages: tuple[str, ...]


SERIES = (
    DebianSeries(flavor="mariadb", numbers=(10, 11), suite="bookworm", packages=(SERVER, CLIENT)),
    DebianSeries(flavor="mariadb", numbers=(11, 8), suite="trixie", packages=(SERVER, CLIENT)),
    DebianSeries(
        flavor="mysql", numbers=(9, 7), suite="sid", packages=("mysql-server-core", "mysql-client-core")
    ),
)


def _obtainable() -> Iterable[Obtainable]:
    if not apt.available():
        return
    own = _own()
    if own is not None:
        yield own
    if not available():
        return
    for one in SERIES:
        known = known_version(one.suite, one.packages[0])
        numbers = upstream_version(known) if known else one.numbers
        if own is not None and (own.flavor, own.version[:2]) == (one.flavor, numbers[:2]):
            continue
        yield Obtainable(
            flavor=one.flavor,
            version=numbers,
            source=NAME,
            what=f"package {one.packages[0]} of Debian {one.suite}",
            release=one.suite,
        )


def _get(wanted: Obtainable, progress: Progress) -> Build:
    if not wanted.release:
        return _get_own(progress)
    one = next(one for one in SERIES if (one.flavor, one.suite) == (wanted.flavor, wanted.release))
    with locked_by_one(apt.folder_of(one.suite) / "lock"):
        return _get_of_release(one, wanted, progress)


def _own() -> Obtainable | None:
    version = apt.candidate_version(SERVER)
    fields = os_release()
    known = {one.suite: one.numbers for one in SERIES if one.packages[0] == SERVER}
    guessed = known.get(fields.get("VERSION_CODENAME", "")) if fields.get("ID") == "debian" else None
    numbers = upstream_version(version) if version else guessed
    if numbers is None:
        return None
    return Obtainable(flavor="mariadb", version=numbers, source=NAME, what=f"package {SERVER}")


def _get_own(progress: Progress) -> Build:
    if apt.candidate_version(SERVER) is None:
        apt.refresh_lists(progress)
    version = apt.candidate_version(SERVER)
    if version is None:
        raise ServerError(
            f"the package {SERVER} is not in this release's package lists",
            hint="check the sources under /etc/apt, or use a server with --basedir",
        )

    def fill(prefix: Path) -> tuple[Build, list[Package]]:
        origin = apt.unpack([SERVER, CLIENT], prefix, progress)
        usr = prefix / "usr"
        binaries = [usr / "sbin" / "mariadbd", *sorted((usr / "bin").iterdir())]
        origin += apt.complete_libraries(binaries, prefix, progress)
        libraries = apt.library_folders(prefix)
        return inspect(binaries[0], source=NAME, prefix=prefix, library_path=libraries), origin

    return publish(f"{NAME}-mariadb-{_file_name(version)}", fill)


def _get_of_release(one: DebianSeries, wanted: Obtainable, progress: Progress) -> Build:
    refresh_lists(one.suite, progress)
    version = candidate_version(one.suite, one.packages[0])
    if version is None:
        raise ServerError(
            f"Debian {one.suite} currently has no package {one.packages[0]}",
            hint="use another build; `flushlab server list` lists them",
        )
    numbers = upstream_version(version)
    if numbers[:2] != wanted.version[:2]:
        there_is = server_name(one.flavor, numbers[:2])
        raise ServerError(
            f"Debian {one.suite} has moved on to {there_is} ({version})"
            f" and no longer has {server_name(one.flavor, wanted.version[:2])}",
            hint=f"use {there_is}, or a tarball of the other version by path or URL",
        )

    files = resolve(one.suite, one.packages)

    def fill(prefix: Path) -> tuple[Build, list[Package]]:
        unpack(one.suite, one.packages, files, prefix, progress)
        return _launched(prefix, one.flavor), files

    digest = hashlib.sha256("\n".join(file.sha256 for file in files).encode()).hexdigest()
    plain = version.rpartition(":")[2]
    key = f"{NAME}-{one.suite}-{one.flavor}-{_file_name(plain)}-{digest[:12]}"
    return publish(key, fill)


SOURCE = BuildSource(name=NAME, installed=partial(unpacked_by, NAME), obtainable=_obtainable, get=_get)


def upstream_version(version: str) -> tuple[int, ...]:
    match = re.fullmatch(r"(?:\d+:)?(\d+(?:\.\d+)*).*", version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def _launched(prefix: Path, flavor: Flavor) -> Build:
    program = "mariadbd" if flavor == "mariadb" else "mysqld"
    found = inspect(
        prefix / "usr" / "sbin" / program,
        source=NAME,
        prefix=prefix,
        launcher=launcher(prefix),
    )
    base = make_launchers(prefix)
    return msgspec.structs.replace(
        found,
        client=str(base / "bin" / Path(found.client).name) if found.client else None,
        install_db=str(base / "bin" / Path(found.install_db).name) if found.install_db else None,
    )


def _file_name(version: str) -> str:
    return re.sub(r"[^0-9A-Za-z.+~-]", "-", version)
