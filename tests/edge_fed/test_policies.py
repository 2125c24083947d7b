"""The table of policies and their common argument."""

import pytest

from edge_fed.config import PolicyConfig
from edge_fed.errors import UnknownName
from edge_fed.policies import ON_ANY_SPACES, POLICIES, init_seed, make_policy
from edge_fed.spaces import Spaces

BOX = Spaces(num_actions=8, observation_shape=(2,))
TORQUE = Spaces(num_actions=None, observation_shape=(2,), action_low=(-1.0,), action_high=(1.0,))
CELLS = Spaces(num_actions=4, observation_shape=(), num_states=9)
FITTING = {"gaussian": TORQUE, "mlp": BOX, "softmax": CELLS}
"""Policies that need no arguments -> spaces that they work on."""


def test_default_policy_is_the_papers():
    """The default configuration builds the 2-32-8 network."""
    assert make_policy(PolicyConfig(), BOX).description == "mlp 2-32-8 tanh softmax"


def test_unknown_policy_is_refused_with_the_nearest_name():
    """A misspelt name is answered with the right one."""
    with pytest.raises(UnknownName, match="did you mean 'softmax'"):
        make_policy(PolicyConfig(name="sofmax"), BOX)


@pytest.mark.parametrize("name", FITTING)
def test_every_policy_accepts_init_seed(name):
    """The key of the initialization is common to all policies."""
    config = PolicyConfig(name=name, args={"init_seed": 3})
    assert make_policy(config, FITTING[name]).dimension > 0
    assert init_seed(config) == 3
    assert set(POLICIES) == {*FITTING, *ON_ANY_SPACES}


@pytest.mark.parametrize(
    ("value", "error"), [("3", TypeError), (True, TypeError), (1.0, TypeError), (-1, ValueError)]
)
def test_wrong_init_seed_is_named(value, error):
    """Anything but a whole number from 0 is refused by name."""
    with pytest.raises(error, match="init_seed"):
        make_policy(PolicyConfig(args={"init_seed": value}), BOX)
