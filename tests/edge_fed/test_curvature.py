"""Curvature estimators against full enumeration; the shortcuts that are wrong are shown wrong."""

import numpy as np
import pytest

from edge_fed import dp
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.meta import curvature, importance
from edge_fed.meta.curvature import BIASED, CURVATURES, DELTA
from tests.edge_fed import checks


def test_enumeration_is_complete():
    """The oracle: 216 trajectories, probabilities sum to 1, mean return equals dp."""
    checks.check_enumeration_itself()


@pytest.mark.parametrize("with_baseline", [False, True])
@pytest.mark.parametrize("name", sorted(CURVATURES.keys() - BIASED))
def test_mean_over_all_trajectories_is_the_hessian_product(name, with_baseline):
    """[complaints 33] E[H_hat v] = hess J v to 1e-8, with and without a random baseline b_h(s)."""
    checks.check_curvature_mean(CURVATURES[name], with_baseline)


@pytest.mark.parametrize("with_baseline", [False, True])
def test_lvc_lacks_the_products_across_time(with_baseline):
    """E[lvc] = (H1 + H2) v to 1e-8, more than 1e-3 away from hess J v: it is listed as biased."""
    checks.check_lvc_mean(curvature.lvc, with_baseline)
    assert {"lvc"} == BIASED


@pytest.mark.parametrize("with_baseline", [False, True])
def test_mean_of_finite_difference_is_that_of_the_gradient(with_baseline):
    """E[finite_difference] is the central difference of grad J to 1e-10, also with a large delta."""
    checks.check_finite_difference_mean(with_baseline)


def test_bias_of_finite_difference_falls_with_the_square_of_delta():
    """Against hess J v, at two deltas."""
    checks.check_finite_difference_order()


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_limit_of_finite_difference_is_causal_on_every_trajectory(family):
    """Weights per decision: to 1e-5 pathwise at the delta in use."""
    checks.check_finite_difference_limit(family)


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_finite_difference_does_not_depend_on_the_length_of_v(family):
    """H(c v) = c H(v) to 1e-10, from 1e-6 to 1e6; v = 0 gives 0."""
    checks.check_finite_difference_scale(family)


def test_finite_difference_without_weights_is_hess_nu_only(monkeypatch):
    """The supervised recipe on fixed trajectories loses g z^T: Q Psi v is left (science.md 5, row 9)."""
    monkeypatch.setattr(importance, "weights", lambda _policy, batch, _params: np.ones(batch.rewards.shape))
    e = checks.Enumeration()
    batch, advantages = e.weighted(with_baseline=False)
    tangent = e.policy.tangent(batch.trace, e.v)
    hess_nu = e.policy.second(tangent, 0 * advantages, advantages) / batch.size
    found = curvature.finite_difference(e.policy, batch, advantages, e.v)
    assert abs(found - hess_nu).max() < 1e-7
    assert abs(found - dp.hessian_vector(e.model, e.theta, e.v)).max() > 1e-2


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_finite_difference_with_one_weight_per_trajectory_is_naive(family, monkeypatch):
    """Why the weights are per decision: the weight of the whole trajectory leads to the paper's u v."""
    weights = importance.weights
    monkeypatch.setattr(importance, "weights", lambda *arguments: weights(*arguments)[-1:])
    task, params = checks.task_and_params(checks.FAMILIES[family])
    rng = np.random.default_rng(0)
    (batch,) = task.sample(params, [(1, rng)])
    v, advantages = rng.normal(size=params.size), rng.normal(size=batch.rewards.shape)
    found = curvature.finite_difference(task.policy, batch, advantages, v)
    assert checks.relative(found, curvature.naive(task.policy, batch, advantages, v)) < 1e-5


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_finite_difference_leaves_the_batch_as_it_was(family):
    """Replaying the trajectories at other parameters writes into none of the batch's arrays."""
    task, params = checks.task_and_params(checks.FAMILIES[family])
    (batch,) = task.sample(params, [(6, np.random.default_rng(0))])
    advantages = np.ones(batch.rewards.shape)
    arrays = (batch.states, batch.actions, batch.trace.params, batch.trace.actions, advantages)
    before = [array.copy() for array in arrays]
    score = task.policy.score(batch.trace, advantages)
    curvature.finite_difference(task.policy, batch, advantages, np.ones(params.size))
    assert all((array == copy).all() for array, copy in zip(arrays, before, strict=True))
    assert (task.policy.score(batch.trace, advantages) == score).all()


def trained(config, curvature_name):
    """Parameters after three rounds of one agent, as bytes."""
    task, params = checks.task_and_params(
        config, variant="exact", curvature=curvature_name, baseline="value", guard=0.5, local_steps=3
    )
    state = initial_state(task)
    for round_ in range(1, 4):
        update = local_update(task, params, state, 5, round_, lambda _t: None)
        params, state = params + update.delta, update.state
    assert update.metrics["curvature_ratio"] > 0
    return params.tobytes()


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_exact_trains_with_every_estimator_and_repeats_to_the_bit(family):
    """Two runs of three rounds agree in every bit; no two estimators do."""
    config = checks.FAMILIES[family]
    found = {name: trained(config, name) for name in CURVATURES}
    assert found == {name: trained(config, name) for name in CURVATURES}
    assert len(set(found.values())) == len(CURVATURES)


def shortcuts():
    """(what, w_h as a function of advantages and scores): estimators that miss a piece."""
    return {
        "hess nu only": lambda adv, c: 0 * adv,
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
    """H_hat is one matrix: the product is linear in v, on one batch (differences: to their truncation)."""
    task, params = checks.task_and_params(checks.FAMILIES[family])
    rng = np.random.default_rng(0)
    (batch,) = task.sample(params, [(20, rng)])
    a, b = rng.normal(size=(2, params.size))
    advantages = rng.normal(size=batch.rewards.shape)

    def product(v):
        return CURVATURES[name](task.policy, batch, advantages, v)

    assert checks.relative(product(a + 2 * b), product(a) + 2 * product(b)) < (
        100 * DELTA**2 if name == "finite_difference" else 1e-11
    )


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
