"""Every trajectory of a tiny MDP with its g and u, by the definitions of the paper and nothing else."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np

from edge_fed.envs.base import TabularModel
from edge_fed.theory.constants import Constants, tabular_constants
from tests.edge_fed.tiny_mdp import A, S, probability, random_model, softmax, trajectories


class Moments:
    """All trajectories at ``theta``: probabilities ``q`` [N], ``g`` [N, d], ``u`` [N, d, d]."""

    def __init__(self, model: TabularModel, theta: np.ndarray) -> None:
        pi, d = softmax(theta), S * A
        q, g, u = [], [], []
        for states, actions in trajectories(model):
            q.append(probability(model, theta, states, actions))
            pairs = list(zip(states, actions, strict=True))
            rewards = [model.discount**t * model.reward[pair] for t, pair in enumerate(pairs)]
            score, nu, second = np.zeros(d), np.zeros(d), np.zeros((d, d))
            for h, (s, a) in enumerate(pairs):
                block = slice(s * A, (s + 1) * A)
                psi = np.zeros(d)
                psi[block] = np.eye(A)[a] - pi[s]
                to_go = sum(rewards[h:])
                score += psi
                nu += to_go * psi
                second[block, block] -= to_go * (np.diag(pi[s]) - np.outer(pi[s], pi[s]))
            g.append(nu)
            u.append(np.outer(nu, score) + second)
        self.q, self.g, self.u = np.array(q), np.array(g), np.array(u)

    def spread(self) -> float:
        """varsigma^2 = E ||g - grad J||^2."""
        return float(self.q @ ((self.g - self.q @ self.g) ** 2).sum(axis=1))


def setting(horizon: int, seed: int = 0) -> tuple[TabularModel, np.ndarray, Constants]:
    """A tiny MDP with ``horizon`` transitions, parameters without symmetry, and its constants."""
    model = msgspec.structs.replace(random_model(seed), horizon=horizon)
    theta = np.random.default_rng(seed + 50).normal(size=S * A)
    return model, theta, tabular_constants([model])


def inner_gradients(at: Moments, m: int) -> Iterator[tuple[float, np.ndarray]]:
    """Every mean of m trajectories' g with its probability (multisets, multinomially weighted)."""
    for batch in itertools.combinations_with_replacement(range(at.q.size), m):
        orders = math.factorial(m)
        for count in Counter(batch).values():
            orders //= math.factorial(count)
        chosen = list(batch)
        yield orders * float(at.q[chosen].prod()), at.g[chosen].mean(axis=0)
