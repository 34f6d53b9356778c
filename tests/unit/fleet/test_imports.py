"""Ray is loaded by the commands that need it, and by no other."""

from __future__ import annotations

import subprocess
import sys

import pytest

_FIND = """
import importlib.abc, sys
class Refusing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "ray":
            raise ImportError("ray is not to be imported")
sys.meta_path.insert(0, Refusing())
"""


@pytest.mark.parametrize(
    "code",
    [
        "import flushlab; flushlab.tune, flushlab.series, flushlab.compare, flushlab.bench",
        "from flushlab.cli.app import run; run(['fleet', '--help'])",
        "from flushlab.cli.app import run; run(['tune', '--help'])",
        "from flushlab.cli.app import run; run(['server', 'status'])",
    ],
)
def test_ray_is_not_imported(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", _FIND + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_guard_of_this_test_would_refuse_ray() -> None:
    done = subprocess.run([sys.executable, "-c", _FIND + "import ray"], capture_output=True, text=True)
    assert "not to be imported" in done.stderr
