"""A headless Chromium for tests of pages, by its DevTools protocol over two pipes: no driver is needed.

`Chromium.found()` says whether there is one. Everything that waits has a deadline.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_KEYS = {
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "Home": 36,
    "End": 35,
    "Escape": 27,
    "Enter": 13,
    "Tab": 9,
    " ": 32,
}
_TYPED = {" ": " ", "Enter": "\r"}
_SHIFT = 8
DEADLINE_S = 300.0


class PageError(AssertionError):
    """What the page did wrong: an exception in its scripts, or a condition that never came true."""


class Chromium:
    """One browser with one page. A context manager; the profile lies in `home`."""

    def __init__(self, home: Path) -> None:
        program = self.found()
        assert program is not None
        to_read, to_answer = os.pipe()
        from_answer, from_read = os.pipe()
        self._out, self._in = to_answer, from_answer
        self._process = subprocess.Popen(
            [
                "bash",  # dash knows descriptors of one digit only
                "-c",
                f'exec "$@" 3<&{to_read} 4>&{from_read}',
                "bash",
                program,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
                f"--user-data-dir={home}",
                "about:blank",
            ],
            pass_fds=(to_read, from_read),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(from_read)
        self._ids = itertools.count(1)
        self._buffer = b""
        self._session = ""
        self._opened = ""
        self.complaints: list[str] = []
        self.requested: list[str] = []
        try:
            self._attach()
        except PageError:
            self._process.kill()
            self._process.wait()
            raise

    def _attach(self) -> None:
        targets = self._ask("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self._ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    @staticmethod
    def found() -> str | None:
        """Path of the program; None if there is none."""
        return next((path for name in _NAMES if (path := shutil.which(name))), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, PageError):
            self._session = ""
            self._ask("Browser.close")
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def open(self, url: str, *, width: int = 1400, height: int = 1000, dark: bool = False) -> None:
        """Loads an address in a window of that size; returns when it has loaded."""
        self._opened = _origin(url)
        self.complaints.clear()
        self.requested.clear()
        self.look(width=width, height=height, dark=dark)
        self._ask("Page.navigate", url=url)
        self.until(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def at_each_page(self, script: str) -> None:
        """Runs a script in every page that is opened from now on, before its own."""
        self._ask("Page.addScriptToEvaluateOnNewDocument", source=script)

    def look(self, *, width: int, height: int = 1000, dark: bool = False) -> None:
        """Sets size and colour scheme."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._ask("Emulation.setEmulatedMedia", features=scheme)
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def run(self, script: str) -> Any:
        """Value of an expression in the page, awaited if it is a promise."""
        answer = self._ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise PageError(f"{script}: {_described(answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def until(self, script: str, seconds: float = DEADLINE_S) -> Any:
        """Value of an expression as soon as it is true."""
        deadline = time.monotonic() + seconds
        while not (value := self.run(script)):
            if time.monotonic() > deadline:
                raise PageError(f"not true after {seconds:.0f} s: {script}; the page said {self.complaints}")
            select.select([self._in], [], [], 0.02)
            self._drain()
        return value

    def key(self, key: str, *, shift: bool = False, times: int = 1) -> None:
        """Presses a key."""
        for _ in range(times):
            for kind in ("rawKeyDown", "char", "keyUp"):
                if kind == "char" and key not in _TYPED:
                    continue
                text = {"text": _TYPED[key]} if kind == "char" else {}
                self._ask(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key=key,
                    code="Space" if key == " " else key,
                    windowsVirtualKeyCode=_KEYS[key],
                    modifiers=_SHIFT if shift else 0,
                    **text,
                )

    def move(self, x: float, y: float) -> None:
        """Moves the mouse."""
        self._ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Writes what is seen, or the whole page, as PNG."""
        shot = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        request = {"id": number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._out, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            for message in self._messages(0.5):
                if message.get("id") != number:
                    self._note(message)
                elif "error" in message:
                    raise PageError(f"{method}: {message['error']['message']}")
                else:
                    return dict(message["result"])
        raise PageError(f"Chromium did not answer {method} in {DEADLINE_S:.0f} s")

    def _messages(self, seconds: float) -> list[dict[str, Any]]:
        if not select.select([self._in], [], [], seconds)[0]:
            return []
        read = os.read(self._in, 1 << 20)
        if not read:
            raise PageError("Chromium has ended")
        *whole, self._buffer = (self._buffer + read).split(b"\0")
        return [json.loads(one) for one in whole]

    def _drain(self) -> None:
        for message in self._messages(0):
            self._note(message)

    def _is_of_page_before(self, url: str) -> bool:
        """A page may ask its own server, which is gone by then, once more as it goes."""
        return url.startswith("http://127.0.0.1:") and _origin(url) != self._opened

    def _note(self, message: dict[str, Any]) -> None:
        """Keeps what the page complains of: exceptions, what its policy forbids, lost files."""
        method, said = message.get("method", ""), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(_described(said["exceptionDetails"]))
        elif method == "Log.entryAdded" and said["entry"]["level"] == "error":
            url = said["entry"].get("url", "")
            if not self._is_of_page_before(url):
                self.complaints.append(f"{said['entry']['text']} {url}".strip())
        elif method == "Runtime.consoleAPICalled" and said["type"] == "error":
            self.complaints.append(" ".join(str(one.get("value")) for one in said["args"]))
        elif method == "Network.requestWillBeSent":
            self.requested.append(said["request"]["url"])


def _origin(url: str) -> str:
    return "//".join(urlsplit(url)[:2])


def _described(details: dict[str, Any]) -> str:
    return str(details.get("exception", {}).get("description") or details.get("text"))
