"""Policy and environment together: against dynamic programming, or against what holds in every MDP."""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np
from numpy.random import Generator

from edge_fed import dp
from edge_fed.envs.base import TabularModel
from edge_fed.gradcheck.findings import (
    COUNT_ERRORS,
    ERRORS,
    Check,
    misfit,
    ratio,
    sampled_mean,
    standard_error,
)
from edge_fed.meta import CURVATURES
from edge_fed.meta.curvature import BIASED
from edge_fed.meta.guard import norm
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.params import F8
from edge_fed.returns import episode_return, reward_to_go
from edge_fed.rollouts import BaseSampler, Trajectories

BATCHES = 64  # that a sampled mean and its standard error are made of
REACH = 0.1  # distance over which the change of J is measured: 1 % of truncation on navigation
GRADIENT = "sampled gradients have mean grad J: horizon, discount, time of rewards, draws and score fit"

Rng = Callable[[int], Generator]
Report = Callable[[str], None]


def with_model(
    sampler: BaseSampler, params: F8, model: TabularModel, size: int, rng: Rng, report: Report
) -> Iterator[Check]:
    """Simulated starts and moves, gradient and curvature against the model, from `BATCHES` of ``size``."""
    policy, v = sampler.policy, rng(6).normal(size=params.size)
    unbiased = {name: estimate for name, estimate in CURVATURES.items() if name not in BIASED}
    gradients: list[F8] = []
    products: dict[str, list[F8]] = {name: [] for name in unbiased}
    S, A = model.reward.shape
    starts, moves = np.zeros((1, S)), np.zeros((S * A, S))
    for batch in _batches(sampler, params, size, rng(5), report):
        starts += np.bincount(batch.states[0], minlength=S)
        pairs = (batch.states * A + batch.actions)[:-1]
        moves += np.bincount((pairs * S + batch.states[1:]).ravel(), minlength=moves.size).reshape(S * A, S)
        to_go = reward_to_go(batch.rewards)
        gradients.append(policy_gradient(policy, batch, to_go))
        for name, estimate in unbiased.items():
            products[name].append(estimate(policy, batch, to_go, v))
    off = misfit(starts, model.start[None])
    yield Check("starts", off, COUNT_ERRORS, "s.e.", "start draws from the model's distribution")
    off, seen = misfit(moves, model.transition.reshape(S * A, S)), int(moves.any(axis=1).sum())
    proves = f"step is the model's transition, in {seen} of {S * A} pairs of state and action"
    yield Check("moves", off, COUNT_ERRORS, "s.e.", proves)
    yield sampled_mean("gradient", gradients, dp.gradient(model, params), GRADIENT)
    expected = dp.hessian_vector(model, params, v)
    for name, found in products.items():
        yield sampled_mean(f"curvature {name}", found, expected, "sampled products have mean hess J v")


def without_model(sampler: BaseSampler, params: F8, size: int, rng: Rng, report: Report) -> Iterator[Check]:
    """What holds in every MDP, from `BATCHES` of ``size`` trajectories."""
    policy = sampler.policy
    gradients, scores = [], []
    for batch in _batches(sampler, params, size, rng(5), report):
        gradients.append(policy_gradient(policy, batch, reward_to_go(batch.rewards)))
        scores.append(policy_gradient(policy, batch, batch.masked(np.ones(batch.rewards.shape))))
    proves = "scores have mean 0: what is drawn is what is differentiated"
    mean_score = sampled_mean("mean score", scores, np.zeros(params.size), proves)
    yield msgspec.structs.replace(mean_score, blind=None)  # errors relative to 0 there are none

    # v from one half of the batches, g . v from the other: on the same ones it would be too large
    half = np.array(gradients[: BATCHES // 2]).mean(axis=0)
    v = half / (norm(half) or 1.0)
    slopes = np.array(gradients[BATCHES // 2 :]) @ v
    up, down = (_returns(sampler, params + e * v, size, rng(7), report) for e in (REACH, -REACH))
    yield _change(slopes, (up - down) / (2 * REACH))


def _change(slopes: F8, changes: F8) -> Check:
    """Slopes g . v of batches against changes of J along v, of trajectories on equal uniforms."""
    error = float(np.hypot(standard_error(slopes), standard_error(changes)))
    slope, change = float(slopes.mean()), float(changes.mean())
    return Check(
        "return along g",
        ratio(abs(change - slope), error),
        ERRORS,
        "s.e.",
        f"J changes as g says, over steps of {REACH:g} along g",
        f"change of J {change:.3g}, g . v {slope:.3g}, standard error {error:.2g}",
        ERRORS * error / abs(slope) if slope else float("inf"),
    )


def _batches(
    sampler: BaseSampler, params: F8, size: int, rng: Generator, report: Report
) -> Iterator[Trajectories]:
    for number in range(1, BATCHES + 1):
        report(f"sampled gradients, batch {number} of {BATCHES}")
        yield sampler.pool(params, [(size, rng)])


def _returns(sampler: BaseSampler, params: F8, size: int, rng: Generator, report: Report) -> F8:
    """Of `BATCHES` times ``size`` episodes ``[n]``, batch by batch: all at once may not fit into memory."""
    found = []
    for number in range(1, BATCHES + 1):
        report(f"sampled returns, batch {number} of {BATCHES}")
        found.append(episode_return(sampler.outcomes(params, size, rng).rewards))
    return np.concatenate(found)
