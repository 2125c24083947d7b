"""Discounted rewards and rewards-to-go with the ABSOLUTE discount of the paper. Arrays are ``[H+1, m]``."""

import numpy as np

from edge_fed.params import F8


def discounts(horizon: int, discount: float) -> F8:
    """gamma^t for t = 0..H, ``[H+1, 1]``."""
    return np.power(discount, np.arange(horizon + 1, dtype=np.float64))[:, None]


def reward_to_go(rewards: F8) -> F8:
    """R^h = sum over t >= h of gamma^t r_t (science.md 1.1: gamma^t, not gamma^(t-h)).

    Args:
        rewards: gamma^t r_t, ``[H+1, m]``.
    """
    to_go: F8 = np.add.accumulate(rewards[::-1], axis=0)[::-1]
    return to_go


def episode_return(rewards: F8) -> F8:
    """Return: sum over t of gamma^t r_t, ``[m]``, from rewards ``[H+1, m]`` that carry their discount."""
    total: F8 = rewards.sum(axis=0)
    return total
