from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("given", "told"), [("", "None"), ("3", "3")])
def test_statistics_have_one_thread_and_programs_that_are_started_do_not_see_it(
    given: str, told: str
) -> None:
    """Unless the user says otherwise: `given` is the user's value."""
    program = (
        "import flushlab.experiment.tune, numpy, os\nnumpy.linalg.cholesky(numpy.eye(500))\n"
        "print(len(os.listdir('/proc/self/task')) == 1, os.environ.get('OPENBLAS_NUM_THREADS'))\n"
    )
    variables = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=variables | ({"OPENBLAS_NUM_THREADS": given} if given else {}),
    )
    one_thread, variable = done.stdout.split()
    assert variable == told
    assert given or one_thread == "True"
