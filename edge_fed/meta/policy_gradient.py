"""The policy gradient g (science.md 1.1): unbiased for grad J, with the absolute discount gamma^t."""

from edge_fed.params import F8
from edge_fed.policies.base import Policy
from edge_fed.rollouts import Trajectories


def policy_gradient(policy: Policy, batch: Trajectories, advantages: F8) -> F8:
    """Mean over the batch of g = sum_h R^h psi_h, ``[d]``, at the parameters of the batch's rollout.

    Args:
        policy: Whose scores.
        batch: m trajectories.
        advantages: R^h, or R^h - b_h with a baseline b that does not depend on the action, ``[H+1, m]``.
    """
    gradient = policy.score(batch.trace, advantages)
    gradient /= batch.size
    return gradient
