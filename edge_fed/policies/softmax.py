"""Per-state softmax over a finite state set: pi(a | s) = softmax(theta[s])_a, d = S A.

With N(s, a) the w-weighted visits of a pair and N(s) their sum over actions,

    sum w psi      = N(s, a) - N(s) pi(a | s)
    Psi_s v        = -pi(. | s) * (v_s - <pi(. | s), v_s>)

so gradients are one weighted count and Hessian-vector products two; nothing of size m (H+1) d is built.
"""

from typing import Any

import msgspec
import numpy as np
from numpy.random import Generator

from edge_fed.arguments import read_args
from edge_fed.params import F8, I8
from edge_fed.policies.categorical import Categorical
from edge_fed.spaces import Spaces


class SoftmaxArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy has no arguments."""


class SoftmaxTrace:
    """What a rollout leaves behind: where it was and what it chose.

    Attributes:
        params: Those of the rollout, ``[d]``.
        pi: Probabilities, ``[S, A]``.
        cdf: Their running sums, ``[S, A]``; the last column is above every uniform.
        states: ``[H+1, m]``.
        actions: ``[H+1, m]``.
    """

    __slots__ = ("actions", "cdf", "params", "pi", "states")

    def __init__(self, params: F8, pi: F8, cdf: F8, states: I8, actions: I8) -> None:
        self.params = params
        self.pi = pi
        self.cdf = cdf
        self.states = states
        self.actions = actions

    def columns(self, part: slice) -> "SoftmaxTrace":
        """The record of some of the trajectories."""
        return SoftmaxTrace(self.params, self.pi, self.cdf, self.states[:, part], self.actions[:, part])

    def pairs(self) -> I8:
        """The index s A + a of every visited pair, ``[(H+1) m]``."""
        index = self.states * self.pi.shape[1]
        index += self.actions
        flat: I8 = index.ravel()
        return flat


class SoftmaxTangent:
    """A trace along v.

    Attributes:
        scores: psi_h . v, ``[H+1, m]``.
        trace: The trace.
        pairs: Indices of its visited pairs.
        advantage: v(s, a) - <pi(s), v(s)>, ``[S, A]``.
    """

    __slots__ = ("advantage", "pairs", "scores", "trace")

    def __init__(self, trace: SoftmaxTrace, advantage: F8) -> None:
        self.trace = trace
        self.pairs = trace.pairs()
        self.advantage = advantage
        self.scores: F8 = advantage.ravel().take(self.pairs).reshape(trace.actions.shape)


class Softmax(Categorical):
    """The tabular policy; parameters are ``theta[s, a]`` row by row, all zero at first."""

    def __init__(self, spaces: Spaces) -> None:
        if spaces.num_states is None:
            raise ValueError(
                "policy 'softmax' needs a finite number of states; this family has observations of shape "
                f"{spaces.observation_shape}: use policy 'mlp'"
            )
        self.num_actions = spaces.finite_actions("softmax")
        self.shape = (spaces.num_states, self.num_actions)
        self.dimension = spaces.num_states * self.num_actions
        self.description = f"softmax {spaces.num_states}x{self.num_actions}"

    def initial(self, rng: Generator) -> F8:  # noqa: ARG002  (the interface; theta = 0 needs no draw)
        """The uniform policy, ``[d]`` zeros."""
        return np.zeros(self.dimension)

    def probabilities(self, params: F8) -> F8:
        """pi(a | s), ``[S, A]``."""
        theta = params.reshape(self.shape)
        odds: F8 = np.exp(theta - theta.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        return odds

    def begin(self, params: F8, states: Any) -> SoftmaxTrace:
        """Opens the record of a rollout through ``states`` ``[H+1, m]``; one softmax serves all steps."""
        pi = self.probabilities(params)
        cdf = np.add.accumulate(pi, axis=1)
        cdf[:, -1] = 2.0  # u < 1: some column holds even when rounding leaves the sum below 1
        return SoftmaxTrace(params, pi, cdf, states, np.empty(states.shape, dtype=np.int64))

    def act(self, trace: SoftmaxTrace, h: int, noise: F8) -> I8:
        """Samples the actions ``[m]`` of step h by inverse CDF."""
        actions: I8 = trace.actions[h]
        (trace.cdf.take(trace.states[h], axis=0) >= noise).argmax(axis=1, out=actions)
        return actions

    def log_prob(self, params: F8, states: Any, actions: I8) -> F8:
        """Log pi(a | s) for any shape of states."""
        picked: F8 = self._table(params)[states, actions]
        return picked

    def log_probs(self, params: F8, states: Any) -> F8:
        """Log pi(. | s), ``[..., A]``: rows of one table."""
        rows: F8 = self._table(params)[states]
        return rows

    def _table(self, params: F8) -> F8:
        """Log pi(a | s), ``[S, A]``."""
        theta = params.reshape(self.shape)
        shifted = theta - theta.max(axis=1, keepdims=True)
        log_pi: F8 = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return log_pi

    def score(self, trace: SoftmaxTrace, w: F8) -> F8:
        """Sum of w psi, ``[d]``."""
        visits = self._visits(trace.pairs(), w)
        visits -= visits.sum(axis=1, keepdims=True) * trace.pi
        return visits.ravel()

    def tangent(self, trace: SoftmaxTrace, v: F8) -> SoftmaxTangent:
        """One pass along ``v`` ``[d]``."""
        direction = v.reshape(self.shape)
        advantage = direction - (trace.pi * direction).sum(axis=1, keepdims=True)
        return SoftmaxTangent(trace, advantage)

    def second(self, tangent: SoftmaxTangent, w: F8, q: F8) -> F8:
        """Sum of (w psi + q Psi v), ``[d]``."""
        visits = self._visits(tangent.pairs, w)
        pull = self._visits(tangent.pairs, q).sum(axis=1, keepdims=True) * tangent.advantage
        pull += visits.sum(axis=1, keepdims=True)
        pull *= tangent.trace.pi
        visits -= pull
        return visits.ravel()

    def _visits(self, pairs: I8, w: F8) -> F8:
        """Weighted visits of every pair, ``[S, A]``."""
        visits: F8 = np.bincount(pairs, w.ravel(), self.dimension).reshape(self.shape)  # type: ignore[assignment]  # weighted counts are floats
        return visits


def make_softmax(spaces: Spaces, args: dict[str, Any]) -> Softmax:
    """Builds the policy; it takes no args.

    Raises:
        ValueError: An arg was given, or the states are not finite in number.
    """
    read_args(SoftmaxArgs, args, "softmax")
    return Softmax(spaces)
