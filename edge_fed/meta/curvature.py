"""Estimators of hess J v as Hessian-vector products: O(H) per trajectory, never a d x d matrix.

Common form (science.md 2), with c_h = psi_h . v from one forward-mode pass:

    H_hat v = mean over trajectories of  sum_h w_h psi_h + sum_h Q^h Psi_h v

Q^h is the reward-to-go R^h, less the baseline b_h; the estimators differ in w_h alone. The baseline goes
out of BOTH terms: E[psi_h psi_h^T + Psi_h | s_h] = 0 cancels only together. `finite_difference` alone
has another form: it needs no second derivative of the policy.
"""

import numpy as np

from edge_fed.meta.base import CurvatureEstimator
from edge_fed.meta.guard import norm
from edge_fed.meta.importance import gradient_elsewhere
from edge_fed.params import F8
from edge_fed.policies.base import Policy
from edge_fed.rollouts import Trajectories
from edge_fed.tables import Table

DELTA = (
    1e-4  # error of `finite_difference`: delta^2 (1e-8) from truncation, eps / delta (1e-12) from rounding
)


def naive(policy: Policy, batch: Trajectories, advantages: F8, v: F8) -> F8:
    """The paper: u v with u = g z^T + hess nu; w_h = Q^h sum_k c_k. Unbiased."""
    tangent = policy.tangent(batch.trace, v)
    w = advantages * batch.masked(tangent.scores).sum(axis=0)
    return _mean(policy.second(tangent, w, advantages), batch)


def causal(policy: Policy, batch: Trajectories, advantages: F8, v: F8) -> F8:
    """The Hessian that DiCE gives (Foerster et al. 2018; science.md 2.2, 2.3). Unbiased.

    Each product psi_h psi_k carries Q^max(h,k) instead of Q^h, for E[psi_k | the past] = 0 if k > h:
    w_h = Q^h sum_{k<=h} c_k + sum_{k>h} c_k Q^k.
    """
    tangent = policy.tangent(batch.trace, v)
    scores = batch.masked(tangent.scores)
    w = advantages * np.add.accumulate(scores, axis=0)
    later = np.add.accumulate((advantages * scores)[::-1], axis=0)[::-1]
    w[:-1] += later[1:]
    return _mean(policy.second(tangent, w, advantages), batch)


def lvc(policy: Policy, batch: Trajectories, advantages: F8, v: F8) -> F8:
    """BIASED: the low-variance curvature of ProMP (Rothfuss et al. 2018; science.md 2.4); w_h = Q^h c_h.

    Its mean is H1 + H2 of hess J = H1 + H2 + H12 + H12^T: the products of scores at different steps,
    H12 = E[sum_h psi_h (grad Q_h)^T], are left out.
    """
    tangent = policy.tangent(batch.trace, v)
    return _mean(policy.second(tangent, advantages * tangent.scores, advantages), batch)


def finite_difference(policy: Policy, batch: Trajectories, advantages: F8, v: F8, delta: float = DELTA) -> F8:
    """Central difference of the policy gradient along v, on the batch's own trajectories (science.md 2.5).

        ||v|| (g(theta + delta v / ||v||) - g(theta - delta v / ||v||)) / (2 delta)

    The parameters move by ``delta`` whatever the length of v (A11). Each end weights the FIXED
    trajectories by importance (A12), per decision: gamma^t r_t carries pi(a_0..a_t) there over that at
    theta. Hence the mean is the central difference of grad J itself, biased for hess J v by O(delta^2)
    only, and the limit delta -> 0 is `causal` on every trajectory. (One weight per trajectory would
    give `naive`; no weight gives hess nu v, which is not hess J v.)
    """
    length = norm(v)
    if length == 0.0:
        return np.zeros_like(v)
    step = (delta / length) * v
    theta = batch.trace.params
    difference = gradient_elsewhere(policy, batch, advantages, theta + step)
    difference -= gradient_elsewhere(policy, batch, advantages, theta - step)
    difference *= length / (2.0 * delta)
    return _mean(difference, batch)


def _mean(total: F8, batch: Trajectories) -> F8:
    total /= batch.size
    return total


CURVATURES: Table[CurvatureEstimator] = Table(
    "curvature estimator",
    {
        "naive": naive,
        "causal": causal,
        "lvc": lvc,
        "finite_difference": finite_difference,
    },
)
"""The table of ``curvature``: a new estimator is one function and one line here."""

BIASED = frozenset({"lvc"})
"""Names of those whose mean is not hess J v, for comparison only."""
