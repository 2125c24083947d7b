"""Estimators of hess J v as Hessian-vector products: O(H) per trajectory, never a d x d matrix.

Common form (science.md 2), with c_h = psi_h . v from one forward-mode pass:

    H_hat v = mean over trajectories of  sum_h w_h psi_h + sum_h Q^h Psi_h v

Q^h is the reward-to-go R^h, less the baseline b_h; the estimators differ in w_h alone. The baseline goes
out of BOTH terms: E[psi_h psi_h^T + Psi_h | s_h] = 0 cancels only together.
"""

import numpy as np

from edge_fed.meta.base import CurvatureEstimator
from edge_fed.params import F8
from edge_fed.policies.base import Policy
from edge_fed.rollouts import Trajectories


def naive(policy: Policy, batch: Trajectories, advantages: F8, v: F8) -> F8:
    """The paper: u v with u = g z^T + hess nu; w_h = Q^h sum_k c_k. Unbiased."""
    tangent = policy.tangent(batch.trace, v)
    w = advantages * tangent.scores.sum(axis=0)
    return _mean(policy.second(tangent, w, advantages), batch)


def causal(policy: Policy, batch: Trajectories, advantages: F8, v: F8) -> F8:
    """The Hessian that DiCE gives (Foerster et al. 2018; science.md 2.2, 2.3). Unbiased.

    Each product psi_h psi_k carries Q^max(h,k) instead of Q^h, for E[psi_k | the past] = 0 if k > h:
    w_h = Q^h sum_{k<=h} c_k + sum_{k>h} c_k Q^k.
    """
    tangent = policy.tangent(batch.trace, v)
    scores = tangent.scores
    w = advantages * np.add.accumulate(scores, axis=0)
    later = np.add.accumulate((advantages * scores)[::-1], axis=0)[::-1]
    w[:-1] += later[1:]
    return _mean(policy.second(tangent, w, advantages), batch)


def _mean(total: F8, batch: Trajectories) -> F8:
    total /= batch.size
    return total


CURVATURES: dict[str, CurvatureEstimator] = {
    "naive": naive,
    "causal": causal,
}
"""The table of ``curvature``: a new estimator is one function and one line here."""
