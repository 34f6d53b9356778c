"""Containers: the throwaway profile for those who must stay on containers.

Advice layer, pure: the same settings as text for Docker Compose, Testcontainers and GitHub Actions, with the
data directory on a tmpfs. A container restores no template: every start initialises and migrates.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from flushlab.advice.statements import template
from flushlab.build.find import parse_name, resolved
from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.record.machine import Flavor
from flushlab.settings.catalog import load_catalog
from flushlab.suite.profile import CHOICES, throwaway

Form = Literal["compose", "testcontainers", "github-action"]

TEMPLATES: Mapping[Form, str] = {
    "compose": "compose.yaml.j2",
    "testcontainers": "testcontainers.java.j2",
    "github-action": "github-action.yaml.j2",
}
OLDEST: Mapping[Flavor, tuple[int, ...]] = {"mysql": (5, 7), "mariadb": (10, 4)}
"""The profile is not known to work below."""

_NEWEST = 999
"""`mysql:8.0` is the newest image of its series."""

_HINT = "name the image's flavor and version: --server mysql@8.0 or --server mariadb@10.11"


class Image(msgspec.Struct, frozen=True, kw_only=True):
    flavor: Flavor
    version: tuple[int, ...]
    tag: str

    @property
    def name(self) -> str:
        return f"{self.flavor}:{self.tag}"

    @property
    def newest(self) -> str:
        if self.tag.count(".") > 1:
            return ""
        return (
            f"{self.name} is the newest release of its series; SELECT VERSION() prints it. To pin a release,"
            f" write all numbers: --server {self.flavor}@{self.tag}.N"
        )


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    word: str
    why: str


def parse_image(server: str) -> Image:
    wanted = resolved(parse_name(server))
    if wanted.flavor not in ("mysql", "mariadb") or not wanted.version:
        raise UsageError(f"--server {server}: there is no known image for it", hint=_HINT)
    flavor: Flavor = "mysql" if wanted.flavor == "mysql" else "mariadb"
    version = (*wanted.version, *(_NEWEST,) * (3 - len(wanted.version)))
    if version < OLDEST[flavor]:
        oldest = ".".join(map(str, OLDEST[flavor]))
        raise UsageError(
            f"--server {server}: the profile is for {flavor} {oldest} and newer",
            hint=f"--server {flavor}@{oldest}",
        )
    return Image(flavor=flavor, version=version, tag=".".join(map(str, wanted.version)))


def arguments(image: Image, chosen: Mapping[str, Value] | None = None) -> tuple[Argument, ...]:
    catalog = load_catalog()
    reasons = {
        one.name: one.why.partition(";")[0] for one in CHOICES if one.holds(image, "memory")
    } | dict.fromkeys(chosen or {}, "asked for")
    words = []
    for name, value in throwaway(image, "memory", chosen).items():
        here = catalog.require(name, image.flavor, image.version) if name in catalog else None
        spelled = name.replace("_", "-")
        if here is None or not here.entry.switch:
            word = f"--{spelled}={value if here is None else here.render(value)}"
        else:  # `--log-bin=OFF` would write a log called OFF
            word = f"--{spelled}" if here.parse(value) == "ON" else f"--skip-{spelled}"
        words.append(Argument(word=word, why=reasons[name]))
    return tuple(words)


def render(
    form: Form,
    image: Image,
    *,
    database: str,
    command: Sequence[str] = (),
    chosen: Mapping[str, Value] | None = None,
) -> str:
    return template(TEMPLATES[form], quoted=_quoted, shell=shlex.quote).render(
        image=image.name,
        newest=image.newest,
        flavor=image.flavor,
        prefix="MYSQL" if image.flavor == "mysql" else "MARIADB",
        arguments=arguments(image, chosen),
        database=database,
        class_name="MySQLContainer" if image.flavor == "mysql" else "MariaDBContainer",
        password="throwaway",
        command=shlex.join(command) or "./run-the-tests",
    )


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
