"""The policy gradient at other parameters than those that sampled the trajectories, by importance weights.

The weights are per decision: gamma^t r_t carries the probability of a_0..a_t at the other parameters over
that at the rollout's. (One weight for the whole trajectory has the same mean and mostly more variance:
actions after t cannot move r_t.) No weight is clipped: the mean is the gradient there at any distance, the
variance grows with it.
"""

import numpy as np

from edge_fed.params import F8
from edge_fed.policies.base import Policy, Trace
from edge_fed.returns import reward_to_go
from edge_fed.rollouts import Trajectories


def gradient_elsewhere(policy: Policy, batch: Trajectories, advantages: F8, params: F8) -> F8:
    """Sum over the batch of w g at ``params``, ``[d]``; its mean per trajectory is grad J(params).

    Args:
        policy: Whose scores.
        batch: m trajectories, sampled at other parameters: ``batch.trace.params``.
        advantages: R^h, or R^h - b_h with a baseline b that does not depend on the action, ``[H+1, m]``.
        params: Where the gradient is wanted, ``[d]``.
    """
    # with a baseline, too, the terms of which the advantages are the sums from h on: r_t - b_t + b_{t+1}
    terms = advantages.copy()
    terms[:-1] -= advantages[1:]
    terms *= weights(policy, batch, params)
    return policy.score(retraced(policy, batch, params), reward_to_go(terms))


def weights(policy: Policy, batch: Trajectories, params: F8) -> F8:
    """Prod over k <= t of pi(a_k | s_k) at ``params`` over that of the rollout, ``[H+1, m]``."""
    log_ratio = policy.log_prob(params, batch.states, batch.actions)
    log_ratio -= policy.log_prob(batch.trace.params, batch.states, batch.actions)
    ratio: F8 = np.exp(np.add.accumulate(batch.masked(log_ratio), axis=0))
    return ratio


def retraced(policy: Policy, batch: Trajectories, params: F8) -> Trace:
    """The record of the same states and actions at other parameters ``[d]``."""
    trace = policy.begin(params, batch.states)
    ignored = policy.noise(np.random.default_rng(0), 1, batch.size)[0]
    for h in range(len(batch.actions)):  # `act` must run for what it records; its choice is written over
        policy.act(trace, h, ignored)
    trace.actions[:] = batch.actions
    return trace
