"""Suites that others wrote, with a reset after every test: do their tests pass, and how long do they take?

    python benchmarks/public_suites.py [--server mariadb@10.11]… [--suite allauth]… [--blocks 1] [--folder F]

django-allauth (Django; every test commits, as in a TransactionTestCase) and Mailman (SQLAlchemy), both in
their source distributions from PyPI, with what they need at fixed versions. Each runs in these ways, in turn:

- own: its own way back. Django's `flush`; Mailman's `DELETE` and `ALTER TABLE … AUTO_INCREMENT` per table.
- undo: flushlab's reset in that place, which takes back what the binary log has.
- clones, restarts: the same reset without a binary log, by standby servers or restarts alone.

Fails where a test passes with its own way and fails with a reset, or where flushlab fails. With --folder the
downloads stay there for the next run. Takes half an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flushlab.build import prefix

SERVERS = ("mariadb@10.11", "mysql@8.0")
WAYS = {"own": "0", "undo": "", "clones": "1", "restarts": "0"}  # standby servers, without a log

RESET = """
import json, os, urllib.request
def reset():
    with urllib.request.urlopen(os.environ["FLUSHLAB_RESET_URL"], b"") as answer:
        return json.load(answer)["how"]
"""


class Suite(NamedTuple):
    """A public project: what is installed, itself first; modules that connect it; how its tests run."""

    needs: str
    files: Mapping[str, str]
    prepare: str
    inputs: str
    command: str


ALLAUTH = Suite(
    "django-allauth[mfa,openid,socialaccount,steam,idp-oidc,headless]==65.22.1 "
    "Django==5.2.19 PyMySQL==1.2.4 cryptography==50.0.2 pytest==8.4.2 pytest-asyncio==1.3.0 "
    "pytest-django==4.12.0 Pillow==13.0.0 PyYAML==6.0.4 djangorestframework==3.18.3 django-ninja==1.7.1 "
    "psycopg2-binary",
    {
        "mysql_settings.py": """
import os
import pymysql
pymysql.version_info = (2, 2, 7, "final", 0)  # of the mysqlclient that it stands for
pymysql.install_as_MySQLdb()
from tests.projects.regular.settings import *
_own = {name: os.environ["FLUSHLAB_" + name] for name in ("HOST", "PORT", "USER", "PASSWORD")}
_name = os.environ["FLUSHLAB_DATABASE"]
DATABASES = {"default": {"ENGINE": "django.db.backends.mysql", "NAME": _name, "TEST": {"NAME": _name},
                         "OPTIONS": {"ssl_disabled": True}, **_own}}
""",
        "committing.py": RESET
        + """
from django.db import connections
from django.test import TestCase, TransactionTestCase

TestCase._databases_support_transactions = classmethod(lambda _: False)  # it commits, and flushes

def back(self):
    if reset() != "undone":
        connections.close_all()

if os.environ.get("WAY") != "own":
    TransactionTestCase._fixture_teardown = back
""",
    },
    "manage.py migrate -v0 --skip-checks --settings=mysql_settings",
    "allauth/**/migrations/*.py",
    "-m pytest -q -p committing -p no:cacheprovider --ds=mysql_settings --reuse-db --junitxml={outcomes}"
    " tests/apps/account",
)

MAILMAN = Suite(
    "mailman==3.3.10 SQLAlchemy==2.0.58 alembic==1.20.1 PyMySQL==1.2.4 cryptography==50.0.2 nose2==0.16.0 "
    "flufl.testing==0.8 flufl.lock==10.0.0 flufl.i18n==8.0.0 flufl.bounce==6.0.0 falcon==4.4.0 "
    "aiosmtpd==1.4.6 zope.component==7.1 zope.interface==8.7",
    {
        "committing.py": RESET
        + """
from pathlib import Path
from mailman.database import factory
from nose2.events import Plugin
from sqlalchemy import MetaData
from sqlalchemy.orm import close_all_sessions

URL = ("mysql+pymysql://{FLUSHLAB_USER}:{FLUSHLAB_PASSWORD}@{FLUSHLAB_HOST}:{FLUSHLAB_PORT}"
       "/{FLUSHLAB_DATABASE}?charset=utf8mb4").format_map(os.environ)
_config = Path(__file__).with_name("mailman.cfg")
_config.write_text(f"[database]\\nclass: mailman.database.mysql.MySQLDatabase\\nurl: {URL}\\n")
os.environ["MAILMAN_EXTRA_TESTING_CFG"] = str(_config)
factory.MetaData = type("Kept", (MetaData,), {"drop_all": lambda *_, **__: None})  # the template's tables

def back(self):
    close_all_sessions()
    if reset() != "undone":
        self.engine.dispose()

if os.environ.get("WAY") != "own":
    factory._reset = back

class Committing(Plugin):
    configSection = "committing"
""",
        "prepare.py": """
from importlib import import_module
from pathlib import Path
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from mailman.core import initialize
initialize.initialize_1(initialize.INHIBIT_CONFIG_FILE)
import mailman.model
from mailman.database.alembic import alembic_cfg
from mailman.database.model import Model
from committing import URL

