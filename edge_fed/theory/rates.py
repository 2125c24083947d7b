"""Theorem 1 and its corollaries: how small the mean of E||grad F||^2 gets, and what that takes.

Source: science.md 1.3. ``epsilon`` and all terms are squared gradient norms, in squared reward units;
beta has the unit 1 / reward. Valid for full participation and uniform averages.
"""

import math
from typing import Literal

import msgspec

from edge_fed.theory.bounds import (
    Batches,
    DirectionBounds,
    bias_star,
    exact_bounds,
    first_order_bounds,
    step_ceiling,
)
from edge_fed.theory.constants import Constants, meta_smoothness, objective_gap

Bias = Literal["lemma_3", "proposition_1"]


class Schedule(msgspec.Struct, frozen=True):
    """Outer step size beta, local steps tau, rounds K, agents n."""

    beta: float
    local_steps: int
    rounds: int
    agents: int


class Terms(msgspec.Struct, frozen=True):
    """The four terms of Theorem 1."""

    optimization: float
    drift: float
    bias: float
    noise: float

    @property
    def total(self) -> float:
        """The bound of (1 / (K tau)) sum_{k,t} E ||grad F(theta_bar^{k,t})||^2."""
        return self.optimization + self.drift + self.bias + self.noise


class Condition(msgspec.Struct, frozen=True):
    """One condition of Corollary 1: ``value`` must be ``relation`` ("<=" or ">=") ``limit``."""

    name: str
    quantity: str
    value: float
    relation: Literal["<=", ">="]
    limit: float

    @property
    def holds(self) -> bool:
        """Whether it is met; a relative 1e-9 is left to rounding."""
        if self.relation == "<=":
            return self.value <= self.limit * (1 + 1e-9)
        return self.value >= self.limit * (1 - 1e-9)


class Instance(msgspec.Struct, frozen=True):
    """A choice that meets Corollary 1 for a wanted epsilon.

    Attributes:
        batches: Trajectories per local step.
        schedule: beta, tau, K, n.
        trajectories: Of one agent over the run, K tau (m_in + m_h + m_out).
    """

    batches: Batches
    schedule: Schedule
    trajectories: int


def theorem_1(direction: DirectionBounds, smoothness: float, gap: float, run: Schedule) -> Terms:
    """Theorem 1 as printed: drift term (3/2) L_F^2 G_F^2 beta^2 tau^2.

    Args:
        direction: Bounds of the direction; Corollary 2 is this with `first_order_bounds`.
        smoothness: L_F.
        gap: Delta.
        run: The schedule; beta at most 1 / (6 L_F).

    Raises:
        ValueError: beta is larger than the theorem allows.
    """
    return _terms(direction, smoothness, gap, run, mean_square=run.local_steps**2 / 3)


def theorem_1_sharp(direction: DirectionBounds, smoothness: float, gap: float, run: Schedule) -> Terms:
    """Theorem 1 before the last estimate: the mean of t^2 is (tau-1)(2 tau-1)/6, so 0 at tau = 1."""
    tau = run.local_steps
    return _terms(direction, smoothness, gap, run, mean_square=(tau - 1) * (2 * tau - 1) / 6)


def first_order_floor(c: Constants, alpha: float, m_in: int) -> float:
    """Corollary 2: (9/2) b_FO^2, which neither rounds nor agents nor batches remove."""
    return 4.5 * first_order_bounds(c, alpha, Batches(m_in, 1, 1)).bias ** 2


def required_inner_batch(c: Constants, alpha: float, epsilon: float, bias: Bias = "lemma_3") -> float:
    """Corollary 1 (iii): m_in >= 18 (1+alpha L_J)^2 alpha^2 L_J^2 G_J^2 / epsilon, in trajectories.

    With "proposition_1" (iii*): m_in >= (3 / sqrt 2) (1+alpha L_J) alpha^2 rho_J G_J^2 / sqrt(epsilon).
    """
    if bias == "proposition_1":
        return 3 * math.sqrt(2) * bias_star(c, alpha, 1) / math.sqrt(epsilon)
    return 18 * exact_bounds(c, alpha, Batches(1, 1, 1)).bias ** 2 / epsilon


