"""The ELU network against finite differences, against torch, and against its own definition."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_fed.supervised.network import Batch, EluNetwork, NetworkArgs, make_network

STEP = 1e-6
SHAPES = st.tuples(
    st.integers(1, 6),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(2, 4),
    st.integers(1, 7),
)


KINDS = st.sampled_from([{}, {"elu": 0.2}, {"loss": "squared"}, {"elu": 0.2, "loss": "squared"}])


def case(
    shape: tuple[int, list[int], int, int], seed: int, kind: Mapping[str, Any] | None = None
) -> tuple[EluNetwork, np.ndarray, Batch]:
    """A network, parameters on both sides of the units' bend, and a batch."""
    inputs, hidden, classes, n = shape
    model = EluNetwork(inputs, classes, NetworkArgs(tuple(hidden), **(kind or {})))
    rng = np.random.default_rng(seed)
    batch = rng.standard_normal((n, inputs)), rng.integers(0, classes, n)
    return model, rng.standard_normal(model.dimension), batch


@given(SHAPES, st.integers(0, 10_000), KINDS)
@settings(max_examples=40, deadline=None)
def test_the_gradient_is_the_derivative_of_what_is_measured(shape, seed, kind):
    """Central differences of `measure`, in every coordinate, for any sizes, losses and units."""
    model, w, batch = case(shape, seed, kind)
    found = model.gradient(w, batch)
    for k, unit in enumerate(np.eye(model.dimension)):
        above, below = (model.measure(w + sign * STEP * unit, batch)[0] for sign in (1, -1))
        assert found[k] == pytest.approx((above - below) / (2 * STEP), abs=1e-7)


@given(SHAPES, st.integers(0, 10_000), KINDS)
@settings(max_examples=40, deadline=None)
def test_the_product_is_the_derivative_of_the_gradient(shape, seed, kind):
    """Hess J v against central differences of the gradient; symmetric, and linear in v."""
    model, w, batch = case(shape, seed, kind)
    rng = np.random.default_rng(seed + 1)
    u, v = rng.standard_normal((2, model.dimension))
    found = model.hvp(w, v, batch)
    difference = (model.gradient(w + STEP * v, batch) - model.gradient(w - STEP * v, batch)) / (2 * STEP)
    scale = 1 + np.abs(found).max()
    # the second derivative of elu jumps at 0: a unit that crosses it within the step is the exception
    assert np.mean(np.abs(found - difference) < 1e-5 * scale) > 0.9
    assert u @ found == pytest.approx(v @ model.hvp(w, u, batch), abs=1e-10 * scale)
    assert model.hvp(w, 3 * v, batch) == pytest.approx(3 * found, abs=1e-10 * scale)


@given(SHAPES, st.integers(0, 10_000), KINDS)
@settings(max_examples=40, deadline=None)
def test_the_difference_is_that_of_two_gradients(shape, seed, kind):
    """What never forms the first layer's copies gives what forming them gives."""
    model, w, batch = case(shape, seed, kind)
    v = np.random.default_rng(seed + 1).standard_normal(model.dimension)
    expected = (model.gradient(w + 1e-2 * v, batch) - model.gradient(w - 1e-2 * v, batch)) / 2e-2
    assert model.difference(w, v, 1e-2, batch) == pytest.approx(expected, abs=1e-10)


def test_nothing_that_is_passed_in_is_changed():
    """Parameters, direction and examples are left as they were."""
    model, w, (x, y) = case((5, [4, 3], 3, 6), 0)
    v = np.ones_like(w)
    before = [array.copy() for array in (w, v, x, y)]
    model.gradient(w, (x, y))
    model.hvp(w, v, (x, y))
    model.difference(w, v, 0.1, (x, y))
    model.measure(w, (x, y))
    for array, kept in zip((w, v, x, y), before, strict=True):
        assert np.array_equal(array, kept)


def test_float32_inside_is_close_to_float64():
    """Gradient, product and difference to single precision; parameters drawn are the same."""
    wide, w, (x, y) = case((20, [8, 6], 5, 16), 3)
    narrow = EluNetwork(20, 5, NetworkArgs((8, 6), "float32"))
    v = wide.gradient(w, (x, y))
    batch = x.astype(np.float32), y
    for name, args in (("gradient", ()), ("hvp", (v,)), ("difference", (v, 1e-2))):
        expected = getattr(wide, name)(w, *args, (x, y))
        given_ = [arg.astype(np.float32) if isinstance(arg, np.ndarray) else arg for arg in args]
        found = getattr(narrow, name)(narrow.cast(w), *given_, batch)
        assert found.dtype == np.float32
        assert found == pytest.approx(expected, abs=2e-3 * np.abs(expected).max())
    rngs = [np.random.default_rng(1) for _ in range(2)]
    assert np.array_equal(wide.initial(rngs[0]), narrow.initial(rngs[1]))


def test_it_starts_as_torch_starts():
    """Weights and biases within 1/sqrt(inputs of the layer), filling that range, none of them zero."""
    model = EluNetwork(400, 10, NetworkArgs((80, 60)))
    for (weights, biases), inputs in zip(
        model.layers(model.initial(np.random.default_rng(0))), (400, 80, 60), strict=True
    ):
        bound = inputs**-0.5
        assert 0.98 * bound < np.abs(weights).max() <= bound
        assert 0.8 * bound < np.abs(biases).max() <= bound
        assert abs(weights.mean()) < 0.05 * bound
        assert weights.std() == pytest.approx(bound / 3**0.5, rel=0.05)


