"""Rewards-to-go with the absolute discount."""

import numpy as np

from edge_fed.returns import discounts, episode_return, reward_to_go


def test_discounts_are_powers_from_zero_to_horizon():
    """gamma^0 .. gamma^H: H+1 of them."""
    np.testing.assert_allclose(discounts(3, 0.5), [[1.0], [0.5], [0.25], [0.125]])
    np.testing.assert_allclose(discounts(2, 0.0), [[1.0], [0.0], [0.0]])


def test_reward_to_go_sums_from_h_to_the_end():
    """R^h = sum over t >= h of the discounted rewards, no discount relative to h."""
    rewards = np.array([[1.0, 0.0], [0.5, 2.0], [0.25, 0.0]])
    np.testing.assert_allclose(reward_to_go(rewards), [[1.75, 2.0], [0.75, 2.0], [0.25, 0.0]])


def test_episode_return_is_the_first_reward_to_go():
    """The return of a trajectory is R^0."""
    rewards = np.random.default_rng(0).normal(size=(5, 7))
    np.testing.assert_allclose(episode_return(rewards), reward_to_go(rewards)[0], atol=1e-14)
