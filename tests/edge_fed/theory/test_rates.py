"""Theorem 1, its corollaries, and the regimes."""

import numpy as np
import pytest

from edge_fed import dp
from edge_fed.theory.bounds import Batches, exact_bounds, first_order_bounds, progress, step_ceiling
from edge_fed.theory.constants import meta_gradient_bound, meta_smoothness, objective_gap, tabular_constants
from edge_fed.theory.rates import (
    Schedule,
    beta_ceilings,
    corollary_1,
    first_order_floor,
    instance,
    required_inner_batch,
    theorem_1,
    theorem_1_sharp,
)
from edge_fed.theory.regimes import crossing, regime
from tests.edge_fed.theory.moments import setting
from tests.edge_fed.theory.test_constants import gridworld

ALPHA, BATCHES = 1e-5, Batches(10, 20, 30)


def ingredients():
    """The gridworld's constants, direction bounds, L_F and Delta at a moderate alpha."""
    c, _ = gridworld()
    return c, exact_bounds(c, ALPHA, BATCHES), meta_smoothness(c, ALPHA), objective_gap(c)


def test_the_terms_by_hand():
    """2 Delta / (beta K tau), (3/2) L_F^2 G_F^2 beta^2 tau^2, (9/2) b^2, L_F beta sigma^2 / n."""
    _, direction, L_F, gap = ingredients()
    beta = step_ceiling(L_F) / 2
    found = theorem_1(direction, L_F, gap, Schedule(beta, local_steps=5, rounds=7, agents=4))
    assert found.optimization == pytest.approx(2 * gap / (beta * 35))
    assert found.drift == pytest.approx(1.5 * L_F**2 * direction.norm**2 * beta**2 * 25)
    assert found.bias == pytest.approx(4.5 * direction.bias**2)
    assert found.noise == pytest.approx(L_F * beta * direction.variance / 4)
    assert found.total == pytest.approx(found.optimization + found.drift + found.bias + found.noise)


def test_the_sharp_form_is_lemma_5_summed():
    """Summing the progress over a round gives the sharp terms; the printed drift is larger."""
    _, direction, L_F, gap = ingredients()
    beta, tau, n, K = step_ceiling(L_F), 6, 4, 3
    run = Schedule(beta, tau, K, n)
    lost = -K * sum(progress(direction, L_F, beta, t, n, squared_norm=0.0) for t in range(tau))
    sharp, printed = (f(direction, L_F, gap, run) for f in (theorem_1_sharp, theorem_1))
    assert sharp.total == pytest.approx((gap + lost) / (beta * K * tau / 2))
    assert sharp.drift < printed.drift
    assert theorem_1_sharp(direction, L_F, gap, Schedule(beta, 1, K, n)).drift == 0


def test_theorem_1_bounds_a_deterministic_ascent():
    """The mean of ||grad F||^2 along exact ascent (no bias, no variance, tau = 1) is below the bound."""
    models = [setting(horizon=1, seed=seed)[0] for seed in range(2)]
    theta, alpha = setting(horizon=1)[1], 0.001
    c = tabular_constants(models)
    L_F, direction = meta_smoothness(c, alpha), exact_bounds(c, alpha, Batches(1, 1, 1))
    run = Schedule(step_ceiling(L_F), local_steps=1, rounds=200, agents=2)
    gap = np.mean([dp.optimal_return(m) - dp.meta_objective(m, theta, alpha) for m in models])
    squares = []
    for _ in range(run.rounds):
        slope = np.mean([dp.meta_gradient(m, theta, alpha) for m in models], axis=0)
        squares.append(slope @ slope)
        theta = theta + run.beta * slope
    bound = theorem_1_sharp(direction, L_F, float(gap), run)
    assert 0 < np.mean(squares) <= bound.optimization <= bound.total