for file in sorted(Path(mailman.model.__file__).parent.glob("*.py")):
    import_module(f"mailman.model.{file.stem}")
with create_engine(URL).begin() as connection:
    Model.metadata.create_all(connection)
    MigrationContext.configure(connection).stamp(ScriptDirectory.from_config(alembic_cfg), "head")
""",
    },
    "{folder}/prepare.py",
    "src/mailman/model/*.py",
    "-m nose2 --plugin committing --plugin nose2.plugins.junitxml --junit-xml --junit-xml-path {outcomes}"
    " -P mailman.model",
)
SUITES = {"allauth": ALLAUTH, "mailman": MAILMAN}


class Run(NamedTuple):
    """What came out: seconds of the command, tests that passed, all tests, flushlab's `resets_by`."""

    seconds: float
    passed: frozenset[str]
    tests: int
    resets: Sequence[Mapping[str, Any]]


def fetched(suite: Suite, folder: Path) -> Path:
    """Where the project's source is; Python with what it needs is beside it in `python`."""
    source = folder / "source"
    if not source.exists():
        venv.create(folder / "python", with_pip=True)
        pip = [f"{folder}/python/bin/python", "-m", "pip", "--quiet"]
        subprocess.run([*pip, "install", *suite.needs.split()], check=True)
        name, _, version = suite.needs.split()[0].partition("==")
        name = name.partition("[")[0]
        download = ["download", "--no-deps", "--no-binary", name, "--dest", str(folder), f"{name}=={version}"]
        subprocess.run([*pip, *download], check=True)
        (archive,) = folder.glob("*.tar.gz")
        source.mkdir()
        with archive.open("rb") as packed:
            prefix.unpack_tar(packed, source, name=archive.name)
    for name, text in suite.files.items():
        (folder / name).write_text(text)
    return next(source.iterdir())


def run(suite: Suite, way: str, server: str, folder: Path) -> Run:
    """Runs it once."""
    source = fetched(suite, folder)
    told, outcomes = folder / "run.json", folder / "outcomes.xml"
    outcomes.unlink(missing_ok=True)
    paths = os.pathsep.join(map(str, (folder, source / "src", source)))
    python = f"env PYTHONPATH={paths} {folder}/python/bin/python"
    words = [sys.executable, "-m", "flushlab", "test", "--server", server]
    words += ["--prepare", f"{python} {suite.prepare.format(folder=folder)}", "--inputs", suite.inputs]
    words += ["--set", "log_bin=OFF", "--clones", WAYS[way]] if WAYS[way] else []
    words += ["--json", str(told), "--", *f"{python} {suite.command.format(outcomes=outcomes)}".split()]
    done = subprocess.run(words, cwd=source, env={**os.environ, "WAY": way}, capture_output=True, check=False)
    assert done.returncode in (0, 1), f"exit code {done.returncode}:\n{done.stderr.decode()[-4000:]}"
    facts = json.loads(told.read_text())
    cases = list(ET.parse(outcomes).iter("testcase"))
    bad = {"failure", "error", "skipped"}
    passed = [f"{one.get('classname')}.{one.get('name')}" for one in cases if not bad & {e.tag for e in one}]
    return Run(facts["seconds"]["command"], frozenset(passed), len(cases), facts["resets_by"])


def always(runs: Sequence[Run]) -> frozenset[str]:
    """Tests that passed each time."""
    return frozenset.intersection(*(one.passed for one in runs))


def report(name: str, server: str, runs: Mapping[str, Sequence[Run]]) -> bool:
    """Prints the ways beside each other; whether every test passes that passes in the project's own way."""
    own, good = runs["own"], True
    for way, these in runs.items():
        seconds = statistics.median(one.seconds for one in these)
        ratio = statistics.geometric_mean(a.seconds / b.seconds for a, b in zip(own, these, strict=True))
        lost = always(own) - always(these)
        good &= not lost
        kinds = ", ".join(
            f"{one['count']} {one['how']} in {1000 * one['median_s']:.1f} ms {one['why']}".rstrip()
            for one in these[0].resets
        )
        sys.stdout.write(
            f"{name:8} {server:13} {way:8} {seconds:6.1f} s, own way ÷ this {ratio:5.2f},"
            f" {len(these[0].passed)} of {these[0].tests} passed, {len(lost)} lost; {kinds or 'no resets'}\n"
        )
        sys.stdout.writelines(f"    lost: {test}\n" for test in sorted(lost))
    sys.stdout.flush()
    return good


def main() -> int:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", action="append", choices=SERVERS, help="repeatable; default: both")
    parser.add_argument("--suite", action="append", choices=SUITES, help="repeatable; default: both")
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(prefix="flushlab-public-") as temporary:
        for name in given.suite or SUITES:
            folder = (given.folder or Path(temporary)).absolute() / name
            folder.mkdir(parents=True, exist_ok=True)
            for server in given.server or SERVERS:
                blocks = [
                    [run(SUITES[name], way, server, folder) for way in WAYS] for _ in range(given.blocks)
                ]
                good &= report(name, server, dict(zip(WAYS, zip(*blocks, strict=True), strict=True)))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
