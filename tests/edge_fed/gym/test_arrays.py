"""Our families as Gymnasium environments: its checker, and the same numbers as our own sampler."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from edge_fed.config import EnvironmentConfig
from edge_fed.envs import FAMILIES, make_family
from edge_fed.envs.checker import random_trajectories
from edge_fed.errors import UnknownGoal
from edge_fed.gym import REGISTERED, ArrayEnv

NAMES = {family: id_ for id_, (family, _) in REGISTERED.items()}


@pytest.mark.parametrize("id_", REGISTERED)
def test_gymnasiums_checker_finds_nothing(id_):
    """No error and no warning, also of the limit of H+1 steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(id_, goal=3)
        check_env(env.unwrapped)
        assert env.spec.max_episode_steps == REGISTERED[id_][1] + 1
        env.close()


def test_every_family_of_arrays_is_registered():
    """A new one is one line."""
    assert set(NAMES) == FAMILIES.keys() - {"gymnasium"}


@pytest.mark.parametrize("family", NAMES)
def test_steps_pay_what_a_trajectory_pays(family):
    """Observations, rewards, ends and success of 40 trajectories of ours, stepped from their starts."""
    horizon = REGISTERED[NAMES[family]][1]
    mdp = make_family(EnvironmentConfig(family=family, horizon=horizon)).make(3)
    states, actions = random_trajectories(mdp, 0, 40)
    rewards, success, ended = mdp.rewards(states, actions), mdp.success(states), mdp.ended(states)
    unit = actions if mdp.spaces.num_actions is not None else actions / mdp.spaces.action_high
    env = gymnasium.make(NAMES[family], goal=3, disable_env_checker=True)
    for j in range(40):
        env.reset(seed=j)
        env.unwrapped._states[:] = states[0, j]
        over, h = False, 0
        while not over:
            seen, reward, terminated, truncated, info = env.step(unit[h, j])
            assert reward == pytest.approx(rewards[h, j], abs=1e-12)
            h += 1
            if h <= horizon:
                np.testing.assert_allclose(seen, states[h, j], atol=1e-12)
                assert terminated == (ended is not None and ended[h, j])
            over = terminated or truncated
        assert h == horizon + 1 or terminated
        if success is None:
            assert "is_success" not in info
        else:
            assert info["is_success"] == success[j]
    env.close()


def test_success_is_told_by_the_last_step_alone():
    """A criterion of the whole episode means nothing before."""
    env = gymnasium.make(NAMES["navigation"], goal=3, args={"radius": 2.0})
    env.reset(seed=0)
    told = [env.step(0)[4]["is_success"] for _ in range(21)]
    assert told == [False] * 20 + [True]
    env.close()


def test_arguments_are_those_of_the_environment_table():
    """Goal, horizon and args; mistakes are named as there."""
    env = gymnasium.make(NAMES["gridworld"], goal=1, horizon=3, max_episode_steps=4, args={"size": 3})
    assert env.observation_space.n == 9
    env.reset(seed=1)
    assert [env.step(0)[3] for _ in range(4)] == [False, False, False, True]
    with pytest.raises(IndexError, match="an episode has 4 steps"):
        env.unwrapped.step(0)
    env.close()
    with pytest.raises(UnknownGoal):
        ArrayEnv("gridworld", goal=99)
    with pytest.raises(TypeError, match=r"use gymnasium\.make"):
        ArrayEnv("gymnasium", args={"id": "CartPole-v1"})
