"""Evaluation: which streams are drawn, what is adapted with what, and what is counted."""

import json

import msgspec
import numpy as np
import pytest

from edge_fed import dp, evaluation, onboarding
from edge_fed.config import (
    Algorithm,
    EnvironmentConfig,
    Onboarding,
    Overrides,
    PolicyConfig,
    RunConfig,
)
from edge_fed.envs.navigation import NavigationEnvironment
from edge_fed.evaluation import evaluate
from edge_fed.federated.task import initial_params, make_task
from edge_fed.meta.adaptation import adapt_batch
from edge_fed.onboarding import onboard
from edge_fed.params import params_sha256
from edge_fed.returns import episode_return
from edge_fed.rollouts import Sampler
from edge_fed.seeding import Purpose, stream

SEED, GOAL = 11, 7
SMALL = Onboarding(
    goals="6-8",
    m_adapt=(0, 20, 50),
    adapt_episodes=40,
    eval_episodes=64,
    scratch=(20, 60),
    scratch_batch=20,
    careful=False,
)


def navigation(**algorithm):
    """The few-shot task of a held-out goal, and the run's initial parameters."""
    config = RunConfig(algorithm=Algorithm(**algorithm))
    task = make_task(config, GOAL, Overrides())
    return task, initial_params(config, task.policy)


def grid(size=5, **algorithm):
    """A tabular task with a softmax policy, and parameters that are not uniform."""
    config = RunConfig(
        environment=EnvironmentConfig(family="gridworld", horizon=15, args={"size": size}),
        policy=PolicyConfig(name="softmax"),
        algorithm=Algorithm(inner_step_size=2.0, **algorithm),
    )
    task = make_task(config, 0, Overrides())
    return task, np.random.default_rng(0).normal(size=task.policy.dimension)


def sampled(task, params, m, step, purpose=Purpose.EVALUATE):
    """A batch of the task's own stream, drawn without the code under test."""
    rng = stream(SEED, task.agent, 0, step, purpose)
    return Sampler(task.environment, task.policy)(params, [(m, rng)])[0]


def scored(task, params, episodes=64):
    """Mean return and success on the scoring stream."""
    batch = sampled(task, params, episodes, 1)
    return episode_return(batch.rewards).mean(), task.environment.success(batch.states).mean()


def measured(task, params, config=SMALL):
    """Onboarding without progress."""
    return onboard(task, params, SEED, config, lambda done: None)


def chosen(rows, init):
    """The rows of one initialization, by budget."""
    return {row["m_adapt"]: row for row in rows if row["init"] == init}


def test_m_shot_adapts_with_the_first_m_of_one_pool():
    """Each budget takes one step from a prefix of the same pool and is scored on the same stream."""
    task, params = navigation()
    rows = chosen(measured(task, params).rows, "learned")
    pool = sampled(task, params, 50, 0)
    assert list(rows) == [0, 20, 50]
    for m, row in rows.items():
        adapted = adapt_batch(task, params, pool.part(slice(0, m))).params if m else params
        assert (row["return"], row["success"]) == scored(task, adapted)
        assert (row["goal"], row["trajectories"]) == (GOAL, m)


def test_later_inner_steps_draw_fresh_trajectories():
    """With two inner steps the second takes m trajectories at the adapted parameters from its own stream."""
    task, params = navigation(adapt_steps=2)
    result = measured(task, params)
    first = adapt_batch(task, params, sampled(task, params, 50, 0)).params
    second = adapt_batch(task, first, sampled(task, first, 50, 2)).params
    assert np.array_equal(result.params, second)
    rows = chosen(result.rows, "learned")
    assert [row["trajectories"] for row in rows.values()] == [0, 40, 100]
    assert result.adapt_trajectories == 50 + 20 + 50 + 60  # pool, two second steps, scratch


def test_from_scratch_is_policy_gradient_from_an_own_initialization():
    """Steps of 20 trajectories and size 0.2 from an initialization keyed by the run seed and the agent."""
    task, params = navigation()
    rows = measured(task, params).rows
    theta = task.policy.initial(stream(SEED, GOAL, 0, 0, Purpose.INITIAL))
    assert not np.array_equal(theta, params)
    (random,) = chosen(rows, "random").values()
    assert (random["return"], random["success"]) == scored(task, theta)
    assert (random["m_adapt"], random["trajectories"]) == (0, 0)
    for step in range(3):
        batch = sampled(task, theta, 20, step, Purpose.SCRATCH)
        theta = adapt_batch(task, theta, batch, alpha=0.2).params
        if step in (0, 2):
            row = chosen(rows, "scratch")[20 * (step + 1)]
            assert (row["return"], row["success"]) == scored(task, theta)
            assert row["trajectories"] == 20 * (step + 1)


