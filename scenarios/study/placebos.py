"""Controls of the curvature term: `exact` with another vector of the same norm as c = alpha H_hat g_out.

`exact_random` takes a random direction, `exact_flipped` -c, `exact_other` the newest product of another
agent. Batches, budget, guard and metrics are those of `exact`, so that what `exact` gains over a placebo is
due to the direction of its correction alone (methods.md 10).

They are in no fleet's table: a study calls `register`, in each of its processes and before each run.
"""

import math

from edge_fed.envs.base import Mdp
from edge_fed.errors import EdgeFedError
from edge_fed.meta import CURVED, VARIANTS
from edge_fed.meta.base import Estimate, LocalStep, MetaGradient, Task
from edge_fed.meta.exact import exact_with
from edge_fed.meta.guard import norm
from edge_fed.params import F8
from edge_fed.seeding import Purpose


def exact_random(task: Task, params: F8, step: LocalStep) -> Estimate:
    """A direction uniform on the sphere, from the step's own stream."""
    return exact_with(task, params, step, lambda c: _random(c, step))


def exact_flipped(task: Task, params: F8, step: LocalStep) -> Estimate:
    """The true product with the wrong sign."""
    return exact_with(task, params, step, lambda c: -c)


def exact_other(task: Task, params: F8, step: LocalStep) -> Estimate:
    """The newest c != 0 of another agent, scaled to this one's norm; a random direction if there is none.

    Only in the plain loop, where the agents of a run take their steps in this process, one after the other.
    """
    return exact_with(task, params, step, lambda c: _scaled(_products.swap(task, step, c), c, step))


def register() -> None:
    """Makes the placebos known as variants to this process, and forgets what a run before this left."""
    VARIANTS.update(PLACEBOS)
    CURVED.update(PLACEBOS)
    _products.forget()


PLACEBOS: dict[str, MetaGradient] = {
    "exact_random": exact_random,
    "exact_flipped": exact_flipped,
    "exact_other": exact_other,
}


class _Products:
    """The newest product of each agent of the run that is going on.

    A local step tells nobody which run it belongs to, but its stream is keyed by (seed, agent, round, step),
    and in the plain loop (round, agent, step) only grows, while each agent keeps its sampler. A first local
    step that breaks this begins another run, and what is kept of the run before it is forgotten.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins another run."""
        self._seed, self._place = -1, (0, 0, 0)
        self._environments: dict[int, Mdp] = {}
        self._products: dict[int, F8] = {}  # the newest is the last

    def swap(self, task: Task, step: LocalStep, product: F8) -> F8 | None:
        """Keeps the agent's product ``[d]`` unless it is 0; gives the newest of another, or None.

        Raises:
            EdgeFedError: The agents' steps are interleaved, as they are in no plain loop.
        """
        self._enter(task, step)
        others = [kept for agent, kept in self._products.items() if agent != task.agent]
        if 0 < norm(product) < math.inf:
            self._products.pop(task.agent, None)
            self._products[task.agent] = product
        return others[-1] if others else None

    def _enter(self, task: Task, step: LocalStep) -> None:
        key = step.streams(Purpose.PLACEBO).bit_generator.state["state"]
        seed, agent = (int(word) for word in key["key"])
        _, round_, t, _ = (int(word) for word in key["counter"])
        place, known = (round_, agent, t), self._environments.get(agent, task.environment)
        if seed != self._seed or place <= self._place or known is not task.environment:
            if t:
                raise EdgeFedError(
                    f"variant 'exact_other': local step {t} of agent {agent}, round {round_}, follows one of "
                    "another agent or run; it needs the plain loop, one agent after the other"
                )
            self.forget()
        self._seed, self._place, self._environments[agent] = seed, place, task.environment


_products = _Products()


def _scaled(direction: F8 | None, c: F8, step: LocalStep) -> F8:
    """``direction`` with the norm of ``c``, ``[d]``."""
    if direction is None:
        return _random(c, step)
    return (norm(c) / norm(direction)) * direction


def _random(c: F8, step: LocalStep) -> F8:
    """A random direction with the norm of ``c``, ``[d]``."""
    return _scaled(step.streams(Purpose.PLACEBO).normal(size=c.size), c, step)
