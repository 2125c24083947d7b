"""Relative variance of the curvature estimators on the gridworld, against dynamic programming.

    python -m scenarios.curvature_variance [--params runs/<run>/checkpoints/round-000080.npz]

Per agent, v is the exact outer gradient grad J(theta + alpha grad J(theta)), and H v comes from dp. One
trajectory alone gives H_1 v; the variance of it over ||H v||^2 is the number of trajectories at which the
error of a mean reaches 100 % (science.md 2.7). "+V" subtracts the exact values as a baseline.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import BadZipFile

import msgspec
import numpy as np

from edge_fed import dp
from edge_fed.config import Algorithm, EnvironmentConfig, Overrides, PolicyConfig, RunConfig
from edge_fed.dp.values import chain
from edge_fed.envs.base import TabularModel
from edge_fed.federated.task import Task, make_task
from edge_fed.meta import CURVATURES
from edge_fed.meta.curvature import BIASED
from edge_fed.params import F8
from edge_fed.returns import discounts, reward_to_go
from edge_fed.rollouts import Trajectories
from edge_fed.seeding import Purpose, stream

AGENTS = 8
CONFIG = RunConfig(
    environment=EnvironmentConfig(family="gridworld", horizon=15, discount=0.9),
    policy=PolicyConfig(name="softmax"),
    algorithm=Algorithm(inner_step_size=2.0),
)


class Row(msgspec.Struct, frozen=True):
    """One estimator, mean over the agents.

    Attributes:
        estimator: Its name in `CURVATURES`; with "+V" if the exact values are its baseline.
        variance: E||H_1 v - E H_1 v||^2 / ||H v||^2 of one trajectory.
        error: ||mean - H v|| / ||H v||; of an unbiased one about sqrt(variance / trajectories).
    """

    estimator: str
    variance: float
    error: float


def spread(single: F8, expected: F8) -> tuple[float, float]:
    """Relative variance, and relative error of the mean, of estimates ``[n, d]`` of ``expected`` ``[d]``."""
    mean = single.mean(axis=0)
    square = float(expected @ expected)
    variance = float(((single - mean) ** 2).sum()) / (len(single) - 1) / square
    return variance, float(np.linalg.norm(mean - expected)) / square**0.5


def table(params: F8, trajectories: int, seed: int = 0) -> list[Row]:
    """Every estimator, without and with the exact baseline, from so many trajectories of each agent."""
    found: dict[str, list[tuple[float, float]]] = {}
    for goal in range(AGENTS):
        task = make_task(CONFIG, goal, Overrides())
        for name, result in _agent(task, params, trajectories, seed):
            found.setdefault(name, []).append(result)
    return [Row(name, *np.mean(results, axis=0).tolist()) for name, results in found.items()]


def _agent(task: Task, params: F8, n: int, seed: int) -> Iterator[tuple[str, tuple[float, float]]]:
    model = task.environment.model()
    if model is None:
        raise ValueError("the environment has no model: nothing to compare with")
    v = dp.gradient(model, dp.adapted(model, params, task.settings.inner_step_size))
    expected = dp.hessian_vector(model, params, v)
    (batch,) = task.sample(params, [(n, stream(seed, task.agent, 0, 0, Purpose.CURVATURE))])
    to_go = reward_to_go(batch.rewards)
    for name, estimate in CURVATURES.items():
        for suffix, advantages in (("", to_go), ("+V", to_go - _values(model, params, batch))):
            single = np.array(
                [
                    estimate(task.policy, batch.part(slice(j, j + 1)), advantages[:, j : j + 1], v)
                    for j in range(n)
                ]
            )
            yield name + suffix, spread(single, expected)


def _values(model: TabularModel, params: F8, batch: Trajectories) -> F8:
    """gamma^h V_h(s_h), ``[H+1, m]``."""
    values = chain(model, params).values[:-1] * discounts(model.horizon, model.discount)
    found: F8 = values[np.arange(len(values))[:, None], np.asarray(batch.states)]
    return found


def markdown(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| estimator | relative variance | error of the mean |", "|---|---|---|"]
    for row in rows:
        label = " (biased)" if row.estimator.removesuffix("+V") in BIASED else ""
        lines.append(f"| {row.estimator}{label} | {row.variance:.3g} | {row.error:.2f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None, write: Callable[[str], None] = print) -> int:
    """Prints the table; returns the exit code."""
    p = argparse.ArgumentParser(prog="python -m scenarios.curvature_variance", description=__doc__)
    p.add_argument("--params", type=Path, metavar="FILE.npz", help="a gridworld checkpoint; without: zeros")
    p.add_argument("--trajectories", type=int, default=3000, metavar="N", help="per agent (default 3000)")
    p.add_argument("--seed", type=int, default=0)
    chosen = p.parse_args(arguments)
    if chosen.trajectories < 2:
        p.error(f"--trajectories {chosen.trajectories}: a variance needs 2 or more")
    dimension = make_task(CONFIG, 0, Overrides()).policy.dimension
    params = np.zeros(dimension)
    if chosen.params:
        try:
            params = np.load(chosen.params, allow_pickle=False)["params"]
        except (OSError, EOFError, BadZipFile, ValueError, KeyError, IndexError) as error:
            p.error(f"--params {chosen.params}: not a checkpoint ({error})")
        if params.shape != (dimension,):
            p.error(f"--params {chosen.params}: shape {params.shape}, the gridworld needs ({dimension},)")
    write(markdown(table(params, chosen.trajectories, chosen.seed)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
