"""Every episode of a random MDP that ends some and cuts some: an oracle for the bootstrap.

Whoever arrives in state s without ending is cut there with probability ``cuts[s]``; after H+1 actions
everybody is. The reference value of the objective is a forward pass over distributions of states, written for
complex parameters: its derivative along e is Im J(theta + i eps e) / eps, exact to rounding.
"""

import numpy as np

from edge_fed.config import Algorithm
from edge_fed.meta.base import AgentState, Task
from edge_fed.meta.bootstrap import Bootstrap
from edge_fed.policies.softmax import Softmax
from edge_fed.rollouts import BaseSampler, Ends, Trajectories
from edge_fed.spaces import Spaces

S, A, H, DISCOUNT, END = 3, 2, 2, 0.9, 2
EPS = 1e-30


class CutEpisodes:
    """The MDP, its parameters, and all its episodes in a row.

    Attributes:
        value: V of each state, fixed; also of the terminal one, where nobody may ask for it.
        dynamics: Probability of each episode but for its actions, ``[N]``.
        steps: T of each, ``[N]``.
    """

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.transition = rng.dirichlet(np.ones(S), size=(S, A))
        self.reward = rng.normal(size=(S, A))
        self.cuts = rng.uniform(0.2, 0.5, size=S)
        self.start = np.array([0.4, 0.6, 0.0])
        self.theta, self.v = rng.normal(size=(2, S * A))
        self.value = rng.normal(scale=3, size=S)
        self.horizon, self.discount = H, DISCOUNT  # with `spaces` all that a bootstrap asks an environment
        self.spaces = Spaces(num_actions=A, observation_shape=(), num_states=S)
        self.policy = Softmax(self.spaces)
        found = [part for s in (0, 1) for part in self._from((s,), (), self.start[s])]
        self.paths = [(states, actions, cut) for states, actions, cut, _ in found]
        self.dynamics = np.array([q for *_, q in found])
        self.steps = np.array([len(actions) for _, actions, _ in self.paths])

    def _from(self, states, actions, q):
        for a in range(A):
            for s in range(S):
                seen, done, moved = (*states, s), (*actions, a), q * self.transition[states[-1], a, s]
                if s == END or len(done) == H + 1:
                    yield seen, done, s != END, moved
                    continue
                yield seen, done, True, moved * self.cuts[s]
                yield from self._from(seen, done, moved * (1 - self.cuts[s]))

    def pi(self, theta):
        """Probabilities of actions ``[S, A]``, also for complex parameters."""
        weights = np.exp(theta.reshape(S, A))
        return weights / weights.sum(axis=1, keepdims=True)

    def density(self) -> np.ndarray:
        """Probability of every episode, ``[N]``."""
        pi = self.pi(self.theta)
        acted = [np.prod([pi[s, a] for s, a in zip(p[0][:-1], p[1], strict=True)]) for p in self.paths]
        return self.dynamics * np.array(acted)

    def objective(self, theta, value):
        """J plus E[1{cut} gamma^T V(s_T)], by distributions of states, without an episode."""
        here, total, pi = self.start.astype(theta.dtype), 0.0, self.pi(theta)
        for t in range(H + 1):
            acted = here[:, None] * pi
            total = total + DISCOUNT**t * (acted * self.reward).sum()
            there = np.einsum("sa,sax->x", acted, self.transition)
            there[END] = 0.0
            cut = there * (self.cuts if t < H else 1.0)
            total = total + DISCOUNT ** (t + 1) * (cut * value).sum()
            here = there - cut
        return total

    def gradient(self, theta, value) -> np.ndarray:
        """Of `objective`, ``[d]``."""
        along = np.eye(theta.size) * 1j * EPS
        return np.array([self.objective(theta + e, value).imag / EPS for e in along])

    def batch(self, params) -> Trajectories:
        """All episodes as a sampler gives them, rubbish after their ends."""
        n, rng = len(self.paths), np.random.default_rng(0)
        states, actions = rng.integers(0, S, (H + 1, n)), rng.integers(0, A, (H + 1, n))
        rewards, mask = np.zeros((H + 1, n)), np.zeros((H + 1, n))
        for j, (seen, done, _) in enumerate(self.paths):
            taken = len(done)
            states[:taken, j], actions[:taken, j], mask[:taken, j] = seen[:-1], done, 1.0
            rewards[:taken, j] = self.reward[seen[:-1], done] * DISCOUNT ** np.arange(taken)
        trace = self.policy.begin(params, states)
        trace.actions[:] = actions
        last, cut = np.array([p[0][-1] for p in self.paths]), np.array([p[2] for p in self.paths])
        return Trajectories(states, actions, rewards, trace, mask, Ends(last, cut))

    def task(self, **algorithm) -> Task:
        """A task whose sampler hands out all episodes."""
        return Task(0, self, self.policy, All(self), Algorithm(**algorithm))

    def state(self, low=-1e3, high=1e3) -> AgentState:
        """Of a bootstrap whose V is `value`, clipped to [low, high]."""
        state = Bootstrap.initial(self.task())
        rewards = (1 - DISCOUNT) * np.array([low, high])
        weights = self.value * (state["bootstrap_A"] + 1e-3)
        return {**state, "bootstrap_b": weights, "bootstrap_range": rewards}


class All(BaseSampler):
    """Hands out all episodes, whatever is asked.

    Attributes:
        given: What was handed out.
    """

    given: Trajectories

    def __init__(self, cases: CutEpisodes) -> None:
        super().__init__(cases.policy)
        self.cases = cases

    def fresh(self):
        """Another one."""
        return All(self.cases)

    def pool(self, params, batches):
        """All."""
        del batches
        self.given = self.cases.batch(params)
        self._count(self.given.size, self.given.steps)
        return self.given

    def outcomes(self, params, m, rng):
        """Nobody asks."""
        raise NotImplementedError
