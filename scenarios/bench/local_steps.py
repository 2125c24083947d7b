"""A local step against the tuned NumPy of the limit scripts, in one process, block by block in turn.

The limit scripts stand in a folder outside the project (``--limits DIR``: ``limit_floor.py``,
``limit_tabular.py``); without them the figures are absolute and unpaired.
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from edge_fed.config import Algorithm, EnvironmentConfig, Overrides, PolicyConfig, RunConfig
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.federated.task import initial_params, make_task
from scenarios.bench.measure import Row, Run, in_turn, paired

NAVIGATION = RunConfig()
GRIDWORLD = RunConfig(
    environment=EnvironmentConfig(family="gridworld", horizon=15),
    policy=PolicyConfig(name="softmax"),
    algorithm=Algorithm(inner_step_size=2.0, outer_step_size=0.3),
)
CASES = (
    ("navigation", "first_order", "fo", 1.2),
    ("navigation", "exact", "exact", 1.2),
    ("gridworld", "exact", "exact", 1.5),
    ("gridworld", "first_order", "fo", 1.5),
    ("gridworld", "fedavg_pg", "fedavg", 1.5),
)
"""Family, variant, the limit script's name of the variant, and the ratio asked for."""


def local_steps(limits: Path | None, blocks: int = 15) -> Iterator[Row]:
    """One row per case: CPU microseconds per local step, batches 10/10/10."""
    for family, variant, theirs, goal in CASES:
        config = NAVIGATION if family == "navigation" else GRIDWORLD
        sides = {"product": _product(config, variant)}
        if limits:
            make_limit = _navigation_limit if family == "navigation" else _gridworld_limit
            sides["limit"] = make_limit(limits, theirs)
        got = in_turn(sides, blocks)
        note = "in process, CPU, blocks in turn, against tuned NumPy" if limits else "in process, CPU"
        yield paired(f"local step, {family} {variant}", "us", got["product"], got.get("limit"), goal, note)


def _product(config: RunConfig, variant: str) -> Run:
    algorithm = msgspec.structs.replace(config.algorithm, variant=variant)
    config = msgspec.structs.replace(config, algorithm=algorithm)
    task = make_task(config, 3, Overrides())
    params, state = initial_params(config), initial_state(task)

    def run(steps: int) -> None:
        for round_ in range(max(1, steps // algorithm.local_steps)):
            local_update(task, params, state, 3, round_, lambda _step: None)

    return run


def _navigation_limit(limits: Path, variant: str) -> Run:
    script = _load(limits / "limit_floor.py")
    tuned, params = script.NumpySide(), initial_params(NAVIGATION)
    goal = 0.8 * np.array([np.cos(0.1), np.sin(0.1)])
    sizes = (10, 10, 10)

    def run(steps: int) -> None:
        rng = np.random.default_rng(3)
        for _ in range(max(1, steps // 5)):
            tuned.steps(params, goal, 1.0, 0.2, sizes, variant == "exact", 5, rng)

    return run


def _gridworld_limit(limits: Path, variant: str) -> Run:
    script: Any = _load(limits / "limit_tabular.py")
    task, sizes, start = script.Task(0), (10, 10, 10), np.zeros((25, 4))

    def run(steps: int) -> None:
        rng, theta = np.random.default_rng(3), start
        for step in range(steps):
            draws = script.draws_for(task, rng, sizes, variant)
            theta = (start if step % 5 == 0 else theta) + 0.3 * script.meta(task, theta, 2.0, draws, variant)

    return run


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"no limit script at {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