@pytest.mark.parametrize("bias", ["lemma_3", "proposition_1"])
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 7e-5])
@pytest.mark.parametrize("epsilon", [1e-2, 1.0, 1e9])
def test_an_instance_meets_every_condition(bias, alpha, epsilon):
    """Each term is then at most epsilon / 4, from small epsilon to one so large that (i) caps beta."""
    c, _ = gridworld()
    found = instance(c, alpha, epsilon, agents=8, bias=bias)
    checked = corollary_1(c, alpha, found.batches, found.schedule, epsilon, bias)
    assert all(condition.holds for condition in checked), checked
    direction = exact_bounds(c, alpha, found.batches)
    terms = theorem_1(direction, meta_smoothness(c, alpha), objective_gap(c), found.schedule)
    for name in ("optimization", "drift", "noise"):
        assert getattr(terms, name) <= epsilon / 4 * (1 + 1e-9), name
    if bias == "lemma_3":
        assert terms.bias <= epsilon / 4 * (1 + 1e-9)
    assert found.trajectories == found.schedule.rounds * found.schedule.local_steps * (
        found.batches.m_in + found.batches.m_h + found.batches.m_out
    )


def test_the_instance_is_corollary_1s():
    """K = 8 sqrt 6 Delta L_F G_F epsilon^(-3/2) and tau = 4 sigma^2 / (sqrt 6 n G_F sqrt epsilon)."""
    c, _ = gridworld()
    for epsilon in (1e-2, 1e-4):
        found = instance(c, ALPHA, epsilon, agents=8)
        L_F, G_F = meta_smoothness(c, ALPHA), meta_gradient_bound(c, ALPHA)
        rounds = 8 * 6**0.5 * objective_gap(c) * L_F * G_F * epsilon**-1.5
        variance = exact_bounds(c, ALPHA, found.batches).variance
        assert found.schedule.rounds == pytest.approx(rounds, rel=1e-6)
        assert found.schedule.local_steps == pytest.approx(
            4 * variance / (6**0.5 * 8 * G_F * epsilon**0.5), abs=1.01
        )


def test_proposition_1_saves_trajectories_at_small_epsilon():
    """O(epsilon^-5/2) against O(epsilon^-3): a hundredth of epsilon takes 1e5 and 1e6 times as many."""
    c, _ = gridworld()
    growth = {
        bias: instance(c, ALPHA, 1e-14, 8, bias=bias).trajectories
        / instance(c, ALPHA, 1e-12, 8, bias=bias).trajectories
        for bias in ("lemma_3", "proposition_1")
    }
    assert growth["lemma_3"] == pytest.approx(1e6, rel=0.05)
    assert growth["proposition_1"] == pytest.approx(1e5, rel=0.05)


