"""Every BATCH of a tiny model as a local step could have sampled it, with its density: for what is no mean.

Densities, scores and returns are written out here, by their definitions.
"""

import itertools
from collections import Counter

import numpy as np

from edge_fed.config import Algorithm
from edge_fed.envs.base import TabularModel
from edge_fed.meta import BASELINES
from edge_fed.meta.base import Baseline, Task
from edge_fed.policies.softmax import Softmax
from edge_fed.returns import discounts
from edge_fed.rollouts import Trajectories
from edge_fed.spaces import Spaces


class Tiny:
    """A random model, all its trajectories in a row, and a policy for it."""

    def __init__(self, num_states: int, num_actions: int, horizon: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        S, A = num_states, num_actions
        self.model = TabularModel(
            transition=rng.dirichlet(np.ones(S), size=(S, A)),
            reward=rng.normal(size=(S, A)),
            start=rng.dirichlet(np.ones(S)),
            discount=0.9,
            horizon=horizon,
        )
        self.theta = rng.normal(scale=0.5, size=S * A)
        self.spaces = Spaces(num_actions=A, observation_shape=(), num_states=S)
        self.horizon, self.discount = horizon, 0.9  # with `spaces` all that a baseline asks an environment
        self.policy = Softmax(self.spaces)
        steps = horizon + 1
        pairs = itertools.product(
            itertools.product(range(S), repeat=steps), itertools.product(range(A), repeat=steps)
        )
        both = np.array(list(pairs)).transpose(1, 2, 0)
        self.states, self.actions = np.ascontiguousarray(both[0]), np.ascontiguousarray(both[1])
        self.rewards = self.model.reward[self.states, self.actions] * discounts(horizon, 0.9)
        self.to_go = np.cumsum(self.rewards[::-1], axis=0)[::-1]
        self.dynamics = self.model.start[self.states[0]]
        for h in range(horizon):
            self.dynamics = (
                self.dynamics * self.model.transition[self.states[h], self.actions[h], self.states[h + 1]]
            )
        self.all = range(self.dynamics.size)

    def log_pi(self, theta: np.ndarray) -> np.ndarray:
        """Log pi(a | s), ``[..., S, A]`` for parameters ``[..., d]``."""
        logits = theta.reshape(*theta.shape[:-1], *self.model.reward.shape)
        return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))

    def density(self, theta: np.ndarray) -> np.ndarray:
        """q(xi; theta) of every trajectory, ``[..., N]`` for parameters ``[..., d]``."""
        return self.dynamics * np.exp(self.log_pi(theta)[..., self.states, self.actions].sum(axis=-2))

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """psi_h of every trajectory, ``[H+1, N, d]``."""
        S, A = self.model.reward.shape
        chosen = np.eye(A)[self.actions] - np.exp(self.log_pi(theta))[self.states]
        return (np.eye(S)[self.states][..., None] * chosen[..., None, :]).reshape(*self.states.shape, S * A)

    def batch(self, params: np.ndarray, columns: list[int]) -> Trajectories:
        """The chosen trajectories as if sampled at ``params``."""
        states, actions = self.states[:, columns], self.actions[:, columns]
        trace = self.policy.begin(params, states)
        trace.actions[:] = actions
        return Trajectories(states, actions, self.rewards[:, columns], trace)

    def task(self, script: "Script | None" = None, **algorithm) -> Task:
        """A task whose sampler plays the script."""
        return Task(0, self, self.policy, script, Algorithm(**algorithm))

    def baseline(self, name: str) -> Baseline:
        """The named baseline; `value` as if it had learned something."""
        task = self.task()
        state = BASELINES[name].initial(task)
        if name == "value":
            state["b"] = np.random.default_rng(3).normal(scale=0.02, size=state["b"].shape)
        return BASELINES[name](task, state)


class Script:
    """A sampler that hands out the batches it was told to, and multiplies their densities."""

    def __init__(self, tiny: Tiny, batches: list[list[int]]) -> None:
        self.tiny, self.left = tiny, list(batches)
        self.trajectories, self.density = 0, 1.0

    def __call__(self, params: np.ndarray, batches) -> list[Trajectories]:
        """The next batches, whatever the streams."""
        found = []
        for _ in batches:
            columns = self.left.pop(0)
            self.density *= self.tiny.density(params)[columns].prod()
            self.trajectories += len(columns)
            found.append(self.tiny.batch(params, columns))
        return found


BANDIT = Tiny(1, 3, 0, seed=2)


def every(tiny: Tiny, m: int) -> list[tuple[list[int], int]]:
    """All batches of m trajectories, sorted, each with the number of orders that it stands for."""
    orders = Counter(tuple(sorted(batch)) for batch in itertools.product(tiny.all, repeat=m))
    return [(list(batch), count) for batch, count in orders.items()]
