"""The directions of ascent on a quadratic, where every product is known, and on a network."""

import msgspec
import numpy as np
import pytest

from edge_fed.config import Algorithm
from edge_fed.meta.guard import norm
from edge_fed.seeding import Purpose, streams
from edge_fed.supervised.directions import DIRECTIONS, PRODUCTS, exact, fedavg, first_order
from edge_fed.supervised.network import EluNetwork, NetworkArgs

RNG = np.random.default_rng(0)
SIZE = 5
ROOT = RNG.standard_normal((SIZE, SIZE))
A = ROOT @ ROOT.T / SIZE + np.eye(SIZE)
B = RNG.standard_normal(SIZE)
W = RNG.standard_normal(SIZE)


class Quadratic:
    """The loss f(w; x) = w^T A w / 2 - (b + x)^T w, as the J = -f that the core ascends."""

    def cast(self, params):
        """As it is."""
        return params

    def gradient(self, w, batch):
        """Minus the loss's."""
        return -(A @ w - B - batch[0].mean(axis=0))

    def hvp(self, w, v, batch):
        """Minus A v."""
        return -A @ v

    def difference(self, w, v, delta, batch):
        """Of two gradients."""
        return (self.gradient(w + delta * v, batch) - self.gradient(w - delta * v, batch)) / (2 * delta)


def draw(count, rng):
    """Examples that differ, so that batches can be told apart."""
    return rng.standard_normal((count, SIZE)), np.zeros(count, np.int64)


def algorithm(**changes):
    """Settings of the published table, with changes."""
    base = Algorithm(
        variant="exact", curvature="hvp", inner_step_size=0.3, inner_batch=4, outer_batch=6, hessian_batch=8
    )
    return msgspec.structs.replace(base, **changes)


def at(purpose, count):
    """The mean of the examples that a step draws for one purpose."""
    return draw(count, streams(1, 2, 3, 4)(purpose))[0].mean(axis=0)


@pytest.mark.parametrize("curvature", PRODUCTS)
def test_one_quadratic_with_both_signs(curvature):
    """Ascending J = -f is descending f: -(I - alpha A) grad f(w - alpha grad f(w)), to 1e-12."""
    alpha = 0.3
    inner = A @ W - B - at(Purpose.INNER, 4)  # grad f on D
    adapted = W - alpha * inner
    outer = A @ adapted - B - at(Purpose.OUTER, 6)  # grad f on D'
    descent = (np.eye(SIZE) - alpha * A) @ outer
    found = exact(Quadratic(), W, algorithm(curvature=curvature), draw, streams(1, 2, 3, 4))
    tolerance = 1e-12 if curvature == "hvp" else 1e-10  # a difference of two gradients loses digits
    assert np.abs(found.direction + descent).max() < tolerance
    assert found.trajectories == 4 + 6 + 8
    assert found.metrics["inner_norm"] == pytest.approx(norm(inner))


def test_curvature_shrinks_the_step_of_a_convex_loss():
    """A sign error would lengthen it."""
    full = exact(Quadratic(), W, algorithm(inner_step_size=0.1), draw, streams(1, 2, 3, 4))
    short = first_order(Quadratic(), W, algorithm(inner_step_size=0.1), draw, streams(1, 2, 3, 4))
    assert norm(full.direction) < norm(short.direction)
    assert short.trajectories == 4 + 6


def test_fedavg_takes_one_gradient_from_all_batches():
    """At w, on D, D' and D'' together; with a D'' of 0, on the other two."""
    for hessian in (8, 0):
        found = fedavg(Quadratic(), W, algorithm(hessian_batch=hessian), draw, streams(1, 2, 3, 4))
        mean = (4 * at(Purpose.INNER, 4) + 6 * at(Purpose.OUTER, 6)) / (10 + hessian)
        mean += hessian * at(Purpose.CURVATURE, hessian) / (10 + hessian) if hessian else 0
        assert found.direction == pytest.approx(-(A @ W - B - mean), abs=1e-12)
        assert found.trajectories == 10 + hessian


def network_case():
    """A small network and what it draws."""
    model = EluNetwork(SIZE, 3, NetworkArgs((6, 4)))

    def labelled(count, rng):
        return rng.standard_normal((count, SIZE)), rng.integers(0, 3, count)

    return model, model.initial(np.random.default_rng(2)), labelled


def test_at_alpha_zero_exact_is_first_order_to_the_bit():
    """Each batch has a stream of its own, so that drawing D'' moves no other."""
    model, w, labelled = network_case()
    settings = algorithm(inner_step_size=0.0)
    directions = [
        direction(model, w, settings, labelled, streams(5, 0, 1, 0)).direction
        for direction in (exact, first_order)
    ]
    assert np.array_equal(*directions)


def test_both_products_agree_on_a_network():
    """The sources' difference with our delta is within a thousandth of the closed form."""
    model, w, labelled = network_case()
    found = {
        name: exact(model, w, algorithm(curvature=name), labelled, streams(5, 0, 1, 0)).direction
        for name in PRODUCTS
    }
    assert norm(found["hvp"] - found["finite_difference"]) < 1e-3 * norm(found["hvp"])


def test_each_batch_has_a_stream_of_its_own():
    """D, D' and D'' are independent, as the sources demand: no two of them begin with the same draw."""
    asked = []

    def spied(purpose):
        asked.append(purpose)
        return streams(1, 2, 3, 4)(purpose)

    for direction in (exact, fedavg):
        asked.clear()
        direction(Quadratic(), W, algorithm(), draw, spied)
        assert sorted(asked) == sorted((Purpose.INNER, Purpose.OUTER, Purpose.CURVATURE))


def test_a_gradient_of_zero_has_no_curvature():
    """Delta is relative to v: v = 0 must not divide by it."""
    model, w, labelled = network_case()
    batch = labelled(4, np.random.default_rng(0))
    assert not PRODUCTS["finite_difference"](model, w, np.zeros_like(w), batch).any()


def test_the_guard_bounds_the_curvature_term():
    """As in the paper on policies; off, nothing is bounded."""
    steps = {
        guard: exact(Quadratic(), W, algorithm(guard=guard, inner_step_size=5.0), draw, streams(1, 2, 3, 4))
        for guard in ("off", 0.5)
    }
    assert steps["off"].metrics["guard_rate"] == 0.0
    assert steps[0.5].metrics["guard_rate"] == 1.0
    assert norm(steps[0.5].direction) < norm(steps["off"].direction)


def test_directions_are_float64_whatever_the_arithmetic():
    """What reaches the wire is float64 from a network of float32, too."""
    model = EluNetwork(SIZE, 3, NetworkArgs((6, 4), "float32"))
    w = model.initial(np.random.default_rng(2))

    def labelled(count, rng):
        return rng.standard_normal((count, SIZE)).astype(np.float32), rng.integers(0, 3, count)

    for name, direction in DIRECTIONS.items():
        assert (
            direction(model, w, algorithm(), labelled, streams(5, 0, 1, 0)).direction.dtype == np.float64
        ), name
