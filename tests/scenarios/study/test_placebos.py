"""Placebos of the curvature term: as long as it, in another direction, and no run leaks into the next."""

import msgspec
import numpy as np
import pytest

from edge_fed.config import Overrides
from edge_fed.errors import ConfigError, EdgeFedError
from edge_fed.federated.per_fedavg_pg import full_attendance, per_fedavg_pg
from edge_fed.federated.task import initial_params, make_task
from edge_fed.meta import BASELINES, CURVED, VARIANTS
from edge_fed.meta.base import LocalStep
from edge_fed.meta.exact import exact_with
from edge_fed.meta.guard import norm
from edge_fed.seeding import Purpose, streams
from scenarios.study import placebos
from scenarios.study.cell import run_cell
from scenarios.study.placebos import PLACEBOS, register
from scenarios.study.plan import load_study
from scenarios.study.pool import run_study
from tests.edge_fed import checks
from tests.scenarios.study.small import write_study
from tests.scenarios.tiny import tiny


@pytest.fixture(autouse=True)
def _tables():
    """Each test begins without placebos in the tables, and leaves the tables as they were."""
    variants, curved = dict(VARIANTS), set(CURVED)
    for name in PLACEBOS:
        VARIANTS.pop(name, None)
        CURVED.discard(name)
    yield
    VARIANTS.clear()
    VARIANTS.update(variants)
    CURVED.clear()
    CURVED.update(curved)
    placebos._products.forget()


def one_step(name, draw, family="gridworld", **algorithm):
    """The estimate of one local step of agent 3."""
    register()
    task, params = checks.task_and_params(checks.FAMILIES[family], **checks.LARGE, **algorithm)
    return VARIANTS[name](task, params, LocalStep(draw, BASELINES["none"](task, {})))


def run(name, *, agents=(0, 1, 2), rounds=3, seed=0, tasks=None, **algorithm):
    """The parameter hashes of a plain run, and its tasks."""
    config = checks.configured(
        checks.GRIDWORLD, variant=name, local_steps=2, inner_batch=4, outer_batch=4, **algorithm
    )
    config = msgspec.structs.replace(config, seed=seed)
    tasks = tasks or {agent: make_task(config, agent, Overrides()) for agent in agents}
    played = per_fedavg_pg(config, tasks, initial_params(config), full_attendance(tasks, rounds))
    return [outcome.record.params_sha256 for outcome in played], tasks


# --------------------------------------------------------------------------- one local step


@pytest.mark.parametrize("family", checks.FAMILIES)
@pytest.mark.parametrize("name", PLACEBOS)
def test_the_correction_is_as_long_as_the_true_one(name, family):
    """||change(c)|| / ||v|| is that of `exact` to rounding, the direction is another; same trajectories."""
    draw = streams(1, 3, 1, 0)
    true, placebo = one_step("exact", draw, family), one_step(name, draw, family)
    assert placebo.metrics["curvature_ratio"] == pytest.approx(true.metrics["curvature_ratio"], rel=1e-12)
    assert placebo.metrics["curvature_ratio"] > 0.1
    assert placebo.metrics["inner_norm"] == true.metrics["inner_norm"]
    assert placebo.trajectories == true.trajectories == 180
    assert checks.relative(placebo.direction, true.direction) > 1e-2


def test_flipped_is_the_negative():
    """V + c and v - c: their mean is the first-order direction; the cosines are opposite."""
    draw = streams(1, 3, 1, 0)
    true, flipped = one_step("exact", draw), one_step("exact_flipped", draw)
    first_order = one_step("first_order", draw).direction
    assert checks.relative((true.direction + flipped.direction) / 2, first_order) < 1e-12
    assert flipped.metrics["cosine"] == -true.metrics["cosine"] != 0


def test_random_directions_are_uniform_and_keyed():
    """Mean cosine with v over 300 steps is 0 within 4 errors of d = 100; equal keys give equal bits."""
    found = [one_step("exact_random", streams(1, 3, 1, t)).metrics["cosine"] for t in range(300)]
    assert abs(np.mean(found)) < 4 / np.sqrt(100 * 300)
    assert np.std(found) == pytest.approx(1 / np.sqrt(100), rel=0.2)
    first, again = (one_step("exact_random", streams(1, 3, 1, 0)).direction for _ in range(2))
    assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize("name", PLACEBOS)
