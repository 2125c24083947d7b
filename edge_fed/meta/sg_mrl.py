"""The debiased meta-gradient SG-MRL (Fallah et al. 2021; science.md 1.3): adaptation from a BATCH.

`exact` ascends F(theta) = J(theta + alpha grad J(theta)), whose adaptation knows grad J, and is biased for
it at a finite m_in. This variant ascends what an agent gets that adapts from m_in trajectories,

    V(theta) = E over D_in ~ q(.; theta)^m_in of J(theta~),   theta~ = theta + alpha g_in(D_in; theta),

and is unbiased for it (guard off). theta moves V through the step and through the batch:

    grad V = E[ (I + alpha mean_{D_in} hess nu) grad J(theta~)  +  J(theta~) sum_{xi in D_in} z(xi; theta) ]

so that hess nu and not u stands here, on the SAME batch as g_in: the product g z^T of u belongs to the
second term, which says how the batch changes. That term is a SUM over the batch and multiplies a return:
centred advantages of D_out, of mean zero, would drop it. D_out gives both grad J(theta~) and J(theta~),
and no curvature batch is sampled.

With a ``baseline`` b, g_in and hess nu hold R^h - b_h. V is then the objective of the agent that adapts with
this baseline: b does not move with theta, so that I + alpha hess nu still is the derivative of its step.
"""

import numpy as np

from edge_fed.meta.adaptation import adapt_batch
from edge_fed.meta.base import Estimate, LocalStep, Task
from edge_fed.meta.guard import guarded, norm
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.params import F8
from edge_fed.policies.base import Policy
from edge_fed.returns import episode_return, reward_to_go
from edge_fed.rollouts import Trajectories
from edge_fed.seeding import Purpose


def sg_mrl(task: Task, params: F8, step: LocalStep) -> Estimate:
    """One direction of ascent of V at ``params`` ``[d]``; the guard bounds all that is added to g_out."""
    policy, settings, before = task.policy, task.settings, task.sample.trajectories
    alpha = settings.inner_step_size

    (d_in,) = task.sample(params, [(settings.inner_batch, step.streams(Purpose.INNER))])
    inner = adapt_batch(task, params, d_in, alpha=alpha, baseline=step.baseline)

    (d_out,) = task.sample(inner.params, [(settings.outer_batch, step.streams(Purpose.OUTER))])
    g_out = policy_gradient(policy, d_out, step.baseline.advantages(d_out))

    c = alpha * through_step(policy, d_in, inner.advantages, g_out)
    c += through_batch(policy, d_in, inner.advantages, d_out)
    corrected = guarded(g_out, c, settings.guard)
    metrics = {"inner_norm": norm(inner.gradient), **corrected.metrics()}
    return Estimate(corrected.direction, task.sample.trajectories - before, metrics)


def through_step(policy: Policy, d_in: Trajectories, advantages: F8, v: F8) -> F8:
    """Mean over D_in of hess nu v, ``[d]``, with hess nu = sum_h (R^h - b_h) Psi_h: g_in's own derivative."""
    tangent = policy.tangent(d_in.trace, v)
    product = policy.second(tangent, np.zeros_like(advantages), advantages)
    product /= d_in.size
    return product


def through_batch(policy: Policy, d_in: Trajectories, advantages: F8, d_out: Trajectories) -> F8:
    """Sum over D_in of (J_hat(theta~) - b) z, ``[d]``, J_hat the mean return of D_out.

    b is what the step's baseline subtracted from a trajectory's return R^0 in g_in: 0, the value of its
    start state by earlier local steps, or the mean return of the OTHER trajectories of D_in. It depends on
    no action of that trajectory, so that E[b z] = 0 and nothing is biased. Where the step changes J little
    it leaves less for the noise of z to multiply; where the step ruins J, more.
    """
    b = reward_to_go(d_in.rewards)[0] - advantages[0]
    weights = episode_return(d_out.rewards).mean() - b
    return policy.score(d_in.trace, d_in.masked(np.broadcast_to(weights, advantages.shape)))
