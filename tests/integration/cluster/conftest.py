"""What tests of clusters share: two nodes, for all modules here, the last of which lets them die."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab.build.galera import Galera
from flushlab.machine import state_path
from flushlab.server import SandboxSpec
from flushlab.server.galera.cluster import Cluster
from flushlab.server.remote import made_tables, put_back
from tests.conftest import require_galera
from tests.integration.cluster.own import FLUSH, HOME, Own

SETTINGS = {FLUSH: 2}
"""What is committed is written, so that a killed server has it, and not synced, which may take long."""

SCRIPT = """\
#!/bin/sh
[ ! -e "{folder}/broken" ] || {{ echo "WSREP_SST: [ERROR] there is no route to the donor" >&2; exit 1; }}
[ ! -e "{folder}/hanging" ] || {{ tail -f "{folder}/hanging"; exit 1; }}
exec "{real}" "$@"
"""


def scripted(folder: Path) -> Galera:
    """Galera whose transfers fail while `folder` has a file `broken`, and hang while it has `hanging`."""
    _, galera = require_galera()
    script = folder / "wsrep_sst_rsync"
    script.write_text(SCRIPT.format(folder=folder, real=Path(galera.folders[0]) / "wsrep_sst_rsync"))
    script.chmod(0o755)
    return msgspec.structs.replace(galera, folders=(str(folder), *galera.folders))


UPSERT: dict[str, Any] = {"workload": "upsert", "threads": 2, "tables": 1, "table_size": 50}
ALLOWED: dict[str, Any] = {"allow_writes": True, "allow_set_global": True}


def left() -> list[Path]:
    """What the next flushlab would have to undo."""
    folders = (put_back.FOLDER, made_tables.FOLDER)
    return [path for folder in folders for path in (state_path() / folder).glob("*")]


@pytest.fixture
def usual_home() -> str | None:
    """FLUSHLAB_HOME before a test has one of its own."""
    return os.environ.get(HOME)


@pytest.fixture
def own(cluster: Cluster, usual_home: str | None, private_home: Path) -> Iterator[Own]:
    """The cluster as its owner sees it, who wants commits synced."""
    found = Own(cluster, usual_home)
    found.set_flushes(1)
    yield found
    found.set_flushes(SETTINGS[FLUSH])


@pytest.fixture(scope="package")
def scripts() -> Iterator[Path]:
    """A folder that the servers' user can enter; pytest closes its own to others again and again."""
    folder = Path(tempfile.mkdtemp(prefix="flh-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="package")
def cluster(scripts: Path) -> Iterator[Cluster]:
    """Two nodes with a table `app.t`, whose two rows the first one committed."""
    build, _ = require_galera()
    galera = scripted(scripts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flushlab.server.galera.cluster.galera_for", lambda *_: galera)
        started = Cluster.start(SandboxSpec(build, nodes=2, settings=SETTINGS, kept=True))
    started.query("CREATE DATABASE app")
    started.query("CREATE TABLE app.t (id INT PRIMARY KEY)")
    started.query("INSERT INTO app.t VALUES (1), (2)")
    yield started
    started.remove()
