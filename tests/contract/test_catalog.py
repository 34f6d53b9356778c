"""The catalog against what real servers say of themselves: existence, default, dynamic or not, range.

MariaDB tells all of it in information_schema.SYSTEM_VARIABLES, MySQL 8 and later in
performance_schema.variables_info; MySQL 5.7 is asked by `--verbose --help` with values beyond the range.
A build that is absent is reported, as everywhere.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flushlab.build import find_build
from flushlab.build.inspect import verbose_help
from flushlab.errors import ServerError
from flushlab.record import Value
from flushlab.server.protocol import Server
from flushlab.settings.candidates import Candidate, propose
from flushlab.settings.catalog import SettingHere, load_catalog
from flushlab.settings.check import check
from flushlab.settings.floor import Floor
from flushlab.settings.option_names import load_option_names, read_help

CATALOG = load_catalog()
BUILDS = ("mariadb@10.11", "mariadb@11.4", "mariadb@11.8", "mysql@5.7", "mysql@8.0", "mysql@9.7")
FAMILIES = re.compile(r"innodb_|binlog|sync_|log_bin|max_binlog")
OUTSIDE = Path(__file__).parent / "outside_the_catalog.toml"
BEYOND = (1 << 63) - 1
"""Larger than this, MySQL 5.7 takes a number for a negative one."""


@pytest.fixture(params=BUILDS, scope="module")
def server(request: pytest.FixtureRequest, shared_sandbox: Callable[[str], Server]) -> Server:
    """Its tests change no value."""
    return shared_sandbox(request.param)


def settings_of(server: Server) -> Iterator[SettingHere]:
    """Those that are variables; Galera's own options are another module's subject (test_galera_options)."""
    for name in CATALOG.names(server.identity.flavor, server.identity.version):
        here = CATALOG.require(name, server.identity.flavor, server.identity.version)
        if not here.part:
            yield here


def variables_of(server: Server) -> dict[str, str]:
    return {str(name): str(value) for name, value in server.query("SHOW GLOBAL VARIABLES")}


def given_by_flushlab(server: Server) -> set[str]:
    """Names that the sandbox itself sets, in its option files or arguments."""
    names: set[str] = set()
    for argument in server.launch.arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        if name in ("defaults-file", "defaults-extra-file"):
            text = Path(value).read_text(encoding="utf-8")
            checked = check(text, server.identity)
            names |= {*checked.settings, *checked.others}
        lone = name.replace("-", "_").removeprefix("loose_")
        names |= {lone, lone.removeprefix("skip_"), lone.removeprefix("disable_")}
    return names


def test_the_server_has_exactly_the_catalogued_settings_that_the_catalog_says(server: Server) -> None:
    variables = variables_of(server)
    identity = server.identity
    wrong = []
    for entry in CATALOG.settings():
        here = CATALOG.here(entry.name, identity.flavor, identity.version)
        if here is None:
            wrong += [f"{name} exists" for name in (entry.name, *entry.aliases) if name in variables]
        elif here.variable not in variables:
            wrong.append(f"{here.variable} does not exist")
    assert not wrong


def test_every_variable_of_the_write_path_is_in_the_catalog_or_left_out_for_a_reason(server: Server) -> None:
    known = {here.variable for here in settings_of(server)} | {
        name for entry in CATALOG.settings() for name in (entry.name, *entry.aliases)
    }
    left_out = patterns()
    found = {name for name in variables_of(server) if FAMILIES.match(name)}
    assert len(found) > 100
    assert not sorted(
        name for name in found - known if not any(fnmatch.fnmatchcase(name, pattern) for pattern in left_out)
    )
    assert not sorted(name for name in found & known if name in left_out)


def test_what_is_left_out_of_the_catalog_exists_somewhere_and_has_one_reason() -> None:
    names = load_option_names()
    options = {name for release in names.releases for name in names.of(release)}
    no_options = {"innodb_version", "innodb_lru_flush_size", "log_bin_basename"}
    newer = {"innodb_index_shrink"}  # than the releases whose options are listed
    listed = patterns()
    assert len(listed) == len(set(listed))
    assert not [one for one in listed if not fnmatch.filter(options | no_options | newer, one)]
    assert all(entry["reason"] for entry in tomllib.loads(OUTSIDE.read_text())["outside"])


def patterns() -> list[str]:
    return [name for one in tomllib.loads(OUTSIDE.read_text())["outside"] for name in one["names"]]


def test_defaults_are_the_servers_own(server: Server) -> None:
    variables, given = variables_of(server), given_by_flushlab(server)
    compiled = compiled_defaults(server)
    wrong = []
    for here in settings_of(server):
        if here.computed or (here.name in given and here.name not in compiled):
            continue
        actual: Value = compiled.get(here.name, variables[here.variable])
        if not here.same(actual, here.default):
            wrong.append(f"{here.name}: the server's default is {actual!r}, the catalog's {here.default!r}")
    assert not wrong


def compiled_defaults(server: Server) -> dict[str, str]:
    """The defaults that the server tells whatever is set; on MySQL, of what the sandbox itself sets."""
    if server.identity.flavor == "mariadb":
        rows = server.query("SELECT VARIABLE_NAME, DEFAULT_VALUE FROM information_schema.SYSTEM_VARIABLES")
        told = {str(name).lower(): str(default) for name, default in rows if default is not None}
        return {here.name: told[here.variable] for here in settings_of(server) if here.variable in told}
    given = given_by_flushlab(server)
    values = read_help(verbose_help(find_build(server.identity.build_id)).text).values
    return {name: value for name, value in values.items() if name in given}


def test_dynamic_settings_can_be_set_and_the_others_are_read_only(server: Server) -> None:
    wrong = []
    for here in settings_of(server):
        try:
            server.query(f"SET GLOBAL {here.variable} = @@GLOBAL.{here.variable}")
            dynamic = True
        except ServerError as error:
            # 11.4 says of wsrep_trx_fragment_size without Galera that the arguments are incorrect (1210).
            without_galera = here.entry.cluster and re.search(r"not started|error 1210", str(error))
            assert without_galera or "read only" in str(error), f"{here.name}: {error}"
            dynamic = bool(without_galera)
        if dynamic != (here.dynamic or here.partly_dynamic):
            wrong.append(f"{here.name}: the server says dynamic={dynamic}")
    assert not wrong


def test_ranges_are_the_servers_own(server: Server) -> None:
    wrong = []
    checked = 0
    for here, low, high in ranges_of(server):
        checked += 1
        assert here.minimum is not None, here.name
        assert here.maximum is not None, here.name
        # variables_info cuts fractions: 99.999 shows as 99.
        told = (
            {float(here.minimum), float(int(here.minimum))},
            {float(here.maximum), float(int(here.maximum))},
        )
        if low not in told[0] or high not in told[1]:
            wrong.append(
                f"{here.name}: the server allows {low} to {high}, the catalog {here.describe_range()}"
            )
    assert not wrong
    assert checked >= 10


def ranges_of(server: Server) -> Iterator[tuple[SettingHere, float, float]]:
    """Each numeric setting with the range that the server tells."""
    numeric = {
        here.variable: here for here in settings_of(server) if here.type in ("integer", "size", "float")
    }
    if server.identity.flavor == "mariadb":
        columns = "VARIABLE_NAME, NUMERIC_MIN_VALUE, NUMERIC_MAX_VALUE"
        sql = f"SELECT {columns} FROM information_schema.SYSTEM_VARIABLES"
    elif server.identity.version >= (8, 0):
        sql = "SELECT VARIABLE_NAME, MIN_VALUE, MAX_VALUE FROM performance_schema.variables_info"
    else:
        yield from ranges_of_help(server, numeric)
        return
    for name, low, high in server.query(sql):
        if str(name).lower() in numeric:
            yield numeric[str(name).lower()], float(low), float(high)


def ranges_of_help(
    server: Server, numeric: dict[str, SettingHere]
) -> Iterator[tuple[SettingHere, float, float]]:
    """What MySQL 5.7 makes of 0 and of very large values when it reads its options."""
    build = find_build(server.identity.build_id)
    ends = []
    for outside in (0, BEYOND):
        asked = [f"--{here.name.replace('_', '-')}={outside}" for here in numeric.values()]
        ends.append(read_help(verbose_help(build, asked).text).values)
    for here in numeric.values():
        low, high = (float(end[here.name]) for end in ends)
        assert here.maximum is not None
        if high < 0 or here.maximum >= BEYOND:  # printed as a signed number, or beyond what can be asked
            high = float(here.maximum)
        yield here, low, high


@pytest.mark.parametrize("server", ["mariadb@10.11", "mariadb@11.8"], indirect=True)
def test_enumerations_are_the_servers_own_on_mariadb(server: Server) -> None:
    rows = server.query("SELECT VARIABLE_NAME, ENUM_VALUE_LIST FROM information_schema.SYSTEM_VARIABLES")
    listed = {str(name).lower(): tuple(str(values).split(",")) for name, values in rows if values}
    enumerations = [here for here in settings_of(server) if here.type == "enumeration"]
    assert {here.name: here.values for here in enumerations} == {
        here.name: listed[here.variable] for here in enumerations
    }


def test_what_is_proposed_is_accepted_by_the_server(server: Server) -> None:
    """Each candidate that needs no restart is set, in its own order, read back the same, and put back."""
    checked = 0
    for candidate in dynamic_candidates(server):
        before = {name: read(server, name) for name in candidate.settings}
        for name, value in candidate.settings.items():
            write(server, name, value)
            assert read(server, name) == value, candidate.settings
        for name in reversed(before):
            write(server, name, before[name])
        assert {name: read(server, name) for name in before} == before
        checked += 1
    assert checked >= 10


def dynamic_candidates(server: Server) -> Iterator[Candidate]:
    """What is proposed at throwaway and can be set at run time; nothing that resizes files or memory."""
    base = {here.name: read(server, here.name) for here in settings_of(server)}
    for candidate in propose(
        server.identity,
        base=base,
        floor=Floor.THROWAWAY,
        storage=server.storage,
        launch=server.launch,
        memory_bytes=4 << 30,
    ):
        heres = [here for here in settings_of(server) if here.name in candidate.settings]
        if candidate.group not in ("redo", "pool", "doublewrite") and all(
            here.dynamic and not here.partly_dynamic for here in heres
        ):
            yield candidate


def read(server: Server, name: str) -> Value:
    here = CATALOG.require(name, server.identity.flavor, server.identity.version)
    return here.parse(server.query(f"SELECT @@GLOBAL.{here.variable}")[0][0])


def write(server: Server, name: str, value: Value) -> None:
    here = CATALOG.require(name, server.identity.flavor, server.identity.version)
    server.query(f"SET GLOBAL {here.variable} = {here.sql(value)}")
