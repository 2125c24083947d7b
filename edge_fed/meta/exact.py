"""The exact meta-gradient of the paper, eq. (7) (science.md 1.2): unbiased curvature, fresh batches.

    theta~ = theta + alpha g_in            g_in  = mean over D_in  of g(.; theta)
    g_out  = mean over D_out of g(.; theta~)
    direction = (I + alpha H_hat) g_out    H_hat = mean over D_h   of u(.; theta)

D_in and D_h are independent, both at theta, and hence rolled out together, each from its own stream.
"""

from edge_fed.meta.adaptation import adapt_batch
from edge_fed.meta.base import Baseline, Estimate, Task
from edge_fed.meta.curvature import CURVATURES
from edge_fed.meta.guard import guarded, norm
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.params import F8
from edge_fed.seeding import Purpose, Streams


def exact(task: Task, params: F8, streams: Streams, baseline: Baseline) -> Estimate:
    """One direction of ascent of F at ``params`` ``[d]``; with guard off unbiased given theta~."""
    policy, settings, before = task.policy, task.settings, task.sample.trajectories
    alpha, estimate_curvature = settings.inner_step_size, CURVATURES[settings.curvature]

    d_in, d_h = task.sample(
        params,
        [
            (settings.inner_batch, streams(Purpose.INNER)),
            (settings.hessian_batch, streams(Purpose.CURVATURE)),
        ],
    )
    inner = adapt_batch(task, params, d_in, alpha=alpha, baseline=baseline)

    (d_out,) = task.sample(inner.params, [(settings.outer_batch, streams(Purpose.OUTER))])
    g_out = policy_gradient(policy, d_out, baseline.advantages(d_out))

    c = alpha * estimate_curvature(policy, d_h, baseline.advantages(d_h), g_out)
    step = guarded(g_out, c, settings.guard)
    metrics = {
        "inner_norm": norm(inner.gradient),
        "curvature_ratio": step.ratio,
        "guard_rate": float(step.bites),
        "cosine": step.cosine,
    }
    return Estimate(step.direction, task.sample.trajectories - before, metrics)
