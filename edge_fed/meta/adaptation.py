"""The inner step theta + alpha g_in: one function for training, evaluation and onboarding."""

from typing import Any

import msgspec
from numpy.random import Generator

from edge_fed.meta.base import Baseline, Task
from edge_fed.meta.baselines import BASELINES
from edge_fed.meta.inner_gradient import recursive_gradient
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.params import F8
from edge_fed.rollouts import Trajectories


class Adapted(msgspec.Struct, frozen=True):
    """Result of one inner step.

    Attributes:
        params: theta + alpha g_in, ``[d]``.
        gradient: g_in, ``[d]``.
        advantages: R^h - b_h of which g_in is made, ``[H+1, m]``.
    """

    params: F8
    gradient: F8
    advantages: F8


def adapt_batch(
    task: Task,
    params: F8,
    batch: Trajectories,
    *,
    alpha: float | None = None,
    baseline: Baseline | None = None,
    memory: dict[str, Any] | None = None,
) -> Adapted:
    """One inner step from trajectories at hand. ASCENT: the paper's theta + alpha grad J.

    Args:
        task: The agent's; its settings give what is not named.
        params: theta, ``[d]``.
        batch: m_in trajectories sampled at ``params``.
        alpha: Step size; None: the run's ``inner_step_size``.
        baseline: None: the run's ``adapt_baseline``; training passes its own.
        memory: Of the local steps of a round, for a recursive ``inner_gradient``; None: the plain one, which
            is all that a single step can have.
    """
    baseline = adaptation_baseline(task) if baseline is None else baseline
    alpha = task.settings.inner_step_size if alpha is None else alpha
    advantages = baseline.advantages(batch)
    if memory is not None and task.settings.inner_gradient == "recursive":
        momentum = task.settings.inner_momentum
        gradient = recursive_gradient(task.policy, batch, advantages, momentum, memory)
    else:
        gradient = policy_gradient(task.policy, batch, advantages)
    return Adapted(params + alpha * gradient, gradient, advantages)


def adapt(task: Task, params: F8, m: int, rng: Generator, *, alpha: float | None = None) -> F8:
    """Personalises ``params`` ``[d]``: ``adapt_steps`` inner steps, each from m fresh trajectories.

    Args:
        task: The agent's; ``adapt_baseline`` and ``adapt_steps`` of its settings apply.
        params: The shared initialization, left as it is.
        m: Trajectories per step; 0 adapts nothing.
        rng: Stream of the sampling.
        alpha: Step size; None: the run's ``inner_step_size``.
    """
    if m == 0:
        return params.copy()
    for _ in range(task.settings.adapt_steps):
        (batch,) = task.sample(params, [(m, rng)])
        params = adapt_batch(task, params, batch, alpha=alpha).params
    return params


def adaptation_baseline(task: Task) -> Baseline:
    """The stateless baseline that evaluation and onboarding adapt with."""
    return BASELINES[task.settings.adapt_baseline or "none"](task, {})