def test_measure_is_mean_log_likelihood_and_accuracy():
    """Of logits worked out by hand."""
    model = EluNetwork(1, 2, NetworkArgs((1,)))
    w = np.array([1.0, 0.0, 1.0, -1.0, 0.0, 0.0])  # a = elu(x); logits (a, -a)
    x, y = np.array([[2.0], [-1.0], [0.5]]), np.array([0, 0, 1])
    a = np.array([2.0, np.expm1(-1.0), 0.5])
    margins = np.array([2 * a[0], 2 * a[1], -2 * a[2]])
    value, accuracy = model.measure(w, (x, y))
    assert value == pytest.approx(-np.log1p(np.exp(-margins)).mean())
    assert accuracy == pytest.approx(1 / 3)
    assert model.log_likelihoods(w, (x, y)).mean() == pytest.approx(value)


def test_squared_errors_of_one_example_by_hand():
    """At x = -1: a = 0.2 (1/e - 1); outputs elu(a), elu(-a); label 1; the larger output is the answer."""
    model = EluNetwork(1, 2, NetworkArgs((1,), elu=0.2, loss="squared"))
    w = np.array([1.0, 0.0, 1.0, -1.0, 0.0, 0.0])
    a = 0.2 * np.expm1(-1.0)
    low, high = 0.2 * np.expm1(a), -a
    value, accuracy = model.measure(w, (np.array([[-1.0]]), np.array([1])))
    assert value == pytest.approx(-0.5 * (low**2 + (1 - high) ** 2), abs=1e-12)
    assert accuracy == 1
    error = np.array([-low * (low + 0.2), 1 - high])  # (1[y] - elu(z)) elu'(z)
    assert model.gradient(w, (np.array([[-1.0]]), np.array([1])))[-2:] == pytest.approx(error, abs=1e-12)


def test_he_draws_weights_by_inputs_and_biases_of_unit_variance():
    """Standard deviations sqrt(2/inputs) and 1, in every layer."""
    model = EluNetwork(400, 300, NetworkArgs((200, 300), init="he"))
    for (weights, biases), inputs in zip(
        model.layers(model.initial(np.random.default_rng(0))), (400, 200, 300), strict=True
    ):
        assert weights.std() == pytest.approx((2 / inputs) ** 0.5, rel=0.02)
        assert biases.std() == pytest.approx(1, rel=0.15)
        assert abs(biases.mean()) < 0.25


def test_the_description_says_what_is_not_the_default():
    """Agents of one run agree on loss and units; the default's description is what it always was."""
    assert make_network(3, 2, {}).description == "mlp-elu 3-80-60-2 float64"
    other = make_network(3, 2, {"elu": 0.2, "loss": "squared", "init": "he"})
    assert other.description == "mlp-elu 3-80-60-2 float64 elu 0.2 loss squared"


def test_wrong_arguments_are_named():
    """A layer without units, an unknown dtype or loss, units without a bend, a name that there is not."""
    for args, name in (
        ({"hidden": [0]}, "hidden"),
        ({"dtype": "float16"}, "dtype"),
        ({"loss": "hinge"}, "loss"),
        ({"elu": 0.0}, "elu"),
        ({"width": 3}, "width"),
    ):
        with pytest.raises(ValueError, match=name):
            make_network(3, 2, args)


@pytest.mark.parametrize("kind", [{}, {"elu": 0.2, "loss": "squared"}])
def test_it_equals_torch(kind):
    """J, gradient and Hessian-vector product to 1e-10 at the published sizes, of both losses."""
    torch = pytest.importorskip("torch", reason="torch is not installed: equality with it is not tested")
    model, w, (x, y) = case((30, [80, 60], 10, 40), 7, kind)
    w, v = 0.2 * w, np.random.default_rng(8).standard_normal(w.size)

    def log_likelihood(flat):
        a = torch.from_numpy(x)
        parts = model.layers(np.arange(model.dimension))
        for level, (rows, columns) in enumerate(parts):
            weights = flat[torch.from_numpy(rows.ravel())].reshape(rows.shape)
            a = a @ weights + flat[torch.from_numpy(columns.copy())]
            if level < len(parts) - 1 or kind:
                a = torch.nn.functional.elu(a, alpha=kind.get("elu", 1.0))
        if kind:
            return -0.5 * ((a - torch.nn.functional.one_hot(torch.from_numpy(y), 10)) ** 2).sum(1).mean()
        return -torch.nn.functional.cross_entropy(a, torch.from_numpy(y))

    flat = torch.from_numpy(w)
    gradient, product = torch.autograd.functional.hvp(log_likelihood, flat, torch.from_numpy(v))[0], None
    assert model.measure(w, (x, y))[0] == pytest.approx(float(gradient), abs=1e-10)
    assert np.abs(model.gradient(w, (x, y)) - torch.func.grad(log_likelihood)(flat).numpy()).max() < 1e-10
    product = torch.autograd.functional.hvp(log_likelihood, flat, torch.from_numpy(v))[1].numpy()
    assert np.abs(model.hvp(w, v, (x, y)) - product).max() < 1e-10
