from __future__ import annotations

from random import Random

import numpy as np
import pytest

from flushlab.statistics import Effects, estimate_effects


def screened(effects: list[list[float]], offset: float, runs: int, noise: float, seed: int = 1) -> Effects:
    random = Random(seed)
    candidates = len(effects[0])
    on = np.zeros((runs, candidates), dtype=bool)
    for column in range(candidates):
        picked = [True] * (runs // 2) + [False] * (runs - runs // 2)
        random.shuffle(picked)
        on[:, column] = picked
    context = np.array([run % 2 for run in range(runs)])
    scores = np.array(
        [
            7 + offset * context[r] + float(on[r] @ np.array(effects[context[r]])) + random.gauss(0, noise)
            for r in range(runs)
        ]
    )
    return estimate_effects(on, context, np.arange(runs) // 4, scores, contexts=2)


def test_effects_and_the_foundations_offset_are_recovered() -> None:
    found = screened([[0.1, 0.0, -0.2], [0.1, 0.0, -0.2]], offset=0.3, runs=64, noise=0.02)
    assert found.mean == pytest.approx(np.array([[0.1, 0.0, -0.2]] * 2), abs=0.03)
    assert found.offset[1] == pytest.approx(0.3, abs=0.04)
    assert found.noise == pytest.approx(0.02, rel=0.8)


def test_an_effect_that_the_disk_hides_on_the_base_shows_on_the_faster_foundation() -> None:
    found = screened([[0.0, 0.0], [0.2, 0.0]], offset=0.3, runs=64, noise=0.03)
    assert found.mean[1, 0] > 0.12
    assert found.mean[0, 0] < 0.08


def test_fewer_runs_than_candidates_give_a_caveat_not_nonsense() -> None:
    found = screened([[0.0] * 20] * 2, offset=0.0, runs=8, noise=0.05)
    assert np.abs(found.mean).max() < 0.2
    assert (found.sd > np.abs(found.mean) * 0.5).all()


def test_errors_are_about_as_large_as_the_deviations_say() -> None:
    deviates = []
    for seed in range(150):
        found = screened([[0.05, 0.0, 0.0, 0.0, -0.05]] * 2, offset=0.2, runs=24, noise=0.04, seed=seed)
        truth = np.array([[0.05, 0.0, 0.0, 0.0, -0.05]] * 2)
        deviates.append(((found.mean - truth) / found.sd).ravel())
    assert 0.6 < np.concatenate(deviates).std() < 1.4
