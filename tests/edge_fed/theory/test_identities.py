"""Proposition 2: the identity, its residual, and the example."""

import numpy as np
import pytest

from edge_fed import dp
from edge_fed.theory.bounds import residual_bound
from edge_fed.theory.constants import tabular_constants
from edge_fed.theory.identities import EXAMPLE, ScalarBandit, example_root, parts, scalar_parts
from tests.edge_fed.checks import differences, relative
from tests.edge_fed.theory.moments import setting


def objective(models, theta, alpha):
    """F, the mean over agents."""
    return np.mean([dp.meta_objective(model, theta, alpha) for model in models])


@pytest.mark.parametrize("alpha", [0.0, 0.1, 2.0])
def test_the_identity(alpha):
    """Grad F = D + alpha C to 1e-10 against dp, and against differences of F itself."""
    models = [setting(horizon=2, seed=seed)[0] for seed in range(3)]
    theta = setting(horizon=2)[1]
    found = parts(models, theta, alpha).meta_gradient(alpha)
    expected = np.mean([dp.meta_gradient(model, theta, alpha) for model in models], axis=0)
    assert abs(found - expected).max() < 1e-10
    assert relative(found, differences(lambda x: objective(models, x, alpha), theta)) < 1e-7


def test_the_residual_is_bounded_and_needs_heterogeneity():
    """||alpha C|| <= alpha L_J G_J; for identical agents C is hess J times D, so 0 where D = 0."""
    models = [setting(horizon=2, seed=seed)[0] for seed in range(3)]
    theta = setting(horizon=2)[1]
    c = tabular_constants(models)
    for alpha in (0.1, 2.0):
        found = parts(models, theta, alpha)
        assert 0 < alpha * np.linalg.norm(found.C) <= residual_bound(c, alpha)
        same = parts([models[0]] * 3, theta, alpha)
        assert abs(same.C - dp.hessian_vector(models[0], theta, same.D)).max() < 1e-12
        assert abs(found.C - dp.hessian_vector(models[0], theta, found.D)).max() > 1e-4


def test_the_example():
    """science.md A7: where first-order ascent has its zero, grad F / alpha is far from 0."""
    published = {0.4: 0.133, 0.2: 0.156, 0.1: 0.161, 0.05: 0.160, 0.025: 0.159}
    for alpha, expected in published.items():
        theta = example_root(alpha)
        D, C = scalar_parts(EXAMPLE, theta, alpha)

        def objective_at(x, alpha=alpha):
            return np.mean([value(b, x + alpha * b.derivatives(x)[0]) for b in EXAMPLE])

        slope = (objective_at(theta + 1e-5) - objective_at(theta - 1e-5)) / 2e-5
        assert abs(D) < 1e-12
        assert abs(slope - (D + alpha * C)) < 1e-9
        assert abs(slope / alpha - expected) < 1e-3


def test_the_zero_is_unstable():
    """D points away from the root on both sides: ascent does not stop there."""
    root = example_root(0.1)
    assert scalar_parts(EXAMPLE, root - 1e-3, 0.1)[0] < 0 < scalar_parts(EXAMPLE, root + 1e-3, 0.1)[0]
    with pytest.raises(ValueError, match="does not change its sign"):
        example_root(0.1, low=0.5, high=1.0)


def value(bandit: ScalarBandit, theta: float) -> float:
    """J of the bandit, written without the code under test."""
    weights = np.exp(theta * bandit.features)
    return float(weights @ bandit.reward / weights.sum())


def test_the_bandits_derivatives():
    """J' and J'' equal differences of J."""
    for bandit in EXAMPLE:
        for theta in (-0.7, 0.0, 1.3):
            slope, curvature = bandit.derivatives(theta)
            up, middle, down = (value(bandit, theta + e) for e in (1e-4, 0, -1e-4))
            assert slope == pytest.approx((up - down) / 2e-4, rel=1e-6, abs=1e-9)
            assert curvature == pytest.approx((up - 2 * middle + down) / 1e-8, rel=1e-4, abs=1e-6)
