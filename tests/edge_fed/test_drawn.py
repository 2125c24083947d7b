"""Families whose goals are drawn: what a goal depends on, and what is refused."""

import pytest

from edge_fed.config import EnvironmentConfig
from edge_fed.envs import make_family
from edge_fed.envs.cartpole import CartPole
from edge_fed.envs.drawn import DrawnFamily
from edge_fed.envs.thermostats import Thermostats
from edge_fed.errors import UnknownGoal

DRAWN = ("cartpole", "pendulum", "thermostats")


def family(name: str, **args) -> DrawnFamily:
    """By its name."""
    found = make_family(EnvironmentConfig(family=name, args=args))
    assert isinstance(found, DrawnFamily)
    return found


@pytest.mark.parametrize("name", DRAWN)
def test_sixteen_goals_train_and_eight_are_held_out(name):
    """By default; they adapt with `loo`, and no two goals are alike."""
    found = family(name)
    assert (found.num_train, found.num_held_out, found.adapt_baseline) == (16, 8, "loo")
    assert len({str(found.drawn(goal)) for goal in range(24)}) == 24


@pytest.mark.parametrize("name", DRAWN)
def test_a_goal_depends_on_family_seed_and_number_alone(name):
    """Neither more goals nor a range that is fixed move the other parameters; another seed moves all."""
    expected = family(name).drawn(20)
    assert family(name, goals=18, held_out=40).drawn(20) == expected
    changed = family(name, seed=1).drawn(20)
    moved = [key for key in expected if changed[key] != expected[key]]
    first = moved[0]
    fixed = family(name, **{first: [2.0, 2.0]}).drawn(20)
    assert fixed == {**expected, first: 2.0}
    low_equals_high = {"exchange", "cart_mass", "gravity" if name == "pendulum" else ""}
    assert set(moved) == set(expected) - low_equals_high


@pytest.mark.parametrize("name", DRAWN)
def test_values_fill_their_ranges(name):
    """Over 400 goals each parameter comes within 2 % of both ends, and never leaves its range."""
    found = family(name, goals=400)
    for key in set(found.ranges) - {"hours"}:
        low, high = getattr(found.settings, key)
        values = [found.drawn(goal)[key] for goal in range(400)]
        near = 0.02 * (high - low)
        assert low <= min(values) <= low + near and high - near <= max(values) <= high


def test_an_agents_own_arguments_go_over_the_familys():
    """Overrides replace only what they name; wrong ones are named."""
    carts = CartPole(99, 1.0, {"force": [5.0, 5.0]})
    own = carts.make(3, {"target": [0.25, 0.25]})
    assert own.target == 0.25 and carts.make(3).target != 0.25
    with pytest.raises(ValueError, match="did you mean 'target'"):
        carts.make(3, {"targets": [0, 0]})


def test_unknown_goal_names_its_range():
    """Goal 24 does not exist by default."""
    with pytest.raises(UnknownGoal, match="cartpole has goals 0 to 23, not 24"):
        CartPole(99, 1.0, {}).make(24)
    with pytest.raises(UnknownGoal, match="thermostats has goals 0 to 3, not 4"):
        Thermostats(47, 1.0, {"goals": 3, "held_out": 1}).make(4)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"length": [1.0, 0.3]}, r"'length' must be \[lowest, highest\]: 1.0 > 0.3"),
        ({"length": [0.0, 1.0]}, r"'length\[0\]'"),
        ({"length": 0.5}, "'length'.*found 0.5"),
        ({"length": [0.3, 0.5, 0.7]}, "'length'.*found"),
        ({"target": [-1.0, float("inf")]}, "'target' must be finite"),
        ({"goals": 0}, "'goals'"),
        ({"seed": -1}, "'seed'"),
        ({"mass": [1.0, 2.0]}, "no argument 'mass'"),
    ],
)
def test_wrong_ranges_are_named(args, message):
    """Each wrong argument raises a ValueError that names it."""
    with pytest.raises(ValueError, match=message):
        CartPole(99, 1.0, args)
