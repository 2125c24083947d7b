"""Gradients by dynamic programming against central differences of values."""

import numpy as np
import pytest

from edge_fed.dp import expected_return, gradient, hessian_vector, meta_gradient, meta_objective
from edge_fed.envs.gridworld import Gridworld
from tests.edge_fed.tiny_mdp import random_model

GRID = Gridworld(15, 0.9, {})
MODELS = [(random_model(seed), 6) for seed in range(3)] + [(GRID.model(goal), 100) for goal in (0, 5, 12)]


def differences(function, theta, eps):
    """Central differences of a scalar function, ``[d]``."""
    eye = np.eye(theta.size)
    return np.array([(function(theta + eps * e) - function(theta - eps * e)) / (2 * eps) for e in eye])


@pytest.mark.parametrize(("model", "d"), MODELS)
def test_gradient_equals_central_differences(model, d):
    """Grad J agrees with differences of J to 5e-8 (the paper's tabular figure)."""
    theta = np.random.default_rng(d).normal(size=d)
    expected = differences(lambda x: expected_return(model, x), theta, 1e-5)
    assert abs(gradient(model, theta) - expected).max() < 5e-8
    assert abs(expected).max() > 1e-2


@pytest.mark.parametrize(("model", "d"), MODELS)
def test_hessian_vector_equals_differences_of_the_gradient(model, d):
    """Hess J v agrees with central differences of grad J along v."""
    rng = np.random.default_rng(d + 1)
    theta, v = rng.normal(size=(2, d))
    eps = 1e-5
    expected = (gradient(model, theta + eps * v) - gradient(model, theta - eps * v)) / (2 * eps)
    assert abs(hessian_vector(model, theta, v) - expected).max() < 5e-8
    assert abs(expected).max() > 1e-2


def test_hessian_is_symmetric():
    """The products with unit vectors form a symmetric matrix."""
    model = random_model(1)
    theta = np.random.default_rng(7).normal(size=6)
    hessian = np.array([hessian_vector(model, theta, e) for e in np.eye(6)])
    assert abs(hessian - hessian.T).max() < 1e-13


@pytest.mark.parametrize(("model", "d"), MODELS)
@pytest.mark.parametrize("steps", [1, 2])
def test_meta_gradient_equals_differences_of_the_meta_objective(model, d, steps):
    """[complaints 33, 39] Grad F agrees with differences of F, for one inner step and for two."""
    theta = np.random.default_rng(d + 2).normal(size=d)
    alpha = 2.0
    expected = differences(lambda x: meta_objective(model, x, alpha, steps), theta, 1e-5)
    assert abs(meta_gradient(model, theta, alpha, steps) - expected).max() < 1e-7
    first_order = gradient(model, theta + alpha * gradient(model, theta))
    assert abs(first_order - expected).max() > 1e-3  # the curvature term is not negligible here


def test_without_an_inner_step_nothing_changes():
    """[complaints 34] At alpha = 0, F is J and grad F is grad J, to the bit."""
    model = random_model(0)
    theta = np.random.default_rng(9).normal(size=6)
    assert meta_objective(model, theta, 0.0) == expected_return(model, theta)
    assert np.array_equal(meta_gradient(model, theta, 0.0), gradient(model, theta))


def test_one_step_along_the_meta_gradient_increases_the_meta_objective():
    """Signs are those of ascent."""
    model = GRID.model(0)
    theta = np.zeros(100)
    step = 1e-3 * meta_gradient(model, theta, 2.0)
    assert meta_objective(model, theta + step, 2.0) > meta_objective(model, theta, 2.0)
    assert meta_objective(model, theta, 2.0) > expected_return(model, theta)
