"""The rollouts of Figure 8: one unseen goal, before and after one step, and from scratch (the paper's E7).

One seed is trained again for it, which takes seconds; a small table keeps what came out.
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from edge_fed.config import Overrides, overrides_by_goal
from edge_fed.errors import ConfigError, Fault
from edge_fed.evaluation import SCORE_STEP
from edge_fed.federated.per_fedavg_pg import per_fedavg_pg
from edge_fed.federated.task import initial_params, make_task
from edge_fed.onboarding import onboard, trained_from_scratch
from edge_fed.params import F8
from edge_fed.seeding import Purpose, stream
from scenarios.attendance import attendance
from scenarios.study.plan import Arm, load_study
from scenarios.timeline import Scenario

SEED = 0
GOAL = 8  # the held-out goal that is farthest up the arc
BUDGET = 200  # trajectories of the one step, and of training from scratch
EPISODES = 8
POLICIES = ("before", "after", "scratch")
COLUMNS = ("config", "policy", "episode", "step", "x", "y")


class Rollouts(msgspec.Struct, frozen=True):
    """Paths on the goal ``GOAL``.

    Attributes:
        config: Hash of the arm that was trained.
        paths: Policy -> positions ``[EPISODES, H+1, 2]``; episode j of each has the same start and uniforms.
    """

    config: str
    paths: Mapping[str, F8]


def rollout_arm() -> Arm:
    """The arm whose initialization is shown."""
    return load_study("few-shot").arm("first_order")


def make_rollouts(arm: Arm) -> Rollouts:
    """Trains one seed, adapts and samples."""
    scenario = msgspec.structs.replace(arm.scenario, seed=SEED)
    task = make_task(scenario, GOAL, Overrides())
    learned = _trained(scenario)
    once = msgspec.structs.replace(
        scenario.onboarding, m_adapt=(BUDGET,), scratch=(), random=False, careful=False
    )
    params = {
        "before": learned,
        "after": onboard(task, learned, SEED, once, lambda _done: None).params,
        "scratch": trained_from_scratch(task, SEED, scenario.onboarding, BUDGET),
    }
    paths = {}
    for policy, theta in params.items():
        rng = stream(SEED, GOAL, 0, SCORE_STEP, Purpose.EVALUATE)
        states = task.sample.outcomes(theta, EPISODES, rng).states
        paths[policy] = np.array(states.swapaxes(0, 1), dtype=np.float64)
    return Rollouts(arm.config, paths)


def _trained(scenario: Scenario) -> F8:
    tasks = {goal: make_task(scenario, goal, own) for goal, own in overrides_by_goal(scenario).items()}
    params = initial_params(scenario)
    for outcome in per_fedavg_pg(scenario, tasks, params, attendance(scenario)):
        params = outcome.params
    return params


def as_table(rollouts: Rollouts) -> str:
    """One position per line."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for policy, paths in rollouts.paths.items():
        for episode, path in enumerate(paths):
            for step, (x, y) in enumerate(path):
                lines.writerow((rollouts.config, policy, episode, step, f"{x:.4f}", f"{y:.4f}"))
    return text.getvalue()


def read_rollouts(path: Path, arm: Arm) -> Rollouts:
    """Reads what `as_table` wrote.

    Raises:
        ConfigError: The file is missing, is no such table or cut off, or was made with another configuration.
    """
    try:
        with path.open(newline="", encoding="utf8") as file:
            lines = list(csv.DictReader(file))
        found = {
            policy: np.array(
                [[float(line["x"]), float(line["y"])] for line in lines if line["policy"] == policy]
            )
            for policy in POLICIES
        }
        shape = EPISODES, arm.scenario.environment.horizon + 1, 2
        paths = {policy: points.reshape(shape) for policy, points in found.items()}
        if not all(np.isfinite(points).all() for points in paths.values()):
            raise ValueError("a position is not finite")
        configs = {line["config"] for line in lines}
    except OSError as error:
        raise ConfigError([Fault("", f"cannot be read: {error.strerror}")], str(path)) from None
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise ConfigError([Fault("", f"is no table of rollouts: {error}")], str(path)) from None
    if configs != {arm.config}:
        message = f"was made with configuration {', '.join(sorted(configs))}, arm {arm.name} has {arm.config}"
        raise ConfigError([Fault("config", message, f"delete {path}; it is made again")], str(path))
    return Rollouts(arm.config, paths)
