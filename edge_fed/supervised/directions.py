"""The directions of supervised Per-FedAvg (Fallah et al. 2020; seed 003, Knowl 2 and 3; science.md 1.2).

The core ascends J_i = -f_i, so each formula keeps the plus of the paper on policies:

    exact         (I + alpha H) g_out,   g_in on D at w,  g_out on D' at w + alpha g_in,  H on D'' at w
    first_order   g_out
    fedavg        g on D, D' and D'' together at w

With g = -grad f and H = -hess f this is -(I - alpha hess f) grad f(w - alpha grad f): the sources' step of
descent. H g_out is a product with the Hessian (``hvp``), or the sources' Per-FedAvg (HF),
``finite_difference``: [g(w + delta v) - g(w - delta v)] / (2 delta) on the same D'' at both ends, which is
right for data that do not depend on w. The sources give no delta and do not scale v; here
delta = 1e-3 ||w|| / ||v||, so that both ends are a thousandth of ||w|| away.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from edge_fed.config import Algorithm
from edge_fed.meta.base import Estimate
from edge_fed.meta.guard import guarded, norm
from edge_fed.params import F8
from edge_fed.seeding import Purpose, Streams
from edge_fed.supervised.network import Batch
from edge_fed.supervised.output import Array
from edge_fed.supervised.users import Draw

DELTA = 1e-3


class Objective(Protocol):
    """J of a batch and its derivatives: what `edge_fed.supervised.network` is to this file."""

    def cast(self, params: F8) -> Array:
        """The parameters in the model's arithmetic."""
        ...

    def gradient(self, w: Array, batch: Batch) -> Array:
        """Gradient of J."""
        ...

    def hvp(self, w: Array, v: Array, batch: Batch) -> Array:
        """Hessian of J times v."""
        ...

    def difference(self, w: Array, v: Array, delta: float, batch: Batch) -> Array:
        """[grad J(w + delta v) - grad J(w - delta v)] / (2 delta)."""
        ...


def exact(model: Objective, params: F8, settings: Algorithm, draw: Draw, streams: Streams) -> Estimate:
    """The meta-gradient with curvature from a batch of its own."""
    w = model.cast(params)
    inner, g_out = _adapted_gradient(model, w, settings, draw, streams)
    batch = draw(settings.hessian_batch, streams(Purpose.CURVATURE))
    c = settings.inner_step_size * PRODUCTS[settings.curvature](model, w, g_out, batch)
    corrected = guarded(g_out, c, settings.guard)
    samples = settings.inner_batch + settings.outer_batch + settings.hessian_batch
    return _estimate(corrected.direction, samples, {"inner_norm": inner, **corrected.metrics()})


def first_order(model: Objective, params: F8, settings: Algorithm, draw: Draw, streams: Streams) -> Estimate:
    """The gradient at the adapted parameters; draws no D''."""
    inner, g_out = _adapted_gradient(model, model.cast(params), settings, draw, streams)
    return _estimate(g_out, settings.inner_batch + settings.outer_batch, {"inner_norm": inner})


def fedavg(model: Objective, params: F8, settings: Algorithm, draw: Draw, streams: Streams) -> Estimate:
    """The gradient at ``params`` on all three batches; it adapts when it is evaluated, not in training."""
    wanted = (
        (settings.inner_batch, Purpose.INNER),
        (settings.outer_batch, Purpose.OUTER),
        (settings.hessian_batch, Purpose.CURVATURE),
    )
    parts = [draw(size, streams(purpose)) for size, purpose in wanted if size]
    batch = np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
    return _estimate(model.gradient(model.cast(params), batch), batch[1].size, {})


Direction = Callable[[Objective, F8, Algorithm, Draw, Streams], Estimate]
DIRECTIONS: dict[str, Direction] = {"exact": exact, "first_order": first_order, "fedavg": fedavg}
"""The table of ``variant`` of supervised tasks."""


def hvp(model: Objective, w: Array, v: Array, batch: Batch) -> Array:
    """H v in closed form."""
    return model.hvp(w, v, batch)


def finite_difference(model: Objective, w: Array, v: Array, batch: Batch) -> Array:
    """H v from two gradients; v = 0 gives 0."""
    length = norm(v)
    if length == 0:
        return np.zeros_like(v)
    return model.difference(w, v, DELTA * (norm(w) or 1.0) / length, batch)


PRODUCTS: dict[str, Callable[[Objective, Array, Array, Batch], Array]] = {
    "hvp": hvp,
    "finite_difference": finite_difference,
}
"""The table of ``curvature`` of supervised tasks."""


def _adapted_gradient(
    model: Objective, w: Array, settings: Algorithm, draw: Draw, streams: Streams
) -> tuple[float, Array]:
    """||g_in||, and g_out at w + alpha g_in, ``[d]``."""
    g_in = model.gradient(w, draw(settings.inner_batch, streams(Purpose.INNER)))
    inner = norm(g_in)
    g_in *= settings.inner_step_size
    g_in += w
    return inner, model.gradient(g_in, draw(settings.outer_batch, streams(Purpose.OUTER)))


def _estimate(direction: Array, samples: int, metrics: dict[str, float]) -> Estimate:
    return Estimate(direction.astype(np.float64, copy=False), samples, metrics)
