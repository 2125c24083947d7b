"""Published statements: each points at something that a study of the paper measures."""

from collections.abc import Iterator

import numpy as np
import pytest

from edge_fed import dp
from edge_fed.config import EnvironmentConfig
from edge_fed.envs import make_family
from scenarios.paper.published import TARGETS, UNIFORM_FLOOR, published_values
from scenarios.paper.targets import Cell, Gap, Number, Order, Spread, Target
from scenarios.study.plan import Study, load_study


def cells_of(target: Target) -> Iterator[Cell]:
    """Where it is measured."""
    match target:
        case Number(cell=cell):
            yield cell
        case Gap(above=above, below=below):
            yield from (above, below)
        case Order(cells=cells) | Spread(cells=cells):
            yield from cells


@pytest.fixture(scope="module")
def studies() -> dict[str, Study]:
    """Those that the statements name."""
    return {name: load_study(name) for name in {target.study for target in TARGETS}}


def test_every_statement_points_at_what_its_study_measures(studies: dict[str, Study]) -> None:
    """Arm, outcome, round and budget: a renamed arm or a dropped budget is noticed here."""
    for target in TARGETS:
        study = studies[target.study]
        for cell in cells_of(target):
            scenario = study.arm(cell.arm).scenario
            assert cell.policy == "run" or not study.outcomes or cell.outcome in study.outcomes
            onboarding = scenario.onboarding
            if cell.policy in ("learned", "scratch", "random"):
                known = {"learned": onboarding.m_adapt, "scratch": onboarding.scratch, "random": (0,)}
                assert onboarding.goals and cell.m in known[cell.policy]
            assert cell.round in (None, 0, scenario.algorithm.rounds)
            if cell.trajectories or (isinstance(target, Order) and target.every_checkpoint):
                assert scenario.federation.evaluate_every == 5


def test_every_statement_can_be_missed() -> None:
    """What is accepted is bounded, is not empty, and holds the published number unless it is exact."""
    for target in TARGETS:
        if isinstance(target, Number):
            low, high = target.bounds
            assert low <= high < low + 1.01
            assert target.published is None or low - 0.004 <= target.published <= high
        assert target.source and target.what


def test_statements_are_told_apart() -> None:
    """No two of a figure have the same words, none stands under a study's name in place of a figure's."""
    names = [(target.figure, target.what) for target in TARGETS]
    assert len(set(names)) == len(names)
    assert {target.figure for target in TARGETS} == {
        "fig1-left", "fig1-right", "fig2-left", "fig2-right", "fig6", "fig7"
    }  # fmt: skip


def test_the_floor_is_that_of_the_uniform_policy() -> None:
    """Dynamic programming over the eight goals, 16 actions; the digits tell it from 15 and 17."""
    family = make_family(EnvironmentConfig(family="gridworld", horizon=15, discount=0.9))
    models = [family.model(goal) for goal in range(family.num_train)]
    floors = [dp.expected_return(model, np.zeros(100)) for model in models if model]
    assert sum(floors) / 8 == pytest.approx(UNIFORM_FLOOR, abs=1e-10)


def test_published_values_are_keyed_by_what_is_drawn() -> None:
    """Figures mark them beside ours; medians and means are not mixed up."""
    assert published_values("fig1-right")[Cell("exact/inner_step_size=3", "meta_objective")] == 0.92
    medians = published_values("fig2-left", "median")
    assert medians[Cell("exact/hessian_batch=1000", "meta_objective")] == 1.51
    assert published_values("fig2-left") == {Cell("fedavg_pg", "meta_objective"): 1.73}
    assert published_values("control") == {}
