"""Thousands of option files, generated and mutated: `settings --check` foretells each server's verdict.

The servers parse them with `--print-defaults` and `--verbose --help`, which start nothing.
`FLUSHLAB_OPTION_FILES` sets the number of files per server, as `make soak` does; without it no test runs.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.settings.catalog import load_catalog
from flushlab.settings.check import CheckedFile, check
from flushlab.settings.option_names import load_option_names, shape_of
from flushlab.settings.optionfile import groups_of, lines, reads_whole_lines
from tests.conftest import require_build

BUILDS = ("mariadb@10.11", "mariadb@11.4", "mariadb@11.8", "mysql@5.7", "mysql@8.0", "mysql@9.7")
FILES = int(os.environ.get("FLUSHLAB_OPTION_FILES") or 0)
SEED = int(os.environ.get("FLUSHLAB_OPTION_FILES_SEED", "34"))
pytestmark = pytest.mark.soak("FLUSHLAB_OPTION_FILES")

PIECES = (
    *("[mysqld]", "[mysqld] x", "[ mysqld ]", "[MySQLd ]", "[client]", "[mysqld", "[]", "[server]#", "]"),
    *(
        "port=1",
        " port = 2 ",
        "port=",
        "port",
        "port\t=\t3",
        "port=4#c",
        "port=5 # c",
        "# c",
        "; c",
        "port;c=1",
    ),
    *(
        "port: 6",
        "---",
        "port 7",
        "=8",
        "--port=9",
        "port==1",
        "a.b=1",
        "ärger=1",
        "!foo",
        "!include",
        "!",
        "\u00a0",
    ),
    *(
        "init-connect='a b'",
        'init-connect="a\'b"',
        "init-connect='a' 'b'",
        "init-connect='a#b' #c",
        "init-connect='a",
    ),
    *(
        "init-connect=a\\#b",
        "init-connect='a\\'#b'",
        "init-connect=\\s\\n\\q\\\\x",
        "init-connect='",
        'init-connect=""',
    ),
    *("init-connect=a=b", "init-connect='a\\", "init-connect=\\", "init-connect=ü#ü", "init-connect=a;b"),
    *("x" * 4094, "x" * 4096, "#" + "x" * 4096, "init-connect=" + "y" * 4082, "init-connect=" + "y" * 5000),
)
NOISE = "[]#;='\"\\ \t\r!-_:.\n\fx1\0\ufeff\x1a"


def text_of(chance: random.Random) -> str:
    """Lines from `PIECES`, some with a letter that is put in, left out or doubled."""
    made = []
    for piece in chance.choices(PIECES, k=chance.randrange(1, 6)):
        for _ in range(chance.choice((0, 0, 0, 1, 2))):
            place = chance.randrange(min(len(piece), 40) + 1)
            piece = (
                piece[:place]
                + chance.choice((chance.choice(NOISE), ""))
                + piece[place + chance.randrange(2) :]
            )
        made.append(piece)
    end, mark = chance.choice(("\n", "\n", "\n", "\r\n")), chance.choice(("",) * 19 + ("\ufeff",))
    return (
        mark + end.join(["[mysqld]"] * chance.choice((0, 1, 1, 1)) + made) + chance.choice((end, "", "\0\0"))
    )


def told_of(wrong: Sequence[tuple[str, ...]]) -> str:
    """How many files, and the first ones, without long runs of one letter."""
    return f"{len(wrong)} of {FILES}: " + re.sub(r"(.)\1{20,}", r"\1{...}", "\n".join(map(repr, wrong[:60])))


def asked(build: Build, file: Path, *way: str) -> tuple[bool, str, str]:
    """Whether the server refuses the file, and what it prints and complains of."""
    share = [f"--lc-messages-dir={build.share}"] if build.share else []
    done = subprocess.run(
        [*build.command, f"--defaults-file={file}", *way, *share],
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **build.environment},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=900,
    )
    return done.returncode != 0, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


@pytest.mark.parametrize("name", BUILDS)
def test_lines_are_what_the_server_makes_of_them(name: str, tmp_path: Path) -> None:
    build, chance, file = require_build(name), random.Random(f"{SEED} {name}"), tmp_path / "my.cnf"
    groups, refused, compared = groups_of(build.identity), 0, 0
    wrong: list[tuple[str, ...]] = []
    whole = reads_whole_lines(build.identity)
    for _ in range(FILES):
        text = text_of(chance)
        file.write_text(text, encoding="utf-8", newline="")
        found = list(lines(text, "my.cnf", whole=whole))
        stops = any(line.anywhere for line in found)
        refuses, said, complaints = asked(build, file, "--print-defaults")
        refused += refuses
        here = [line for line in found if line.group in groups and (line.name or line.problem)]
        here = [line for line in here if not line.passed_over]
        expected = " ".join(line.argument for line in here)
        if stops != refuses:
            wrong.append((text, complaints[:200]))
        elif not stops and not any(line.problem for line in here):
            compared += 1
            told = said.partition("arguments:\n")[2].partition("--lc-messages-dir=")[0]
            if told.strip() != expected.strip():
                wrong.append((text, told, expected))
    assert not wrong, told_of(wrong)
    assert refused >= FILES // 20 and compared >= FILES // 10


VALUES = (
    *(
        "0",
        "1",
        "2",
        "3",
        "7",
        "100",
        "4096",
        "1M",
        "2g",
        "1T",
        "3KB",
        "1.5",
        "-1",
        "+4",
        "0x10",
        "1e3",
        "1 0",
    ),
    *(
        "ON",
        "off",
        "TRUE",
        "No",
        "maybe",
        "",
        "DEFAULT",
        "FORCE",
        "default",
        "''",
        "abc",
        "a,b",
        "1,2",
        "99999999999",
    ),
)
PREFIXES = ("",) * 12 + ("skip-", "disable-", "enable-", "loose-", "loose-skip-", "maximum-", "skip-enable-")
NOT_ASKED = re.compile(
    r"user|chroot|daemonize|initialize.*|bootstrap|keyring_migration.*|help|version.*|verbose|upgrade|validate_config|"
    r"install|remove|console|log_error.*|language|lc_messages.*|character_sets_dir|gdb|exit_info|plugin_.*|basedir|"
    r"early_plugin_load|no_.*|print_defaults|defaults.*|debug.*|session_track_system_variables|tmpdir|innodb_cmp.*|"
    r"default_authentication_plugin|replicate_same_server_id|secure_file_priv|.*_now|tls_version|admin_tls_version|"
    r".*_dir|.*_file|pid_file|socket|wsrep.*"
)
"""What ends `--help` early, writes somewhere, or depends on files that are there or not."""
NOT_TOLD = re.compile(
    r"default_(tmp_)?storage_engine|gtid_mode|innodb|innodb_(flush_method|change_buffering)"
)
"""Where `--help` is no oracle, because only a start looks at the value. No server starts with these:
MySQL 5.7 and 8.0 and MariaDB 10.11 with default_tmp_storage_engine=abc, MySQL 8.0 with gtid_mode=ON alone or
default_storage_engine=default, MySQL 5.7 with innodb_flush_method='1 0' or
innodb_change_buffering=1M, MariaDB 10.11 with skip-innodb."""
STARTS_BADLY = "takes it for 0 and ends"
"""Nor of a wrong number behind loose_ with which MariaDB's InnoDB does not start."""
NOT_JUDGED = {
    "mariadb": ("plugin",),
    "mysql": ("plugin", "product", "unknown-name", "misspelled", "not-in-version", "removed"),
}
"""Kinds of findings that `--help` says nothing of: MySQL's takes names that no option has."""


