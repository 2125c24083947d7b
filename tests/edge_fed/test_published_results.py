"""The paper's results over a few seeds, trained for real: what a fault of the training would move.

The targets come from the published text and the authors' per-seed values, never from our runs; the tolerance
is three standard errors of our few seeds and their ten or thirty. All ten seeds, with the tolerances that
belong to them, are in the committed tables, which `tests/scenarios/paper/test_results.py` judges.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from edge_fed.config import Overrides
from edge_fed.envs import make_family
from edge_fed.evaluation import evaluate
from edge_fed.federated.task import initial_params, make_task
from edge_fed.onboarding import onboard
from tests.edge_fed.federated.runs import gridworld, navigation, play, tasks_of

pytestmark = [pytest.mark.seeds, pytest.mark.timeout(300)]
SEEDS = range(4)


@pytest.fixture
def pool():
    """Two processes; forked, because spawning also starts a tracker that outlives the test."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as executor:
        yield executor


def train(config):
    """Parameters after the last round, and the training agents' mean evaluation (f, F)."""
    agents = range(make_family(config.environment).num_train)
    last = play(config, agents)[-1]
    rows = [
        evaluate(t, last.params, config.seed, config.onboarding) for t in tasks_of(config, agents).values()
    ]
    return last.params, [np.mean([row[key] for row in rows]) for key in ("expected_return", "meta_objective")]


def tabular(job):
    """One seed of E1: (f, F) by dynamic programming."""
    variant, seed = job
    return train(gridworld(seed, variant=variant))[1]


def few_shot(seed):
    """One seed of E5: (return, success) over the held-out goals, by init and budget."""
    config = navigation(seed)
    params, _ = train(config)
    found = {}
    for goal in (6, 7, 8):
        task = make_task(config, goal, Overrides())
        for row in onboard(task, params, seed, config.onboarding, lambda _: None).rows:
            found.setdefault((row["init"], row["m_adapt"]), []).append((row["return"], row["success"]))
    return {key: np.mean(values, axis=0) for key, values in found.items()}


def exact_navigation(job):
    """One seed of exact at m_h = 10 on navigation: F."""
    guard, seed = job
    config = navigation(seed, variant="exact", curvature="causal", baseline="value", guard=guard)
    return train(config)[1][1]


def test_tabular_personalisation(pool):
    """E1: exact 0.79, first_order 0.73, fedavg_pg 0.68, in strict order; f of exact 0.51."""
    means = {}
    for variant in ("exact", "first_order", "fedavg_pg"):
        means[variant] = np.mean(list(pool.map(tabular, [(variant, seed) for seed in SEEDS])), axis=0)
    assert means["exact"][1] == pytest.approx(0.79, abs=0.055)
    assert means["first_order"][1] == pytest.approx(0.73, abs=0.025)
    assert means["fedavg_pg"][1] == pytest.approx(0.68, abs=0.015)
    assert means["exact"][1] > means["first_order"][1] > means["fedavg_pg"][1]
    assert means["exact"][0] == pytest.approx(0.51, abs=0.03)


def test_few_shot(pool):
    """E5: held-out goals, zero-shot and after one step, against from scratch at equal trajectories.

    [complaints 40]
    """
    runs = list(pool.map(few_shot, SEEDS))
    mean = {key: np.mean([run[key] for run in runs], axis=0) for key in runs[0]}
    zero_shot_return, zero_shot_success = mean["learned", 0]
    assert zero_shot_return == pytest.approx(1.43, abs=0.40)
    assert zero_shot_success == pytest.approx(0.75, abs=0.11)
    assert mean["learned", 100][1] == pytest.approx(0.79, abs=0.23)
    assert mean["learned", 500][1] == pytest.approx(0.85, abs=0.17)
    assert mean["scratch", 100][1] < 0.25
    assert mean["random", 0][1] == pytest.approx(0.14, abs=0.05)
    for budget in (100, 500):
        assert mean["learned", budget][1] > mean["scratch", budget][1] + 0.3


def test_the_guard_cures_the_collapse_of_exact_at_ten_curvature_trajectories(pool):
    """Two seeds: guarded both above 0.9; unguarded neither as good, and collapsed on average.

    Of ten unguarded seeds on one CPU the best reached 0.25, of the same seeds on another one 0.66: where
    training collapses the last bits decide. Forty guarded seeds: docs/curvature.md.
    """
    guarded = list(pool.map(exact_navigation, [(0.5, seed) for seed in SEEDS[:2]]))
    assert min(guarded) > 0.9
    unguarded = list(pool.map(exact_navigation, [("off", seed) for seed in SEEDS[:2]]))
    assert np.mean(unguarded) < 0.5
    assert max(unguarded) < min(guarded)


def test_untrained_floor_is_exact():
    """The uniform policy's mean value over the eight goals; a wrong horizon or reward time misses it."""
    config = gridworld()
    rows = [
        evaluate(task, initial_params(config), 0, config.onboarding)
        for task in tasks_of(config, range(8)).values()
    ]
    assert np.mean([row["expected_return"] for row in rows]) == pytest.approx(0.2438700556, abs=1e-9)
