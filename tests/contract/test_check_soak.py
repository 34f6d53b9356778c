"""Thousands of option files, generated and mutated: `settings --check` foretells each server's verdict.

The servers parse them with `--print-defaults` and `--verbose --help`, which start nothing.
`FLUSHLAB_OPTION_FILES` sets the number of files per server; `make soak` tries many.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.record import ServerIdentity
from flushlab.settings.check import check
from flushlab.settings.optionfile import groups_of, lines
from tests.conftest import require_build

BUILDS = ("mariadb@10.11", "mariadb@11.8", "mysql@5.7", "mysql@8.0", "mysql@9.7")
FILES = int(os.environ.get("FLUSHLAB_OPTION_FILES", "60"))
SEED = int(os.environ.get("FLUSHLAB_OPTION_FILES_SEED", "34"))

PIECES = (
    *("[mysqld]", "[mysqld] x", "[ mysqld ]", "[MySQLd ]", "[client]", "[mysqld", "[]", "[server]#", "]"),
    *("port=1", " port = 2 ", "port=", "port", "port\t=\t3", "port=4#c", "port=5 # c", "# c", "; c", "port;c=1"),
    *("port: 6", "---", "port 7", "=8", "--port=9", "port==1", "a.b=1", "ärger=1", "!foo", "!include", "!", "\u00a0"),
    *("init-connect='a b'", 'init-connect="a\'b"', "init-connect='a' 'b'", "init-connect='a#b' #c", "init-connect='a"),
    *("init-connect=a\\#b", "init-connect='a\\'#b'", "init-connect=\\s\\n\\q\\\\x", "init-connect='", "init-connect=\"\""),
    *("init-connect=a=b", "init-connect='a\\", "init-connect=\\", "init-connect=ü#ü", "init-connect=a;b"),
    *("x" * 4094, "x" * 4096, "#" + "x" * 4096, "init-connect=" + "y" * 4082, "init-connect=" + "y" * 5000),
)
NOISE = "[]#;='\"\\ \t\r!-_:.\n\fx1"


def text_of(chance: random.Random) -> str:
    """Lines from `PIECES`, some with a letter that is put in, left out or doubled."""
    made = []
    for piece in chance.choices(PIECES, k=chance.randrange(1, 6)):
        for _ in range(chance.choice((0, 0, 0, 1, 2))):
            place = chance.randrange(min(len(piece), 40) + 1)
            piece = piece[:place] + chance.choice((chance.choice(NOISE), "")) + piece[place + chance.randrange(2) :]
        made.append(piece)
    return "\n".join(["[mysqld]"] * chance.choice((0, 1, 1, 1)) + made) + "\n" * chance.randrange(2)


def told_of(wrong: list[tuple[str, ...]]) -> str:
    """How many files, and the first ones, without long runs of one letter."""
    return f"{len(wrong)} of {FILES}: " + re.sub(r"(.)\1{20,}", r"\1{...}", "\n".join(map(repr, wrong[:12])))


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


def identity_of(build: Build) -> ServerIdentity:
    return ServerIdentity(flavor=build.flavor, version=build.version, version_text=build.version_text)


@pytest.mark.parametrize("name", BUILDS)
def test_lines_are_what_the_server_makes_of_them(name: str, tmp_path: Path) -> None:
    build, chance, file = require_build(name), random.Random(f"{SEED} {name}"), tmp_path / "my.cnf"
    groups, wrong, refused, compared = groups_of(identity_of(build)), [], 0, 0
    for _ in range(FILES):
        text = text_of(chance)
        file.write_text(text, encoding="utf-8", newline="")
        found = list(lines(text, "my.cnf"))
        stops = any(line.anywhere for line in found)
        refuses, said, complaints = asked(build, file, "--print-defaults")
        refused += refuses
        here = [line for line in found if line.group in groups and not line.include and not line.passed_over]
        expected = " ".join(
            f"--{line.name}" if line.text is None else f"--{line.name}={line.text}" for line in here
        )
        if stops != refuses:
            wrong.append((text, complaints[:200]))
        elif not stops and not any(line.problem for line in here):
            compared += 1
            told = said.partition("arguments:\n")[2].partition("--lc-messages-dir=")[0]
            if told.strip() != expected.strip():
                wrong.append((text, told, expected))
    assert not wrong, told_of(wrong)
    assert refused >= FILES // 20 and compared >= FILES // 5
