"""A cell of a study trains what a networked run trains."""

import msgspec
import pytest

from scenarios.study.cell import run_cell
from scenarios.study.plan import load_study
from tests.integration.test_equality import networked

SHORT = '\n[[arms]]\nname = "short"\nset = ["algorithm.rounds=3", "agents.0.goals=0-2"]\n'


@pytest.mark.processes
@pytest.mark.parametrize("runtime", ["inproc", "ipc"])
def test_a_cell_of_the_paper_equals_the_networked_run(tmp_path, runtime):
    """The few-shot study, three rounds of three agents: equal parameters to the bit, equal held-out rows."""
    path = tmp_path / "few-shot.toml"
    path.write_text(f'name = "few-shot"\nscenario = "few-shot"\nseeds = "3"\n{SHORT}')
    study = load_study(str(path))
    arm = study.arms[0]
    cell = run_cell(study, arm, 3)
    scenario = msgspec.structs.replace(arm.scenario, seed=3)
    outcome, _ = networked(scenario, runtime, tmp_path / "run")
    assert outcome.params_sha256 == cell.params_sha256
    by_place: dict[tuple[str, int], list[float]] = {}
    for row in outcome.onboarding:
        by_place.setdefault((row["init"], row["m_adapt"]), []).append(row["return"])
    measured = {
        (row.policy, row.m): row.value
        for row in cell.rows
        if row.outcome == "return" and row.policy in ("learned", "careful", "scratch", "random")
    }
    assert {place: sum(values) / len(values) for place, values in by_place.items()} == measured
