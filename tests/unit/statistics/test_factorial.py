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


def on_machines(effects: list[list[float]], runs: int, seed: int = 1) -> tuple[Effects, Effects]:
    """Effects from the runs of several machines: told which ran where, and not told."""
    random, candidates, machines = Random(seed), len(effects[0]), len(effects)
    trials = runs * machines
    on = np.array([[random.random() < 0.5 for _ in range(candidates)] for _ in range(trials)])
    machine = np.arange(trials) % machines
    scores = np.array(
        [7 + float(on[r] @ np.array(effects[machine[r]])) + random.gauss(0, 0.02) for r in range(trials)]
    )
    given = on, np.zeros(trials, dtype=int), np.arange(trials) // machines, scores
    return estimate_effects(*given, contexts=1, machine=machine), estimate_effects(*given, contexts=1)


def test_an_effect_that_depends_on_the_machine_is_known_less_well_and_takes_nothing_from_the_others() -> None:
    steady, moody = 0.2, [0.4, -0.3, 0.1, 0.0]
    told, not_told = on_machines([[steady, one, 0.0] for one in moody], runs=12)
    assert told.mean[0] == pytest.approx([steady, np.mean(moody), 0.0], abs=0.04)
    assert told.sd[0, 1] > 2 * np.std(moody, ddof=1) / 2 * 0.8
    assert told.sd[0, 1] > told.mean[0, 1], "it is not chosen"
    assert max(told.sd[0, 0], told.sd[0, 2]) < 0.06
    assert not_told.sd[0, 1] < told.sd[0, 1] / 3
    assert told.noise < not_told.noise / 3


def test_where_machines_agree_their_number_changes_little() -> None:
    told, not_told = on_machines([[0.1, 0.0, -0.1]] * 4, runs=12)
    assert told.mean == pytest.approx(not_told.mean, abs=0.01)
    assert told.sd == pytest.approx(not_told.sd, rel=0.5)


def test_one_machine_is_as_none() -> None:
    (told, not_told) = on_machines([[0.1, 0.0]], runs=24)
    assert all((one == other).all() for one, other in zip(told[:4], not_told[:4], strict=True))


def test_what_no_trial_had_is_not_known() -> None:
    on = np.array([[row % 2 == 0, False] for row in range(24)])
    scores = 7 + 0.1 * on[:, 0] + np.array([0.01 * (-1) ** (row // 2) for row in range(24)])
    found = estimate_effects(
        on, np.zeros(24, dtype=int), np.arange(24) // 4, scores, contexts=1, machine=np.arange(24) % 3
    )
    assert found.mean[0, 1] == 0
    assert found.sd[0, 1] >= 0.04


def test_a_machine_that_had_the_base_alone_says_nothing_of_effects() -> None:
    random = Random(1)
    on = np.array([[random.random() < 0.5 for _ in range(2)] for _ in range(40)] + [[False, False]] * 4)
    scores = np.array([7 + 0.3 * row[0] + random.gauss(0, 0.02) for row in on])
    given = on, np.zeros(44, dtype=int), np.arange(44) // 4, scores
    told = estimate_effects(*given, contexts=1, machine=np.array([0] * 40 + [1] * 4))
    not_told = estimate_effects(*given, contexts=1)
    assert told.mean == pytest.approx(not_told.mean, abs=0.01)
    assert told.sd == pytest.approx(not_told.sd, rel=0.5)
