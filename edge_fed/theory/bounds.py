"""What one local step's direction, the drift and one step's progress are bounded by.

Lemmas 3 to 5, Propositions 1 and 3 of the paper (science.md 1.3). Norms are Euclidean over the whole
parameter vector ``[d]``, in the unit of the reward; ``variance`` and squares in its square.
"""

import math

import msgspec

from edge_fed.theory.constants import Constants, meta_gradient_bound


class Batches(msgspec.Struct, frozen=True):
    """Trajectories of one local step: inner, curvature, outer. ``m_h`` is not used by first order."""

    m_in: int
    m_h: int
    m_out: int


class DirectionBounds(msgspec.Struct, frozen=True):
    """How far one agent's direction can be from grad F_i.

    Attributes:
        norm: ||direction|| <= norm, surely.
        bias: ||E direction - grad F_i|| <= bias.
        variance: E ||direction - grad F_i||^2 <= variance; the square of the bias is part of it.
    """

    norm: float
    bias: float
    variance: float


class Drift(msgspec.Struct, frozen=True):
    """How far local parameters can be apart after t local steps, surely (Lemma 4).

    Attributes:
        from_start: ||theta_i^{k,t} - theta^k||.
        from_mean: ||theta_i^{k,t} - mean_j theta_j^{k,t}||.
        spread: (1/n) sum_i ||theta_i^{k,t} - mean||^2.
    """

    from_start: float
    from_mean: float
    spread: float


def exact_bounds(c: Constants, alpha: float, batches: Batches) -> DirectionBounds:
    """Lemma 3: G_F, b_hat and sigma_hat^2 of the exact direction (guard off, no baseline)."""
    _require_batches(batches.m_in, batches.m_h, batches.m_out)
    lift, pull = 1 + alpha * c.L_J, alpha * c.L_J
    noise = pull**2 / batches.m_h + lift**2 / batches.m_out + lift**2 * pull**2 / batches.m_in
    return DirectionBounds(
        norm=meta_gradient_bound(c, alpha),
        bias=lift * pull * c.G_J / math.sqrt(batches.m_in),
        variance=3 * c.G_J**2 * noise,
    )


def first_order_bounds(c: Constants, alpha: float, batches: Batches) -> DirectionBounds:
    """Corollary 2: G_J, b_FO and sigma_FO^2 of the first-order direction."""
    _require_batches(batches.m_in, batches.m_out)
    pull = alpha * c.L_J
    noise = 1 / batches.m_out + pull**2 / batches.m_in + pull**2
    return DirectionBounds(
        norm=c.G_J,
        bias=pull * c.G_J * (1 + 1 / math.sqrt(batches.m_in)),
        variance=3 * c.G_J**2 * noise,
    )


def bias_star(c: Constants, alpha: float, m_in: int, spread: float | None = None) -> float:
    """Proposition 1: b_hat_star, the bias of the exact direction at the rate 1 / m_in.

    Args:
        c: The constants.
        alpha: Inner step size.
        m_in: Trajectories of the inner step.
        spread: varsigma_i^2 = E ||g_i - grad J_i||^2 at theta, if known; None: its bound G_J^2.
    """
    _require_batches(m_in)
    spread = c.G_J**2 if spread is None else spread
    return (1 + alpha * c.L_J) * alpha**2 * c.rho_J * spread / (2 * m_in)


def drift(norm: float, beta: float, t: int) -> Drift:
    """Lemma 4, from the bound ``norm`` of every direction, the outer step size and local steps done."""
    distance = beta * t * norm
    return Drift(from_start=distance, from_mean=2 * distance, spread=distance**2)


def progress(
    direction: DirectionBounds, smoothness: float, beta: float, t: int, agents: int, squared_norm: float
) -> float:
    """Lemma 5: E F(mean after local step t+1) - F(mean after t) is at least this, in reward units.

    Args:
        direction: Of the exact or the first-order direction.
        smoothness: L_F.
        beta: Outer step size, at most 1 / (6 L_F).
        t: Local steps done since the round began.
        agents: n.
        squared_norm: ||grad F||^2 at the mean of the local parameters.

    Raises:
        ValueError: ``beta`` is larger than the lemma allows.
    """
    if not 0 < beta <= step_ceiling(smoothness):
        raise ValueError(f"beta = {beta}: Lemma 5 needs 0 < beta <= 1 / (6 L_F) = {step_ceiling(smoothness)}")
    apart = smoothness**2 * drift(direction.norm, beta, t).spread
    lost = 9 * beta / 4 * (apart + direction.bias**2)
    return beta / 2 * squared_norm - lost - smoothness * beta**2 * direction.variance / (2 * agents)


def step_ceiling(smoothness: float) -> float:
    """1 / (6 L_F): the largest outer step size of Lemma 5 and condition (i) of Corollary 1."""
    return 1 / (6 * smoothness)


def gradient_distance(c: Constants, alpha: float) -> float:
    """Proposition 3: ||grad F - grad f|| <= 2 alpha L_J G_J, f the objective without adaptation."""
    return 2 * alpha * c.L_J * c.G_J


def objective_distance(c: Constants, alpha: float) -> float:
    """Proposition 3: |F - f| <= alpha G_J^2 (science.md A5)."""
    return alpha * c.G_J**2


def plain_stationarity(c: Constants, alpha: float, epsilon: float) -> float:
    """Proposition 3: E ||grad f||^2 at an epsilon-FOSP of F: (sqrt(epsilon) + 2 alpha L_J G_J)^2."""
    return (math.sqrt(epsilon) + gradient_distance(c, alpha)) ** 2


def residual_bound(c: Constants, alpha: float) -> float:
    """Proposition 2: ||grad F|| <= alpha L_J G_J where D = 0."""
    return alpha * c.L_J * c.G_J


def heterogeneity_bound(c: Constants) -> float:
    """Lemma 1: (1/n) sum_i ||grad J_i - mean_j grad J_j||^2 <= G_J^2."""
    return c.G_J**2


def _require_batches(*sizes: int) -> None:
    if min(sizes) < 1:
        raise ValueError(f"batches of {sizes} trajectories: each needs 1 or more")
