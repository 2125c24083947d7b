"""Curvature estimators against full enumeration; the shortcuts that are wrong are shown wrong."""

import numpy as np
import pytest

from edge_fed import dp
from edge_fed.meta.curvature import CURVATURES
from tests.edge_fed import checks


def test_enumeration_is_complete():
    """The oracle: 216 trajectories, probabilities sum to 1, mean return equals dp."""
    checks.check_enumeration_itself()


@pytest.mark.parametrize("with_baseline", [False, True])
@pytest.mark.parametrize("name", CURVATURES)
def test_mean_over_all_trajectories_is_the_hessian_product(name, with_baseline):
    """E[H_hat v] = hess J v to 1e-8, with and without a random baseline b_h(s)."""
    checks.check_curvature_mean(CURVATURES[name], with_baseline)


def shortcuts():
    """(what, w_h as a function of advantages and scores): estimators that miss a piece."""
    return {
        "hess nu only": lambda adv, c: 0 * adv,
        "LVC": lambda adv, c: adv * c,
        "causal without the later products": lambda adv, c: adv * np.cumsum(c, axis=0),
    }


@pytest.mark.parametrize("what", shortcuts())
def test_shortcuts_are_not_the_hessian(what):
    """Estimators that drop a piece of the Hessian miss it by far more than the tolerance."""
    e = checks.Enumeration()
    batch, advantages = e.weighted(with_baseline=False)
    tangent = e.policy.tangent(batch.trace, e.v)
    w = shortcuts()[what](advantages, tangent.scores)
    found = e.policy.second(tangent, w, advantages) / batch.size
    assert abs(found - dp.hessian_vector(e.model, e.theta, e.v)).max() > 1e-2


@pytest.mark.parametrize("family", checks.FAMILIES)
@pytest.mark.parametrize("name", CURVATURES)
def test_product_is_linear_in_v(name, family):
    """H_hat is one matrix: the product is linear in v, on one batch."""
    task, params = checks.task_and_params(checks.FAMILIES[family])
    rng = np.random.default_rng(0)
    (batch,) = task.sample(params, [(20, rng)])
    a, b = rng.normal(size=(2, params.size))
    advantages = rng.normal(size=batch.rewards.shape)

    def product(v):
        return CURVATURES[name](task.policy, batch, advantages, v)

    assert checks.relative(product(a + 2 * b), product(a) + 2 * product(b)) < 1e-11


def test_causal_is_symmetric_and_naive_is_not():
    """Per batch the causal matrix is symmetric (it is a Hessian of DiCE); u = g z^T + ... is not."""
    task, params = checks.task_and_params(checks.GRIDWORLD)
    rng = np.random.default_rng(0)
    (batch,) = task.sample(params, [(20, rng)])
    a, b = rng.normal(size=(2, params.size))
    advantages = rng.normal(size=batch.rewards.shape)
    skew = {
        name: a @ product(task.policy, batch, advantages, b) - b @ product(task.policy, batch, advantages, a)
        for name, product in CURVATURES.items()
    }
    assert abs(skew["causal"]) < 1e-9
    assert abs(skew["naive"]) > 1e-3
