"""Gridworld: moves, goals, starts, rewards and the tabular model."""

import numpy as np
import pytest

from edge_fed.config import EnvironmentConfig
from edge_fed.envs import FAMILIES, make_family
from edge_fed.envs.checker import check_family
from edge_fed.envs.gridworld import Gridworld, held_out_cells, successors, training_cells
from edge_fed.errors import UnknownGoal, UnknownName
from edge_fed.seeding import Purpose, stream


def grid(**args) -> Gridworld:
    """The family at the paper's horizon and discount."""
    return Gridworld(15, 0.9, args)


def test_moves_are_up_down_left_right_and_the_edge_holds():
    """On a 3x3 grid the centre moves to its four neighbours and a corner stays where the grid ends."""
    table = successors(3)
    assert table[4].tolist() == [1, 7, 3, 5]
    assert table[0].tolist() == [0, 3, 0, 1]
    assert table[8].tolist() == [5, 8, 7, 8]


def test_training_goals_are_corners_then_edge_midpoints():
    """The eight training goals of the 5x5 grid stand in this order; held-out goals are interior."""
    assert training_cells(5) == [0, 4, 20, 24, 2, 10, 14, 22]
    assert held_out_cells(5) == [6, 8, 16, 18, 12]


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 11])
def test_goals_are_distinct_at_any_size(size):
    """No cell is a goal twice, and the checker accepts every size."""
    family = grid(size=size)
    assert len(set(family.cells)) == len(family.cells) == family.num_train + family.num_held_out
    check_family(family)


def test_step_looks_the_successor_up_for_each_trajectory():
    """Step writes the successor of each cell under its own action."""
    environment = grid().make(0)
    states = np.array([0, 12, 24, 12])
    out = np.empty(4, dtype=np.int64)
    environment.step(states, np.array([0, 0, 1, 3]), out)
    assert out.tolist() == [0, 7, 24, 13]


def test_start_is_uniform_over_the_other_cells():
    """No trajectory starts in the goal; every other cell occurs about equally often."""
    environment = grid().make(3)
    states = environment.start(stream(1, 3, 0, 0, Purpose.EVALUATE), 24_000)
    counts = np.bincount(states, minlength=25)
    assert counts[24] == 0
    assert (abs(np.delete(counts, 24) - 1000) < 5 * np.sqrt(1000)).all()


def test_reward_belongs_to_the_state_before_the_action():
    """Entering the goal pays at the next step, staying pays again, and the goal ends nothing."""
    environment = grid().make(0)
    states = np.array([[1, 7], [0, 6], [0, 5], [5, 0]])
    rewards = environment.rewards(states, np.zeros_like(states))
    assert rewards.tolist() == [[0, 0], [1, 0], [1, 0], [0, 1]]
    assert rewards.dtype == np.float64


def test_success_is_any_visit():
    """A visit at any of the H+1 states counts, also the last."""
    environment = grid().make(0)
    states = np.array([[1, 7, 2], [0, 6, 2], [1, 0, 2]])
    assert environment.success(states).tolist() == [True, True, False]


def test_model_of_a_goal_with_overrides_is_that_of_its_environment():
    """An agent's own args reach the arrays: another size gives another number of states."""
    model = grid().model(0, {"size": 3})
    assert model.transition.shape == (9, 4, 9)
    assert model.reward.sum() == 4.0 and (model.reward[0] == 1.0).all()
    assert model.start[0] == 0.0 and model.horizon == 15 and model.discount == 0.9


@pytest.mark.parametrize("goal", [-1, 13])
def test_unknown_goal_names_the_range(goal):
    """A goal outside 0..12 is refused and the message says what exists."""
    with pytest.raises(UnknownGoal, match="goals 0 to 12"):
        grid().make(goal)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"sise": 3}, "did you mean 'size'"),
        ({"size": "5"}, "'size'.*found '5'"),
        ({"size": True}, "'size'"),
        ({"size": 1}, "'size'.*found 1"),
        ({"size": float("nan")}, "'size' must be finite"),
        ({"goals": 0}, "'goals'"),
        ({"size": 2, "goals": 5}, "'goals'.*only 4"),
        ({"held_out": -1}, "'held_out'"),
        ({"size": 3, "held_out": 2}, "'held_out'.*only 1"),
    ],
)
def test_wrong_arguments_are_named(args, message):
    """Each wrong argument raises a ValueError that names it and what was found."""
    with pytest.raises(ValueError, match=message):
        grid(**args)
    with pytest.raises(ValueError, match=message):
        grid().make(0, args)


def test_families_are_made_by_name():
    """The table builds what the configuration names and suggests the nearest name otherwise."""
    family = make_family(EnvironmentConfig(family="gridworld", horizon=7, discount=0.5, args={"size": 4}))
    assert (family.name, family.make(0).horizon, family.make(0).discount) == ("gridworld", 7, 0.5)
    assert set(FAMILIES) >= {"gridworld", "navigation"}
    with pytest.raises(UnknownName, match="did you mean 'gridworld'"):
        make_family(EnvironmentConfig(family="gridwold"))
