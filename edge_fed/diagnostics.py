"""How well an agent can adapt at given shared parameters: the noise, length and reach of its inner step.

Nothing here changes a task, its sampler or its parameters. The trajectories come from a stream of their
own, (run seed, agent, DIAGNOSE): neither round nor method is in the key, so that rounds and methods are
compared on common random numbers.
"""

import numpy as np

from edge_fed.meta.adaptation import adapt_batch
from edge_fed.meta.base import Task
from edge_fed.meta.guard import norm
from edge_fed.params import F8
from edge_fed.seeding import Purpose, stream

POOL = 256


def diagnose(task: Task, params: F8, seed: int, m: int = POOL) -> dict[str, float]:
    """Measures the inner step of ``inner_batch`` trajectories from ``params`` ``[d]``.

    One pool is cut into as many batches of ``inner_batch`` as ``m`` trajectories allow, but at least two.
    Each gives a step as evaluation and onboarding take it: with the stateless ``adapt_baseline``, not with
    the baseline of training, whose state is the agent's.

    Returns:
        ``gradient_snr``, see `signal_to_noise`; ``step_norm``, mean length of alpha g_in over the batches;
        ``adaptation_kl``, mean over the visited states of the pool, those of all steps alike, of
        KL(pi(.|s; theta) || pi(.|s; theta + alpha g_in)) in nats, with g_in of the first batch.
    """
    size, alpha = task.settings.inner_batch, task.settings.inner_step_size
    count = max(m // size, 2)
    pool = task.sample.fresh().pool(
        params, [(count * size, stream(seed, task.agent, 0, 0, Purpose.DIAGNOSE))]
    )
    steps = [
        adapt_batch(task, params, pool.part(slice(first, first + size)))
        for first in range(0, count * size, size)
    ]
    divergence = task.policy.kl(params, steps[0].params, pool.states)
    return {
        "gradient_snr": signal_to_noise(np.array([step.gradient for step in steps])),
        "step_norm": float(np.mean([alpha * norm(step.gradient) for step in steps])),
        "adaptation_kl": float(pool.masked(divergence).sum() / pool.steps),
    }


def signal_to_noise(gradients: F8) -> float:
    """||grad J||^2 over the variance of one batch's gradient, from those of B batches ``[B, d]``.

    Signal: mean of g_b . g_c over pairs b != c, (||sum g_b||^2 - sum ||g_b||^2) / (B (B - 1)), which is
    unbiased for ||grad J||^2 and may therefore be negative where there is little to see; noise: trace of the
    sample covariance. 0 if all batches are equal, as those are that met no reward.
    """
    count = len(gradients)
    total = gradients.sum(axis=0)
    signal = (float(total @ total) - float((gradients**2).sum())) / (count * (count - 1))
    noise = float(((gradients - total / count) ** 2).sum()) / (count - 1)
    return signal / noise if noise else 0.0