def test_budgets_are_counted_apart():
    """Adaptation, scratch training and scoring add up to what was really sampled; steps are H+1 each."""
    task, params = navigation()
    result = measured(task, params)
    assert result.adapt_trajectories == 50 + 60  # one pool, one scratch run
    assert result.eval_trajectories == 6 * 64
    assert result.env_steps == 21 * (50 + 60 + 6 * 64)
    row = evaluate(task, params, SEED, SMALL)
    assert (row["adapt_trajectories"], row["eval_trajectories"]) == (40, 128)
    assert (row["trajectories"], row["env_steps"]) == (168, 168 * 21)


def test_streams_name_neither_round_nor_method_and_do_not_overlap(monkeypatch):
    """Adaptation, scoring, scratch and initialization have keys of their own, the same for any variant.

    [complaints 35]
    """
    keys = {}
    for variant in ("first_order", "exact"):
        found = []

        def record(*key, found=found):
            found.append(key)
            return stream(*key)

        monkeypatch.setattr(evaluation, "stream", record)
        monkeypatch.setattr(onboarding, "stream", record)
        task, params = navigation(variant=variant)
        measured(task, params)
        evaluate(task, params, SEED, SMALL)
        keys[variant] = found
    assert keys["exact"] == keys["first_order"]
    adapt, score = (SEED, GOAL, 0, 0, Purpose.EVALUATE), (SEED, GOAL, 0, 1, Purpose.EVALUATE)
    scratch = {(SEED, GOAL, 0, step, Purpose.SCRATCH) for step in range(3)}
    assert set(keys["exact"]) == {adapt, score, *scratch, (SEED, GOAL, 0, 0, Purpose.INITIAL)}
    assert keys["exact"].count(adapt) == 2  # one pool for all budgets, one for the evaluation


def test_nothing_that_was_passed_in_changes():
    """Parameters and the training sampler's count are as before, and measuring twice gives the same."""
    task, params = navigation()
    before = params_sha256(params)
    first, again = measured(task, params), measured(task, params)
    assert first.rows == again.rows and np.array_equal(first.params, again.params)
    assert evaluate(task, params, SEED, SMALL) == evaluate(task, params, SEED, SMALL)
    assert params_sha256(params) == before and task.sample.trajectories == 0
    zero_shot = msgspec.structs.replace(SMALL, m_adapt=(0,))
    kept = measured(task, params, zero_shot).params
    assert np.array_equal(kept, params) and not np.shares_memory(kept, params)


def test_the_step_size_is_the_runs_unless_given():
    """`step_size` goes over `inner_step_size`; with 0 every budget scores as zero-shot does."""
    task, params = navigation(inner_step_size=0.7)
    same = measured(task, params, msgspec.structs.replace(SMALL, step_size=0.7))
    assert same.rows == measured(task, params).rows
    still = chosen(measured(task, params, msgspec.structs.replace(SMALL, step_size=0.0)).rows, "learned")
    assert len({row["return"] for row in still.values()}) == 1


def test_sampled_evaluation_reports_before_and_after():
    """On navigation the meta-objective is the scored return after a step from the pool, labelled mc."""
    task, params = navigation()
    row = evaluate(task, params, SEED, SMALL)
    adapted = adapt_batch(task, params, sampled(task, params, 40, 0)).params
    assert (row["kind"], row["m_adapt"], row["agent"]) == ("mc", 40, GOAL)
    assert (row["expected_return"], row["success"]) == scored(task, params)
    assert (row["meta_objective"], row["success_adapted"]) == scored(task, adapted)


def test_tabular_evaluation_is_dynamic_programming():
    """On the grid J and F are those of `dp`, whatever the seed; success is sampled."""
    task, params = grid()
    row = evaluate(task, params, SEED, SMALL)
    model = task.environment.model()
    assert (row["kind"], row["m_adapt"], row["adapt_trajectories"]) == ("dp", None, 0)
    assert row["expected_return"] == dp.expected_return(model, params)
    assert row["meta_objective"] == dp.meta_objective(model, params, 2.0)
    assert row["success"] == scored(task, params)[1]
    other = evaluate(task, params, SEED + 1, SMALL)
    assert other["meta_objective"] == row["meta_objective"]


def test_scores_agree_with_dynamic_programming():
    """The mean score of 20,000 episodes lies within five standard errors of J: no step, no reward is lost."""
    task, params = grid()
    config = msgspec.structs.replace(SMALL, m_adapt=(0,), eval_episodes=20_000, scratch=(), random=False)
    (row,) = measured(task, params, config).rows
    batch = sampled(task, params, 2000, 1)
    error = episode_return(batch.rewards).std() / np.sqrt(20_000)
    assert abs(row["return"] - dp.expected_return(task.environment.model(), params)) < 5 * error


def test_a_grid_too_large_for_dense_arrays_is_sampled():
    """Beyond 1000 states the evaluation falls back to sampling and says so."""
    task, params = grid(size=32)
    assert evaluate(task, params, SEED, SMALL)["kind"] == "mc"


