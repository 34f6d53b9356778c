"""The list of deprecated options, against the warnings of the builds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest

from flushlab.build import Build
from flushlab.build.inspect import refused, verbose_help
from flushlab.errors import ServerError
from flushlab.server import Sandbox
from flushlab.settings.catalog import canonical
from flushlab.settings.option_names import load_option_names, read_help, shape_of
from tests.conftest import flavors
from tests.contract.test_check_soak import NOT_ASKED

WARNS = re.compile(r"'?(?:--|@@)?([a-z][\w-]+)(?:/-\w|=\w+)?'? is deprecated", re.IGNORECASE)
BY_ITSELF = ("mariadb@11.8", "mariadb@11.4", "mariadb@10.11")
"""Servers that warn with --help."""
OF_THE_SANDBOX = re.compile(
    r"datadir|port|bind_address|(skip_)?(networking|grant_tables)|server_id|init_file|.*read_only|offline_mode|"
    r"(mysqlx|admin|ssl|tls|performance_schema_(instrument|consumer)|replicate)_.*|.*(sha2|sha256|_rsa_).*|"
    r"innodb(_force.*|_page_size|_undo.*|_data.*|_temp.*|_log_(group|files).*)|gtid_mode|default_time_zone|"
    r"lower_case_table_names|super_large_pages|large_pages|memlock|core_file|standalone|verbose|secure_.*|log_tc"
)
"""What a sandbox sets itself, or what keeps it from a start."""


def warned_of(complaints: str) -> set[str]:
    return {canonical(match[1]) for match in WARNS.finditer(complaints)}


def at_their_defaults(build: Build) -> list[str]:
    told, found = read_help(verbose_help(build).text), []
    for name in sorted(
        one for one in told.names if not (NOT_ASKED.fullmatch(one) or OF_THE_SANDBOX.fullmatch(one))
    ):
        shape, value = shape_of(name, build.flavor, build.version), told.values.get(name, "")
        option = f"--{name.replace('_', '-')}"
        if value and value != "(No default value)":
            found.append(f"{option}={value}")
        elif shape is not None and shape.optional:
            found.append(option)
    return found


def unlisted(build: Build, names: Iterable[str]) -> list[str]:
    listed = load_option_names()
    return sorted(one for one in names if not listed.deprecated(one, build.flavor, build.version))


@pytest.mark.parametrize("name", BY_ITSELF)
def test_every_option_that_mariadb_warns_of_is_listed(name: str, build: Callable[[str], Build]) -> None:
    asked = build(name)
    arguments = at_their_defaults(asked)
    taken = [one for one in arguments if one not in refused(asked, arguments)]
    warned = warned_of(verbose_help(asked, taken).complaints)
    assert warned
    assert unlisted(asked, warned) == []


@pytest.mark.parametrize("name", flavors("mysql@9.7", "mysql@8.0", "mysql@5.7", *BY_ITSELF))
def test_every_option_that_a_server_warns_of_at_a_start_or_set_is_listed(
    name: str, sandbox: Callable[..., Sandbox], build: Callable[[str], Build]
) -> None:
    asked = build(name)
    server = sandbox(name, arguments=tuple(at_their_defaults(asked)) if asked.flavor == "mysql" else ())
    warned = warned_of(server.said_since_start())
    for variable, _ in server.query("SHOW GLOBAL VARIABLES"):
        with suppress(ServerError):
            server.query(f"SET GLOBAL {variable} = @@GLOBAL.{variable}")
            warned |= {
                one
                for told in server.query("SHOW WARNINGS")
                for one in warned_of(str(told[2]))
                if one == variable
            }
    options = load_option_names().names()
    assert len(warned & options) >= 8
    assert unlisted(asked, warned & options) == []
