"""Sampling trajectories: one loop over time steps, all trajectories at once.

Batches at the same parameters roll out fused as one, because the cost of a small step is the number of
calls, not of rows; each batch still draws its start states and uniforms from its own stream.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.random import Generator

from edge_fed.envs.base import Environment
from edge_fed.params import B1, F8
from edge_fed.policies.base import Policy, Trace
from edge_fed.returns import discounts
from edge_fed.spaces import Actions, States

Batches = Sequence[tuple[int, Generator]]
"""Size and stream of each batch."""


class Ends(msgspec.Struct, frozen=True):
    """Where m episodes stood when no further action was taken.

    Attributes:
        states: s_T, T the number of an episode's actions, ``[m, *observation_shape]``.
        cut: Which of them would have gone on: what ended them was time, of the environment or of the
            horizon, ``[m]``.
    """

    states: States
    cut: B1


class Trajectories(msgspec.Struct, frozen=True):
    """A batch of m trajectories, time-major.

    Attributes:
        states: ``[H+1, m, *observation_shape]``.
        actions: As the policy stores them, see `Policy.executed`: ``[H+1, m]``, or ``[H+1, m, k]`` in a box.
        rewards: gamma^t r(s_t, a_t), ``[H+1, m]``: of the state before the action; 0 after an episode's end.
        trace: The policy's forward record, for gradients at the parameters of the rollout.
        mask: 1 for steps of an episode, 0 for what stands in the arrays after its end, ``[H+1, m]``; None:
            every episode has all H+1 steps.
        ends: How the episodes ended; None: nobody recorded it.
    """

    states: States
    actions: Actions
    rewards: F8
    trace: Trace
    mask: F8 | None = None
    ends: Ends | None = None

    @property
    def size(self) -> int:
        """Number of trajectories m. Estimates divide by it, however early episodes end."""
        return int(self.actions.shape[1])

    @property
    def steps(self) -> int:
        """Steps that were taken in the environment, H+1 for each trajectory that did not end early."""
        return self.rewards.size if self.mask is None else int(self.mask.sum())

    def masked(self, x: F8) -> F8:
        """``x`` ``[H+1, m]`` with 0 after each episode's end: scores and baselines count until there."""
        return x if self.mask is None else x * self.mask

    def part(self, columns: slice) -> "Trajectories":
        """Some of the trajectories, as views."""
        return Trajectories(
            self.states[:, columns],
            self.actions[:, columns],
            self.rewards[:, columns],
            self.trace.columns(columns),
            None if self.mask is None else self.mask[:, columns],
            None if self.ends is None else Ends(self.ends.states[columns], self.ends.cut[columns]),
        )


class Outcomes(msgspec.Struct, frozen=True):
    """What a batch of m trajectories came to, without what gradients need.

    Attributes:
        states: ``[H+1, m, *observation_shape]``.
        rewards: gamma^t r, ``[H+1, m]``.
        success: Which trajectories reached the goal at any step, ``[m]``; None: no such notion.
    """

    states: States
    rewards: F8
    success: B1 | None


