"""`command: …`: any program as a workload; its figure is the seconds that it takes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO
from urllib.parse import quote

import msgspec

from flushlab.errors import MeasurementError
from flushlab.record import Endpoint
from flushlab.server.protocol import Server
from flushlab.workload.protocol import Measured, Timing, Window

DATABASE = "flushlab"

_TAIL_BYTES = 2_000
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class CommandWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A shell command, run once per trial.

    Its environment carries FLUSHLAB_HOST, _PORT, _SOCKET, _USER, _PASSWORD, _DATABASE, _OPTION_FILE
    and DATABASE_URL.

    Attributes:
        command: given to `/bin/sh -c`.
    """

    command: str

    @property
    def name(self) -> str:
        """`command: …`."""
        return f"command: {self.command}"

    @property
    def data_key(self) -> Mapping[str, str]:
        """An empty database."""
        return {"workload": "command"}

    def prepare(self, server: Server) -> None:
        """Creates the empty database."""
        server.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        """Runs the command to its end; its output is kept for the message if it fails."""
        with tempfile.TemporaryFile() as output:
            with window:
                started = time.monotonic()
                code = _run(self.command, environment(server.endpoint), output, timing.max_seconds)
                seconds = time.monotonic() - started
            if code != 0:
                if not server.alive():
                    server.query("SELECT 1")  # raises ServerDied with the log's tail
                words = _tail(output, server.endpoint.password)
                raise MeasurementError(f"{self.name} {_ended(code, timing.max_seconds)}\n{words}".rstrip())
        return Measured(figure=seconds, unit="s", higher_is_better=False, warm_up_s=0.0, window_s=seconds)


def environment(endpoint: Endpoint) -> dict[str, str]:
    """This process's environment with the server's address in it."""
    address = {
        "FLUSHLAB_HOST": endpoint.host or "127.0.0.1",
        "FLUSHLAB_PORT": str(endpoint.port or 3306),
        "FLUSHLAB_SOCKET": endpoint.socket or "",
        "FLUSHLAB_USER": endpoint.user,
        "FLUSHLAB_PASSWORD": endpoint.password,
        "FLUSHLAB_DATABASE": DATABASE,
        "FLUSHLAB_OPTION_FILE": endpoint.option_file or "",
    }
    url = (
        f"mysql://{quote(endpoint.user, safe='')}:{quote(endpoint.password, safe='')}"
        f"@{address['FLUSHLAB_HOST']}:{address['FLUSHLAB_PORT']}/{DATABASE}"
    )
    return {**os.environ, **address, "DATABASE_URL": url}


def _run(command: str, env: Mapping[str, str], output: IO[bytes], limit_s: float) -> int | None:
    """Exit code of the command (negative: killed by that signal), or None if it was ended at the limit.

    The command is a process group of its own; whatever is left of it when this returns is killed. If
    flushlab itself is killed, the shell (or the program that it was replaced by) dies with it.
    """
    child = subprocess.Popen(
        ["/bin/sh", "-c", command],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )
    try:
        return child.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):  # the whole group may have ended by itself
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _ended(code: int | None, limit_s: float) -> str:
    if code is None:
        return f"did not end within {limit_s:.0f} s and was killed"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _tail(output: IO[bytes], secret: str) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL_BYTES))
    return output.read().decode(errors="replace").replace(secret, "***")
