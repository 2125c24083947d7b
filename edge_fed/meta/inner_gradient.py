"""The recursive inner gradient: the batches of a round's earlier local steps still count (science.md 2.6).

    d_t = mean g(xi; theta_t) + (1 - eta) [d_{t-1} - mean w g(xi; theta_{t-1})],    xi ~ q(.; theta_t)

the recursive momentum of STORM (Cutkosky and Orabona 2019) for policy gradients (Papini et al. 2018), with
OLD over NEW weights w = q(xi; theta_{t-1}) / q(xi; theta_t), per decision and not clipped. d_0 of a round is
the plain mean: nothing is kept between rounds.

At given parameters E[d_t] = grad J(theta_t), and where theta_t is near theta_{t-1} the two gradients of one
trajectory nearly cancel: only eta of the plain noise is new. Far away the weights make it noisier than the
plain mean. Along local steps theta_t itself depends on d_{t-1}: given theta_t, d_t then inherits 1 - eta of
the error of d_{t-1}, so that the 1 / m_in bias law (Prop. 1) does not cover it.

``inner_momentum`` is 1 - eta. At 1/2 a second step at the same parameters has half the plain variance, the
least that any eta gives; 0 forgets, and 1 never gets better than d_0.
"""

from typing import Any

from edge_fed.meta.importance import gradient_elsewhere
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.params import F8
from edge_fed.policies.base import Policy
from edge_fed.rollouts import Trajectories


def recursive_gradient(
    policy: Policy, batch: Trajectories, advantages: F8, momentum: float, memory: dict[str, Any]
) -> F8:
    """d_t, ``[d]``.

    Args:
        policy: Whose scores.
        batch: m_in trajectories, at theta_t.
        advantages: Theirs, ``[H+1, m_in]``.
        momentum: 1 - eta.
        memory: Of the round (`LocalStep.memory`); d_t and theta_t take the places of the step before.
    """
    found = policy_gradient(policy, batch, advantages)
    if "inner_gradient" in memory:
        before = gradient_elsewhere(policy, batch, advantages, memory["inner_params"])
        before /= batch.size
        found += momentum * (memory["inner_gradient"] - before)
    memory["inner_gradient"], memory["inner_params"] = found, batch.trace.params
    return found
