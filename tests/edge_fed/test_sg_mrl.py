"""SG-MRL against its own objective V, enumerated over every batch; what it samples, bounds and reports."""

import importlib

import numpy as np
import pytest

from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.meta import BASELINES, CURVATURES, VARIANTS
from edge_fed.meta.base import LocalStep
from edge_fed.seeding import Purpose, streams
from tests.edge_fed import batch_checks, checks
from tests.edge_fed.tiny_batches import BANDIT, Tiny

module = importlib.import_module("edge_fed.meta.sg_mrl")
TWO_STEPS = Tiny(2, 2, 1)


@pytest.mark.parametrize("m_in", [1, 2, 3, 4])
def test_mean_on_a_bandit_is_the_gradient_of_the_debiased_objective(m_in):
    """Three arms, every D_in and D_out: E[direction] = grad V to 1e-10."""
    batch_checks.check_sg_mrl_mean(BANDIT, m_in)


@pytest.mark.parametrize("m_in", [1, 2])
def test_mean_on_two_steps_is_the_gradient_of_the_debiased_objective(m_in):
    """Two states, two actions, two steps, every D_in and D_out."""
    batch_checks.check_sg_mrl_mean(TWO_STEPS, m_in)


@pytest.mark.parametrize(
    ("tiny", "m_in", "baseline"),
    [
        (BANDIT, 2, "loo"),
        (BANDIT, 3, "loo"),
        (TWO_STEPS, 1, "value"),
        (Tiny(2, 2, 0, seed=2), 3, "value"),
    ],
)
def test_mean_with_a_baseline_is_that_of_the_agent_that_adapts_with_it(tiny, m_in, baseline):
    """The baseline moves V through g_in, and biases neither gradient nor score term."""
    batch_checks.check_sg_mrl_mean(tiny, m_in, baseline)


@pytest.mark.parametrize(("tiny", "m_in"), [(BANDIT, 3), (TWO_STEPS, 1)])
def test_without_an_inner_step_the_score_term_has_mean_zero(tiny, m_in):
    """At alpha = 0 E[direction] = grad J by dynamic programming, V being J."""
    batch_checks.check_sg_mrl_without_step(tiny, m_in)


def without_scores(_policy, _d_in, advantages, _d_out):
    """MAML's direction: as if the batch did not depend on theta."""
    return np.zeros(3)


def mean_of_scores(policy, d_in, advantages, d_out):
    """The score term averaged over the batch."""
    return through_batch(policy, d_in, advantages, d_out) / d_in.size


through_batch = module.through_batch
WRONG = {
    "without the score term": ("through_batch", without_scores),
    "mean in place of the sum of scores": ("through_batch", mean_of_scores),
    "u in place of hess nu": ("through_step", CURVATURES["naive"]),
}


@pytest.mark.parametrize("m_in", [2, 3, 4])
@pytest.mark.parametrize("what", WRONG)
def test_wrong_forms_miss_by_a_wide_margin(what, m_in, monkeypatch):
    """Errors above 5e-2 where the right form is below 1e-10."""
    monkeypatch.setattr(module, *WRONG[what])
    assert batch_checks.sg_mrl_error(BANDIT, m_in) > 5e-2


def local_step(family, baseline="none", **algorithm):
    """One step of the real sampler: task, its estimate, the streams asked for."""
    task, params = checks.task_and_params(
        checks.FAMILIES[family], variant="sg_mrl", baseline=baseline, **checks.LARGE, **algorithm
    )
    asked = []

    def spy(purpose):
        asked.append(purpose)
        return streams(1, 3, 1, 0)(purpose)

    step = LocalStep(spy, BASELINES[baseline](task, initial_state(task)))
    return task, params, VARIANTS["sg_mrl"](task, params, step), asked


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_it_samples_two_batches_from_their_own_streams(family):
    """D_in and D_out, counted; no curvature batch."""
    task, _, estimate, asked = local_step(family)
    assert asked == [Purpose.INNER, Purpose.OUTER]
    assert estimate.trajectories == task.sample.trajectories == 60 + 60


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_direction_is_the_formula_written_out(family):
    """Both policies, one trajectory at a time: hess nu v = u v - g (z . v), and the sum of scores."""
    task, params, estimate, _ = local_step(family)
    policy, alpha, draw = task.policy, task.settings.inner_step_size, streams(1, 3, 1, 0)

    def sampled(theta, purpose):
        (batch,) = task.sample(theta, [(60, draw(purpose))])
        return batch, np.cumsum(batch.rewards[::-1], axis=0)[::-1]

    d_in, r_in = sampled(params, Purpose.INNER)
    d_out, r_out = sampled(params + alpha * policy.score(d_in.trace, r_in) / 60, Purpose.OUTER)
    g_out = policy.score(d_out.trace, r_out) / 60

    expected = g_out + alpha * CURVATURES["naive"](policy, d_in, r_in, g_out)
    for j in range(60):
        one, to_go = d_in.part(slice(j, j + 1)), r_in[:, j : j + 1]
        g, z = policy.score(one.trace, to_go), policy.score(one.trace, np.ones_like(to_go))
        expected += r_out[0].mean() * z - alpha / 60 * g * (z @ g_out)
    assert checks.relative(estimate.direction, expected) < 1e-10


@pytest.mark.parametrize("baseline", ["none", "loo", "value"])
def test_guard_bounds_everything_that_is_added_to_the_outer_gradient(baseline):
    """With kappa = 0.1 curvature and score term together move the direction by a tenth of ||g_out||."""
    batch_checks.check_sg_mrl_guard(baseline)


def test_metrics_are_those_of_exact():
    """Norm of g_in, and size, guard rate and cosine of the correction."""
    found = [
        local_update(task, params, {}, 0, 1, lambda _t: None).metrics
        for task, params in (
            checks.task_and_params(checks.GRIDWORLD, variant=variant, guard=0.5)
            for variant in ("sg_mrl", "exact")
        )
    ]
    assert found[0].keys() == found[1].keys()
    assert found[0]["guard_rate"] == 1.0
    assert found[0]["curvature_ratio"] > 0.5
