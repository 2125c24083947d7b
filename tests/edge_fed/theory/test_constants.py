"""Lemmas 1 and 2: the published numbers, and every bound against exact quantities."""

import numpy as np
import pytest

from edge_fed import dp
from edge_fed.envs import make_family
from edge_fed.theory.bounds import heterogeneity_bound
from edge_fed.theory.constants import (
    PolicyBounds,
    adapted_gradient_factor,
    constants,
    meta_gradient_bound,
    meta_smoothness,
    objective_gap,
    smoothness_parts,
    softmax_bounds,
    tabular_constants,
)
from tests.edge_fed.checks import GRIDWORLD
from tests.edge_fed.theory.moments import Moments, setting
from tests.edge_fed.tiny_mdp import A, S, softmax


def gridworld():
    """The constants of the paper's gridworld and its training models."""
    models = [make_family(GRIDWORLD.environment).model(goal) for goal in range(8)]
    return tabular_constants(models), models


def test_the_numbers_of_the_gridworld():
    """science.md 1.4."""
    c, _ = gridworld()
    assert c.policy == softmax_bounds(1.0) == PolicyBounds(G=2, M=4, Lambda=8)
    found = [c.Rbar, c.G_J, c.L_J, c.M_bar, c.Lambda_bar, c.rho_J]
    assert found == pytest.approx([10, 200, 6800, 400, 800, 244_000], rel=1e-12)
    assert meta_gradient_bound(c, 2.0) == pytest.approx(2.7202e6, rel=1e-12)
    assert meta_smoothness(c, 2.0) == pytest.approx(1.258e12, rel=1e-3)
    assert objective_gap(c) == pytest.approx(20)


def test_the_units():
    """All constants grow with the reward; features twice as long double G, M and Lambda 2, 4, 8 fold."""
    one, three = (constants(softmax_bounds(), r, 0.9, 3) for r in (1.0, 3.0))
    for name in ("Rbar", "G_J", "L_J", "M_bar", "Lambda_bar", "rho_J"):
        assert getattr(three, name) == pytest.approx(3 * getattr(one, name))
    assert softmax_bounds(2.0) == PolicyBounds(G=4, M=16, Lambda=64)


def test_assumption_2_of_the_tabular_softmax():
    """||psi|| <= G and ||Psi||_F <= M, with the true suprema sqrt 2 and 0.5 well inside."""
    bounds, rng = softmax_bounds(), np.random.default_rng(0)
    scores, seconds = [], []
    for _ in range(200):
        pi, other = (softmax(rng.normal(scale=3, size=S * A))[0] for _ in range(2))
        scores += [np.linalg.norm(np.eye(A)[a] - pi) for a in range(A)]
        seconds.append(np.linalg.norm(np.diag(pi) - np.outer(pi, pi)))
        apart = (np.diag(pi) - np.outer(pi, pi)) - (np.diag(other) - np.outer(other, other))
        logits = np.log(pi) - np.log(other)
        centred = logits - logits.mean()  # the nearest logits that give the same policies
        assert np.linalg.norm(apart) <= bounds.Lambda * np.linalg.norm(centred)
    assert 1 < max(scores) <= np.sqrt(2) < bounds.G
    assert 0.4 < max(seconds) <= 0.5 < bounds.M


@pytest.mark.parametrize("seed", range(3))
def test_lemma_1_along_every_trajectory(seed):
    """||g|| <= G_J and ||u||_F <= L_J surely; |J| <= Rbar."""
    model, theta, c = setting(horizon=2, seed=seed)
    at = Moments(model, theta)
    assert np.linalg.norm(at.g, axis=1).max() <= c.G_J
    assert np.linalg.norm(at.u, axis=(1, 2)).max() <= c.L_J
    assert abs(dp.expected_return(model, theta)) <= c.Rbar
    assert abs(at.q @ at.g - dp.gradient(model, theta)).max() < 1e-12  # the enumeration itself


def test_the_hessian_is_lipschitz():
    """||hess J(x) - hess J(y)|| <= rho_J ||x - y|| along random directions."""
    model, theta, c = setting(horizon=2)
    rng = np.random.default_rng(1)
    for scale in (1e-3, 1e-1, 1.0):
        step, v = rng.normal(size=(2, theta.size))
        step, v = scale * step, v / np.linalg.norm(v)
        change = dp.hessian_vector(model, theta + step, v) - dp.hessian_vector(model, theta, v)
        assert 0 < np.linalg.norm(change) <= c.rho_J * np.linalg.norm(step)


def test_lemma_2_on_the_gridworld():
    """|F| <= Rbar, ||grad F|| <= G_F, and grad F is L_F-Lipschitz, at every alpha."""
    c, models = gridworld()
    rng = np.random.default_rng(2)
    for alpha in (0.0, 1e-4, 0.5, 2.0):
        x = rng.normal(size=100)
        y = x + rng.normal(scale=0.1, size=100)
        at_x, at_y = (dp.meta_gradient(models[0], theta, alpha) for theta in (x, y))
        assert abs(dp.meta_objective(models[0], x, alpha)) <= c.Rbar
        assert np.linalg.norm(at_x) <= meta_gradient_bound(c, alpha)
        assert np.linalg.norm(at_x - at_y) <= meta_smoothness(c, alpha) * np.linalg.norm(x - y)


def test_the_gap_and_heterogeneity():
    """Delta <= 2 Rbar with the best return of all; the spread of the gradients is at most G_J^2."""
    c, models = gridworld()
    theta = np.zeros(100)
    assert 0 < dp.optimal_return(models[0]) - dp.meta_objective(models[0], theta, 2.0) <= objective_gap(c)
    gradients = np.array([dp.gradient(model, theta) for model in models])
    spread = ((gradients - gradients.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert 0 < spread <= heterogeneity_bound(c)


def test_the_remark_on_adapted_gradients():
    """In R2 ||grad J(theta+)|| <= 2 ||grad F||; beyond 1 / L_J there is no such factor."""
    model, theta, c = setting(horizon=2)
    alpha = 1 / (2 * c.L_J)
    adapted = dp.gradient(model, dp.adapted(model, theta, alpha))
    assert adapted_gradient_factor(c, alpha) == pytest.approx(2)
    assert np.linalg.norm(adapted) <= 2 * np.linalg.norm(dp.meta_gradient(model, theta, alpha))
    with pytest.raises(ValueError, match="alpha"):
        adapted_gradient_factor(c, 1 / c.L_J)


def test_smoothness_without_adaptation_is_that_of_j():
    """Proposition 3 at alpha = 0: G_F = G_J, L_F = L_J."""
    c, _ = gridworld()
    assert meta_gradient_bound(c, 0.0) == c.G_J
    assert smoothness_parts(c, 0.0) == (c.L_J, 0.0)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("discount", (1.0, 1.0, 3)), ("reward_bound", (0.0, 0.9, 3)), ("horizon", (1.0, 0.9, -1))],
)
def test_what_the_assumptions_exclude(name, arguments):
    """The message names the argument."""
    with pytest.raises(ValueError, match=name):
        constants(softmax_bounds(), *arguments)
    with pytest.raises(ValueError, match="alpha"):
        meta_smoothness(gridworld()[0], float("nan"))
