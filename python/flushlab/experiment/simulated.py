"""Simulated trials: a server whose true effects are known, for judging experiments without one.

Sits in `experiment`; pure, seeded. Promises that the *procedure* can be tested whole, stopping and
selection of winners included, in milliseconds per campaign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random

import msgspec

from flushlab.experiment.protocol import Experiment, Request
from flushlab.record import Trial, Value

DISCARD_SHARE = 0.25
"""A trial that lost more than this share of the machine to others is discarded, as on real servers."""


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """Noise of a simulated result, in log units.

    Attributes:
        heavy: trials follow Student's t with 3 degrees of freedom (scaled to `trial`) instead of a normal.
        drift: stationary standard deviation of a slow disturbance shared by trials close in time.
        memory: its autocorrelation from one trial to the next.
        eaten: share of the machine that a neighbour takes, bursts of it: a trial loses anything from nothing
            to so much.
    """

    trial: float = 0.05
    heavy: bool = False
    drift: float = 0.0
    memory: float = 0.9
    changed: float = 1.0
    eaten: float = 0.0
    eaten_from: int = 0


class SimulatedTrials:
    """`effect` is the true log effect of settings, 0 for the base."""

    def __init__(
        self,
        effect: Callable[[Mapping[str, Value]], float],
        base: Mapping[str, Value],
        *,
        noise: Noise,
        seed: int,
        refuses: Callable[[Mapping[str, Value]], str | None] = lambda _: None,
        trial_s: float = 9.0,
        startup_s: float = 0.0,
    ) -> None:
        self._effect = effect
        self._base = dict(base)
        self._noise = noise
        self._random = Random(seed)
        self._refuses = refuses
        self._told = 0
        self._trial_s, self._startup_s = trial_s, startup_s
        self._running: set[tuple[str, str]] = set()
        self.spent_s = 0.0
        self._drift = self._random.gauss(0, noise.drift) if noise.drift else 0.0

    def run(self, request: Request) -> Trial:
        settings = request.arm.settings
        asked = {name: getattr(request, name) for name in ("arm", "stage", "block", "variant")}
        if (reason := self._refuses(settings)) is not None:
            return Trial(**asked, outcome="refused", reason=reason, seconds={"start": 1.0})
        noise, random = self._noise, self._random
        if noise.drift:
            step = noise.drift * math.sqrt(1 - noise.memory**2)
            self._drift = noise.memory * self._drift + random.gauss(0, step)
        deviate = random.gauss(0, 1)
        if noise.heavy:
            deviate /= math.sqrt(random.gammavariate(1.5, 2) / 3) * math.sqrt(3)
        eaten = 0.0
        if noise.eaten and self._told >= noise.eaten_from:
            eaten = random.uniform(0, noise.eaten)
        self._told += 1
        server = request.stage, request.arm.name
        seconds = {"window": self._trial_s, "prepare": 0.0 if server in self._running else self._startup_s}
        self._running.add(server)
        self.spent_s += sum(seconds.values())
        scale = noise.trial if settings == self._base else noise.trial * noise.changed
        return Trial(
            **asked,
            outcome="discarded" if eaten > DISCARD_SHARE else "measured",
            reason=f"other programs used {eaten:.0%} of the CPU time" if eaten > DISCARD_SHARE else "",
            result=1000 * (1 - eaten) * math.exp(self._effect(settings) + self._drift + scale * deviate),
            foreign_cpu_share=eaten,
            seconds=seconds,
        )


def run_to_end(experiment: Experiment[Trial], trials: SimulatedTrials) -> int:
    count = 0
    while (request := experiment.ask()) is not None:
        experiment.tell(trials.run(request))
        count += 1
    return count
