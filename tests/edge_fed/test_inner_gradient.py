"""The recursive inner gradient: its mean and variance by enumeration, and where in a round it counts."""

import numpy as np
import pytest

from edge_fed.federated.local_update import local_update
from edge_fed.meta import BASELINES, VARIANTS
from edge_fed.meta.adaptation import adapt, adapt_batch
from edge_fed.meta.base import LocalStep
from edge_fed.seeding import Purpose, stream, streams
from tests.edge_fed import batch_checks, checks
from tests.edge_fed.tiny_batches import Tiny


def test_mean_along_fixed_parameters_is_the_gradient():
    """E[d_1] and E[d_2] over every choice of trajectories equal grad J by dp to 1e-10."""
    batch_checks.check_recursive_mean()


@pytest.mark.parametrize(
    ("baseline", "m"), [("none", 1), ("none", 3), ("value", 1), ("value", 2), ("loo", 2)]
)
def test_a_step_keeps_one_minus_eta_of_the_error_before(baseline, m):
    """With every baseline; hence biased given theta_t, by what d_{t-1} was wrong."""
    batch_checks.check_recursive_step(baseline, m)


def test_variance_near_the_step_before_is_below_the_plain_one():
    """By enumeration: half at no distance, and less than 0.7 at distance 0.3."""
    batch_checks.check_recursive_variance()


def test_a_half_is_the_least_variance_at_no_distance_and_weights_ruin_it_far_away():
    """(1 - eta)^2 + eta^2 of the plain variance at theta_1 = theta_0; more than plain at distance 5."""
    tiny = Tiny(2, 2, 1)
    _, plain = batch_checks.moments(tiny, [tiny.theta])
    for momentum in (0.3, 0.5, 0.7, 1.0):
        _, found = batch_checks.moments(tiny, [tiny.theta] * 2, momentum)
        assert found / plain == pytest.approx(momentum**2 + (1 - momentum) ** 2, abs=1e-12)
    far = batch_checks.beside(tiny, 5.0)
    assert batch_checks.moments(tiny, [tiny.theta, far])[1] > 2 * batch_checks.moments(tiny, [far])[1]


@pytest.mark.parametrize("family", checks.FAMILIES)
@pytest.mark.parametrize("variant", ["exact", "first_order"])
def test_the_second_local_step_adapts_with_the_formula_written_out(family, variant):
    """d_1 with weights per decision, on the sampler's own batches."""
    batch_checks.check_recursive_composition(family, variant)


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_each_round_starts_plain(family):
    """Nothing is kept from round to round."""
    batch_checks.check_recursive_rounds(family)


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_momentum_zero_is_plain_to_the_bit(family):
    """With eta = 1 the past is forgotten."""
    deltas = set()
    for settings in ({"inner_gradient": "plain"}, {"inner_gradient": "recursive", "inner_momentum": 0.0}):
        task, params = checks.task_and_params(checks.FAMILIES[family], **checks.LARGE, **settings)
        update = local_update(task, params, {}, 0, 1, lambda _t: None)
        deltas.add(update.delta.tobytes())
    assert len(deltas) == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_plain_remembers_nothing(variant):
    """The round's memory stays empty."""
    task, params = checks.task_and_params(checks.GRIDWORLD, variant=variant)
    step = LocalStep(streams(0, 3, 1, 0), BASELINES["none"](task, {}))
    VARIANTS[variant](task, params, step)
    assert step.memory == {}


def test_adaptation_outside_training_is_plain():
    """Evaluation and onboarding take single steps: inner_gradient changes no bit of them."""
    found = []
    for kind in ("plain", "recursive"):
        task, params = checks.task_and_params(checks.GRIDWORLD, inner_gradient=kind, adapt_steps=2)
        found.append(adapt(task, params, 30, stream(0, 3, 0, 0, Purpose.ADAPT)).tobytes())
    assert found[0] == found[1]


def test_the_step_before_is_kept_as_it_was():
    """Neither the batch nor the gradient that the memory held is written to."""
    task, params = checks.task_and_params(checks.GRIDWORLD, inner_gradient="recursive")
    memory = {"inner_gradient": np.ones(params.size), "inner_params": params + 0.1}
    kept = {name: (array, array.copy()) for name, array in memory.items()}
    (batch,) = task.sample(params, [(30, stream(0, 3, 0, 0, Purpose.INNER))])
    adapt_batch(task, params, batch, baseline=BASELINES["none"](task, {}), memory=memory)
    assert all((array == copy).all() for array, copy in kept.values())
    assert memory["inner_params"].tobytes() == params.tobytes()