def beta_ceilings(
    direction: DirectionBounds, smoothness: float, local_steps: int, agents: int, epsilon: float
) -> dict[str, float]:
    """The largest beta of each condition of Corollary 1; the smallest one binds (regime R3).

    Drift (ii) is absent at tau = 1, where it is vacuous: nothing drifts.
    """
    found = {"i": step_ceiling(smoothness)}
    if local_steps > 1:
        found["ii"] = math.sqrt(epsilon / 6) / (smoothness * direction.norm * local_steps)
    found["iv"] = agents * epsilon / (4 * smoothness * direction.variance)
    return found


def corollary_1(
    c: Constants, alpha: float, batches: Batches, run: Schedule, epsilon: float, bias: Bias = "lemma_3"
) -> tuple[Condition, ...]:
    """The conditions under which each term of Theorem 1 is at most epsilon / 4 (exact direction).

    At tau = 1 condition (ii) is absent; Theorem 1's sharp form has no drift there.
    """
    direction, L_F = exact_bounds(c, alpha, batches), meta_smoothness(c, alpha)
    ceilings = beta_ceilings(direction, L_F, run.local_steps, run.agents, epsilon)
    enough = 8 * objective_gap(c) / (run.beta * run.local_steps * epsilon)
    needed = required_inner_batch(c, alpha, epsilon, bias)
    return (
        *(Condition(name, "beta", run.beta, "<=", limit) for name, limit in ceilings.items()),
        Condition("iii" if bias == "lemma_3" else "iii*", "m_in", batches.m_in, ">=", needed),
        Condition("rounds", "K", run.rounds, ">=", enough),
    )


def instance(
    c: Constants,
    alpha: float,
    epsilon: float,
    agents: int,
    m_h: int = 10,
    m_out: int = 10,
    bias: Bias = "lemma_3",
) -> Instance:
    """Corollary 1's choice: tau just large enough for the noise, beta tau at the drift's limit.

    beta = sqrt(epsilon) / (sqrt 6 L_F G_F tau), tau >= max(1, 4 sigma^2 / (sqrt 6 n G_F sqrt(epsilon))),
    K = 8 Delta / (beta tau epsilon). For epsilon > G_F^2 / 6 condition (i) caps beta.

    Raises:
        ValueError: epsilon, agents or a batch is not positive.
    """
    if not (epsilon > 0 and agents >= 1):
        raise ValueError(f"epsilon = {epsilon} and agents = {agents} must be positive")
    batches = Batches(max(1, math.ceil(required_inner_batch(c, alpha, epsilon, bias))), m_h, m_out)
    direction, L_F = exact_bounds(c, alpha, batches), meta_smoothness(c, alpha)
    root = math.sqrt(6 * epsilon) * agents * direction.norm
    tau = max(1, math.ceil(4 * direction.variance / root))
    beta = min(math.sqrt(epsilon / 6) / (L_F * direction.norm * tau), step_ceiling(L_F))
    rounds = math.ceil(8 * objective_gap(c) / (beta * tau * epsilon))
    total = rounds * tau * (batches.m_in + batches.m_h + batches.m_out)
    return Instance(batches, Schedule(beta, tau, rounds, agents), total)


def _terms(
    direction: DirectionBounds, smoothness: float, gap: float, run: Schedule, mean_square: float
) -> Terms:
    """Lemma 5 summed over the run; ``mean_square`` is the mean of t^2 over the local steps of a round."""
    if not 0 < run.beta <= step_ceiling(smoothness):
        ceiling = step_ceiling(smoothness)
        raise ValueError(f"beta = {run.beta}: Theorem 1 needs 0 < beta <= 1 / (6 L_F) = {ceiling}")
    return Terms(
        optimization=2 * gap / (run.beta * run.local_steps * run.rounds),
        drift=4.5 * (smoothness * direction.norm * run.beta) ** 2 * mean_square,
        bias=4.5 * direction.bias**2,
        noise=smoothness * run.beta * direction.variance / run.agents,
    )