def test_each_condition_can_fail():
    """Beta ten times, K a hundredth, m_in a tenth of the instance: the conditions say which."""
    c, _ = gridworld()
    good = instance(c, ALPHA, 1e-2, agents=8)
    bad = Schedule(10 * good.schedule.beta, good.schedule.local_steps, good.schedule.rounds // 100, 8)
    batches = Batches(good.batches.m_in // 10, 10, 10)
    found = corollary_1(c, ALPHA, batches, bad, 1e-2)
    limits = {condition.name: condition.limit for condition in found}
    L_F, direction = meta_smoothness(c, ALPHA), exact_bounds(c, ALPHA, batches)
    assert limits["i"] == pytest.approx(1 / (6 * L_F))
    assert limits["ii"] == pytest.approx(0.1 / (6**0.5 * L_F * direction.norm * bad.local_steps), abs=0)
    assert limits["iv"] == pytest.approx(8 * 1e-2 / (4 * L_F * direction.variance), abs=0)
    assert limits["rounds"] == pytest.approx(8 * 20 / (bad.beta * bad.local_steps * 1e-2))
    assert {condition.name for condition in found if not condition.holds} == {"ii", "iii", "iv", "rounds"}
    fast = Schedule(2 * step_ceiling(meta_smoothness(c, ALPHA)), 1, 1, 8)
    assert not corollary_1(c, ALPHA, BATCHES, fast, 1e-2)[0].holds


def test_at_one_local_step_nothing_drifts():
    """Condition (ii) is vacuous at tau = 1."""
    _, direction, L_F, _ = ingredients()
    assert set(beta_ceilings(direction, L_F, 1, 8, 1e-2)) == {"i", "iv"}
    assert set(beta_ceilings(direction, L_F, 2, 8, 1e-2)) == {"i", "ii", "iv"}


def test_the_inner_batch():
    """(iii) makes (9/2) b_hat^2 = epsilon / 4, (iii*) the same of b_star."""
    c, _ = gridworld()
    assert required_inner_batch(c, 0.0, 1e-2) == 0
    lift, pull = 1 + ALPHA * c.L_J, ALPHA * c.L_J
    assert required_inner_batch(c, ALPHA, 1e-2) == pytest.approx(18 * (lift * pull * c.G_J) ** 2 / 1e-2)
    assert required_inner_batch(c, ALPHA, 1e-2, "proposition_1") == pytest.approx(
        3 / 2**0.5 * lift * ALPHA**2 * c.rho_J * c.G_J**2 / 0.1
    )


def test_the_floor_of_corollary_2():
    """It lies between 4.5 and 18 times (alpha L_J G_J)^2 and is the bias term of Theorem 1."""
    c, _, L_F, gap = ingredients()
    base = (ALPHA * c.L_J * c.G_J) ** 2
    assert first_order_floor(c, ALPHA, 1) == pytest.approx(18 * base)
    assert first_order_floor(c, ALPHA, 10**12) == pytest.approx(4.5 * base, rel=1e-5)
    run = Schedule(step_ceiling(L_F), 5, 10, 8)
    direction = first_order_bounds(c, ALPHA, BATCHES)
    assert theorem_1(direction, L_F, gap, run).bias == first_order_floor(c, ALPHA, BATCHES.m_in)


def test_the_regimes_of_the_gridworld():
    """science.md 1.4: R2 ends at 7.35e-5, alpha_dagger = 1.39e-4; the experiments are outside."""
    c, _ = gridworld()
    assert regime(c, 2.0).ceiling == pytest.approx(7.35e-5, rel=1e-3)
    assert regime(c, 2.0).alpha_dagger == pytest.approx(1.39e-4, rel=3e-3)
    names = [regime(c, alpha).name for alpha in (0.0, 7.3e-5, 7.4e-5, 0.25)]
    assert names == ["R1", "R2", "outside", "outside"]
    assert regime(c, 0.25).dominant == "second_order"  # (1 + alpha L_J)^2 outgrows alpha rho_J G_J


def test_inside_r2_the_constants_stay_near_those_of_j():
    """G_F <= (3/2) G_J and L_F <= (9/4) L_J + alpha rho_J G_J up to the ceiling, with equality there."""
    c, _ = gridworld()
    ceiling = regime(c, 0.0).ceiling
    assert meta_gradient_bound(c, ceiling) == pytest.approx(1.5 * c.G_J)
    assert meta_smoothness(c, ceiling) == pytest.approx(2.25 * c.L_J + ceiling * c.rho_J * c.G_J)


def test_the_third_order_term_can_dominate():
    """Where the Hessian changes fast against its size (a huge Lambda)."""
    c, _ = gridworld()
    steep = type(c)(**{name: getattr(c, name) for name in c.__struct_fields__} | {"rho_J": 1e9})
    dagger = regime(steep, 0.0).alpha_dagger
    assert regime(steep, 0.5 * dagger).dominant == "second_order"
    assert regime(steep, 2 * dagger).dominant == "third_order"


def test_where_drift_overtakes_noise():
    """R3: at the crossing both terms of Theorem 1 are equal."""
    _, direction, L_F, gap = ingredients()
    beta = crossing(direction, L_F, local_steps=500, agents=8)
    terms = theorem_1(direction, L_F, gap, Schedule(beta, 500, 10, 8))
    assert terms.drift == pytest.approx(terms.noise)


def test_arguments_outside_the_theory():
    """Beta above 1 / (6 L_F), epsilon or agents not positive."""
    c, direction, L_F, gap = ingredients()
    with pytest.raises(ValueError, match="Theorem 1"):
        theorem_1(direction, L_F, gap, Schedule(2 * step_ceiling(L_F), 1, 1, 1))
    with pytest.raises(ValueError, match="epsilon"):
        instance(c, ALPHA, 0.0, agents=8)
