"""Judging: images of a record, two side by side, until a Ctrl-C. Sits in `campaign.crash`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
    threads: set[int] = set()
    with ThreadPoolExecutor(_SIDE_BY_SIDE, initializer=lambda: threads.add(get_ident())) as pool:
        waiting = [pool.submit(judge, at) for at in points]
        try:
            for one in waiting:
                found.append(one.result())
                note(found)
        except BaseException as error:
            known = [one.result() for one in waiting if one.done() and one.exception() is None]
            pool.shutdown(wait=False, cancel_futures=True)
            Thread(target=_strike_until, args=(threads, waiting), daemon=True).start()
            pool.shutdown()
            if isinstance(error, KeyboardInterrupt):
                return known, True
            raise
    return found, False


def _strike_until(threads: Collection[int], judged: Sequence[Future[CrashImage]]) -> None:
    """Kills the servers of threads until nothing is judged any more."""
    while not all(one.done() for one in judged):
        strike(threads)
        time.sleep(_STRIKE_S)
