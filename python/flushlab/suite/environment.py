"""Environment: how a command finds its server: variables of its environment, and templates for others.

Suite layer, pure. `FLUSHLAB_…` are flushlab's variables; `MYSQL_…` and `DATABASE_URL` those of clients and
frameworks (`client_environment`). With several workers, worker i has its own in `FLUSHLAB_…_i`, and the plain
names mean worker 1.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence

import msgspec

from flushlab.build import Build
from flushlab.errors import UsageError
from flushlab.record import Endpoint
from flushlab.server.databases import require_not_system
from flushlab.server.identifier import quoted
from flushlab.server.sandbox.account import client_environment

FIELDS = ("host", "port", "socket", "user", "password", "database", "url", "jdbc_url")

_DATABASE = re.compile(r"[A-Za-z0-9_$-]{1,64}")
_PASSWORD = re.compile(r"[A-Za-z0-9._~-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Template(msgspec.Struct, frozen=True):
    """A variable that the user asked for: `SPRING_DATASOURCE_URL=jdbc:mysql://{host}:{port}/{database}`."""

    name: str
    text: str


def parse_templates(assignments: Sequence[str]) -> tuple[Template, ...]:
    """The templates of `--env NAME=TEMPLATE`.

    Raises:
        UsageError: another form, or an unknown field.
    """
    templates = []
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator or not _VARIABLE.fullmatch(name):
            raise UsageError(
                f"--env {assignment!r} is not NAME=TEMPLATE",
                hint="for example --env SPRING_DATASOURCE_URL='jdbc:mysql://{host}:{port}/{database}'",
            )
        template = Template(name, text)
        render(template, dict.fromkeys(FIELDS, ""))
        templates.append(template)
    return tuple(templates)


def render(template: Template, fields: Mapping[str, str]) -> str:
    """A template with its fields filled in.

    Raises:
        UsageError: the template has an unknown field.
    """
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(template.text) if name is not None]
        unknown = [name for name in names if name not in FIELDS]
        if not unknown:
            return template.text.format_map(fields)
        reason = f"unknown field {{{unknown[0]}}}"
    except (ValueError, KeyError, IndexError) as error:
        reason = str(error)
    raise UsageError(
        f"--env {template.name}={template.text}: {reason}",
        hint=f"fields: {' '.join(f'{{{name}}}' for name in FIELDS)}; for a literal brace, write it twice",
    )


def check_database(name: str) -> str:
    """Returns the name if it is valid for a database of the user.

    Raises:
        UsageError: the name is invalid, or a system schema of the server.
    """
    if not _DATABASE.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid database name here", hint="use letters, digits, _, - and $, at most 64"
        )
    return require_not_system(name)


def create_database(name: str, characters: str) -> str:
    """SQL that makes the database; `characters` as `database_characters` gives them."""
    return f"CREATE DATABASE IF NOT EXISTS {quoted(name)}{characters}"


def database_characters(charset: str | None, collation: str | None) -> str:
    """Character set and collation in CREATE DATABASE; empty: the server's defaults.

    Raises:
        UsageError: not a valid name of a character set or collation.
    """
    for flag, name, example in (("charset", charset, "utf8mb4"), ("collation", collation, "utf8mb4_bin")):
        if name is not None and not re.fullmatch(r"[A-Za-z0-9_]{1,64}", name):
            raise UsageError(f"--{flag} {name!r} is not a name", hint=f"for example --{flag} {example}")
    clauses = [f" CHARACTER SET {charset}"] if charset is not None else []
    return "".join([*clauses, *([f" COLLATE {collation}"] if collation is not None else [])])


def check_password(text: str | None) -> str | None:
    """Password from FLUSHLAB_PASSWORD; None: not set.

    Raises:
        UsageError: the password would need quoting in SQL, option files or URLs.
    """
    if text and not _PASSWORD.fullmatch(text):
        raise UsageError(
            "the password in FLUSHLAB_PASSWORD has invalid characters",
            hint="use only letters, digits and . _ ~ -, because the password is part of URLs",
        )
    return text or None


def fields_of(build: Build, endpoint: Endpoint, database: str) -> dict[str, str]:
    """Fields of templates."""
    host, port = endpoint.host or "", str(endpoint.port)
    return {
        "host": host,
        "port": port,
        "socket": endpoint.socket or "",
        "user": endpoint.user,
        "password": endpoint.password,
        "database": database,
        "url": f"mysql://{endpoint.user}:{endpoint.password}@{host}:{port}/{database}",
        "jdbc_url": _jdbc_url(build, endpoint, database),
    }


def variables(servers: Sequence[Mapping[str, str]], templates: Sequence[Template]) -> dict[str, str]:
    """Variables for a command; templates have worker 1's fields.

    `servers` are each worker's fields, perhaps with its `name` and its `reset_url`."""
    first = servers[0]
    named = client_environment(first) | {"FLUSHLAB_WORKERS": str(len(servers))}
    for suffix, fields in (("", first), *((f"_{i}", one) for i, one in enumerate(servers, 1))):
        named |= {f"FLUSHLAB_{name.upper()}{suffix}": value for name, value in fields.items()}
    return named | {template.name: render(template, first) for template in templates}


def _jdbc_url(build: Build, endpoint: Endpoint, database: str) -> str:
    """With the account, and what each driver needs.

    Without TLS, MySQL Connector/J needs the server's RSA key, and fetches it only with
    `allowPublicKeyRetrieval` ("Public Key Retrieval is not allowed"). MySQL 5.7's own TLS is too old for
    today's Java. MariaDB Connector/J needs neither option.
    """
    account = f"user={endpoint.user}&password={endpoint.password}"
    address = f"{endpoint.host}:{endpoint.port}/{database}"
    if build.flavor == "mariadb":
        return f"jdbc:mariadb://{address}?{account}"
    return f"jdbc:mysql://{address}?{account}&useSSL=false&allowPublicKeyRetrieval=true"
