"""An agent that never trained: what the shared initialization is worth to it (methods.md 4).

Rows are of the shared initialization adapted with each budget (``learned``), of the same where no step is
taken that was not tried (``careful``), of the untrained policy (``random``), and of one trained from scratch.
Streams and counters are those of `edge_fed.evaluation`.
"""

import math
from collections.abc import Iterator

import msgspec

from edge_fed.config import Onboarding
from edge_fed.evaluation import Bench
from edge_fed.learner import Onboarded, Progress, Row, Warn
from edge_fed.meta.adaptation import adapt_batch
from edge_fed.meta.base import Task
from edge_fed.meta.careful import LEAST
from edge_fed.meta.step_length import Step, warning
from edge_fed.params import F8
from edge_fed.seeding import Purpose, stream


def onboard(
    task: Task,
    params: F8,
    seed: int,
    config: Onboarding,
    progress: Progress,
    warn: Warn = lambda _text: None,
) -> Onboarded:
    """Measures an agent that never trained: m-shot for each budget, random, and from scratch.

    Args:
        task: The agent's.
        params: The shared initialization, ``[d]``.
        seed: Run seed.
        config: Budgets, episodes and step sizes.
        progress: Called before each piece of work with the number of pieces done.
        warn: Told if the inner step of the largest budget leads far: `edge_fed.meta.step_length`.
    """
    bench = Bench(task, seed, config, progress)
    rows, largest, step = _learned(bench, params)
    if step is not None and step.far:
        returns = {row["m_adapt"]: row["return"] for row in rows if row["init"] == "learned"}
        warn(warning(step, task, returns.get(0, math.nan), returns[max(returns)]))
    rows += _random(bench)
    rows += _scratch(bench)
    return Onboarded(rows, largest, bench.spent_to_adapt, bench.spent_to_score, bench.env_steps)


def trained_from_scratch(task: Task, seed: int, config: Onboarding, trajectories: int) -> F8:
    """The parameters ``[d]`` that `onboard` scores as ``scratch`` at this budget, a multiple of the batch."""
    bench = Bench(task, seed, msgspec.structs.replace(config, scratch=(trajectories,)))
    return list(_scratch_steps(bench))[-1][1]


def _row(bench: Bench, init: str, m: int, trajectories: int, params: F8) -> Row:
    mean_return, success = bench.score(params)
    return {
        "goal": bench.task.agent,
        "init": init,
        "m_adapt": m,
        "return": mean_return,
        "success": success,
        "trajectories": trajectories,
    }


def _learned(bench: Bench, params: F8) -> tuple[list[Row], F8, Step | None]:
    """One row per budget of ``m_adapt``, plain and careful; of the largest the parameters and plain step."""
    budgets = bench.config.m_adapt
    largest = max(budgets, default=0)
    bench.piece()
    pool = bench.pool(params, largest) if largest else None
    rows, best, step = [], params.copy(), None
    for m in budgets:
        adapted, spent = bench.adapt(params, pool, m) if m and pool else (params.copy(), 0)
        rows.append(_row(bench, "learned", m, spent, adapted))
        best, step = (adapted, bench.step) if m == largest else (best, step)
    careful = [m for m in budgets if m >= LEAST] if bench.config.careful and pool else []
    for m in careful:
        assert pool is not None
        adapted, factor = bench.adapt_carefully(params, pool, m)
        spent = m * bench.task.settings.adapt_steps
        rows.append({**_row(bench, "careful", m, spent, adapted), "factor": factor})
        best = adapted if m == largest else best
    return rows, best, step


def _random(bench: Bench) -> list[Row]:
    """The untrained policy: the initialization from-scratch starts from, one per run seed and agent."""
    return [_row(bench, "random", 0, 0, _own_initial(bench))] if bench.config.random else []


def _scratch(bench: Bench) -> list[Row]:
    """Policy gradient from an initialization of one's own, scored when a budget is reached."""
    return [
        _row(bench, "scratch", spent, spent, params)
        for spent, params in _scratch_steps(bench)
        if spent in bench.config.scratch
    ]


def _scratch_steps(bench: Bench) -> Iterator[tuple[int, F8]]:
    """Trajectories spent so far and parameters ``[d]``, after each step up to the largest budget."""
    config = bench.config
    params, spent = _own_initial(bench), 0
    for step in range(max(config.scratch, default=0) // config.scratch_batch):
        bench.piece()
        batch = bench.sample(params, config.scratch_batch, step, Purpose.SCRATCH)
        params = adapt_batch(bench.task, params, batch, alpha=config.scratch_step_size).params
        spent += batch.size
        yield spent, params


def _own_initial(bench: Bench) -> F8:
    rng = stream(bench.seed, bench.task.agent, 0, 0, Purpose.INITIAL)
    return bench.task.policy.initial(rng)
