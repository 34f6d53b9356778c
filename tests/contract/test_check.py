"""What `settings --check` says of option files, against what the binaries make of them."""

from __future__ import annotations

import runpy
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.build.inspect import refused, verbose_help
from flushlab.errors import StartFailed
from flushlab.server import Sandbox
from flushlab.settings.catalog import SettingHere, load_catalog
from flushlab.settings.check import check
from flushlab.settings.option_names import HelpText, Release, load_option_names, load_option_shapes, read_help
from flushlab.settings.optionfile import groups_of, instance_of
from flushlab.settings.reading import read
from tests.conftest import flavors

CATALOG = load_catalog()
_SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "option_names.py"))
ask_ignored, ask_limited, ask_shapes = (_SCRIPT[f"ask_{what}"] for what in ("ignored", "limited", "shapes"))
BUILDS = ("mariadb@10.11", "mariadb@11.4", "mariadb@11.8", "mysql@5.7", "mysql@8.0", "mysql@9.7")
NOT_ALONE = {"innodb_page_size", "innodb_log_write_ahead_size", "innodb_buffer_pool_size", "expire_logs_days"}
"""Adjusted or refused only when InnoDB starts, or another way to set another one of them."""

FindBuild = Callable[[str], Build]


@pytest.fixture(params=BUILDS)
def any_build(request: pytest.FixtureRequest, build: FindBuild) -> Build:
    return build(request.param)


@pytest.fixture(
    params=flavors(
        "mariadb@10.11", "mysql@8.0", "mysql@5.7", "mysql@9.7", "mariadb@11.8", "mariadb@11.4", first=2
    )
)
def each_flavor(request: pytest.FixtureRequest, build: FindBuild) -> Build:
    return build(request.param)


def heres(build: Build) -> Iterator[SettingHere]:
    for name in CATALOG.names(build.flavor, build.version):
        yield CATALOG.require(name, build.flavor, build.version)


def asked(build: Build, values: dict[str, str]) -> HelpText:
    arguments = [f"--{name.replace('_', '-')}={text}" for name, text in values.items()]
    return read_help(verbose_help(build, arguments).text)


@pytest.mark.parametrize("suffix", ["", "@s1", "@S1", "1", "_other"])
def test_an_instance_reads_the_groups_that_end_in_its_suffix(
    any_build: Build, suffix: str, tmp_path: Path
) -> None:
    names = ("mysqld", "server", "mariadb", "mariadbd", "client-server", "galera", "client", "mysqld_safe")
    series = (f"{name}-{version}" for name in names[:4] for version in ("5.7", "8.0", "9.7", "10.11", "11.8"))
    groups = [f"{name}{end}" for name in (*names, *series) for end in ("", "@s1", "1", "_other")]
    file = tmp_path / "my.cnf"
    file.write_text("".join(f"[{name}]\nport={port}\n" for port, name in enumerate(groups, start=1)))
    words = [f"--defaults-file={file}", f"--defaults-group-suffix={suffix}", "--print-defaults"]
    said = subprocess.run(
        [*any_build.command, *words], env=any_build.environment, capture_output=True, text=True, check=True
    )
    read = [groups[int(word.removeprefix("--port=")) - 1] for word in said.stdout.split() if "port=" in word]
    assert set(read) == groups_of(any_build.identity, suffix) & set(groups)
    assert not suffix or {instance_of(name) for name in read} >= {suffix.lower()}


def test_the_list_of_options_is_the_builds_own(any_build: Build) -> None:
    listed = load_option_names()
    release = Release(any_build.flavor, any_build.version)
    if release not in listed.releases:
        pytest.skip(f"{any_build.name} is not the release of its series that is listed")
    assert listed.of(release) == read_help(verbose_help(any_build).text).names
    others = listed.names() - listed.of(release)
    assert _SCRIPT["listed"](listed.ignorers)[release] == ask_ignored(any_build, others)
    some = sorted(listed.of(release))[::40]
    assert _SCRIPT["listed"](listed.limited)[release] & set(some) == ask_limited(any_build, some)


