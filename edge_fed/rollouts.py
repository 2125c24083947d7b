"""Sampling trajectories: one loop over time steps, all trajectories at once.

Batches at the same parameters roll out fused as one, because the cost of a small step is the number of
calls, not of rows; each batch still draws its start states and uniforms from its own stream.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.random import Generator

from edge_fed.envs.base import Environment
from edge_fed.params import F8, I8
from edge_fed.policies.base import Policy, Trace
from edge_fed.returns import discounts
from edge_fed.spaces import States

Batches = Sequence[tuple[int, Generator]]
"""Size and stream of each batch."""


class Trajectories(msgspec.Struct, frozen=True):
    """A batch of m trajectories, time-major.

    Attributes:
        states: ``[H+1, m, *observation_shape]``.
        actions: ``[H+1, m]``.
        rewards: gamma^t r(s_t, a_t), ``[H+1, m]``: of the state before the action.
        trace: The policy's forward record, for gradients at the parameters of the rollout.
    """

    states: States
    actions: I8
    rewards: F8
    trace: Trace

    @property
    def size(self) -> int:
        """Number of trajectories m."""
        return int(self.actions.shape[1])

    def part(self, columns: slice) -> "Trajectories":
        """Some of the trajectories, as views."""
        return Trajectories(
            self.states[:, columns],
            self.actions[:, columns],
            self.rewards[:, columns],
            self.trace.columns(columns),
        )


class Sampler:
    """Rolls a policy out in an environment, and counts.

    Attributes:
        environment: Where.
        policy: Who acts.
        trajectories: Sampled since the sampler was made; only ever grows.
    """

    def __init__(self, environment: Environment, policy: Policy) -> None:
        self.environment = environment
        self.policy = policy
        self.trajectories = 0
        self._discounts = discounts(environment.horizon, environment.discount)
        tabular = environment.spaces.num_states is not None
        self._dtype: type[np.int64] | type[np.float64] = np.int64 if tabular else np.float64

    def __call__(self, params: F8, batches: Batches) -> list[Trajectories]:
        """Samples every batch at ``params`` ``[d]``; returns them in order, as views of one rollout."""
        pool = self.pool(params, batches)
        if len(batches) == 1:
            return [pool]
        ends = np.cumsum([size for size, _ in batches]).tolist()
        return [pool.part(slice(end - size, end)) for (size, _), end in zip(batches, ends, strict=True)]

    def pool(self, params: F8, batches: Batches) -> Trajectories:
        """Samples every batch at ``params`` ``[d]``; returns them side by side as one.

        The arrays belong to the caller: no later rollout writes into them.
        """
        m = sum(size for size, _ in batches)
        # A one-row product takes another BLAS path with other rounding (methods.md 6).
        width = max(m, 2)
        states, uniforms = self._draw(batches, width)
        trace = self._run(params, states, uniforms)
        self.trajectories += m
        rewards = self.environment.rewards(states, trace.actions) * self._discounts
        whole = Trajectories(states, trace.actions, rewards, trace)
        return whole if m == width else whole.part(slice(0, m))

    def outcomes(self, params: F8, m: int, rng: Generator) -> tuple[States, F8]:
        """Samples as `pool` does, bit for bit, but keeps only what a score needs: no gradient can follow.

        The policy's record of one step is written over at each. Of 512 few-shot episodes that leaves
        0.9 MB instead of 4.7 MB, of which the C library would keep 4 MB in each agent after round 0.

        Returns:
            States ``[H+1, m, *observation_shape]`` and rewards gamma^t r ``[H+1, m]``.
        """
        states, uniforms = self._draw([(m, rng)], max(m, 2))
        actions = np.empty(uniforms.shape, dtype=np.int64)
        here = np.empty_like(states[:1])
        trace = self.policy.begin(params, here)
        for h, column in enumerate(uniforms[:, :, None]):
            here[0] = states[h]
            actions[h] = self.policy.act(trace, 0, column)
            if h + 1 < len(states):
                self.environment.step(states[h], actions[h], states[h + 1])
        self.trajectories += m
        rewards = self.environment.rewards(states, actions) * self._discounts
        return states[:, :m], rewards[:, :m]

    def _draw(self, batches: Batches, width: int) -> tuple[States, F8]:
        """Start states in row 0 of ``[H+1, width, *s]``, and uniforms ``[H+1, width]``."""
        environment = self.environment
        steps = environment.horizon + 1
        shape = (steps, width, *environment.spaces.observation_shape)
        states: Any = np.empty(shape, dtype=self._dtype)
        uniforms = np.empty((steps, width))
        end = 0
        for size, rng in batches:
            begin, end = end, end + size
            states[0, begin:end] = environment.start(rng, size)
            uniforms[:, begin:end] = rng.random((steps, size))
        if end == 0:
            raise ValueError("a rollout needs one trajectory or more")
        states[0, end:], uniforms[:, end:] = states[0, :1], uniforms[:, :1]
        return states, uniforms

    def _run(self, params: F8, states: States, uniforms: F8) -> Trace:
        """Fills ``states`` from row 1 on; returns the policy's record of it."""
        act, step = self.policy.act, self.environment.step
        trace = self.policy.begin(params, states)
        rows, columns = list(states), list(uniforms[:, :, None])
        for h in range(len(rows) - 1):  # H+1 actions, H transitions
            step(rows[h], act(trace, h, columns[h]), rows[h + 1])
        act(trace, len(rows) - 1, columns[-1])
        return trace
