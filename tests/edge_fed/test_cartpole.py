"""CartPole: the dynamics of Gymnasium's, the end of an episode, the hidden target."""

import numpy as np
import pytest

from edge_fed.envs.cartpole import CartPole, CartPoleEnvironment
from edge_fed.seeding import Purpose, stream

AS_GYMNASIUM = {
    "length": [0.5, 0.5],
    "pole_mass": [0.1, 0.1],
    "force": [10.0, 10.0],
    "gravity": [9.8, 9.8],
    "target": [0.0, 0.0],
}


def cart(**args) -> CartPoleEnvironment:
    """Gymnasium's, unless changed."""
    return CartPole(99, 1.0, {**AS_GYMNASIUM, **args}).make(0)


def test_dynamics_and_ends_are_gymnasiums():
    """To 1e-12 over fifty random episodes, each to the step on which the pole falls, and not longer."""
    gymnasium = pytest.importorskip("gymnasium")
    ours, theirs, rng = cart(), gymnasium.make("CartPole-v1").unwrapped, np.random.default_rng(0)
    scale, ends = np.array([1.0, 1.0, 0.2, 1.0]), 0
    for episode in range(50):
        theirs.reset(seed=episode)
        state = np.array([theirs.state]) / scale
        terminated = False
        while not terminated:
            action, out = int(rng.integers(2)), np.empty((1, 4))
            _, _, terminated, _, _ = theirs.step(action)
            ours.step(state, np.array([action]), out)
            assert np.allclose(out * scale, theirs.state, rtol=0, atol=1e-12)
            assert ours.ended(out).tolist() == [terminated]
            state = out
        ends += 1
    assert ends == 50


def test_other_parameters_are_gymnasiums_with_other_attributes():
    """Length, masses, force and gravity of ten goals, to 1e-12."""
    gymnasium = pytest.importorskip("gymnasium")
    family, theirs = CartPole(99, 1.0, {}), gymnasium.make("CartPole-v1").unwrapped
    for goal in range(10):
        drawn, ours = family.drawn(goal), family.make(goal)
        theirs.reset(seed=goal)
        theirs.gravity, theirs.force_mag = drawn["gravity"], drawn["force"]
        theirs.masscart, theirs.masspole = drawn["cart_mass"], drawn["pole_mass"]
        theirs.length = drawn["length"]
        theirs.total_mass = theirs.masscart + theirs.masspole
        theirs.polemass_length = theirs.masspole * theirs.length
        scale = np.array([1.0, 1.0, 0.2, 1.0])
        state = np.array([theirs.state]) / scale
        for action in (0, 1, 1, 0, 1, 0):
            out = np.empty((1, 4))
            theirs.step(action)
            ours.step(state, np.array([action]), out)
            assert np.allclose(out * scale, theirs.state, rtol=0, atol=1e-12)
            state = out


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ([2.39, 0, 0, 0], False),
        ([2.41, 0, 0, 0], True),
        ([-2.41, 0, 0, 0], True),
        ([0, 99, 0.209 / 0.2, 99], False),
        ([0, 0, 0.2096 / 0.2, 0], True),
        ([0, 0, -0.2096 / 0.2, 0], True),
    ],
)
def test_an_episode_ends_off_the_track_or_12_degrees_down(state, ended):
    """And whoever has fallen stays as it is, whatever it does."""
    environment, before = cart(), np.array([state, [0.0, 0.0, 0.0, 0.0]])
    assert environment.ended(before).tolist() == [ended, False]
    out = np.empty((2, 4))
    environment.step(before, np.array([1, 1]), out)
    assert (out[0] == before[0]).all() == ended
    assert (out[1] != before[1]).any()


def test_the_reward_falls_with_the_distance_from_the_target():
    """1 at x*, 0 from 1 m on, of the state before the action."""
    environment = cart(target=[0.5, 0.5])
    states = np.zeros((5, 1, 4))
    states[:, 0, 0] = [0.5, 0.0, 1.25, -0.5, -2.0]
    assert environment.rewards(states, np.zeros((5, 1), dtype=np.int64)).ravel().tolist() == [
        1,
        0.5,
        0.25,
        0,
        0,
    ]


def test_episodes_start_nearly_at_rest():
    """All four within 0.05 of 0, in their own units, and filling that."""
    states = cart(scale=[1.0, 2.0, 0.1, 4.0]).start(stream(0, 0, 0, 0, Purpose.EVALUATE), 4000)
    largest = abs(states * [1.0, 2.0, 0.1, 4.0]).max(axis=0)
    assert (largest <= 0.05).all() and (largest > 0.0499).all()


def test_scales_change_what_is_seen_and_nothing_else():
    """The same cart in other units: the same path, rewards and end."""
    plain, scaled = cart(scale=[1.0, 1.0, 1.0, 1.0]), cart(scale=[2.0, 3.0, 0.2, 5.0])
    states = plain.start(np.random.default_rng(0), 8)
    seen = states / [2.0, 3.0, 0.2, 5.0]
    for _ in range(60):
        actions, out, other = np.ones(8, dtype=np.int64), np.empty((8, 4)), np.empty((8, 4))
        plain.step(states, actions, out)
        scaled.step(seen, actions, other)
        states, seen = out, other
        assert np.allclose(seen * [2.0, 3.0, 0.2, 5.0], states, rtol=0, atol=1e-12)
        assert (plain.ended(states) == scaled.ended(seen)).all()
        assert np.allclose(plain.rewards(states, actions), scaled.rewards(seen, actions), rtol=0, atol=1e-12)
    assert plain.ended(states).all()
