"""The rollouts of Figure 8: made by the plain loop, kept in a table, refused when of something else."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from edge_fed.config import Overrides
from edge_fed.errors import ConfigError
from edge_fed.federated.task import initial_params, make_task
from edge_fed.onboarding import onboard, trained_from_scratch
from scenarios.paper.gathering import ROLLOUTS
from scenarios.paper.rollouts import (
    BUDGET,
    EPISODES,
    GOAL,
    POLICIES,
    as_table,
    make_rollouts,
    read_rollouts,
    rollout_arm,
)
from scenarios.study.plan import Arm
from scenarios.study.tables import committed


def untrained() -> Arm:
    """The arm without a single round: its initialization is the run's initial parameters."""
    arm = rollout_arm()
    algorithm = msgspec.structs.replace(arm.scenario.algorithm, rounds=0)
    return msgspec.structs.replace(arm, scenario=msgspec.structs.replace(arm.scenario, algorithm=algorithm))


def test_rollouts_are_of_the_same_starts_and_read_back(tmp_path: Path) -> None:
    """H+1 positions of each episode in the room; another configuration, or no table, is refused by name."""
    arm = untrained()
    rollouts = make_rollouts(arm)
    assert tuple(rollouts.paths) == POLICIES
    assert all(paths.shape == (EPISODES, 21, 2) for paths in rollouts.paths.values())
    starts = [paths[:, 0] for paths in rollouts.paths.values()]
    assert np.array_equal(starts[0], starts[1]) and np.array_equal(starts[0], starts[2])
    assert not np.array_equal(rollouts.paths["before"], rollouts.paths["after"])
    steps = np.diff(rollouts.paths["after"], axis=1)
    assert np.hypot(*steps.reshape(-1, 2).T).max() == pytest.approx(0.15)

    path = tmp_path / "fig8.csv"
    path.write_text(as_table(rollouts))
    again = read_rollouts(path, arm)
    assert all(np.allclose(again.paths[name], rollouts.paths[name], atol=1e-4) for name in POLICIES)
    other = msgspec.structs.replace(arm, config="f" * 12)
    with pytest.raises(ConfigError, match=rf"{arm.config}.*{other.config}"):
        read_rollouts(path, other)
    lines = path.read_text().splitlines(keepends=True)
    half = [line for line in lines if line.split(",")[3] in {"step", "0", "1", "2"}]  # of each episode
    for broken in (half, [*lines[:-1], f"{arm.config},scratch,7,20,nan,0\n"]):
        path.write_text("".join([lines[0], *broken[1:]]))
        with pytest.raises(ConfigError, match="no table of rollouts"):
            read_rollouts(path, arm)
    path.write_text("policy,x\nbefore,1\n")
    with pytest.raises(ConfigError, match="no table of rollouts"):
        read_rollouts(path, arm)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_rollouts(tmp_path / "none.csv", arm)


def test_from_scratch_is_what_onboarding_scores() -> None:
    """The parameters asked for alone have the return of the scratch row, to the bit."""
    arm = untrained()
    task = make_task(arm.scenario, GOAL, Overrides())
    config = msgspec.structs.replace(arm.scenario.onboarding, m_adapt=(0,), scratch=(BUDGET,), random=False)
    params = trained_from_scratch(task, 0, config, BUDGET)
    rows = onboard(task, params, 0, config, lambda _done: None).rows
    returns = {row["init"]: row["return"] for row in rows}
    assert returns["learned"] == returns["scratch"]
    assert not np.array_equal(params, initial_params(arm.scenario))


def test_the_rollouts_that_come_with_edge_fed_are_of_its_settings() -> None:
    """A change of the experiment is noticed; after one step the goal is reached at least as often."""
    arm = rollout_arm()
    rollouts = read_rollouts(committed() / ROLLOUTS, arm)
    goal = make_task(arm.scenario, GOAL, Overrides()).environment
    reached = {name: int(np.sum(goal.success(p.swapaxes(0, 1)))) for name, p in rollouts.paths.items()}
    assert reached == {"before": 5, "after": 8, "scratch": 1}
