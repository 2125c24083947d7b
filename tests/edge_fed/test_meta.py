"""The variants: each direction is the paper's formula, with its own batches."""

import numpy as np
import pytest

from edge_fed.meta import VARIANTS
from edge_fed.meta.base import LocalStep
from edge_fed.meta.baselines import BASELINES, NoBaseline
from edge_fed.seeding import Purpose, streams
from tests.edge_fed import checks


@pytest.mark.parametrize("with_baseline", [False, True])
def test_policy_gradient_is_unbiased(with_baseline):
    """E[g] over all trajectories equals grad J by dynamic programming to 1e-8."""
    checks.check_policy_gradient_mean(with_baseline)


@pytest.mark.parametrize("family", checks.FAMILIES)
@pytest.mark.parametrize("curvature", ["naive", "causal"])
def test_exact_is_equation_7(family, curvature):
    """(I + alpha H_hat) g_out, each batch from its own stream, D_out at the adapted parameters.

    [complaints 33]
    """
    checks.check_composition(family, "exact", curvature=curvature)


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_first_order_is_the_outer_gradient(family):
    """[complaints 33] g_out at the adapted parameters, nothing else."""
    checks.check_composition(family, "first_order")


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_fedavg_pg_averages_all_trajectories_at_theta(family):
    """The same budget as exact, all at theta, averaged over every trajectory."""
    checks.check_fedavg(family)


@pytest.mark.parametrize("baseline", ["none", "loo"])
@pytest.mark.parametrize("family", checks.FAMILIES)
def test_alpha_zero_exact_equals_first_order_to_the_bit(family, baseline):
    """Without an inner step the curvature term vanishes, bit by bit, over rounds of local steps.

    [complaints 34]
    """
    checks.check_alpha_zero(family, baseline=baseline)


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_the_three_batches_share_no_stream(family):
    """[complaints 35] Exact asks for INNER, CURVATURE and OUTER once each; first_order for no CURVATURE."""
    for variant, expected in (
        ("exact", [Purpose.INNER, Purpose.CURVATURE, Purpose.OUTER]),
        ("first_order", [Purpose.INNER, Purpose.OUTER]),
        ("fedavg_pg", [Purpose.INNER, Purpose.CURVATURE, Purpose.OUTER]),
    ):
        task, params = checks.task_and_params(checks.FAMILIES[family])
        asked = []

        def spy(purpose, asked=asked):
            asked.append(purpose)
            return streams(0, 3, 1, 0)(purpose)

        VARIANTS[variant](task, params, LocalStep(spy, BASELINES["none"](task, {})))
        assert asked == expected


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_the_inner_batch_may_serve_for_the_curvature(family):
    """The formula with D_h = D_in, at the trajectories of first_order; no CURVATURE stream is opened."""
    checks.check_composition(family, "exact", curvature="causal", curvature_batch="inner")
    settings = {"variant": "exact", "curvature_batch": "inner", "inner_batch": 4, "outer_batch": 6}
    task, params = checks.task_and_params(checks.FAMILIES[family], **settings)
    asked, seen = [], []

    def spy(purpose):
        asked.append(purpose)
        return streams(0, 3, 1, 0)(purpose)

    class Noting(NoBaseline):
        def advantages(self, batch):
            seen.append(batch.size)
            return super().advantages(batch)

    estimate = VARIANTS["exact"](task, params, LocalStep(spy, Noting(task, {})))
    assert (asked, estimate.trajectories) == ([Purpose.INNER, Purpose.OUTER], 10)
    assert seen == [4, 6]  # once each: a learning baseline counts what it is shown


def test_guarded_exact_is_bounded_by_kappa():
    """With kappa = 0.1 the curvature term moves the direction by at most a tenth of ||g_out||."""
    for guard_setting, within in ((0.1, True), ("off", False)):
        task, params = checks.task_and_params(
            checks.NAVIGATION, variant="exact", guard=guard_setting, **checks.LARGE
        )
        free = checks.task_and_params(checks.NAVIGATION, variant="first_order", **checks.LARGE)[0]
        draw = streams(0, 3, 1, 0)
        v = VARIANTS["first_order"](free, params, LocalStep(draw, BASELINES["none"](free, {}))).direction
        estimate = VARIANTS["exact"](task, params, LocalStep(draw, BASELINES["none"](task, {})))
        moved = np.linalg.norm(estimate.direction - v) / np.linalg.norm(v)
        assert (moved <= 0.1 + 1e-9) == within
        assert estimate.metrics["guard_rate"] == float(within)
        assert estimate.metrics["curvature_ratio"] > 0.1


def test_curvature_changes_the_direction():
    """At alpha > 0 exact is not first_order (second order is not silently dropped)."""
    task, params = checks.task_and_params(checks.GRIDWORLD)
    draw, none = streams(0, 3, 1, 0), BASELINES["none"](task, {})
    first, exact = (
        VARIANTS[name](task, params, LocalStep(draw, none)).direction for name in ("first_order", "exact")
    )
    assert checks.relative(exact, first) > 1e-2
