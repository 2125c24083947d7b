"""Section 6 of the paper: which regime a pair of step sizes is in (R1, R2, R3), and what is outside."""

from typing import Literal

import msgspec

from edge_fed.theory.bounds import DirectionBounds
from edge_fed.theory.constants import Constants, smoothness_parts


class Regime(msgspec.Struct, frozen=True):
    """Where the inner step size lies. Step sizes in 1 / reward.

    Attributes:
        name: "R1" without adaptation (alpha = 0), "R2" moderate (alpha <= 1 / (2 L_J)), else "outside".
        ceiling: 1 / (2 L_J), the end of R2.
        alpha_dagger: L_J / (rho_J G_J); above it the third-order term of L_F is larger than L_J.
        dominant: The larger part of L_F at this alpha: "second_order" or "third_order". Outside R2 the
            factor (1 + alpha L_J)^2 may keep the second-order part ahead even above alpha_dagger.
    """

    name: Literal["R1", "R2", "outside"]
    ceiling: float
    alpha_dagger: float
    dominant: Literal["second_order", "third_order"]


def regime(c: Constants, alpha: float) -> Regime:
    """R1, R2 or outside, and the switch of L_F at alpha_dagger (science.md 1.3).

    In R2, G_F <= (3/2) G_J, L_F <= (9/4) L_J + alpha rho_J G_J and the eigenvalues of I + alpha hess J
    lie in [1/2, 3/2]. Outside nothing is wrong with an experiment; only these factors are lost.
    """
    ceiling, dagger = 1 / (2 * c.L_J), c.L_J / (c.rho_J * c.G_J)
    name: Literal["R1", "R2", "outside"] = "R1" if alpha == 0 else "R2" if alpha <= ceiling else "outside"
    second, third = smoothness_parts(c, alpha)
    return Regime(name, ceiling, dagger, "second_order" if second >= third else "third_order")


def crossing(direction: DirectionBounds, smoothness: float, local_steps: int, agents: int) -> float:
    """R3: the beta above which drift outweighs noise in Theorem 1: 2 sigma^2 / (3 n L_F G_F^2 tau^2).

    There L_F beta sigma^2 / n = (3/2) L_F^2 G_F^2 beta^2 tau^2.
    """
    return 2 * direction.variance / (3 * agents * smoothness * (direction.norm * local_steps) ** 2)
