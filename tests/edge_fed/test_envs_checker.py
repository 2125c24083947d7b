"""The common checker accepts our families and names each kind of breach."""

import msgspec
import numpy as np
import pytest

from edge_fed.config import EnvironmentConfig
from edge_fed.envs import FAMILIES, make_family
from edge_fed.envs.checker import check_environment, check_family
from edge_fed.envs.gridworld import GridworldEnvironment
from edge_fed.envs.navigation import Navigation, NavigationEnvironment
from edge_fed.errors import BadEnvironment
from edge_fed.spaces import Spaces


class _Grid(GridworldEnvironment):
    """A correct environment that the cases below break in one place each."""

    def __init__(self):
        super().__init__(3, 0, 15, 0.9)


class _NextStateReward(_Grid):
    """Pays for the state after the action."""

    def rewards(self, states, actions):
        return np.roll(super().rewards(states, actions), -1, axis=0)

    def model(self):
        return None


class _AliasedOut(_Grid):
    """Steps in place."""

    def step(self, states, actions, out):
        super().step(states.copy(), actions, states)
        out[:] = states


class _OwnGenerator(_Grid):
    """Draws from a generator of its own."""

    rng = np.random.default_rng(0)

    def start(self, rng, m):
        return super().start(self.rng, m)


class _FloatStates(_Grid):
    """Returns cells as float64."""

    def start(self, rng, m):
        return super().start(rng, m).astype(np.float64)


class _OutOfRange(_Grid):
    """Numbers its cells from 1."""

    def start(self, rng, m):
        return super().start(rng, m) + 1


class _UnwrittenOut(_Grid):
    """Forgets the last trajectory."""

    def step(self, states, actions, out):
        super().step(states[:-1], actions[:-1], out[:-1])


class _Coupled(_Grid):
    """One trajectory's successor depends on the others."""

    def step(self, states, actions, out):
        super().step(states, actions, out)
        out[:] = (out + len(states)) % 9


class _InfiniteReward(_Grid):
    """Pays infinity."""

    def rewards(self, states, actions):
        return super().rewards(states, actions) * np.inf if (states == 0).any() else states * 1.0


class _WrongShapeReward(_Grid):
    """Sums over time."""

    def rewards(self, states, actions):
        return super().rewards(states, actions).sum(axis=0)


class _PerStepSuccess(_Grid):
    """Reports success per step, not per trajectory."""

    def success(self, states):
        return states == 0


class _OtherModel(_Grid):
    """Its arrays are those of another goal."""

    def model(self):
        return GridworldEnvironment(3, 8, 15, 0.9).model()


class _LeakyModel(_Grid):
    """Its transition rows do not sum to one."""

    def model(self):
        model = super().model()
        return msgspec.structs.replace(model, transition=model.transition * 0.9)


class _OtherHorizon(_Grid):
    """Its arrays claim one step fewer."""

    def model(self):
        return msgspec.structs.replace(super().model(), horizon=14)


class _NoSpaces(_Grid):
    """Neither tabular nor a box."""

    def __init__(self):
        super().__init__()
        self.spaces = Spaces(num_actions=4, observation_shape=())


@pytest.mark.parametrize("name", sorted(FAMILIES.keys() - {"gymnasium"}))
def test_every_family_in_the_table_passes(name):
    """The checker accepts every family that we ship."""
    check_family(make_family(EnvironmentConfig(family=name, horizon=15)))


def test_a_family_of_gymnasium_environments_is_sent_to_its_own_checker():
    """They are no environments of arrays; the message says which command checks them."""
    family = make_family(EnvironmentConfig(family="gymnasium", args={"id": "CartPole-v1"}))
    with pytest.raises(BadEnvironment, match=r"goal 0: it lacks methods.*check-env"):
        check_family(family)


def test_an_environment_without_success_or_model_passes():
    """None is a legal answer to both."""

    class Plain(NavigationEnvironment):
        def success(self, states):
            return None

    check_environment(Plain(np.array([0.8, 0.0]), 0.2, 0.15, 20, 0.9))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (_NextStateReward, "depends on a later state"),
        (_AliasedOut, "changed the states"),
        (_OwnGenerator, "equal streams gave different states"),
        (_FloatStates, "dtype float64, must be int64"),
        (_OutOfRange, r"outside 0\.\.8"),
        (_UnwrittenOut, "unwritten"),
        (_Coupled, "depends on the other trajectories"),
        (_InfiniteReward, "not finite"),
        (_WrongShapeReward, "must be float64"),
        (_PerStepSuccess, "success: bool"),
        (_OtherModel, "probability 0.*rewards differ"),
        (_LeakyModel, "no probability distribution"),
        (_OtherHorizon, "another discount or horizon"),
        (_NoSpaces, "spaces need"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_each_breach_is_named(broken, message):
    """An environment broken in one place is refused with a message that says where."""
    with pytest.raises(BadEnvironment, match=message):
        check_environment(broken())


def test_a_family_that_accepts_any_goal_is_refused():
    """A goal outside the range must raise UnknownGoal."""

    class Wrapping(Navigation):
        def make(self, goal, args=None):
            return super().make(goal % 9, args)

    with pytest.raises(BadEnvironment, match="goal -1 does not exist"):
        check_family(Wrapping(20, 0.9, {}))