def undecided(checked: CheckedFile, build: Build) -> bool:
    """Whether `--help` is no oracle for the file."""
    return any(
        one.kind in NOT_JUDGED[build.flavor]
        or (one.fatal and (NOT_TOLD.fullmatch(one.name) or one.text.endswith(STARTS_BADLY)))
        for one in checked.findings
    )


def option_of(chance: random.Random, build: Build) -> str:
    """A line that gives one option of any server, mostly of this one, in one of many ways."""
    names = load_option_names()
    release = max(
        one for one in names.releases if one.flavor == build.flavor and one.version <= build.version
    )
    own = names.of(release) if chance.random() < 0.85 else names.names()
    name = chance.choice(sorted(one for one in own if not NOT_ASKED.fullmatch(one)))
    if chance.random() < 0.1:
        place = chance.randrange(1, len(name))
        name = chance.choice((name[:place], name[:place] + name[place + 1 :]))
    spelled = chance.choice(PREFIXES) + chance.choice(
        (name, name, name.replace("_", "-"), name.replace("_", "-", 1))
    )
    if NOT_ASKED.fullmatch(name) or chance.random() < 0.08:
        return spelled
    catalog, shape = load_catalog(), shape_of(name, build.flavor, build.version)
    here = catalog.here(name, build.flavor, build.version) if name in catalog else None
    members = here.values if here else shape.values if shape else ()
    value = chance.choice(members) if members and chance.random() < 0.5 else chance.choice(VALUES)
    if members and chance.random() < 0.2:
        value = chance.choice((value[:-1], value.lower(), f"{value},{chance.choice(members)}", f"{value}=on"))
    return f"{spelled}={value}"


@pytest.mark.parametrize("name", BUILDS)
def test_a_file_starts_if_and_only_if_the_server_takes_it(name: str, tmp_path: Path) -> None:
    build, chance, file = require_build(name), random.Random(f"{SEED} {name}"), tmp_path / "my.cnf"
    wrong: list[tuple[str, ...]] = []
    refused = compared = 0
    for _ in range(FILES):
        text = f"[mysqld]\n{option_of(chance, build)}\n"
        file.write_text(text, encoding="utf-8")
        ends, _, complaints = asked(build, file, f"--datadir={tmp_path}", "--verbose", "--help")
        refuses = ends or "Parsing options for plugin" in complaints
        refused += refuses
        checked = check(text, build.identity)
        if undecided(checked, build):
            continue
        compared += 1
        if checked.starts == refuses:
            said = [line for line in complaints.splitlines() if "ERROR" in line or "unknown" in line]
            wrong.append((text[9:-1], *(one.partition(" 0 ")[2][-160:] for one in said[:1])))
    assert not wrong, told_of(wrong)
    assert refused >= FILES // 20 and compared >= FILES // 2