def test_the_guard_bounds_a_placebo_too(name):
    """Guarded at 0.1 it moves the direction by a tenth of ||v||, as it would the true one."""
    draw = streams(1, 3, 1, 0)
    v = one_step("first_order", draw).direction
    found = one_step(name, draw, guard=0.1)
    assert found.metrics["guard_rate"] == 1.0
    assert norm(found.direction - v) == pytest.approx(0.1 * norm(v))


@pytest.mark.parametrize("name", PLACEBOS)
def test_without_a_product_there_is_no_placebo(name):
    """At alpha = 0 c is 0, and so is what takes its place: the bits are those of first_order."""
    draw = streams(1, 3, 1, 0)
    expected = one_step("first_order", draw, inner_step_size=0.0).direction
    assert one_step(name, draw, inner_step_size=0.0).direction.tobytes() == expected.tobytes()


# ------------------------------------------------------------------------- another agent's


@pytest.fixture
def seen(monkeypatch):
    """(agent, round, step, c, what took its place) of every local step of `exact_other`."""
    found = []

    def spy(task, params, step, change):
        key = step.streams(Purpose.PLACEBO).bit_generator.state["state"]["counter"]

        def changed(c):
            result = change(c)
            found.append((task.agent, int(key[1]), int(key[2]), c, result))
            return result

        return exact_with(task, params, step, changed)

    monkeypatch.setattr(placebos, "exact_with", spy)
    register()
    return found


def test_other_is_the_newest_product_of_another_agent(seen):
    """In the order of the plain loop, across rounds; products of 0 (no reward was met) do not count."""
    run("exact_other")
    assert [row[:3] for row in seen] == [(i, k, t) for k in (1, 2, 3) for i in range(3) for t in range(2)]
    for position, (agent, _, _, c, changed) in enumerate(seen):
        others = [row[3] for row in seen[:position] if row[0] != agent and row[3].any()]
        if others:
            unit = others[-1] / norm(others[-1])
            np.testing.assert_allclose(changed, norm(c) * unit, rtol=1e-12)
    assert sum(abs(row[3] @ row[4]) < 0.9 * norm(row[3]) * norm(row[4]) for row in seen) > 9


def test_before_there_is_another_the_direction_is_random(seen):
    """Both steps of the first agent in round 1, and every step of one that is alone."""
    run("exact_other", agents=(2,), rounds=1)
    for agent, round_, t, c, changed in seen:
        drawn = streams(0, agent, round_, t)(Purpose.PLACEBO).normal(size=c.size)
        np.testing.assert_allclose(changed, norm(c) / norm(drawn) * drawn, rtol=1e-12)
    assert len(seen) == 2


def test_a_product_that_is_no_number_is_nobodys(monkeypatch):
    """An agent that diverges spoils its own step, not that of the next."""
    task, _ = checks.task_and_params(checks.GRIDWORLD)
    kept = placebos._Products()
    products = iter([np.full(3, np.nan), np.zeros(3), np.ones(3), np.full(3, 2.0)])
    taken = []
    for agent in range(4):
        at = msgspec.structs.replace(task, agent=agent)
        step = LocalStep(streams(0, agent, 1, 0), BASELINES["none"](task, {}))
        taken.append(kept.swap(at, step, next(products)))
    assert taken[:3] == [None, None, None]
    assert np.array_equal(taken[3], np.ones(3))


def test_a_sampler_of_each_local_step_is_no_other_run():
    """A bootstrap wraps the agent's sampler anew in each step; environments tell runs apart."""
    task, _ = checks.task_and_params(checks.GRIDWORLD)
    kept = placebos._Products()
    for t in range(2):
        for agent in range(2) if t == 0 else (1,):
            at = msgspec.structs.replace(task, agent=agent, sample=task.sample.fresh())
            step = LocalStep(streams(0, agent, 1, t), BASELINES["none"](task, {}))
            found = kept.swap(at, step, np.full(3, 1.0 + agent))
    assert np.array_equal(found, np.full(3, 1.0))


# ---------------------------------------------------------------------------------- runs


@pytest.mark.parametrize("name", PLACEBOS)
def test_equal_runs_give_equal_bits(name):
    """Twice in one process, with new tasks and with the same ones; and no other variant gives these bits."""
    register()
    first, tasks = run(name)
    assert run(name)[0] == first
    assert run(name, tasks=tasks)[0] == first
    assert len({first[-1], *(run(other)[0][-1] for other in ("exact", "first_order"))}) == 3


