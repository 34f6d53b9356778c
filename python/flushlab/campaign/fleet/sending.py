"""Sending: what machines of a fleet lack of a campaign's content, a few chunks at a time.

Sits in `campaign.fleet`, on the driver; no Ray. A chunk is packed once for all machines that lack it. At most
`WINDOW` chunks are on their way, so that neither this machine nor the object store holds more.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import msgspec

from flushlab.campaign.fleet.machines import Failure
from flushlab.errors import FlushlabError, HarnessError, StorageError
from flushlab.fleet import content
from flushlab.fleet.recipient import Needed, Place, Taken
from flushlab.progress import Progress
from flushlab.units import format_size

WINDOW = 4
MOST_TRIES = 2
"""Of a chunk that arrives damaged."""
PROGRESS_S = 30.0
"""A transfer that takes longer says how far it is, so often."""


class Gone(Exception):
    """A machine is lost; the reason in words."""


class Post(Protocol):
    """Reaches the recipients on machines."""

    def put(self, packed: bytes) -> Any:
        """A chunk that calls can take along; kept as long as the result is.

        Raises:
            HarnessError: it cannot be kept.
        """
        ...

    def call(self, machine: str, method: str, *arguments: Any) -> Any:
        """Calls a method of a recipient without a wait; what `first` and `result` take."""
        ...

    def first(self, calls: Collection[Any]) -> Sequence[Any]:
        """The calls that have ended, at least one; waits for it."""
        ...

    def result(self, call: Any) -> bytes:
        """The answer to a call; waits for it.

        Raises:
            Gone: the machine is lost.
        """
        ...


Delivered = tuple[Place, ...] | FlushlabError
"""Where each manifest's content is on a machine, or why it is not there."""


@dataclass
class Sending:
    """Sends what a campaign needs to machines.

    Attributes:
        needed: of every machine.
        post: reaches them.
        say: takes a line for people.
    """

    needed: Needed
    post: Post
    say: Progress
    _failed: dict[str, FlushlabError] = field(default_factory=dict)
    _wanted: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    _calls: dict[Any, tuple[str, int, str, int]] = field(default_factory=dict)

    def to(self, machines: Collection[str]) -> dict[str, Delivered]:
        """Sends what these machines lack.

        Raises:
            StorageError: a file has changed since the manifest was made, or cannot be read.
            HarnessError: nothing can be sent.
        """
        self._ask(machines)
        self._tell()
        self._send()
        return self._finish([one for one in machines if one not in self._failed])

    def _ask(self, machines: Collection[str]) -> None:
        asked = msgspec.json.encode(self.needed)
        calls = {machine: self.post.call(machine, "expect", asked) for machine in machines}
        for machine, call in calls.items():
            for number, chunks in enumerate(self._answer(machine, call, list[list[str]]) or ()):
                for digest in chunks:
                    self._wanted.setdefault((number, digest), []).append(machine)

    def _tell(self) -> None:
        """One line for all machines that lack the same."""
        lines = dict[tuple[str, int], list[str]]()
        for machine in dict.fromkeys(one for machines in self._wanted.values() for one in machines):
            lacking = [key for key, machines in self._wanted.items() if machine in machines]
            numbers = sorted({number for number, _ in lacking})
            names = ", ".join(self.needed.manifests[number].name for number in numbers)
            lines.setdefault((names, sum(map(self._bytes_of, lacking))), []).append(machine)
        for (names, size), machines in lines.items():
            self.say(f"sends {names}, {format_size(size)}, to {', '.join(machines)}")

    def _bytes_of(self, key: tuple[int, str]) -> int:
        entry, offset = self._places[key[0]][key[1]][0]
        return min(content.CHUNK_BYTES, entry.size_bytes - offset)

    @cached_property
    def _places(self) -> Sequence[Mapping[str, Sequence[tuple[content.Entry, int]]]]:
        return [one.places() for one in self.needed.manifests]

    def _send(self) -> None:
        total, done, told_s = sum(map(self._bytes_of, self._wanted)), 0, time.monotonic()
        for (number, digest), machines in self._wanted.items():
            self._send_chunk(number, digest, machines, tries=1)
            done += self._bytes_of((number, digest))
            while len({digest for _, _, digest, _ in self._calls.values()}) >= WINDOW:
                self._await_some()
            if time.monotonic() - told_s > PROGRESS_S:
                told_s = time.monotonic()
                self.say(f"sent {format_size(done)} of {format_size(total)}")
        while self._calls:
            self._await_some()

    def _send_chunk(self, number: int, digest: str, machines: Collection[str], tries: int) -> None:
        left = [one for one in machines if one not in self._failed]
        if not left:
            return
        packed = self.post.put(content.pack(self._read(number, digest)))
        for machine in left:
            self._calls[self.post.call(machine, "take", digest, packed)] = machine, number, digest, tries

    def _read(self, number: int, digest: str) -> bytes:
        manifest = self.needed.manifests[number]
        entry, offset = self._places[number][digest][0]
        file = Path(manifest.root) / entry.path
        try:
            with file.open("rb") as handle:
                handle.seek(offset)
                piece = handle.read(content.CHUNK_BYTES)
        except OSError as error:
            raise StorageError(f"{file} cannot be read: {error.strerror}") from error
        if content.digest_of(piece) != digest:
            raise StorageError(f"{file} has changed while it was sent", hint="run the command again")
        return piece

    def _await_some(self) -> None:
        for call in self.post.first(self._calls):
            machine, number, digest, tries = self._calls.pop(call)
            if self._answer(machine, call, Taken) != "damaged":
                continue
            if tries < MOST_TRIES:
                self._send_chunk(number, digest, [machine], tries + 1)
            else:
                name = self.needed.manifests[number].name
                self._failed[machine] = HarnessError(
                    f"machine {machine}: a part of {name} arrived damaged {MOST_TRIES} times",
                    hint="see its disk, memory and network",
                )

    def _finish(self, machines: Sequence[str]) -> dict[str, Delivered]:
        calls = {machine: self.post.call(machine, "finish") for machine in machines}
        found = dict[str, Delivered]()
        for machine, call in calls.items():
            places = self._answer(machine, call, list[Place])
            if places is not None:
                found[machine] = tuple(places)
        return {**found, **self._failed}

    def _answer(self, machine: str, call: Any, kind: Any) -> Any:
        """The answer to a call; None if it failed, and then the machine is left out."""
        try:
            answer = msgspec.json.decode(self.post.result(call), type=kind | Failure)
        except Gone as gone:
            error: FlushlabError = HarnessError(f"machine {machine} was lost: {gone}")
        else:
            if not isinstance(answer, Failure):
                return answer
            error = answer.error(machine)
        self._failed.setdefault(machine, error)
        return None
