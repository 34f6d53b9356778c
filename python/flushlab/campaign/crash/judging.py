"""Judging: images of a record, two side by side, until a Ctrl-C. Sits in `campaign.crash`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Thread, get_ident

from flushlab.process.guard import strike
from flushlab.record import CrashImage, CrashPoint

_SIDE_BY_SIDE = 2
_STRIKE_S = 0.05


def judge_all(
    points: Sequence[CrashPoint],
    judge: Callable[[CrashPoint], CrashImage],
    note: Callable[[Sequence[CrashImage]], None],
) -> tuple[list[CrashImage], bool]:
    """What became of each; of those known by then, and True, at a Ctrl-C.

    Args:
        points: where the run is cut.
        judge: one of them; called by two threads.
        note: told what is known so far, in the order of the points.
    """
    found: list[CrashImage] = []
    known: dict[int, CrashImage] = {}
    threads: set[int] = set()
    # The futures are not waited for: a Ctrl-C in the midst of that may leave one locked for ever, and the
    # thread that judges waits for the lock. This queue has no lock that an exception could leave behind.
    ended = SimpleQueue[BaseException | None]()

    def judge_one(number: int, at: CrashPoint) -> None:
        try:
            known[number] = judge(at)
        except BaseException as error:  # noqa: BLE001, raised again where it is waited for
            ended.put(error)
        else:
            ended.put(None)

    with ThreadPoolExecutor(_SIDE_BY_SIDE, initializer=lambda: threads.add(get_ident())) as pool:
        waiting: list[Future[None]] = []
        try:
            for number, at in enumerate(points):
                waiting.append(pool.submit(judge_one, number, at))
            for _ in waiting:
                if (failed := ended.get()) is not None:
                    raise failed
                while len(found) in known:
                    found.append(known[len(found)])
                    note(found)
        except BaseException as error:
            by_then = [known[number] for number in sorted(known)]
            pool.shutdown(wait=False, cancel_futures=True)
            Thread(target=_strike_until, args=(threads, waiting), daemon=True).start()
            pool.shutdown()
            if isinstance(error, KeyboardInterrupt):
                return by_then, True
            raise
    return found, False


def _strike_until(threads: Collection[int], judged: Sequence[Future[None]]) -> None:
    """Kills the servers of threads until nothing is judged any more."""
    while not all(one.done() for one in judged):
        strike(threads)
        time.sleep(_STRIKE_S)
