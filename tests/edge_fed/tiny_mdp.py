"""A random 3-state, 2-action MDP of 3 actions, small enough to enumerate all 216 trajectories."""

import itertools
from collections.abc import Iterator

import numpy as np

from edge_fed.envs.base import TabularModel

S, A, HORIZON = 3, 2, 2


def random_model(seed: int = 0, discount: float = 0.9) -> TabularModel:
    """Stochastic transitions, rewards of state and action, no symmetry."""
    rng = np.random.default_rng(seed)
    return TabularModel(
        transition=rng.dirichlet(np.ones(S), size=(S, A)),
        reward=rng.normal(size=(S, A)),
        start=rng.dirichlet(np.ones(S)),
        discount=discount,
        horizon=HORIZON,
    )


def softmax(theta: np.ndarray) -> np.ndarray:
    """pi(a|s) of the flat logits, written without the code under test."""
    weights = np.exp(theta.reshape(S, A))
    return weights / weights.sum(axis=1, keepdims=True)


def trajectories(model: TabularModel) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All (states, actions) of H+1 steps."""
    steps = model.horizon + 1
    for states in itertools.product(range(S), repeat=steps):
        for actions in itertools.product(range(A), repeat=steps):
            yield states, actions


def probability(model: TabularModel, theta: np.ndarray, states, actions) -> float:
    """q(trajectory; theta)."""
    pi = softmax(theta)
    q = model.start[states[0]] * np.prod([pi[s, a] for s, a in zip(states, actions, strict=True)])
    for h in range(model.horizon):
        q *= model.transition[states[h], actions[h], states[h + 1]]
    return float(q)


def discounted_return(model: TabularModel, states, actions) -> float:
    """Sum of gamma^t r(s_t, a_t) over the H+1 steps."""
    return sum(
        model.discount**t * model.reward[s, a] for t, (s, a) in enumerate(zip(states, actions, strict=True))
    )
