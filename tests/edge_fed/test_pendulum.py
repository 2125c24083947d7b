"""Pendulum: the dynamics and costs of Gymnasium's, the hidden angle, clipping."""

import numpy as np
import pytest

from edge_fed.envs.checker import check_family
from edge_fed.envs.pendulum import Pendulum, PendulumEnvironment
from edge_fed.seeding import Purpose, stream

AS_GYMNASIUM = {"set_angle": [0.0, 0.0], "mass": [1.0, 1.0], "length": [1.0, 1.0], "torque": 2.0}


def pendulum(**args) -> PendulumEnvironment:
    """Gymnasium's, unless changed, costs unscaled."""
    return Pendulum(199, 1.0, {**AS_GYMNASIUM, "reward_scale": 1.0, **args}).make(0)


def observed(angle: float, speed: float) -> np.ndarray:
    """One state, ``[1, 3]``."""
    return np.array([[np.cos(angle), np.sin(angle), speed / 8]])


def test_dynamics_and_rewards_are_gymnasiums():
    """Of Pendulum-v1 at its parameters, from thirty starts, torques far outside the box too; to 1e-12."""
    gymnasium = pytest.importorskip("gymnasium")
    ours, theirs, rng = pendulum(), gymnasium.make("Pendulum-v1").unwrapped, np.random.default_rng(0)
    for episode in range(30):
        theirs.reset(seed=episode)
        for _ in range(100):
            action, out = rng.normal(scale=3.0, size=1), np.empty((1, 3))
            before = observed(*theirs.state)
            seen, reward, *_ = theirs.step(action)
            ours.step(before, action[None], out)
            assert np.allclose(out, observed(*theirs.state), rtol=0, atol=1e-12)
            assert np.allclose(out * [1, 1, 8], seen, rtol=0, atol=1e-5), "theirs is float32"
            assert ours.rewards(before[None], action[None, None]).item() == pytest.approx(reward, abs=1e-12)


def test_other_masses_and_lengths_are_gymnasiums_with_other_attributes():
    """Of ten goals, one step from each of twenty states, to 1e-12."""
    gymnasium = pytest.importorskip("gymnasium")
    family, theirs = Pendulum(199, 1.0, {"torque": 2.0}), gymnasium.make("Pendulum-v1").unwrapped
    rng = np.random.default_rng(1)
    for goal in range(10):
        drawn, ours = family.drawn(goal), family.make(goal)
        theirs.m, theirs.l, theirs.g = drawn["mass"], drawn["length"], drawn["gravity"]
        for _ in range(20):
            theirs.reset(seed=1)
            theirs.state = rng.uniform([-np.pi, -8], [np.pi, 8])
            before, action, out = observed(*theirs.state), rng.uniform(-2, 2, 1), np.empty((1, 3))
            theirs.step(action)
            ours.step(before, action[None], out)
            assert np.allclose(out, observed(*theirs.state), rtol=0, atol=1e-12)


def test_the_cost_counts_from_the_set_angle():
    """Also across the seam at pi: 0.3 rad on either side of a set angle of 3 rad cost the same."""
    environment = pendulum(set_angle=[3.0, 3.0], reward_scale=2.0, reward_shift=0.5)
    states = np.array([observed(angle, 0.0) for angle in (3.0, 3.3, 2.7, 3.0 - np.pi)])
    rewards = environment.rewards(states, np.zeros((4, 1, 1))).ravel()
    assert np.allclose(rewards, [0.5, 0.5 - 2 * 0.09, 0.5 - 2 * 0.09, 0.5 - 2 * np.pi**2], rtol=0, atol=1e-12)


def test_torque_is_clipped_in_step_and_reward():
    """More than the largest torque is the largest; the given action stays as it is."""
    environment, states = pendulum(torque=3.0), np.repeat(observed(1.0, 0.5), 4, axis=0)
    actions = np.array([[3.0], [99.0], [-3.0], [-99.0]])
    out, kept = np.empty((4, 3)), actions.copy()
    environment.step(states, actions, out)
    rewards = environment.rewards(states[None], actions[None])[0]
    assert (out[0] == out[1]).all() and (out[2] == out[3]).all() and (out[0] != out[2]).any()
    assert rewards[0] == rewards[1] and rewards[2] == rewards[3]
    assert (actions == kept).all()


def test_it_starts_anywhere_slowly():
    """Angles fill the circle evenly, speeds [-1, 1] rad/s."""
    states = pendulum().start(stream(0, 0, 0, 0, Purpose.EVALUATE), 20_000)
    assert np.allclose(np.hypot(states[:, 0], states[:, 1]), 1, rtol=0, atol=1e-12)
    assert abs(states[:, :2].mean(axis=0)).max() < 5 * np.sqrt(0.5 / 20_000)
    speeds = states[:, 2] * 8
    assert 0.999 < speeds.max() <= 1 and -1 <= speeds.min() < -0.999


def test_goals_differ_and_keep_the_interface():
    """Sixteen and eight, all different; returns are of order 1."""
    family = Pendulum(99, 0.97, {})
    assert (family.num_train, family.num_held_out, family.adapt_baseline) == (16, 8, "loo")
    assert len({family.make(goal).set_angle for goal in range(24)}) == 24
    check_family(family)
    environment, rng = family.make(0), np.random.default_rng(0)
    states = np.array([environment.start(rng, 50) for _ in range(100)])
    rewards = environment.rewards(states, rng.uniform(-10, 10, (100, 50, 1)))
    assert 0.1 < abs((rewards * 0.97 ** np.arange(100)[:, None]).sum(axis=0).mean()) < 10