@pytest.mark.parametrize(
    "between",
    [
        {"seed": 1},
        {"agents": (4, 5)},
        {"rounds": 1},
        {"agents": (0,), "rounds": 1},
        {"agents": (1, 2), "rounds": 2},
        {"inner_step_size": 0.5},
        {"hessian_batch": 3},
    ],
)
def test_no_run_leaks_into_the_next(between):
    """Whatever ran before in this process, with whichever agents, rounds and settings."""
    register()
    expected, _ = run("exact_other")
    run("exact_other", **between)
    assert run("exact_other")[0] == expected


def halfway():
    """A run that has played one of two rounds."""
    config = checks.configured(
        checks.GRIDWORLD, variant="exact_other", local_steps=2, inner_batch=4, outer_batch=4
    )
    tasks = {agent: make_task(config, agent, Overrides()) for agent in range(3)}
    played = per_fedavg_pg(config, tasks, initial_params(config), full_attendance(tasks, 2))
    next(played)
    return played


def test_a_run_that_was_broken_off_leaks_into_none():
    """Its generator is left in the middle."""
    register()
    expected, _ = run("exact_other")
    halfway()
    assert run("exact_other")[0] == expected


def test_a_run_beside_it_hands_a_run_nothing():
    """Round 2 goes on after round 1 of another run, whose samplers are others: it does not matter which."""
    register()
    found = []
    for between in ({"inner_step_size": 0.5}, {"hessian_batch": 3}):
        played = halfway()
        run("exact_other", rounds=1, **between)
        found.append(next(played).record.params_sha256)
    assert found[0] == found[1]


def test_another_seed_is_another_run():
    """One round with another seed, then agents of higher numbers."""
    register()
    expected, _ = run("exact_other", agents=(4, 5))
    run("exact_other", rounds=1, seed=1)
    assert run("exact_other", agents=(4, 5))[0] == expected


def test_registering_again_forgets():
    """The one case that a run cannot tell by itself: one round, then agents of higher numbers, same seed."""
    register()
    expected, _ = run("exact_other", agents=(4, 5))
    run("exact_other", rounds=1)
    register()
    assert run("exact_other", agents=(4, 5))[0] == expected


def test_interleaved_agents_are_refused():
    """Steps in turns, as in a fleet, would make the result depend on who is faster."""
    register()
    tasks = [checks.task_and_params(checks.GRIDWORLD, goal=goal)[0] for goal in (0, 1)]
    params = np.zeros(100)

    def take(agent, t):
        step = LocalStep(streams(0, agent, 1, t), BASELINES["none"](tasks[agent], {}))
        VARIANTS["exact_other"](tasks[agent], params, step)

    take(0, 0)
    take(1, 0)
    with pytest.raises(EdgeFedError, match=r"local step 1 of agent 0, round 1.*plain loop"):
        take(0, 1)


# --------------------------------------------------------------------------------- the table


def test_exact_is_as_it_was():
    """Neither registering nor running placebos changes a bit of `exact`."""
    exact, before = VARIANTS["exact"], run("exact")[0]
    register()
    register()
    for name in PLACEBOS:
        run(name, rounds=1)
    assert VARIANTS["exact"] is exact and run("exact")[0] == before
    assert set(VARIANTS) >= {"exact", "first_order", *PLACEBOS}


def test_only_registered_placebos_can_be_configured():
    """A fleet does not know them; once registered they are checked as `exact` is."""
    with pytest.raises(ConfigError, match="unknown variant 'exact_random'"):
        tiny("", "algorithm.variant=exact_random")
    register()
    assert tiny("", "algorithm.variant=exact_random").algorithm.variant == "exact_random"
    with pytest.raises(ConfigError, match="variant 'exact_random' estimates its curvature"):
        tiny("", "algorithm.variant=exact_random", "algorithm.hessian_batch=0")
    assert tiny("", "algorithm.variant=first_order", "algorithm.hessian_batch=0")


ARM = """
[[arms]]
name = "other"
set = ["algorithm.variant=exact_other", "algorithm.hessian_batch=3"]
"""


def test_a_study_names_placebos_and_its_processes_know_them(tmp_path):
    """Its cells, run in other processes, are those of this one, whatever ran here before."""
    study = load_study(str(write_study(tmp_path, tail=ARM)))
    study = msgspec.structs.replace(study, arms=(study.arm("other"),))
    results = run_study(study, tmp_path / "results", 1, lambda *_: None)
    assert results.arms == ("other",)
    run("exact_other")
    for seed in study.seeds:
        cell = run_cell(study, study.arm("other"), seed)
        kept = [row for row in results.rows if row.seed == seed and row.policy != "run"]
        assert [row for row in cell.rows if row.policy != "run"] == kept
