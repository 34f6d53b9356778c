"""Django's own tests of its migrations on a stock server, and under `flushlab test`.

Run by `make bench`, as root for the slow disk; takes ten minutes, nearly all of them on the stock server:

    .venv/bin/python benchmarks/django_migrations.py [--server mysql@8.0] [--disk iops=120] [--blocks 1]

A suite that nobody wrote for flushlab: Django 4.2's `migrations` (719 tests) from its source distribution on
PyPI, with PyMySQL in the place of mysqlclient. It makes and drops its own databases, so there is no template,
and what remains is what memory and the throwaway settings give. Python's part is bound by the processor and
the same on both sides, so the bar is for the database's part alone. Exits with 1 if that ratio is below it,
or if a test had another outcome.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from flushlab.build import prefix

DJANGO = "Django==4.2.30"
NEEDS = ("asgiref>=3.6,<4", "sqlparse>=0.3.1", "PyMySQL>=1.1,<1.2")
RATIO = 10.0

SETTINGS = """
import json, os, pathlib
import pymysql
from django.test.runner import DiscoverRunner
from django.test.utils import iter_test_cases

pymysql.version_info = (1, 4, 6, "final", 0)  # of the mysqlclient that it stands for
pymysql.install_as_MySQLdb()
_own = lambda name: os.environ["FLUSHLAB_" + name]
_server = {"ENGINE": "django.db.backends.mysql", "HOST": _own("HOST"), "PORT": _own("PORT"),
           "USER": _own("USER"), "PASSWORD": _own("PASSWORD"), "OPTIONS": {"ssl_disabled": True}}
DATABASES = {"default": {**_server, "NAME": "one"}, "other": {**_server, "NAME": "two"}}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
SECRET_KEY = "of a test"
USE_TZ = False
TEST_RUNNER = "recorded.Recording"

class Recording(DiscoverRunner):
    def run_suite(self, suite, **more):
        outcomes = {test.id(): "passed" for test in iter_test_cases(suite)}
        result = super().run_suite(suite, **more)
        for outcome in ("skipped", "failures", "errors"):
            outcomes.update({test.id(): outcome for test, _ in getattr(result, outcome)})
        folder = pathlib.Path(__file__).parent / "outcomes"
        folder.mkdir(exist_ok=True)
        (folder / f"{os.getpid()}.json").write_text(json.dumps(outcomes))
        return result
"""


def main() -> int:
    """Fetches Django, runs its suite on both sides, and tells the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="mysql@8.0")
    parser.add_argument("--disk", default="iops=120")
    parser.add_argument("--blocks", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flushlab-django-") as name:
        folder = Path(name)
        django = fetched(folder)
        (folder / "recorded.py").write_text(SETTINGS)
        paths = os.pathsep.join(map(str, (folder, folder / "needs", django)))
        words = [sys.executable, "-m", "flushlab", "test", "--server", chosen.server]
        words += ["--compare", "--disk", chosen.disk, "--blocks", str(chosen.blocks)]
        words += ["--json", str(folder / "run.json"), "--", "env", f"PYTHONPATH={paths}"]
        words += [sys.executable, "runtests.py", "migrations", "--settings=recorded", "--parallel=1"]
        subprocess.run(words, cwd=django / "tests", check=True)
        run = json.loads((folder / "run.json").read_text())
        sides = [json.loads(file.read_text()) for file in (folder / "outcomes").glob("*.json")]
    same = len(sides) == 2 * chosen.blocks and all(side == sides[0] for side in sides)
    skipped = sum(outcome == "skipped" for outcome in sides[0].values())
    sys.stdout.write(
        f"{chosen.server} on a disk of {chosen.disk}: {len(sides[0])} tests, {skipped} skipped, outcomes"
        f" {'the same' if same else 'DIFFERENT'}, {run['ratio']['estimate']:.1f} times as fast,"
        f" the database's part {run['database_ratio']['estimate']:.1f} times\n"
    )
    return 0 if same and run["database_ratio"]["estimate"] >= RATIO else 1


def fetched(folder: Path) -> Path:
    """Where Django's source is, tests and all; what it needs lies beside it in `needs`."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    download = [*pip, "download", "--no-deps", "--no-binary", "Django", "--dest", str(folder), DJANGO]
    subprocess.run(download, check=True)
    subprocess.run([*pip, "install", "--target", str(folder / "needs"), *NEEDS], check=True)
    (archive,) = folder.glob("*.tar.gz")
    source = folder / "source"
    source.mkdir()
    with archive.open("rb") as packed:
        prefix.unpack_tar(packed, source, name=archive.name)
    return next(path.parents[1] for path in source.glob("*/tests/runtests.py"))


if __name__ == "__main__":
    sys.exit(main())
