"""The one inner step of training, evaluation and onboarding."""

import msgspec
import numpy as np
import pytest

from edge_fed.meta.adaptation import adapt, adapt_batch
from edge_fed.seeding import Purpose, stream
from tests.edge_fed import checks


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_adaptation_is_one_step_of_ascent(family):
    """Theta + alpha g on the batch of its stream."""
    checks.check_adaptation(family)


def test_parameters_passed_in_stay_as_they_are():
    """Adaptation changes no input, also with nothing to adapt from."""
    task, params = checks.task_and_params(checks.GRIDWORLD)
    before = params.tobytes()
    adapt(task, params, 8, stream(0, 3, 0, 0, Purpose.ADAPT))
    none = adapt(task, params, 0, stream(0, 3, 0, 0, Purpose.ADAPT))
    none += 1
    assert params.tobytes() == before


def test_alpha_argument_replaces_the_runs_step_size():
    """Onboarding may use another step size; 0 changes nothing."""
    task, params = checks.task_and_params(checks.GRIDWORLD)
    rng = [stream(0, 3, 0, 0, Purpose.ADAPT) for _ in range(3)]
    assert adapt(task, params, 50, rng[0], alpha=0.0).tobytes() == params.tobytes()
    small, large = adapt(task, params, 50, rng[1], alpha=0.5), adapt(task, params, 50, rng[2], alpha=2.0)
    np.testing.assert_allclose(large - params, 4 * (small - params), atol=1e-12)


def test_adapt_baseline_applies_outside_training():
    """adapt_baseline = loo centres the returns: m / (m - 1) (R - mean R)."""
    task, params = checks.task_and_params(checks.GRIDWORLD, adapt_baseline="loo", baseline="value")
    (batch,) = task.sample(params, [(6, stream(0, 3, 0, 0, Purpose.ADAPT))])
    to_go = np.cumsum(batch.rewards[::-1], axis=0)[::-1]
    centred = (to_go - to_go.mean(axis=1, keepdims=True)) * 6 / 5
    expected = params + 2.0 * task.policy.score(batch.trace, centred) / 6
    found = adapt_batch(task, params, batch)
    np.testing.assert_allclose(found.params, expected, atol=1e-13)
    np.testing.assert_allclose(params + 2.0 * found.gradient, found.params, atol=1e-15)


def test_several_steps_each_sample_at_the_parameters_reached():
    """adapt_steps = 2 is two steps in sequence from one stream."""
    task, params = checks.task_and_params(checks.GRIDWORLD)
    twice = msgspec.structs.replace(task, settings=msgspec.structs.replace(task.settings, adapt_steps=2))
    rng = stream(0, 3, 0, 0, Purpose.ADAPT)
    expected = adapt(task, adapt(task, params, 30, rng), 30, rng)
    assert adapt(twice, params, 30, stream(0, 3, 0, 0, Purpose.ADAPT)).tobytes() == expected.tobytes()