def test_scoring_in_several_batches_equals_scoring_them_by_hand(monkeypatch):
    """Episodes beyond one batch continue the same stream; each counts once."""
    monkeypatch.setattr(evaluation, "SCORE_BATCH", 30)
    task, params = navigation()
    config = msgspec.structs.replace(SMALL, m_adapt=(0,), scratch=(), random=False)
    result = measured(task, params, config)
    rng, sampler = stream(SEED, GOAL, 0, 1, Purpose.EVALUATE), Sampler(task.environment, task.policy)
    returns = [episode_return(sampler(params, [(m, rng)])[0].rewards) for m in (30, 30, 4)]
    assert result.rows[0]["return"] == np.concatenate(returns).mean()
    assert result.eval_trajectories == 64


def test_success_is_null_where_a_family_has_none():
    """An environment whose success is None gives rows with None, not 0."""

    class Unjudged(NavigationEnvironment):
        def success(self, states):
            return None

    task, params = navigation()
    environment = Unjudged(np.array([0.8, 0.0]), 0.2, 0.15, 20, 0.9)
    sample = Sampler(environment, task.policy)
    task = msgspec.structs.replace(task, environment=environment, sample=sample)
    assert {row["success"] for row in measured(task, params).rows} == {None}
    row = evaluate(task, params, SEED, SMALL)
    assert (row["success"], row["success_adapted"]) == (None, None)


def test_progress_counts_pieces_and_may_stop():
    """Progress is called with 0, 1, 2, ...; an exception it raises ends the work."""
    task, params = navigation()
    seen = []
    onboard(task, params, SEED, SMALL, seen.append)
    assert seen == list(range(1 + 6 + 3))  # pool, scores, scratch steps

    def stop(done):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        onboard(task, params, SEED, SMALL, stop)


def test_rows_are_plain_values():
    """Rows survive JSON unchanged: no NumPy scalar hides in them."""
    task, params = navigation()
    rows = [*measured(task, params).rows, evaluate(task, params, SEED, SMALL)]
    assert json.loads(json.dumps(rows)) == rows
    assert {type(value) for row in rows for value in row.values()} <= {int, float, str, type(None)}


@pytest.mark.parametrize("make", [navigation, grid])
def test_a_step_that_leads_far_is_told_and_changes_no_bit(make, monkeypatch):
    """Told once by each measurement, with its own returns; rows, counts and parameters are as without."""
    task, params = make()
    settings = msgspec.structs.replace(task.settings, inner_step_size=1000.0)
    task = msgspec.structs.replace(task, settings=settings)
    said, silent = [], []
    row, found = evaluate(task, params, SEED, SMALL, said.append), measured(task, params)
    onboard(task, params, SEED, SMALL, lambda done: None, said.append)
    assert f"return {row['expected_return']:.3g} before adaptation, {row['meta_objective']:.3g}" in said[0]
    plain = chosen(found.rows, "learned")
    assert f"return {plain[0]['return']:.3g} before adaptation, {plain[50]['return']:.3g}" in said[1]
    assert len(said) == 2 and all("inner step leads far" in text for text in said)
    for module, name in ((evaluation, "sampled_step"), (evaluation, "exact_step")):
        monkeypatch.setattr(module, name, lambda *_: None)
    assert evaluate(task, params, SEED, SMALL, silent.append) == row
    again = onboard(task, params, SEED, SMALL, lambda done: None, silent.append)
    assert again.rows == found.rows and np.array_equal(again.params, found.params)
    assert (again.adapt_trajectories, again.env_steps) == (found.adapt_trajectories, found.env_steps)
    assert silent == []


def test_the_paper_s_first_step_is_not_told():
    """At the initial parameters of few-shot alpha = 1 moves the policy by a few hundredths of a nat."""
    task, params = navigation()
    said = []
    evaluate(task, params, SEED, SMALL, said.append)
    onboard(task, params, SEED, SMALL, lambda done: None, said.append)
    assert said == []


def test_of_several_inner_steps_the_first_one_is_looked_at():
    """The others start elsewhere: what is told of it is the same, however many there are."""
    alone, several = (navigation(adapt_steps=steps)[0] for steps in (1, 3))
    params = navigation()[1]
    benches = [evaluation.Bench(task, SEED, SMALL) for task in (alone, several)]
    for bench in benches:
        bench.adapt(params, bench.pool(params, 20), 20)
    assert benches[0].step == benches[1].step is not None


def test_an_onboarder_s_largest_budget_is_looked_at():
    """In whichever order the budgets stand: its step is the one that is kept."""
    task, params = navigation(inner_step_size=1000.0)
    said = []
    for budgets in ((0, 20, 50), (50, 20, 0), (50,)):
        config = msgspec.structs.replace(SMALL, m_adapt=budgets)
        onboard(task, params, SEED, config, lambda done: None, said.append)
    ascending, descending, alone = said
    assert ascending == descending
    assert ascending.partition("; return")[0] == alone.partition(". The")[0]
