"""Features and forgetting sums inside the value baseline."""

from itertools import pairwise

import numpy as np
import pytest

from edge_fed.meta.regression import MOST_FEATURES, BoxRegression, FiniteRegression, monomials, regression
from edge_fed.spaces import Spaces


@pytest.mark.parametrize(
    ("dimension", "count"), [(1, 4), (2, 10), (3, 20), (4, 15), (8, 45), (9, 19), (20, 41)]
)
def test_number_of_monomials(dimension, count):
    """Degree 3 to q = 3, degree 2 to q = 8, then 1, x, x^2 of each coordinate; each once."""
    found = monomials(dimension)
    assert len(set(found)) == len(found) == count


def test_features_of_a_point():
    """Phi(2, 3) scaled by zeta, constant first."""
    x = BoxRegression(2).features(np.array([[[2.0, 3.0]]]), np.array([[0.5]]))
    assert x[:, 0, 0].tolist() == [0.5 * f for f in (1, 2, 3, 4, 6, 9, 8, 12, 18, 27)]


def test_a_box_of_any_shape_has_the_features_of_its_numbers_in_a_row():
    """Shape (2, 2) against shape (4,): the same features, to the bit."""
    states, zeta = np.random.default_rng(0).normal(size=(3, 5, 4)), np.full((3, 1), 0.5)
    row, box = (regression(Spaces(num_actions=2, observation_shape=shape)) for shape in ((4,), (2, 2)))
    x, other = row.features(states, zeta), box.features(states.reshape(3, 5, 2, 2), zeta)
    assert x.shape == (15, 3, 5) and x.tobytes() == other.tobytes()


def test_a_family_may_name_features_of_its_own():
    """They are built from each other, in their order; what cannot be built is named."""
    own = ((), (2,), (2, 0), (2, 0, 0))
    kind = regression(Spaces(num_actions=2, observation_shape=(3,), monomials=own))
    x = kind.features(np.array([[[2.0, 5.0, 3.0]]]), np.array([[0.5]]))
    assert x.ravel().tolist() == [0.5, 1.5, 3.0, 6.0]
    for wrong, message in (
        (((0,),), "the constant 1"),
        (((), (0, 1)), r"\(0, 1\) needs \(0,\) before it"),
        (((), (3,)), "coordinates below 3"),
    ):
        with pytest.raises(ValueError, match=message):
            BoxRegression(3, wrong)


@pytest.mark.parametrize("shape", [(1000,), (84, 84, 3), (10**6, 10**4)])
def test_more_features_than_can_be_solved_for_are_refused(shape):
    """Before a list of them is made; the message says how many they are, and what else there is."""
    largest = Spaces(num_actions=2, observation_shape=((MOST_FEATURES - 1) // 2,))
    assert isinstance(regression(largest), BoxRegression)
    q = int(np.prod(shape))
    with pytest.raises(ValueError, match=f"of {q:,} numbers has {2 * q + 1:,} .* at most 2,000 .* 'loo'"):
        regression(Spaces(num_actions=2, observation_shape=shape))
    few = Spaces(num_actions=2, observation_shape=shape, monomials=((), (7,)))
    assert isinstance(regression(few), BoxRegression), "an environment may name fewer"


def test_weights_solve_the_ridge_equations():
    """A polynomial target is recovered from its samples up to the ridge."""
    rng = np.random.default_rng(0)
    states, zeta = rng.uniform(-1, 1, (6, 50, 2)), np.linspace(1, 0.2, 6)[:, None]
    kind = BoxRegression(2)
    x = kind.features(states, zeta)
    y = zeta * (1 + 2 * states[..., 0] - states[..., 0] * states[..., 1] ** 2)
    A, b = kind.initial()
    kind.add(x, y, A, b)
    w = kind.solve(A, b)
    np.testing.assert_allclose((A + 1e-3 * np.eye(10)) @ w, b, atol=1e-12)
    assert abs(kind.predict(x, w) - y).max() < 0.02


def test_first_weights_are_zero():
    """Before any data the prediction is 0."""
    for kind in (BoxRegression(3), FiniteRegression(5)):
        assert not kind.solve(*kind.initial()).any()


def test_finite_states_equal_dense_one_hot_regression():
    """The diagonal form gives what one-hot features in the dense form give."""
    rng = np.random.default_rng(1)
    states, zeta, y = rng.integers(0, 4, (5, 9)), rng.random((5, 1)), rng.normal(size=(5, 9))
    kind = FiniteRegression(4)
    A, b = kind.initial()
    x = kind.features(states, zeta)
    kind.add(x, y, A, b)
    dense = (np.eye(4)[states] * zeta[..., None]).reshape(-1, 4)
    np.testing.assert_allclose(np.diag(A), 0.01 * np.eye(4) + dense.T @ dense, atol=1e-12)
    w = np.linalg.solve(np.diag(A) + 1e-3 * np.eye(4), dense.T @ y.ravel())
    np.testing.assert_allclose(kind.solve(A, b), w, atol=1e-12)
    np.testing.assert_allclose(kind.predict(x, w).ravel(), dense @ w, atol=1e-12)


def test_kind_follows_the_observations():
    """Finite states: one weight each; vectors: one per monomial."""
    finite = regression(Spaces(num_actions=2, observation_shape=(), num_states=7))
    box = regression(Spaces(num_actions=2, observation_shape=(2,)))
    assert [len(kind.initial()[1]) for kind in (finite, box)] == [7, 10]


def test_monomials_build_on_earlier_ones():
    """A feature without its last factor stands before it, as the product rule of features needs."""
    for dimension in (1, 2, 3, 4, 9):
        found = monomials(dimension)
        assert found[0] == ()
        assert all(feature[:-1] in found[:i] for i, feature in enumerate(found) if feature)
        assert all(len(a) <= len(b) for a, b in pairwise(found))
