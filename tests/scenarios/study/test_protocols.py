"""A cell of a supervised study: the three protocols side by side, after the last round."""

import msgspec
import pytest

from scenarios.plain import PlainRun
from scenarios.study.cell import run_cell
from scenarios.study.outcomes import PROTOCOLS
from scenarios.study.plan import load_study
from scenarios.watching import Silent
from tests.edge_fed.supervised.cases import TEXT

STUDY = """
scenario = "small.toml"
seeds = "0-1"
outcomes = ["success_adapted", "meta_objective"]
[[arms]]
name = "hf"
[[arms]]
name = "fedavg"
set = ["algorithm.variant=fedavg"]
"""


@pytest.fixture
def study(tmp_path):
    """Two methods on blobs."""
    (tmp_path / "small.toml").write_text(TEXT)
    (tmp_path / "study.toml").write_text(STUDY + "\n")
    return load_study(str(tmp_path / "study.toml"))


def test_every_protocol_is_measured_at_the_last_parameters(study):
    """As the run itself would have evaluated with that ``adapt_from``; the one that leaks says so."""
    arm = study.arms[0]
    onboarding = msgspec.structs.replace(arm.scenario.onboarding, adapt_episodes=8)
    arm = msgspec.structs.replace(arm, scenario=msgspec.structs.replace(arm.scenario, onboarding=onboarding))
    cell = run_cell(study, arm, 1)
    found = {row.policy: row.value for row in cell.rows if (row.outcome, row.round) == ("meta_objective", 6)}
    for policy, adapt_from in PROTOCOLS.items():
        how = msgspec.structs.replace(onboarding, adapt_from=adapt_from)
        scenario = msgspec.structs.replace(arm.scenario, seed=1, onboarding=how)
        assert found[policy] == PlainRun(scenario, Silent(), None).play().evaluated["meta_objective"], policy
    assert found["shared"] == found["adapt-train"]
    assert [policy for policy, adapt_from in PROTOCOLS.items() if "LEAKS" in policy] == ["adapt-test-LEAKS"]
    assert PROTOCOLS["adapt-test-LEAKS"] == "test"
    assert len({found[policy] for policy in PROTOCOLS}) == 3
