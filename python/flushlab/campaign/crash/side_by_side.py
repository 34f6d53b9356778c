"""Side by side: images of a record, two judged at a time, as they come. Sits in `campaign.crash`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Thread, get_ident

from flushlab.process.guard import strike
from flushlab.record import CrashImage, CrashPoint

_SIDE_BY_SIDE = 2
_STRIKE_S = 0.05


def judge_all(
    points: Mapping[int, CrashPoint], judge: Callable[[CrashPoint], CrashImage]
) -> Iterator[tuple[int, CrashImage]]:
    """What became of each, with its number, as soon as it is known; whoever stops early kills the servers.

    Args:
        points: where the run is cut, by number.
        judge: one of them; called by two threads.
    """
    threads: set[int] = set()
    # The futures are not waited for: a Ctrl-C in the midst of that may leave one locked for ever, and the
    # thread that judges waits for the lock. This queue has no lock that an exception could leave behind.
    judged = SimpleQueue[tuple[int, CrashImage] | BaseException]()

    def judge_one(number: int, at: CrashPoint) -> None:
        try:
            judged.put((number, judge(at)))
        except BaseException as error:  # noqa: BLE001, raised again where it is waited for
            judged.put(error)

    with ThreadPoolExecutor(_SIDE_BY_SIDE, initializer=lambda: threads.add(get_ident())) as pool:
        waiting: list[Future[None]] = []
        try:
            for number, at in points.items():
                waiting.append(pool.submit(judge_one, number, at))
            for _ in waiting:
                found = judged.get()
                if isinstance(found, BaseException):
                    raise found
                yield found
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            Thread(target=_strike_until, args=(threads, waiting), daemon=True).start()
            pool.shutdown()
            raise


def _strike_until(threads: Collection[int], judged: Sequence[Future[None]]) -> None:
    """Kills the servers of threads until nothing is judged any more."""
    while not all(one.done() for one in judged):
        strike(threads)
        time.sleep(_STRIKE_S)
