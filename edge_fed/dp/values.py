"""Values of a softmax policy in a finite MDP over H+1 actions.

With P_pi(s, t) = sum_a pi(a|s) P(s, a, t) and r_pi(s) = sum_a pi(a|s) r(s, a):

    V_{H+1} = 0,   V_h = r_pi + gamma P_pi V_{h+1},   Q_h = r + gamma P V_{h+1},   J = mu . V_0.
"""

import msgspec
import numpy as np

from edge_fed.envs.base import TabularModel
from edge_fed.errors import ShapeError
from edge_fed.params import F8


class PolicyChain(msgspec.Struct, frozen=True):
    """The Markov chain that a policy makes of an MDP.

    Attributes:
        policy: pi(a|s), ``[S, A]``.
        kernel: P_pi, ``[S, S]``.
        values: V_0 .. V_{H+1}, ``[H+2, S]``.
    """

    policy: F8
    kernel: F8
    values: F8


def softmax(model: TabularModel, theta: F8) -> F8:
    """pi(a|s) ``[S, A]`` of the logits ``theta`` ``[S * A]``."""
    if theta.shape != (model.reward.size,):
        raise ShapeError(f"theta has shape {theta.shape}, this MDP needs ({model.reward.size},)")
    logits = theta.reshape(model.reward.shape)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    policy: F8 = weights / weights.sum(axis=1, keepdims=True)
    return policy


def chain(model: TabularModel, theta: F8) -> PolicyChain:
    """Backward induction under the policy ``theta`` ``[S * A]``."""
    policy = softmax(model, theta)
    kernel = mix(policy, model.transition)
    reward = (policy * model.reward).sum(axis=1)
    values = np.zeros((model.horizon + 2, reward.size))
    for h in range(model.horizon, -1, -1):
        values[h] = reward + model.discount * (kernel @ values[h + 1])
    return PolicyChain(policy=policy, kernel=kernel, values=values)


def mix(weights: F8, transition: F8) -> F8:
    """Sum over actions of ``weights`` ``[S, A]`` times ``transition`` ``[S, A, S]``, ``[S, S]``."""
    mixed: F8 = np.matmul(weights[:, None, :], transition)[:, 0]
    return mixed


def backed_up(model: TabularModel, values: F8) -> F8:
    """Discounted expectation gamma P V for each row of ``values`` ``[n, S]``, ``[n, S, A]``."""
    S, A = model.reward.shape
    return model.discount * (values @ model.transition.reshape(S * A, S).T).reshape(-1, S, A)


def occupancy(model: TabularModel, kernel: F8) -> F8:
    """gamma^h P(s_h = s) for h = 0 .. H under the chain ``kernel`` ``[S, S]``, ``[H+1, S]``."""
    found = np.empty((model.horizon + 1, model.start.size))
    found[0] = model.start
    for h in range(model.horizon):
        found[h + 1] = model.discount * (found[h] @ kernel)
    return found


def visits(model: TabularModel, theta: F8) -> F8:
    """Expected number of the H+1 actions that are taken in each state, ``[S]``; not discounted."""
    undiscounted = msgspec.structs.replace(model, discount=1.0)
    found: F8 = occupancy(undiscounted, mix(softmax(model, theta), model.transition)).sum(axis=0)
    return found


def expected_return(model: TabularModel, theta: F8) -> float:
    """J(theta) = E sum_{t=0..H} gamma^t r(s_t, a_t)."""
    return float(model.start @ chain(model, theta).values[0])


def optimal_return(model: TabularModel) -> float:
    """The largest expected return of any policy, time-dependent ones included: an upper bound for J and F."""
    values = np.zeros(model.start.size)
    for _ in range(model.horizon + 1):
        values = (model.reward + backed_up(model, values[None])[0]).max(axis=1)
    return float(model.start @ values)
