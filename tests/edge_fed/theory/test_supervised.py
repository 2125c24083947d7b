"""The supervised bounds against a loss whose every moment is enumerated: f(w; z) = log cosh(w - z)."""

import itertools

import numpy as np
import pytest

from edge_fed.errors import ShapeError
from edge_fed.theory.supervised import (
    Diversity,
    Loss,
    Samples,
    diversity_by_total_variation,
    diversity_by_wasserstein,
    supervised_bias,
    supervised_diversity,
    supervised_smoothness,
    supervised_terms,
    supervised_variance,
    total_variation,
    wasserstein,
)

POINTS = np.array([-1.5, 0.2, 2.0])
USERS = [np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.2, 0.6]), np.array([1.0, 0.0, 0.0])]
ALPHAS = (0.0, 0.3, 1.0)
GRID = np.linspace(-2, 2, 9)


def slope(w, z):
    """The derivative of f."""
    return np.tanh(w - z)


def bend(w, z):
    """The second derivative of f."""
    return 1 / np.cosh(w - z) ** 2


def loss(p):
    """L = B = 1 by |tanh|, |sech^2| <= 1; sech^2 is 4 / (3 sqrt 3)-Lipschitz; the largest deviations."""

    def deviation(function):
        values = function(np.linspace(-8, 8, 801)[:, None], POINTS)
        return np.sqrt((p * (values - (values @ p)[:, None]) ** 2).sum(axis=1).max())

    return Loss(L=1, B=1, rho=4 / (3 * 3**0.5), sigma_G=deviation(slope), sigma_H=deviation(bend))


def meta_slope(p, w, alpha):
    """F'(w) = (1 - alpha f''(w)) f'(w - alpha f'(w))."""
    inner = p @ slope(w, POINTS)
    return (1 - alpha * (p @ bend(w, POINTS))) * (p @ slope(w - alpha * inner, POINTS))


def batches(p, size):
    """All batches with their probabilities."""
    for batch in itertools.product(range(POINTS.size), repeat=size):
        yield float(np.prod(p[list(batch)])), POINTS[list(batch)]


def moments(p, w, alpha, samples):
    """Bias and second moment about F' of the stochastic direction, enumerated."""
    goal, mean, square = meta_slope(p, w, alpha), 0.0, 0.0
    for (q, D), (r, outer), (s, hessian) in itertools.product(
        list(batches(p, samples.inner)), list(batches(p, samples.outer)), list(batches(p, samples.hessian))
    ):
        adapted = w - alpha * slope(w, D).mean()
        found = (1 - alpha * bend(w, hessian).mean()) * slope(adapted, outer).mean()
        mean += q * r * s * found
        square += q * r * s * (found - goal) ** 2
    return abs(mean - goal), square


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("samples", [Samples(1, 1, 1), Samples(2, 1, 2), Samples(1, 3, 1)])
def test_bias_and_variance(alpha, samples):
    """Both enumerated moments are below their bounds at every w of a grid."""
    p = USERS[0]
    found = [moments(p, w, alpha, samples) for w in GRID]
    assert max(bias for bias, _ in found) <= supervised_bias(loss(p), alpha, samples.inner) + 1e-13
    assert 0 < max(square for _, square in found) <= supervised_variance(loss(p), alpha, samples)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_smoothness(alpha):
    """F' is L_F-Lipschitz."""
    grid = np.linspace(-4, 4, 400)
    slopes = np.array([meta_slope(USERS[1], w, alpha) for w in grid])
    steepest = abs(np.diff(slopes) / np.diff(grid)).max()
    assert 0 < steepest <= supervised_smoothness(loss(USERS[1]), alpha)


def spread(function):
    """Largest over w of (1/n) sum of the squared distances to the mean."""
    values = np.array([[function(p, w) for w in GRID] for p in USERS])
    return ((values - values.mean(axis=0)) ** 2).mean(axis=0).max()


