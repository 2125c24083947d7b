"""Values by dynamic programming against enumeration and the paper's floor."""

import numpy as np
import pytest

from edge_fed.dp import expected_return, optimal_return, visits
from edge_fed.dp.values import chain, occupancy
from edge_fed.envs.gridworld import Gridworld
from edge_fed.errors import ShapeError
from tests.edge_fed.tiny_mdp import discounted_return, probability, random_model, trajectories


@pytest.mark.parametrize("seed", range(4))
def test_expected_return_equals_enumeration(seed):
    """J is the probability-weighted sum of the returns of all 216 trajectories."""
    model = random_model(seed)
    theta = np.random.default_rng(seed + 100).normal(size=6)
    paths = list(trajectories(model))
    assert len(paths) == 216
    total = sum(probability(model, theta, *path) for path in paths)
    expected = sum(probability(model, theta, *path) * discounted_return(model, *path) for path in paths)
    assert abs(total - 1) < 1e-12
    assert abs(expected_return(model, theta) - expected) < 1e-12


def test_uniform_floor_of_the_grid():
    """The uniform policy's mean over the 8 training goals has the paper's conventions in its tenth digit.

    15 instead of 16 actions give 0.2358633817, 17 give 0.2510935488, the reward of the next state 0.271.
    """
    family = Gridworld(15, 0.9, {})
    floor = np.mean([expected_return(family.model(goal), np.zeros(100)) for goal in range(8)])
    assert abs(floor - 0.2438700556) < 1e-9
    for horizon, wrong in ((14, 0.2358633817), (16, 0.2510935488)):
        other = Gridworld(horizon, 0.9, {})
        value = np.mean([expected_return(other.model(goal), np.zeros(100)) for goal in range(8)])
        assert abs(value - wrong) < 1e-9 and abs(floor - wrong) > 1e-3


def test_occupancy_sums_to_the_discount_powers():
    """Row h of the occupancy is gamma^h times a distribution, and J is its product with the mean reward."""
    model = random_model(2, discount=0.7)
    theta = np.random.default_rng(5).normal(size=6)
    found = chain(model, theta)
    visits = occupancy(model, found.kernel)
    assert np.allclose(visits.sum(axis=1), [1, 0.7, 0.49], rtol=0, atol=1e-14)
    reward = (found.policy * model.reward).sum(axis=1)
    assert abs((visits @ reward).sum() - expected_return(model, theta)) < 1e-14


def test_visits_equal_enumeration_and_know_no_discount():
    """How often each state is acted in, over all trajectories weighted by their probability: H+1 in all."""
    model = random_model(3, discount=0.7)
    theta = np.random.default_rng(6).normal(size=6)
    expected = np.zeros(len(model.start))
    for states, actions in trajectories(model):
        np.add.at(expected, list(states), probability(model, theta, states, actions))
    assert np.allclose(visits(model, theta), expected, rtol=0, atol=1e-12)
    assert abs(expected.sum() - (model.horizon + 1)) < 1e-12


def test_optimal_return_of_a_corner_goal_worked_by_hand():
    """From distance k the goal pays at times k..H: the optimum is that sum's mean over start cells."""
    family = Gridworld(15, 0.9, {"size": 3})
    distances = [1, 2, 1, 2, 3, 2, 3, 4]
    by_hand = np.mean([sum(0.9**t for t in range(k, 16)) for k in distances])
    assert abs(optimal_return(family.model(0)) - by_hand) < 1e-12


def test_no_policy_beats_the_optimum():
    """The optimum bounds random policies, and walking straight to a corner goal attains it."""
    model = random_model(3)
    best = optimal_return(model)
    rng = np.random.default_rng(0)
    assert all(expected_return(model, 5 * rng.normal(size=6)) < best for _ in range(50))
    grid = Gridworld(15, 0.9, {}).model(0)
    logits = np.zeros((25, 4))
    logits[:5, 2] = 40.0  # top row: left
    logits[5:, 0] = 40.0  # below: up
    assert abs(expected_return(grid, logits.reshape(-1)) - optimal_return(grid)) < 1e-12


def test_wrong_size_is_refused():
    """Parameters of another MDP raise a ShapeError that names both sizes."""
    with pytest.raises(ShapeError, match=r"\(5,\).*\(6,\)"):
        expected_return(random_model(), np.zeros(5))
