"""Assumptions 1 and 2 of the paper as numbers, and the constants that Lemmas 1 and 2 make of them.

The letters are the paper's (science.md 1.3). Rewards have the unit r; parameters have none, so that J and
its derivatives, and every constant of them below, have the unit r as well.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from edge_fed.envs.base import TabularModel


class PolicyBounds(msgspec.Struct, frozen=True):
    """Assumption 2: what the policy class promises for all theta, states and actions.

    Attributes:
        G: Bound of ||psi||, psi = grad log pi.
        M: Bound of ||Psi||_F, Psi = hess log pi.
        Lambda: Lipschitz constant of Psi in the Frobenius norm.
    """

    G: float
    M: float
    Lambda: float


class Constants(msgspec.Struct, frozen=True):
    """What Lemma 1 says of every J_i. All in the unit of the reward, but ``H`` and ``policy``.

    Attributes:
        policy: Assumption 2.
        H: Horizon: H+1 actions.
        Rbar: |J_i| <= Rbar.
        G_J: ||g_i|| <= G_J for every trajectory, hence ||grad J_i|| <= G_J.
        L_J: ||u_i||_F <= L_J for every trajectory, hence ||hess J_i|| <= L_J.
        M_bar: M Rmax / (1 - gamma)^2.
        Lambda_bar: Lambda Rmax / (1 - gamma)^2.
        rho_J: hess J_i is rho_J-Lipschitz.
    """

    policy: PolicyBounds
    H: int
    Rbar: float
    G_J: float
    L_J: float
    M_bar: float
    Lambda_bar: float
    rho_J: float


def softmax_bounds(feature_norm: float = 1.0) -> PolicyBounds:
    """G, M and Lambda of a softmax policy with logits theta . phi(s, a), ||phi|| <= ``feature_norm`` = B.

    G <= 2B, M <= 4B^2, Lambda <= 8B^3 (science.md 1.3); the tabular policy has B = 1.
    """
    _require("feature_norm", feature_norm, feature_norm > 0)
    return PolicyBounds(G=2 * feature_norm, M=4 * feature_norm**2, Lambda=8 * feature_norm**3)


def constants(policy: PolicyBounds, reward_bound: float, discount: float, horizon: int) -> Constants:
    """The constants of Lemma 1 (science.md 1.3).

    Args:
        policy: Assumption 2.
        reward_bound: Rmax of Assumption 1, |r_i| <= Rmax.
        discount: gamma, in [0, 1).
        horizon: H, at least 0; trajectories have H+1 actions.

    Raises:
        ValueError: An argument is outside its range; at gamma = 1 the paper has no constants.
    """
    _require("discount", discount, 0 <= discount < 1)
    _require("reward_bound", reward_bound, reward_bound > 0)
    _require("horizon", horizon, horizon >= 0)
    scale, steps = reward_bound / (1 - discount) ** 2, horizon + 1
    G_J, M_bar, Lambda_bar = policy.G * scale, policy.M * scale, policy.Lambda * scale
    L_J = scale * (steps * policy.G**2 + policy.M)
    return Constants(
        policy=policy,
        H=horizon,
        Rbar=reward_bound / (1 - discount),
        G_J=G_J,
        L_J=L_J,
        M_bar=M_bar,
        Lambda_bar=Lambda_bar,
        rho_J=steps * policy.G * (L_J + M_bar) + steps * policy.M * G_J + Lambda_bar,
    )


def tabular_constants(models: Sequence[TabularModel]) -> Constants:
    """The constants that hold for all of some finite MDPs under the per-state softmax policy (B = 1).

    Rmax, gamma and H are the largest among ``models``.
    """
    return constants(
        softmax_bounds(),
        reward_bound=max(float(np.abs(model.reward).max()) for model in models),
        discount=max(model.discount for model in models),
        horizon=max(model.horizon for model in models),
    )


def meta_gradient_bound(c: Constants, alpha: float) -> float:
    """G_F = (1 + alpha L_J) G_J, the bound of ||grad F|| (Lemma 2) and of every direction (Lemma 3 i)."""
    _require("alpha", alpha, alpha >= 0)
    return (1 + alpha * c.L_J) * c.G_J


def meta_smoothness(c: Constants, alpha: float) -> float:
    """L_F = (1 + alpha L_J)^2 L_J + alpha rho_J G_J: grad F is L_F-Lipschitz (Lemma 2)."""
    return sum(smoothness_parts(c, alpha))


def smoothness_parts(c: Constants, alpha: float) -> tuple[float, float]:
    """The two parts of L_F: from the Hessian, from its change (third order)."""
    _require("alpha", alpha, alpha >= 0)
    return (1 + alpha * c.L_J) ** 2 * c.L_J, alpha * c.rho_J * c.G_J


def objective_gap(c: Constants) -> float:
    """Delta = F* - F(theta^0) <= 2 Rbar (Lemma 2), in the unit of the reward."""
    return 2 * c.Rbar


def adapted_gradient_factor(c: Constants, alpha: float) -> float:
    """The factor of ||grad J_i(theta+)|| <= factor ||grad F_i(theta)||: 1 / (1 - alpha L_J), at most 2 in R2.

    Source: the remark after Lemma 2 (science.md 1.3).

    Raises:
        ValueError: alpha >= 1 / L_J, where I + alpha hess J may be singular.
    """
    _require("alpha", alpha, 0 <= alpha * c.L_J < 1)
    return 1 / (1 - alpha * c.L_J)


def _require(name: str, value: float, holds: bool) -> None:
    if not (holds and math.isfinite(value)):
        raise ValueError(f"{name} = {value} is outside the range that the theory allows")
