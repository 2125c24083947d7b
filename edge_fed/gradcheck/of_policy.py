"""A policy alone: its closed forms against differences of log_prob, its draws against log_prob."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from edge_fed.gradcheck.findings import (
    COUNT_ERRORS,
    ERRORS,
    Check,
    misfit,
    ratio,
    relative,
    standard_error,
)
from edge_fed.meta.importance import retraced
from edge_fed.params import F8
from edge_fed.policies.base import Policy
from edge_fed.policies.gaussian import Gaussian
from edge_fed.policies.mlp import Mlp
from edge_fed.policies.softmax import Softmax
from edge_fed.rollouts import Trajectories

LIMITS: tuple[tuple[type, float], ...] = ((Softmax, 5e-8), (Mlp, 6e-7), (Gaussian, 6e-7))
"""Relative errors of derivatives, as the paper reports them (science.md 3.2); of `gaussian` as of `mlp`."""
GENERAL_LIMIT = 1e-5
"""Of other policies, in double precision."""
NORMALISED = 1e-9  # of the sum of probabilities

EPSILON = 1e-5  # of central differences along unit directions
DIRECTIONS = 32
STATES, DRAWS = 8, 16_384  # of the frequencies
GROUPS = 64  # of draws, whose means give a standard error


def derivatives(policy: Policy, batch: Trajectories, rng: Generator) -> Iterator[Check]:
    """Score, tangent and second at the states, actions and parameters of a batch, with random weights.

    Random directions instead of coordinates: each holds every coordinate, so that none can hide.
    """
    limit = next((limit for kind, limit in LIMITS if isinstance(policy, kind)), GENERAL_LIMIT)
    theta, states, actions = batch.trace.params, batch.states, batch.actions
    w, q = rng.normal(size=(2, *actions.shape[:2]))
    units = rng.normal(size=(DIRECTIONS, theta.size))
    units /= np.linalg.norm(units, axis=1, keepdims=True)

    def slope(v: F8) -> F8:
        up, down = (policy.log_prob(theta + e * v, states, actions) for e in (EPSILON, -EPSILON))
        return (up - down) / (2 * EPSILON)

    def check(name: str, found: F8, expected: F8, proves: str) -> Check:
        return Check(name, relative(found, expected), limit, "relative", proves)

    score, v = policy.score(batch.trace, w), units[0]
    slopes = np.array([(w * slope(unit)).sum() for unit in units])
    yield check("score", units @ score, slopes, "score is the gradient of log_prob")
    tangent = policy.tangent(batch.trace, v)
    yield check("tangent", tangent.scores, slope(v), "tangent gives the scores along v")
    up, down = (policy.score(retraced(policy, batch, theta + e * v), q) for e in (EPSILON, -EPSILON))
    expected = score + (up - down) / (2 * EPSILON)
    yield check("second", policy.second(tangent, w, q), expected, "second is w psi + q Psi v, given score")


def actions(policy: Policy, batch: Trajectories, num_actions: int, rng: Generator) -> Iterator[Check]:
    """What `act` draws in some states of a batch against what log_prob says."""
    theta, every = batch.trace.params, np.arange(num_actions)
    flat: Any = batch.states.reshape(-1, *batch.states.shape[2:])
    some = flat[np.linspace(0, len(flat) - 1, STATES).astype(np.int64)]
    log_pi = policy.log_prob(theta, np.repeat(some, num_actions, axis=0), np.tile(every, STATES))
    pi = np.exp(log_pi).reshape(STATES, num_actions)
    total = pi.sum(axis=1, keepdims=True)
    yield Check("probabilities", float(abs(total - 1).max()), NORMALISED, "of 1", "log_prob is normalised")
    trace = policy.begin(theta, np.repeat(some, DRAWS, axis=0)[None])
    chosen = policy.act(trace, 0, rng.random((STATES * DRAWS, 1)))
    other = float((trace.actions[0] != chosen).sum())
    yield Check(
        "record", other, 0.0, "actions", "gradients are of the very actions that the environment gets"
    )
    counts = (chosen.reshape(STATES, DRAWS, 1) == every).sum(axis=1)
    off = misfit(counts, pi / total)
    yield Check("frequencies", off, COUNT_ERRORS, "s.e.", "act draws in proportion to exp(log_prob)")


def box_actions(policy: Policy, batch: Trajectories, rng: Generator) -> Iterator[Check]:
    """What `act` draws in a box, in some states of a batch, against what log_prob says.

    A mean score of 0 does not see a wrong spread. The information identity does:
    E[(psi . v)^2 + v . Psi v] = 0, of any density that is drawn from.
    """
    theta = batch.trace.params
    flat: Any = batch.states.reshape(-1, *batch.states.shape[2:])
    some = flat[np.linspace(0, len(flat) - 1, STATES).astype(np.int64)]
    states = np.repeat(some, DRAWS, axis=0)[None]
    v = rng.normal(size=theta.size)
    trace = policy.begin(theta, states)
    chosen = policy.act(trace, 0, policy.noise(rng, 1, states.shape[1])[0])
    other = float((trace.actions[0] != chosen).sum())
    yield Check(
        "record", other, 0.0, "actions", "gradients are of the very actions that the environment gets"
    )
    size = states.shape[1] // GROUPS
    squares, curved = np.zeros((2, GROUPS))
    for group in range(GROUPS):
        tangent = policy.tangent(trace.columns(slice(group * size, (group + 1) * size)), v)
        none = np.zeros_like(tangent.scores)
        squares[group] = (tangent.scores**2).sum()
        curved[group] = policy.second(tangent, none, none + 1.0) @ v
    totals = squares + curved
    error, scale = float(standard_error(totals)), float(squares.mean())
    yield Check(
        "spread",
        ratio(abs(float(totals.mean())), error),
        ERRORS,
        "s.e.",
        "act draws with the spread that log_prob has: E[(psi v)^2 + v Psi v] = 0",
        blind=ERRORS * error / scale if scale else float("inf"),
    )