def test_the_shapes_of_options_are_the_builds_own(any_build: Build) -> None:
    listed = load_option_shapes().get(Release(any_build.flavor, any_build.version))
    if listed is None:
        pytest.skip(f"{any_build.name} is not the release of its series that is listed")
    some = dict(list(listed.items())[:: len(listed) // 6])
    assert ask_shapes(any_build, some) == some


@pytest.mark.parametrize("which", ["smallest", "odd", "largest"])
def test_numbers_become_what_the_server_makes_of_them(any_build: Build, which: str) -> None:
    numeric = [
        here
        for here in heres(any_build)
        if here.type in ("integer", "size", "float") and here.name not in NOT_ALONE and not here.entry.cluster
    ]
    texts = {here.name: text_for(here, which) for here in numeric}
    told = asked(any_build, texts).values
    wrong, checked = [], 0
    for here in numeric:
        expected = read(here, texts[here.name]).value
        actual = float(told[here.name]) if here.type == "float" else int(told[here.name])
        if actual < 0:
            continue  # an unsigned number that MySQL prints as a signed one
        checked += 1
        if expected != actual:
            wrong.append(
                f"{here.name} = {texts[here.name]}: the server changes it to {actual}, not {expected}"
            )
    assert not wrong
    assert checked >= 30


def text_for(here: SettingHere, which: str) -> str:
    """A value below the range, in it but a multiple of nothing, or far beyond it."""
    low, high = int(here.minimum or 0), int(here.maximum or 0)
    if which == "smallest":
        return "0"
    return str(low + min(high - low, 1 << 24) // 3 + 1) if which == "odd" else str((1 << 63) - 1)


@pytest.mark.parametrize("text", ["no", "yes", "2", "TRUE", "off"])
def test_what_is_no_boolean_is_ignored(each_flavor: Build, text: str) -> None:
    here = CATALOG.require("innodb_file_per_table", each_flavor.flavor, each_flavor.version)
    told = asked(each_flavor, {here.name: text}).values[here.name]
    assert here.parse(told) == read(here, text).value


def test_the_probe_refuses_nothing_for_what_is_missing_around_it(any_build: Build) -> None:
    assert refused(any_build, ["--lower-case-table-names=0", "--sync-binlog=often"]).keys() == {
        "--sync-binlog=often"
    }


REFUSED = {
    "sync_binlog": "often",
    "binlog_format": "RAW",
    "max_binlog_size": "1.5M",
    "innodb_flush_log_at_trx_comit": "1",
    "innodb_redo_log_capacitee": "1G",
    "tx_isolation": "SERIALIZABLE",
}


@pytest.mark.parametrize("name", ["mariadb@10.11", "mysql@5.7", "mysql@8.0"])
def test_what_the_check_calls_fatal_stops_the_server(
    name: str, sandbox: Callable[..., Sandbox], build: FindBuild
) -> None:
    """What the program refuses by itself with `--help`, it refuses at a start: it parses options before both.
    The others are tried at a start, and one of each kind."""
    for option, text in REFUSED.items():
        assert not check(f"[mysqld]\n{option} = {text}\n", build(name).identity).starts, option
    arguments = [f"--{option.replace('_', '-')}={text}" for option, text in REFUSED.items()]
    by_itself = refused(build(name), arguments).keys()
    assert len(by_itself) >= 3
    for argument in {*arguments} - by_itself | {arguments[0], arguments[-1]}:
        with pytest.raises(StartFailed):
            sandbox(name, arguments=(argument,))


CUT = {
    "innodb_io_capacity": "4000",
    "innodb_io_capacity_max": "2000",
    "innodb_max_dirty_pages_pct": "80",
    "innodb_max_dirty_pages_pct_lwm": "95",
}
MYSQL = {**CUT, "innodb_buffer_pool_instances": "4", "innodb_log_write_ahead_size": "5000"}
ACCEPTED = {
    "mysql@5.7": {**MYSQL, "innodb_buffer_pool_size": "200M"},
    "mysql@8.0": {**MYSQL, "innodb_buffer_pool_size": "200M", "innodb_lock_wait_timeout": "9999999999"},
    "mysql@9.7": MYSQL,
    "mariadb@10.11": {**CUT, "innodb_buffer_pool_size": "200000000", "innodb_flush_log_at_trx_commit": "9"},
    "mariadb@11.4": {**CUT, "innodb_log_file_size": "8000000"},
    "mariadb@11.8": {**CUT, "innodb_log_file_size": "8000000"},
}


@pytest.mark.parametrize("name_of_build", ACCEPTED)
def test_a_started_server_holds_what_the_check_foretells(
    name_of_build: str, sandbox: Callable[..., Sandbox], build: FindBuild
) -> None:
    lines = "".join(f"{name} = {text}\n" for name, text in ACCEPTED[name_of_build].items())
    foretold = check(f"[mysqld]\n{lines}", build(name_of_build).identity)
    assert foretold.starts
    arguments = tuple(f"--{name.replace('_', '-')}={text}" for name, text in ACCEPTED[name_of_build].items())
    server = sandbox(name_of_build, arguments=arguments)
    assert server.read_back(foretold.settings) == foretold.settings


def test_the_modes_of_sql_are_those_that_the_server_takes(any_build: Build) -> None:
    here = CATALOG.require("sql_mode", any_build.flavor, any_build.version)
    older = CATALOG.require("sql_mode", "mysql", (5, 7, 22)).values
    assert not verbose_help(any_build, [f"--sql-mode={','.join(here.values)}"]).refuses
    for text in (*(set(older) - set(here.values)), "STRICT_TRANS_TABLES, NO_ZERO_DATE"):
        assert verbose_help(any_build, [f"--sql-mode={text}"]).refuses
        assert read(here, text).fatal
