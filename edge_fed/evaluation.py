"""Measuring an initialization: before and after adaptation, and beside the baselines (methods.md 4).

Nothing here changes a task, its sampler or its parameters, and nothing leaks: adaptation and scoring
draw from the disjoint streams (run seed, agent, EVALUATE) of step 0 and 1. Neither round nor method is in
the key, so that methods, rounds and budgets are compared on common random numbers: there is one pool of
adaptation trajectories, of which m-shot uses the first m, and one set of uniforms for all scores.

Budgets are counted while sampling. A trajectory is H+1 environment steps (actions), or fewer where it ends
early. What is spent to adapt (or to train from scratch) and what is spent to score are told apart.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from edge_fed import dp
from edge_fed.config import Onboarding
from edge_fed.envs.base import TabularModel
from edge_fed.learner import Onboarded, Progress, Row
from edge_fed.meta.adaptation import adapt_batch
from edge_fed.meta.base import Task
from edge_fed.params import F8
from edge_fed.policies.softmax import Softmax
from edge_fed.returns import episode_return
from edge_fed.rollouts import Trajectories
from edge_fed.seeding import Purpose, stream

ADAPT_STEP, SCORE_STEP, LATER_STEP = 0, 1, 2
"""Step words of the EVALUATE streams: the pool, the scores, further inner steps (2, 3, ...)."""

SCORE_BATCH = 1024  # episodes scored at once; fixed, because batch shapes decide bits

DP_STATES = 1000  # beyond it the [S, A, S] array of a model costs more than sampling


def evaluate(task: Task, params: F8, seed: int, config: Onboarding) -> Row:
    """Measures an agent in training at the shared initialization ``params`` ``[d]``.

    Returns:
        ``agent``; ``kind``, ``dp`` if J and F come from dynamic programming (tabular family, softmax
        policy), else ``mc``: then ``meta_objective`` is E J(theta + alpha g_in) over ``m_adapt``
        trajectories, not F; ``expected_return`` J; ``meta_objective`` F; ``success`` and
        ``success_adapted``, the fraction of scored trajectories that reached the goal, None where the
        family has no such notion; ``m_adapt`` (None for dp); ``trajectories`` = ``adapt_trajectories`` +
        ``eval_trajectories``; ``env_steps``.
    """
    bench = _Bench(task, seed, config)
    model = tabular_model(task)
    m = None if model else config.adapt_episodes
    if model:
        adapted = dp.adapted(model, params, bench.alpha, task.settings.adapt_steps)
    else:
        adapted, _ = bench.adapt(params, bench.pool(params, config.adapt_episodes), config.adapt_episodes)
    before, success = bench.score(params)
    after, success_adapted = bench.score(adapted)
    if model:
        before, after = dp.expected_return(model, params), dp.expected_return(model, adapted)
    return {
        "agent": task.agent,
        "kind": "dp" if model else "mc",
        "expected_return": before,
        "meta_objective": after,
        "success": success,
        "success_adapted": success_adapted,
        "m_adapt": m,
        "trajectories": bench.spent_to_adapt + bench.spent_to_score,
        "adapt_trajectories": bench.spent_to_adapt,
        "eval_trajectories": bench.spent_to_score,
        "env_steps": bench.env_steps,
    }


def onboard(task: Task, params: F8, seed: int, config: Onboarding, progress: Progress) -> Onboarded:
    """Measures an agent that never trained: m-shot for each budget, random, and from scratch.

    Args:
        task: The agent's.
        params: The shared initialization, ``[d]``.
        seed: Run seed.
        config: Budgets, episodes and step sizes.
        progress: Called before each piece of work with the number of pieces done.
    """
    bench = _Bench(task, seed, config, progress)
    rows, largest = _learned(bench, params)
    rows += _random(bench)
    rows += _scratch(bench)
    return Onboarded(rows, largest, bench.spent_to_adapt, bench.spent_to_score, bench.env_steps)


def trained_from_scratch(task: Task, seed: int, config: Onboarding, trajectories: int) -> F8:
    """The parameters ``[d]`` that `onboard` scores as ``scratch`` at this budget, a multiple of the batch."""
    bench = _Bench(task, seed, msgspec.structs.replace(config, scratch=(trajectories,)))
    return list(_scratch_steps(bench))[-1][1]


def tabular_model(task: Task) -> TabularModel | None:
    """The arrays that dynamic programming needs, or None if this task must be sampled."""
    states = task.environment.spaces.num_states
    if states is None or states > DP_STATES or not isinstance(task.policy, Softmax):
        return None
    return task.environment.model()


class _Bench:
    """One agent's streams and counters; samples with a sampler of its own, never with the task's."""

    def __init__(self, task: Task, seed: int, config: Onboarding, progress: Progress | None = None) -> None:
        self.task = msgspec.structs.replace(task, sample=task.sample.fresh())
        self.seed = seed
        self.config = config
        self.alpha = task.settings.inner_step_size if config.step_size is None else config.step_size
        self.spent_to_score = 0
        self._progress = progress
        self._done = 0

    @property
    def spent_to_adapt(self) -> int:
        return self.task.sample.trajectories - self.spent_to_score

    @property
    def env_steps(self) -> int:
        return self.task.sample.env_steps

    def piece(self) -> None:
        """Announces the next piece of work; raises if the caller wants to stop."""
        if self._progress is not None:
            self._progress(self._done)
        self._done += 1

    def sample(self, params: F8, m: int, step: int, purpose: Purpose) -> Trajectories:
        rng = stream(self.seed, self.task.agent, 0, step, purpose)
        return self.task.sample(params, [(m, rng)])[0]

    def pool(self, params: F8, m: int) -> Trajectories:
        """The adaptation trajectories at ``params``, shared by all budgets."""
        return self.sample(params, m, ADAPT_STEP, Purpose.EVALUATE)

    def adapt(self, params: F8, pool: Trajectories, m: int) -> tuple[F8, int]:
        """The first inner step from the first m of the pool, any further one from m fresh trajectories.

        Returns:
            The adapted parameters ``[d]``, and the number of trajectories that went into them.
        """
        spent = 0
        batch = pool.part(slice(0, m))
        for step in range(self.task.settings.adapt_steps):
            if step:
                batch = self.sample(params, m, LATER_STEP + step - 1, Purpose.EVALUATE)
            params = adapt_batch(self.task, params, batch, alpha=self.alpha).params
            spent += batch.size
        return params, spent

    def score(self, params: F8) -> tuple[float, float | None]:
        """Mean return and success over the scoring episodes; the same uniforms for any ``params``."""
        self.piece()
        rng = stream(self.seed, self.task.agent, 0, SCORE_STEP, Purpose.EVALUATE)
        before, episodes = self.task.sample.trajectories, self.config.eval_episodes
        returns, reached = [], []
        for first in range(0, episodes, SCORE_BATCH):
            found = self.task.sample.outcomes(params, min(SCORE_BATCH, episodes - first), rng)
            returns.append(episode_return(found.rewards))
            reached.append(found.success)
        self.spent_to_score += self.task.sample.trajectories - before
        known = [part for part in reached if part is not None]
        success = float(np.concatenate(known).mean()) if known else None
        return float(np.concatenate(returns).mean()), success


def _row(bench: _Bench, init: str, m: int, trajectories: int, params: F8) -> Row:
    mean_return, success = bench.score(params)
    return {
        "goal": bench.task.agent,
        "init": init,
        "m_adapt": m,
        "return": mean_return,
        "success": success,
        "trajectories": trajectories,
    }


def _learned(bench: _Bench, params: F8) -> tuple[list[Row], F8]:
    """One row per budget of ``m_adapt``, and the parameters of the largest."""
    budgets = bench.config.m_adapt
    largest = max(budgets, default=0)
    bench.piece()
    pool = bench.pool(params, largest) if largest else None
    rows, best = [], params.copy()
    for m in budgets:
        adapted, spent = bench.adapt(params, pool, m) if m and pool else (params.copy(), 0)
        rows.append(_row(bench, "learned", m, spent, adapted))
        best = adapted if m == largest else best
    return rows, best


def _random(bench: _Bench) -> list[Row]:
    """The untrained policy: the initialization from-scratch starts from, one per run seed and agent."""
    return [_row(bench, "random", 0, 0, _own_initial(bench))] if bench.config.random else []


def _scratch(bench: _Bench) -> list[Row]:
    """Policy gradient from an initialization of one's own, scored when a budget is reached."""
    return [
        _row(bench, "scratch", spent, spent, params)
        for spent, params in _scratch_steps(bench)
        if spent in bench.config.scratch
    ]


def _scratch_steps(bench: _Bench) -> Iterator[tuple[int, F8]]:
    """Trajectories spent so far and parameters ``[d]``, after each step up to the largest budget."""
    config = bench.config
    params, spent = _own_initial(bench), 0
    for step in range(max(config.scratch, default=0) // config.scratch_batch):
        bench.piece()
        batch = bench.sample(params, config.scratch_batch, step, Purpose.SCRATCH)
        params = adapt_batch(bench.task, params, batch, alpha=config.scratch_step_size).params
        spent += batch.size
        yield spent, params


def _own_initial(bench: _Bench) -> F8:
    rng = stream(bench.seed, bench.task.agent, 0, 0, Purpose.INITIAL)
    return bench.task.policy.initial(rng)
