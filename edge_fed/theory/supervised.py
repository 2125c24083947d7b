"""The supervised counterpart, Per-FedAvg (Fallah et al. 2020; science.md 1.5): losses, descent.

Valid for alpha in [0, 1/L]. Losses f_i are means over data distributions p_i; ``L``, ``B``, ``rho`` bound
the Hessian, the gradient and the Lipschitz constant of the Hessian. Diversities are squared distances.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from edge_fed.errors import ShapeError
from edge_fed.params import F8


class Loss(msgspec.Struct, frozen=True):
    """What is assumed of all users' losses.

    Attributes:
        L: ||hess f_i|| <= L.
        B: ||grad f_i|| <= B.
        rho: hess f_i is rho-Lipschitz.
        sigma_G: Standard deviation of a one-sample gradient, at most.
        sigma_H: Standard deviation of a one-sample Hessian, at most.
    """

    L: float
    B: float
    rho: float
    sigma_G: float
    sigma_H: float


class Samples(msgspec.Struct, frozen=True):
    """Batch sizes D (inner), D' (outer), D'' (Hessian)."""

    inner: int
    outer: int
    hessian: int


class Diversity(msgspec.Struct, frozen=True):
    """How different the users are: mean squared distance of gradients and of Hessians to their mean."""

    gradient: float  # gamma_G^2
    hessian: float  # gamma_H^2


class SupervisedTerms(msgspec.Struct, frozen=True):
    """The theorem's terms; ``optimization`` with its constant 4, the others up to the O(1) it leaves open."""

    optimization: float
    noise: float
    diversity: float
    bias: float


def supervised_smoothness(loss: Loss, alpha: float) -> float:
    """L_F = 4 L + alpha rho B."""
    _require_step(loss, alpha)
    return 4 * loss.L + alpha * loss.rho * loss.B


def supervised_bias(loss: Loss, alpha: float, inner: int) -> float:
    """||E direction - grad F_i|| <= 2 alpha L sigma_G / sqrt(D) (science.md A10)."""
    _require_step(loss, alpha)
    return 2 * alpha * loss.L * loss.sigma_G / math.sqrt(inner)


def supervised_variance(loss: Loss, alpha: float, samples: Samples) -> float:
    """sigma_F^2, the bound of E ||direction - grad F_i||^2, with the bracket of science.md A9."""
    _require_step(loss, alpha)
    gradients = 1 / samples.outer + (alpha * loss.L) ** 2 / samples.inner
    hessians = loss.sigma_H**2 * alpha**2 / (4 * samples.hessian)
    return 12 * (loss.B**2 + loss.sigma_G**2 * gradients) * (1 + hessians) - 12 * loss.B**2


def supervised_diversity(loss: Loss, alpha: float, users: Diversity) -> float:
    """gamma_F^2 = 3 B^2 alpha^2 gamma_H^2 + 192 gamma_G^2, of (1/n) sum ||grad F_i - grad F||^2."""
    _require_step(loss, alpha)
    return 3 * (loss.B * alpha) ** 2 * users.hessian + 192 * users.gradient


def total_variation(p: F8, q: F8) -> float:
    """Half the L1 distance of two distributions ``[Z]``."""
    return float(np.abs(p - q).sum() / 2)


def wasserstein(points: F8, p: F8, q: F8) -> float:
    """W1 of two distributions ``[Z]`` on the real numbers ``points`` ``[Z]``: the area between their CDFs."""
    order = np.argsort(points)
    between = np.abs(np.cumsum((p - q)[order]))[:-1]
    return float(between @ np.diff(points[order]))


def diversity_by_total_variation(loss: Loss, users: Sequence[F8]) -> Diversity:
    """gamma_G^2 = 4 B^2 (1/n) sum TV(p_i, p)^2 and gamma_H^2 = 4 L^2 (1/n) sum TV(p_i, p)^2.

    Here B and L bound the gradient and the Hessian at every single sample.

    Args:
        loss: Gives B and L.
        users: p_i, each ``[Z]``; p is their mean.
    """
    mean = _mean(users)
    squared = sum(total_variation(p, mean) ** 2 for p in users) / len(users)
    return Diversity(4 * loss.B**2 * squared, 4 * loss.L**2 * squared)


def diversity_by_wasserstein(
    gradient_lipschitz: float, hessian_lipschitz: float, points: F8, users: Sequence[F8]
) -> Diversity:
    """gamma_G^2 = L_Z^2 (1/n) sum W1(p_i, p)^2 and gamma_H^2 = rho_Z^2 (1/n) sum W1(p_i, p)^2.

    Args:
        gradient_lipschitz: L_Z, of the gradient in the sample.
        hessian_lipschitz: rho_Z, of the Hessian in the sample.
        points: The samples, real numbers ``[Z]``.
        users: p_i, each ``[Z]``; p is their mean.
    """
    mean = _mean(users)
    squared = sum(wasserstein(points, p, mean) ** 2 for p in users) / len(users)
    return Diversity(gradient_lipschitz**2 * squared, hessian_lipschitz**2 * squared)


def supervised_terms(
    loss: Loss,
    alpha: float,
    samples: Samples,
    users: Diversity,
    gap: float,
    beta: float,
    local_steps: int,
    rounds: int,
    agents: int,
    participation: float,
) -> SupervisedTerms:
    """The terms that bound the mean of E ||grad F||^2 over the run (science.md 1.5).

    Args:
        loss: Assumptions.
        alpha: Inner step size, at most 1/L.
        samples: Batch sizes.
        users: Diversity.
        gap: F(w_0) - F*.
        beta: Outer step size, at most 1 / (10 tau L_F).
        local_steps: tau.
        rounds: K.
        agents: n.
        participation: r; one agent alone has no sampling term.

    Raises:
        ValueError: A step size is larger than the theorem allows.
    """
    L_F = supervised_smoothness(loss, alpha)
    if not 0 < beta <= 1 / (10 * local_steps * L_F):
        raise ValueError(f"beta = {beta}: needs 0 < beta <= 1/(10 tau L_F) = {1 / (10 * local_steps * L_F)}")
    local = beta * L_F * local_steps * (local_steps - 1)
    sampled = (1 - participation) / (participation * (agents - 1)) if agents > 1 else 0.0
    return SupervisedTerms(
        optimization=4 * gap / (beta * local_steps * rounds),
        noise=beta * L_F * (1 + local) * supervised_variance(loss, alpha, samples),
        diversity=beta * L_F * supervised_diversity(loss, alpha, users) * (sampled + local),
        bias=(alpha * loss.L * loss.sigma_G) ** 2 / samples.inner,
    )


def _mean(users: Sequence[F8]) -> F8:
    if len({p.shape for p in users}) != 1:
        raise ShapeError(f"distributions of shapes {[p.shape for p in users]}: all need the same samples")
    mean: F8 = np.mean(users, axis=0)
    return mean


def _require_step(loss: Loss, alpha: float) -> None:
    if not 0 <= alpha * loss.L <= 1:
        raise ValueError(f"alpha = {alpha} is outside [0, 1/L] = [0, {1 / loss.L}]")
