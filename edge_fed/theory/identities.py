"""Proposition 2: what the gradient of F consists of, computed from the models; and its example.

grad F = D + alpha C with D(theta) = mean_i grad J_i(theta_i+) and C(theta) = mean_i hess J_i(theta)
grad J_i(theta_i+), theta_i+ = theta + alpha grad J_i(theta). First-order ascent stops where D = 0; what
remains of grad F there is alpha C (science.md 1.3).
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from edge_fed import dp
from edge_fed.envs.base import TabularModel
from edge_fed.params import F8


class Parts(msgspec.Struct, frozen=True):
    """The two parts of grad F.

    Attributes:
        D: Mean adapted gradient, ``[d]``.
        C: Mean curvature term, ``[d]``.
    """

    D: F8
    C: F8

    def meta_gradient(self, alpha: float) -> F8:
        """Grad F = D + alpha C, ``[d]``."""
        return self.D + alpha * self.C


def parts(models: Sequence[TabularModel], theta: F8, alpha: float) -> Parts:
    """D and C of some agents at ``theta`` ``[S * A]``, by dynamic programming."""
    D, C = np.zeros((2, theta.size))
    for model in models:
        adapted = dp.gradient(model, dp.adapted(model, theta, alpha))
        D += adapted / len(models)
        C += dp.hessian_vector(model, theta, adapted) / len(models)
    return Parts(D, C)


class ScalarBandit(msgspec.Struct, frozen=True):
    """One state, A actions, one parameter: pi(a) proportional to exp(theta phi(a)).

    Attributes:
        features: phi, ``[A]``.
        reward: r, ``[A]``.
    """

    features: F8
    reward: F8

    def derivatives(self, theta: float) -> tuple[float, float]:
        """J'(theta) and J''(theta), in closed form."""
        logits = theta * self.features
        weights = np.exp(logits - logits.max())
        pi = weights / weights.sum()
        centred = self.features - pi @ self.features
        variance = pi @ centred**2
        return float(pi @ (self.reward * centred)), float(pi @ (self.reward * (centred**2 - variance)))


EXAMPLE = (
    ScalarBandit(np.array([-1.0, 0.0, 2.0]), np.array([1.0, 0.0, 0.0])),
    ScalarBandit(np.array([-1.0, 0.0, 2.0]), np.array([0.0, 0.0, 1.0])),
)
"""Two agents who want opposite ends (science.md A7, the reading adopted there)."""


def scalar_parts(bandits: Sequence[ScalarBandit], theta: float, alpha: float) -> tuple[float, float]:
    """D and C of some scalar bandits at ``theta``."""
    D = C = 0.0
    for bandit in bandits:
        slope, curvature = bandit.derivatives(theta)
        adapted, _ = bandit.derivatives(theta + alpha * slope)
        D += adapted / len(bandits)
        C += curvature * adapted / len(bandits)
    return D, C


def example_root(alpha: float, low: float = -1.0, high: float = 1.0) -> float:
    """The theta at which D = 0 in `EXAMPLE`, by bisection: it is unstable, ascent runs away from it.

    Raises:
        ValueError: D has the same sign at ``low`` and ``high``.
    """
    falls = scalar_parts(EXAMPLE, low, alpha)[0] > 0
    if falls == (scalar_parts(EXAMPLE, high, alpha)[0] > 0):
        raise ValueError(f"D does not change its sign between {low} and {high} at alpha = {alpha}")
    for _ in range(60):  # 2^-60 of the interval: below rounding
        middle = (low + high) / 2
        if (scalar_parts(EXAMPLE, middle, alpha)[0] > 0) == falls:
            low = middle
        else:
            high = middle
    return (low + high) / 2
