"""One cell of a study."""

import msgspec
import pytest

from edge_fed.config import Agents, Attack, Overrides
from edge_fed.federated.task import make_task
from edge_fed.onboarding import onboard
from scenarios.plain import PlainRun, hashes
from scenarios.study.cell import run_cell
from scenarios.study.plan import load_study
from scenarios.watching import Silent
from tests.scenarios.study.small import write_study

TUNING = '[tuning]\ngoals = "7"\nstep_sizes = [0, 0.5, 2]'


@pytest.fixture
def study(tmp_path):
    """Four arms on a small grid."""
    return load_study(str(write_study(tmp_path)))


def values(cell, policy, outcome):
    """(round, m) -> value."""
    return {
        (row.round, row.m): row.value for row in cell.rows if (row.policy, row.outcome) == (policy, outcome)
    }


def test_a_cell_trains_what_the_plain_loop_trains(study):
    """Its hash is that of the last round; the numbers are those of the run's own evaluation."""
    arm = study.arms[0]
    cell = run_cell(study, arm, 1)
    scenario = msgspec.structs.replace(arm.scenario, seed=1)
    assert cell.params_sha256 == list(hashes(scenario))[-1]
    outcome = PlainRun(scenario, Silent(), None).play()
    found = {
        line["round"]: line["meta_objective"] for line in outcome.evaluations if line["kind"] == "evaluation"
    }
    assert {at: value for (at, _), value in values(cell, "shared", "meta_objective").items()} == found
    assert sorted(found) == [0, 2, 3]


def test_the_honest_agents_are_measured_apart_where_others_attack(study):
    """Policy ``honest``: means over the agents without attack, also if the attack is ``none``."""
    goals = (Agents(goals="0-1"), Agents(goals="2", attack=Attack(kind="none")))
    scenario = msgspec.structs.replace(study.arms[0].scenario, agents=goals)
    cell = run_cell(study, msgspec.structs.replace(study.arms[0], scenario=scenario), 1)
    run = PlainRun(msgspec.structs.replace(scenario, seed=1), Silent(), None)
    rows = [row["meta_objective"] for row in run.play().evaluated["rows"]]
    assert values(cell, "honest", "meta_objective")[3, 0] == sum(rows[:2]) / 2
    assert values(cell, "shared", "meta_objective")[3, 0] == sum(rows) / 3
    assert values(run_cell(study, study.arms[0], 1), "honest", "meta_objective") == {}


def test_what_some_agents_report_is_a_mean_over_those(study):
    """An agent that is incomplete, or bootstraps alone, reports what the others have not."""
    goals = (Agents(goals="0", completeness=0.9), Agents(goals="1-2"))
    scenario = msgspec.structs.replace(study.arms[0].scenario, agents=goals)
    cell = run_cell(study, msgspec.structs.replace(study.arms[0], scenario=scenario), 1)
    assert set(values(cell, "shared", "direction_norm")) == {(2, 0), (3, 0)}


def test_held_out_rows_are_what_an_onboarder_measures(study):
    """Means over the goals, at the parameters after the last round."""
    cell = run_cell(study, study.arms[0], 0)
    scenario = study.arms[0].scenario
    run = PlainRun(scenario, Silent(), None)
    run.play()
    found = onboard(
        make_task(scenario, 8, Overrides()), run.params, 0, scenario.onboarding, lambda _done: None
    )
    expected = {(row["init"], row["m_adapt"]): row["return"] for row in found.rows}
    measured = {
        (row.policy, row.m): row.value
        for row in cell.rows
        if row.outcome == "return" and row.policy in ("learned", "careful", "random", "scratch")
    }
    assert measured == expected


def test_budgets_are_counted(study):
    """Three rounds, four agents, two local steps of 4 + 4 trajectories; vectors of 36 float64 both ways."""
    found = {row.outcome: row.value for row in run_cell(study, study.arms[0], 0).rows if row.policy == "run"}
    assert found["train_trajectories"] == 3 * 4 * 2 * 8
    assert found["train_trajectories_per_agent"] == 3 * 2 * 8
    assert found["parameter_bytes"] == 3 * 4 * 2 * 8 * 36
    sampled = found["train_trajectories"] + found["adapt_trajectories"] + found["eval_trajectories"]
    assert found["env_steps"] == 7 * sampled


def test_updates_are_summed_up_between_measurements(study):
    """The diagnostics of a round's updates stand beside the measurement after it; round 0 has none."""
    cell = run_cell(study, study.arms[1], 0)
    assert sorted(at for at, _ in values(cell, "shared", "curvature_ratio")) == [2, 3]
    assert set(values(cell, "shared", "curvature_ratio").values()) == {0.0}  # alpha = 0


def test_only_wanted_outcomes_are_kept(tmp_path):
    """Beside the counts of the run, which always are."""
    study = load_study(str(write_study(tmp_path, 'outcomes = ["success"]')))
    cell = run_cell(study, study.arms[0], 0)
    assert {row.outcome for row in cell.rows if row.policy != "run"} == {"success"}
    assert {row.outcome for row in cell.rows if row.policy == "run"} >= {"train_trajectories", "wall_s"}


def test_alpha_is_chosen_on_validation_goals_alone(tmp_path):
    """The step size with the best return on goal 7 is used on goal 8, from the pool that `learned` uses."""
    study = load_study(str(write_study(tmp_path, tail=TUNING)))
    arm = study.arms[0]
    cell = run_cell(study, arm, 0)
    run = PlainRun(arm.scenario, Silent(), None)
    run.play()

    def at(goal, alpha, budgets):
        how = msgspec.structs.replace(
            arm.scenario.onboarding,
            step_size=alpha,
            m_adapt=budgets,
            scratch=(),
            random=False,
            careful=False,
        )
        rows = onboard(
            make_task(arm.scenario, goal, Overrides()), run.params, 0, how, lambda _done: None
        ).rows
        return rows[-1]["return"]

    best = max((0.0, 0.5, 2.0), key=lambda alpha: at(7, alpha, (10,)))
    assert values(cell, "tuned", "alpha") == {(3, 10): best}
    assert values(cell, "tuned", "return") == {(3, 10): at(8, best, (0, 10))}


def test_diagnostics_stand_beside_each_measurement(tmp_path):
    """If the study wants them."""
    study = load_study(str(write_study(tmp_path, "diagnose = true")))
    cell = run_cell(study, study.arms[0], 0)
    for outcome in ("gradient_snr", "step_norm", "adaptation_kl"):
        assert sorted(at for at, _ in values(cell, "shared", outcome)) == [0, 2, 3]