class BaseSampler(ABC):
    """Rolls a policy out, and counts. A child says how.

    Attributes:
        policy: Who acts.
        trajectories: Sampled since the sampler was made; only ever grows.
        env_steps: Actions that the environment took in them.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.trajectories = 0
        self.env_steps = 0

    @abstractmethod
    def fresh(self) -> "BaseSampler":
        """The same environment and policy, nothing counted yet."""

    @abstractmethod
    def pool(self, params: F8, batches: Batches) -> Trajectories:
        """Samples every batch at ``params`` ``[d]``; returns them side by side as one.

        The arrays belong to the caller: no later rollout writes into them.
        """

    @abstractmethod
    def outcomes(self, params: F8, m: int, rng: Generator) -> Outcomes:
        """Samples m trajectories at ``params`` ``[d]`` for what a score needs: no gradient can follow."""

    def __call__(self, params: F8, batches: Batches) -> list[Trajectories]:
        """Samples every batch at ``params`` ``[d]``; returns them in order, as views of one rollout."""
        pool = self.pool(params, batches)
        if len(batches) == 1:
            return [pool]
        ends = np.cumsum([size for size, _ in batches]).tolist()
        return [pool.part(slice(end - size, end)) for (size, _), end in zip(batches, ends, strict=True)]

    def _count(self, trajectories: int, env_steps: int) -> None:
        self.trajectories += trajectories
        self.env_steps += env_steps


class Sampler(BaseSampler):
    """Rolls a policy out in an environment of arrays.

    Attributes:
        environment: Where.
    """

    def __init__(self, environment: Environment, policy: Policy) -> None:
        super().__init__(policy)
        self.environment = environment
        self._discounts = discounts(environment.horizon, environment.discount)
        tabular = environment.spaces.num_states is not None
        self._dtype: type[np.int64] | type[np.float64] = np.int64 if tabular else np.float64

    def fresh(self) -> "Sampler":
        """The same environment and policy, nothing counted yet."""
        return Sampler(self.environment, self.policy)

    def pool(self, params: F8, batches: Batches) -> Trajectories:
        """See `BaseSampler.pool`."""
        m = sum(size for size, _ in batches)
        # A one-row product takes another BLAS path with other rounding (methods.md 6).
        width = max(m, 2)
        states, noise = self._draw(batches, width)
        trace = self._run(params, states, noise)
        rewards, mask = self._rewards(states, self.policy.executed(trace.actions))
        whole = Trajectories(states, trace.actions, rewards, trace, mask)
        whole = whole if m == width else whole.part(slice(0, m))
        self._count(whole.size, whole.steps)
        return whole

    def outcomes(self, params: F8, m: int, rng: Generator) -> Outcomes:
        """Samples as `pool` does, bit for bit, but keeps only what a score needs: no gradient can follow.

        The policy's record of one step is written over at each. Of 512 few-shot episodes that leaves
        0.9 MB instead of 4.7 MB, of which the C library would keep 4 MB in each agent after round 0.
        """
        states, noise = self._draw([(m, rng)], max(m, 2))
        here = np.empty_like(states[:1])
        trace = self.policy.begin(params, here)
        actions: Any = np.empty((len(states), *trace.actions.shape[1:]), dtype=trace.actions.dtype)
        for h, row in enumerate(noise):
            here[0] = states[h]
            actions[h] = self.policy.act(trace, 0, row)
            if h + 1 < len(states):
                self.environment.step(states[h], self.policy.executed(actions[h]), states[h + 1])
        rewards, mask = self._rewards(states, self.policy.executed(actions))
        self._count(m, rewards[:, :m].size if mask is None else int(mask[:, :m].sum()))
        return Outcomes(states[:, :m], rewards[:, :m], self.environment.success(states[:, :m]))

    def _rewards(self, states: States, actions: Actions) -> tuple[F8, F8 | None]:
        """Rewards with their discount, and the mask, ``[H+1, m]`` each."""
        rewards = self.environment.rewards(states, actions) * self._discounts
        ended = self.environment.ended(states)
        if ended is None:
            return rewards, None
        mask = np.where(ended, 0.0, 1.0)
        rewards *= mask
        return rewards, mask

    def _draw(self, batches: Batches, width: int) -> tuple[States, F8]:
        """Start states in row 0 of ``[H+1, width, *s]``, and the policy's noise ``[H+1, width, n]``."""
        environment = self.environment
        steps = environment.horizon + 1
        shape = (steps, width, *environment.spaces.observation_shape)
        states: Any = np.empty(shape, dtype=self._dtype)
        drawn = []
        end = 0
        for size, rng in batches:
            begin, end = end, end + size
            states[0, begin:end] = environment.start(rng, size)
            drawn.append(self.policy.noise(rng, steps, size))
        if end == 0:
            raise ValueError("a rollout needs one trajectory or more")
        states[0, end:] = states[0, :1]
        if end < width:
            drawn.append(drawn[0])
        return states, drawn[0] if len(drawn) == 1 else np.concatenate(drawn, axis=1)

    def _run(self, params: F8, states: States, noise: F8) -> Trace:
        """Fills ``states`` from row 1 on; returns the policy's record of it."""
        act, executed, step = self.policy.act, self.policy.executed, self.environment.step
        trace = self.policy.begin(params, states)
        rows, columns = list(states), list(noise)
        for h in range(len(rows) - 1):  # H+1 actions, H transitions
            step(rows[h], executed(act(trace, h, columns[h])), rows[h + 1])
        act(trace, len(rows) - 1, columns[-1])
        return trace
