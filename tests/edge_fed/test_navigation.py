"""Navigation: geometry, moves, starts, rewards and success."""

import numpy as np
import pytest

from edge_fed.config import EnvironmentConfig
from edge_fed.envs import make_family
from edge_fed.envs.checker import check_family
from edge_fed.envs.navigation import Navigation
from edge_fed.errors import UnknownGoal
from edge_fed.seeding import Purpose, stream


def family(**args) -> Navigation:
    """The family at the paper's horizon and discount."""
    return Navigation(20, 0.9, args)


def test_goals_stand_on_the_arc_training_first():
    """Six training goals at linspace(-0.5, 0.5, 6) rad, then -0.4, 0, 0.4 rad, at distance 0.8."""
    nav = make_family(EnvironmentConfig())
    assert (nav.num_train, nav.num_held_out) == (6, 3)
    centres = np.array([nav.make(goal).centre for goal in range(9)])
    angles = np.arctan2(centres[:, 1], centres[:, 0])
    assert np.allclose(angles, [-0.5, -0.3, -0.1, 0.1, 0.3, 0.5, -0.4, 0.0, 0.4], rtol=0, atol=1e-15)
    assert np.allclose(np.hypot(*centres.T), 0.8, rtol=0, atol=1e-15)


def test_moves_are_eight_unit_directions_times_the_step():
    """Action k moves by 0.15 at the angle 2 pi k / 8."""
    environment = family().make(0)
    out = np.empty((8, 2))
    environment.step(np.zeros((8, 2)), np.arange(8), out)
    d = 0.15 * np.sqrt(0.5)
    expected = [[0.15, 0], [d, d], [0, 0.15], [-d, d], [-0.15, 0], [-d, -d], [0, -0.15], [d, -d]]
    assert np.allclose(out, expected, rtol=0, atol=1e-15)


def test_positions_are_clipped_to_the_square_on_each_axis_alone():
    """At a wall the move along it remains; the action is not altered."""
    environment = family().make(0)
    actions = np.array([1, 5])
    out = np.empty((2, 2))
    environment.step(np.array([[0.99, 0.0], [-1.0, -1.0]]), actions, out)
    assert np.allclose(out, [[1.0, 0.15 * np.sqrt(0.5)], [-1.0, -1.0]], rtol=0, atol=1e-15)
    assert actions.tolist() == [1, 5]


def test_start_is_uniform_over_the_whole_square():
    """Starts fill the square, the goal's disc included: its share is the disc's area over 4."""
    environment = family().make(7)
    states = environment.start(stream(2, 7, 0, 0, Purpose.EVALUATE), 40_000)
    assert states.min() >= -1 and states.max() < 1
    assert abs(states.mean(axis=0)).max() < 5 * np.sqrt(1 / 3 / 40_000)
    share = environment.rewards(states[None], np.zeros((1, 40_000), dtype=np.int64)).mean()
    area = np.pi * 0.2**2 / 4
    assert abs(share - area) < 5 * np.sqrt(area / 40_000)


def test_reward_is_one_inside_the_disc_at_the_state_before_the_action():
    """Inside pays 1, outside 0, the first state included; leaving does not take it back."""
    environment = family().make(7)  # centre (0.8, 0)
    states = np.array([[[0.8, 0.0], [0.0, 0.0]], [[0.8, 0.19], [0.61, 0.0]], [[0.8, 0.21], [0.59, 0.0]]])
    rewards = environment.rewards(states, np.zeros((3, 2), dtype=np.int64))
    assert rewards.tolist() == [[1, 0], [1, 1], [0, 0]]
    assert environment.success(states).tolist() == [True, True]
    assert environment.success(states[2:]).tolist() == [False, False]


def test_arguments_change_the_task():
    """Radius, step, arc, spread, number of goals and held-out angles do what the docstring says."""
    nav = family(radius=0.3, step=0.1, arc=0.5, spread=1.0, goals=3, held_out=[0.5])
    assert nav.angles.tolist() == [-1.0, 0.0, 1.0, 0.5]
    environment = nav.make(1)
    out = np.empty((1, 2))
    environment.step(np.zeros((1, 2)), np.array([0]), out)
    assert out.tolist() == [[0.1, 0.0]] and environment.centre.tolist() == [0.5, 0.0]
    assert environment.success(np.array([[[0.21, 0.0]]])).tolist() == [True]
    check_family(nav)


def test_an_agents_own_arguments_go_over_the_familys():
    """Overrides replace only what they name."""
    nav = family(radius=0.3)
    environment = nav.make(7, {"step": 0.3})
    assert environment.radius == 0.3
    out = np.empty((1, 2))
    environment.step(np.zeros((1, 2)), np.array([0]), out)
    assert out.tolist() == [[0.3, 0.0]]
    assert nav.make(7).radius == 0.3 and nav.model(7) is None


def test_unknown_goal_names_the_range():
    """Goal 9 does not exist by default; the message says that 0 to 8 do."""
    with pytest.raises(UnknownGoal, match="goals 0 to 8, not 9"):
        family().make(9)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"radios": 0.1}, "did you mean 'radius'"),
        ({"radius": -0.1}, "'radius'.*found -0.1"),
        ({"step": float("inf")}, "'step' must be finite"),
        ({"arc": "far"}, "'arc'.*found 'far'"),
        ({"goals": 0}, "'goals'"),
        ({"goals": 2.5}, "'goals'"),
        ({"held_out": [0.1, float("nan")]}, "'held_out' must be finite"),
        ({"held_out": [0.1, "left"]}, r"'held_out\[1\]'"),
    ],
)
def test_wrong_arguments_are_named(args, message):
    """Each wrong argument raises a ValueError that names it."""
    with pytest.raises(ValueError, match=message):
        family(**args)
