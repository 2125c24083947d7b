"""The guard: bounds the sampled curvature term against the vector it corrects (methods.md 2).

With v = g_out and c = alpha H_hat v, in `sg_mrl` together with its score term, the direction is
v + min(1, kappa ||v|| / ||c||) c. At kappa = 1/2 it is the norm bound that the paper's regime
alpha <= 1 / (2 L_J) guarantees for the true Hessian; at kappa <= 1 the step never turns against v.
A guarded step is biased for grad F (grad V).
"""

import math
from typing import Literal

import msgspec

from edge_fed.errors import NonFinite
from edge_fed.params import F8


class Guarded(msgspec.Struct, frozen=True):
    """What the guard made of a step.

    Attributes:
        direction: v + s c, ``[d]``.
        ratio: ||c|| / ||v||; 0 for v = 0.
        bites: Whether s < 1.
        cosine: Of c and v; 0 if either is 0.
    """

    direction: F8
    ratio: float
    bites: bool
    cosine: float

    def metrics(self) -> dict[str, float]:
        """What a local step reports of it."""
        return {"curvature_ratio": self.ratio, "guard_rate": float(self.bites), "cosine": self.cosine}


def guarded(v: F8, c: F8, kappa: float | Literal["off"]) -> Guarded:
    """Adds the curvature term ``c`` ``[d]`` to ``v`` ``[d]`` within the bound ``kappa``.

    ``"off"`` is v + c, the paper to the bit. v = 0 gives 0 under any kappa.

    Raises:
        NonFinite: c or v holds NaN or infinity, or its norm overflows.
    """
    norm_v, norm_c = norm(v), norm(c)
    if not (math.isfinite(norm_c) and math.isfinite(norm_v)):
        raise NonFinite(
            f"the correction alpha H v (in sg_mrl with its score term) is not finite: its norm is {norm_c}, "
            f"that of v = g_out {norm_v}"
        )
    ratio = norm_c / norm_v if norm_v else 0.0
    cosine = float(v @ c) / (norm_v * norm_c) if norm_v * norm_c else 0.0
    bites = kappa != "off" and norm_c > kappa * norm_v
    # `bites` implies kappa is a number and ||c|| > 0
    direction = v + (float(kappa) * norm_v / norm_c) * c if bites else v + c
    return Guarded(direction, ratio, bites, cosine)


def norm(x: F8) -> float:
    """Euclidean norm over the whole flat vector."""
    return math.sqrt(float(x @ x))
