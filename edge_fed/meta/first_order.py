"""The first-order meta-gradient (science.md 1.2; the paper's Corollary 2): curvature dropped.

theta~ = theta + alpha g_in(D_in; theta)
direction = g_out(D_out; theta~)
"""

from edge_fed.meta.adaptation import adapt_batch
from edge_fed.meta.base import Estimate, LocalStep, Task
from edge_fed.meta.guard import norm
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.params import F8
from edge_fed.seeding import Purpose


def first_order(task: Task, params: F8, step: LocalStep) -> Estimate:
    """The gradient at the adapted parameters, ``[d]``; samples no curvature batch."""
    settings, before = task.settings, task.sample.trajectories

    (d_in,) = task.sample(params, [(settings.inner_batch, step.streams(Purpose.INNER))])
    inner = adapt_batch(
        task, params, d_in, alpha=settings.inner_step_size, baseline=step.baseline, memory=step.memory
    )

    (d_out,) = task.sample(inner.params, [(settings.outer_batch, step.streams(Purpose.OUTER))])
    g_out = policy_gradient(task.policy, d_out, step.baseline.advantages(d_out))
    return Estimate(g_out, task.sample.trajectories - before, {"inner_norm": norm(inner.gradient)})
