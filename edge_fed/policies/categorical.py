"""What all policies over a finite set of actions share."""

import numpy as np
from numpy.random import Generator

from edge_fed.params import F8, I8
from edge_fed.spaces import States


class Categorical:
    """Parent of policies over a finite set: one uniform per action, inverse CDF.

    Attributes:
        num_actions: Size of the set.
    """

    num_actions: int

    def log_prob(self, params: F8, states: States, actions: I8) -> F8:
        """Log pi(a | s), see `edge_fed.policies.base.Policy`."""
        raise NotImplementedError

    def log_probs(self, params: F8, states: States) -> F8:
        """Log pi(. | s), ``[..., A]``; a child that has them all at once says so."""
        actions = range(self.num_actions)
        every = [self.log_prob(params, states, np.full(states.shape[:2], action)) for action in actions]
        return np.stack(every, axis=-1)

    def noise(self, rng: Generator, steps: int, m: int) -> F8:
        """Uniforms, ``[steps, m, 1]``."""
        return rng.random((steps, m))[:, :, None]

    def executed(self, actions: I8) -> I8:
        """The actions themselves."""
        return actions

    def kl(self, params: F8, other: F8, states: States) -> F8:
        """KL(pi(.|s; params) || pi(.|s; other)) in nats, ``[H+1, m]`` for states ``[H+1, m, *s]``."""
        here, there = self.log_probs(params, states), self.log_probs(other, states)
        divergence = np.zeros(states.shape[:2])
        for action in range(self.num_actions):
            log_pi = here[..., action]
            divergence += np.exp(log_pi) * (log_pi - there[..., action])
        return divergence
