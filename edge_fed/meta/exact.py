"""The exact meta-gradient of the paper, eq. (7) (science.md 1.2): unbiased curvature, fresh batches.

    theta~ = theta + alpha g_in            g_in  = mean over D_in  of g(.; theta)
    g_out  = mean over D_out of g(.; theta~)
    direction = (I + alpha H_hat) g_out    H_hat = mean over D_h   of u(.; theta)

D_in and D_h are independent, both at theta, and hence rolled out together, each from its own stream. With
``curvature_batch = "inner"`` D_in serves as D_h, too: curvature without a trajectory of its own, at the price
of a bias, for theta~ depends on D_in; it falls as 1 / m_in, as that of Proposition 1 (science.md 2.6).
"""

from collections.abc import Callable

from edge_fed.meta.adaptation import adapt_batch
from edge_fed.meta.base import Estimate, LocalStep, Task
from edge_fed.meta.curvature import CURVATURES
from edge_fed.meta.guard import guarded, norm
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.params import F8
from edge_fed.seeding import Purpose


def exact(task: Task, params: F8, step: LocalStep) -> Estimate:
    """One direction of ascent of F at ``params`` ``[d]``; with guard off unbiased given theta~."""
    return exact_with(task, params, step, lambda c: c)


def exact_with(task: Task, params: F8, step: LocalStep, change: Callable[[F8], F8]) -> Estimate:
    """`exact` with another vector in place of c = alpha H_hat g_out: ``change(c)``, ``[d]``.

    For controls of what the curvature term is worth: same batches, same guard, another correction.
    """
    policy, settings, before = task.policy, task.settings, task.sample.trajectories
    alpha, estimate_curvature = settings.inner_step_size, CURVATURES[settings.curvature]
    advantages = step.baseline.advantages

    batches = [(settings.inner_batch, step.streams(Purpose.INNER))]
    if settings.curvature_batch == "fresh":
        batches.append((settings.hessian_batch, step.streams(Purpose.CURVATURE)))
    d_in, *fresh = task.sample(params, batches)
    inner = adapt_batch(task, params, d_in, alpha=alpha, baseline=step.baseline, memory=step.memory)

    (d_out,) = task.sample(inner.params, [(settings.outer_batch, step.streams(Purpose.OUTER))])
    g_out = policy_gradient(policy, d_out, advantages(d_out))

    d_h, of_d_h = (fresh[0], advantages(fresh[0])) if fresh else (d_in, inner.advantages)
    c = alpha * estimate_curvature(policy, d_h, of_d_h, g_out)
    corrected = guarded(g_out, change(c), settings.guard)
    metrics = {"inner_norm": norm(inner.gradient), **corrected.metrics()}
    return Estimate(corrected.direction, task.sample.trajectories - before, metrics)
