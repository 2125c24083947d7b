"""The FedAvg-PG baseline (science.md 1.2): no inner step in training, all trajectories at theta.

    direction = mean over D_in, D_h and D_out, all drawn at theta, of g(.; theta)

It spends what `exact` spends, so that the comparison is at equal budgets.
"""

from edge_fed.meta.base import Estimate, LocalStep, Task
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.params import F8
from edge_fed.seeding import Purpose


def fedavg_pg(task: Task, params: F8, step: LocalStep) -> Estimate:
    """The policy gradient at ``params`` ``[d]``."""
    settings, before = task.settings, task.sample.trajectories
    batch = task.sample.pool(
        params,
        [
            (settings.inner_batch, step.streams(Purpose.INNER)),
            (settings.hessian_batch, step.streams(Purpose.CURVATURE)),
            (settings.outer_batch, step.streams(Purpose.OUTER)),
        ],
    )
    gradient = policy_gradient(task.policy, batch, step.baseline.advantages(batch))
    return Estimate(gradient, task.sample.trajectories - before, {})
