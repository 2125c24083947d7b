"""What an agent does with the parameters of a round: tau local steps of its variant.

    theta_i <- theta;  for t = 0..tau-1:  theta_i <- theta_i + beta direction(theta_i)     (the paper, 1.2)

With a correction, c - c_i is added to each direction (`edge_fed.federated.control_variate`).
An agent that attacks sends something else (`edge_fed.federated.attacks`).
Pure: (task, params, state, seed, round, control) give the update; nothing passed in is changed.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from edge_fed.errors import NonFinite, ShapeError
from edge_fed.federated.attacks import ATTACKS
from edge_fed.federated.control_variate import OWN, correction, initial_own, own_after
from edge_fed.learner import Learner
from edge_fed.meta.base import AgentState, Estimate
from edge_fed.meta.guard import norm
from edge_fed.params import F8
from edge_fed.profiles import steps_done
from edge_fed.seeding import Purpose, Streams, stream, streams

__all__ = ["AgentState", "LocalUpdate", "initial_state", "local_update"]


class LocalUpdate(msgspec.Struct, frozen=True):
    """One agent's part in a round.

    Attributes:
        delta: Parameters after minus parameters received, ``[d]``.
        trajectories: Sampled for it, counted while sampling.
        metrics: Over the local steps; see `summary`.
        state: Agent state after it; counts only if the update does.
    """

    delta: F8
    trajectories: int
    metrics: dict[str, float]
    state: AgentState


def initial_state(task: Learner) -> AgentState:
    """The state of an agent that never trained: of its task and of the correction, each if it has one."""
    return {**task.initial_state(), **initial_own(task.settings, task.dimension)}


def local_update(
    task: Learner,
    params: F8,
    state: AgentState,
    seed: int,
    round_: int,
    progress: Callable[[int], None],
    control: F8 | None = None,
) -> LocalUpdate:
    """Runs the agent's ``local_steps`` from ``params`` ``[d]``, or as many as its completeness lets it do.

    Args:
        task: What the agent owns.
        params: theta of the round, left as it is.
        state: Agent state before the round (`initial_state` at first), left as it is.
        seed: Run seed; step t draws from the streams of (seed, agent, round, t).
        round_: 1..K.
        progress: Called with t before each step; may raise to stop.
        control: c of the round, ``[d]``, left as it is; None exactly if the run has no correction.

    Raises:
        NonFinite: A step's direction is not finite; the message names agent, round and step.
        ShapeError: ``params``, ``state`` or ``control`` do not fit the task.
    """
    if params.shape != (task.dimension,):
        raise ShapeError(f"params have shape {params.shape}, {task.description} needs ({task.dimension},)")
    settings, theta = task.settings, params
    shift = correction(settings, state, control, params.size)
    steps = steps_done(task.completeness, settings.local_steps, seed, task.agent, round_)
    estimates: list[Estimate] = []
    memory: dict[str, Any] = {}
    # What overflows is refused by name below; NumPy's warning beside it would say less.
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(steps):
            progress(t)
            draws = streams(seed, task.agent, round_, t)
            where = f"agent {task.agent}, round {round_}, local step {t}"
            estimate, state = _direction(task, theta, state, draws, memory, where)
            along = estimate.direction if shift is None else estimate.direction + shift
            theta = theta + settings.outer_step_size * along
            estimates.append(estimate)
        delta = theta - params
        if task.attack is not None:
            delta = _attacked(task, delta, params, seed, round_, progress)
    if not np.isfinite(delta).all():
        raise NonFinite(f"agent {task.agent}, round {round_}: the update is not finite")
    total, metrics = sum(estimate.trajectories for estimate in estimates), summary(estimates)
    if task.completeness < 1:
        metrics["local_steps"] = float(steps)
    if shift is not None:
        state = {**state, OWN: own_after(settings, delta, shift)}
        metrics["correction_norm"] = norm(shift)
        if not np.isfinite(state[OWN]).all():
            raise NonFinite(f"agent {task.agent}, round {round_}: its control variate is not finite")
    return LocalUpdate(delta, total, metrics, state)


def _attacked(
    task: Learner, delta: F8, params: F8, seed: int, round_: int, progress: Callable[[int], None]
) -> F8:
    """What the agent sends instead of its honest update ``delta``."""
    assert task.attack is not None
    honest = [
        delta
        if other.agent == task.agent
        else local_update(other, params, initial_state(other), seed, round_, progress).delta
        for other in task.colluders
    ]
    rng = stream(seed, task.agent, round_, 0, Purpose.ATTACK)
    return ATTACKS[task.attack.kind](task.attack.scale, delta, honest, rng)


def summary(estimates: Sequence[Estimate]) -> dict[str, float]:
    """One number per metric over the local steps of a round.

    The mean of ``inner_norm``, ``direction_norm`` and ``cosine``, the MEDIAN of ``curvature_ratio`` (it
    has heavy tails), the fraction of steps in which the guard bites as ``guard_rate``, and the sum of
    ``trajectories``. Metrics that the variant does not measure are absent.
    """
    found = {"direction_norm": statistics.fmean(norm(estimate.direction) for estimate in estimates)}
    for name in estimates[0].metrics:
        reduce = statistics.median if name == "curvature_ratio" else statistics.fmean
        found[name] = float(reduce([estimate.metrics[name] for estimate in estimates]))
    found["trajectories"] = float(sum(estimate.trajectories for estimate in estimates))
    return found


def _direction(
    task: Learner, theta: F8, state: AgentState, draws: Streams, memory: dict[str, Any], where: str
) -> tuple[Estimate, AgentState]:
    """The estimate of a local step and the state after it, refused with its place if it is not finite."""
    try:
        estimate, state = task.local_step(theta, state, draws, memory)
    except NonFinite as error:
        raise NonFinite(f"{where}: {error}") from None
    if not math.isfinite(norm(estimate.direction)):
        raise NonFinite(f"{where}: the direction is not finite; a smaller step size may help")
    return estimate, state