def test_both_diversities_bound_gradients_and_hessians():
    """TV with B = L = 1; W1 with |d tanh / dz| <= 1 and |d sech^2 / dz| <= 4 / (3 sqrt 3)."""
    of_gradients = spread(lambda p, w: p @ slope(w, POINTS))
    of_hessians = spread(lambda p, w: p @ bend(w, POINTS))
    by_tv = diversity_by_total_variation(loss(USERS[0]), USERS)
    by_w1 = diversity_by_wasserstein(1.0, 4 / (3 * 3**0.5), POINTS, USERS)
    for found in (by_tv, by_w1):
        assert 0.05 < of_gradients <= found.gradient
        assert 0.05 < of_hessians <= found.hessian


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_diversity_of_f(alpha):
    """gamma_F^2 bounds the spread of the meta-gradients."""
    users = diversity_by_total_variation(loss(USERS[0]), USERS)
    found = spread(lambda p, w: meta_slope(p, w, alpha))
    assert 0 < found <= supervised_diversity(loss(USERS[0]), alpha, users)


def test_distances_by_hand():
    """Half the L1 distance; mass times the way it travels, whatever the order of the points."""
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.5, 0.5])
    assert total_variation(p, q) == 0.5
    assert wasserstein(np.array([0.0, 1.0, 3.0]), p, q) == pytest.approx(1.5)
    assert wasserstein(np.array([3.0, 1.0, 0.0]), p, q) == pytest.approx(1.5)
    assert wasserstein(np.array([0.0, 3.0, 1.0]), p, q) == pytest.approx(0.5)
    assert total_variation(p, p) == wasserstein(POINTS, p, p) == 0


def test_equal_users_are_not_diverse():
    """All diversities vanish."""
    users = diversity_by_total_variation(loss(USERS[0]), [USERS[1]] * 2)
    assert users == Diversity(0, 0)
    assert diversity_by_wasserstein(1, 1, POINTS, [USERS[1]] * 2) == Diversity(0, 0)
    assert supervised_diversity(loss(USERS[0]), 0.5, users) == 0


def test_large_batches_leave_no_variance():
    """science.md A9: sigma_F^2 tends to 0, never below."""
    found = supervised_variance(loss(USERS[0]), 0.5, Samples(10**9, 10**9, 10**9))
    assert 0 <= found < 1e-6
    assert supervised_bias(loss(USERS[0]), 0.5, 10**12) < 1e-5


def terms(**changed):
    """The theorem's terms of a small setting."""
    plain = {
        "loss": Loss(L=1, B=2, rho=3, sigma_G=4, sigma_H=5), "alpha": 0.5, "samples": Samples(4, 5, 6),
        "users": Diversity(7, 8), "gap": 9, "beta": 1e-3, "local_steps": 2, "rounds": 10, "agents": 11,
        "participation": 0.5,
    }  # fmt: skip
    return supervised_terms(**{**plain, **changed})


def test_the_terms_by_hand():
    """L_F = 4 + 0.5 * 3 * 2 = 7; each term as printed."""
    found, L_F = terms(), 7.0
    sigma = 12 * (4 + 16 * (1 / 5 + 0.25 / 4)) * (1 + 25 * 0.25 / 24) - 48
    gamma = 3 * 4 * 0.25 * 8 + 192 * 7
    local = 1e-3 * L_F * 2
    assert found.optimization == pytest.approx(4 * 9 / (1e-3 * 20))
    assert found.noise == pytest.approx(1e-3 * L_F * (1 + local) * sigma)
    assert found.diversity == pytest.approx(1e-3 * L_F * gamma * (0.5 / (0.5 * 10) + local))
    assert found.bias == pytest.approx(0.25 * 16 / 4)
    assert supervised_bias(Loss(L=1, B=2, rho=3, sigma_G=4, sigma_H=5), 0.5, 4) == pytest.approx(2)
    assert terms(participation=1.0, local_steps=1).diversity == 0
    assert terms(agents=1, local_steps=1).diversity == 0


def test_arguments_outside_the_theory():
    """Alpha above 1/L, beta above 1/(10 tau L_F), distributions over different samples."""
    with pytest.raises(ValueError, match="alpha"):
        terms(alpha=1.5)
    with pytest.raises(ValueError, match="beta"):
        terms(beta=0.1)
    with pytest.raises(ShapeError, match="same samples"):
        diversity_by_total_variation(loss(USERS[0]), [USERS[0], np.array([0.5, 0.5])])
