"""Measuring an initialization: before and after adaptation, and beside the baselines (methods.md 4).

Nothing here changes a task, its sampler or its parameters, and nothing leaks: adaptation and scoring
draw from the disjoint streams (run seed, agent, EVALUATE) of step 0 and 1. Neither round nor method is in
the key, so that methods, rounds and budgets are compared on common random numbers: there is one pool of
adaptation trajectories, of which m-shot uses the first m, and one set of uniforms for all scores.

Budgets are counted while sampling. A trajectory is H+1 environment steps (actions), or fewer where it ends
early. What is spent to adapt (or to train from scratch) and what is spent to score are told apart.
"""

import msgspec
import numpy as np

from edge_fed import dp
from edge_fed.config import Onboarding
from edge_fed.envs.base import TabularModel
from edge_fed.learner import Progress, Row, Warn
from edge_fed.meta.adaptation import adapt_batch
from edge_fed.meta.base import Task
from edge_fed.meta.careful import careful_step, split
from edge_fed.meta.step_length import Step, sampled_step, step_between, warning
from edge_fed.params import F8
from edge_fed.policies.base import Policy
from edge_fed.policies.softmax import Softmax
from edge_fed.returns import episode_return
from edge_fed.rollouts import Trajectories
from edge_fed.seeding import Purpose, stream
from edge_fed.spaces import Spaces

ADAPT_STEP, SCORE_STEP, LATER_STEP = 0, 1, 2
"""Step words of the EVALUATE streams: the pool, the scores, further inner steps (2, 3, ...)."""

SCORE_BATCH = 1024  # episodes scored at once; fixed, because batch shapes decide bits

DP_STATES = 1000  # beyond it the [S, A, S] array of a model costs more than sampling


def evaluate(task: Task, params: F8, seed: int, config: Onboarding, warn: Warn = lambda _text: None) -> Row:
    """Measures an agent in training at the shared initialization ``params`` ``[d]``.

    Args:
        task: The agent's.
        params: The shared initialization.
        seed: Run seed.
        config: Budgets, episodes and step sizes.
        warn: Told if the inner step leads far: `edge_fed.meta.step_length`.

    Returns:
        ``agent``; ``kind``, ``dp`` if J and F come from dynamic programming (tabular family, softmax
        policy), else ``mc``: then ``meta_objective`` is E J(theta + alpha g_in) over ``m_adapt``
        trajectories, not F; ``expected_return`` J; ``meta_objective`` F; ``success`` and
        ``success_adapted``, the fraction of scored trajectories that reached the goal, None where the
        family has no such notion; ``m_adapt`` (None for dp); ``trajectories`` = ``adapt_trajectories`` +
        ``eval_trajectories``; ``env_steps``.
    """
    bench = Bench(task, seed, config)
    model = tabular_model(task)
    m = None if model else config.adapt_episodes
    step: Step | None
    if model:
        adapted = dp.adapted(model, params, bench.alpha, task.settings.adapt_steps)
        first = adapted if task.settings.adapt_steps == 1 else dp.adapted(model, params, bench.alpha)
        step = exact_step(task.policy, model, params, first)
    else:
        adapted, _ = bench.adapt(params, bench.pool(params, config.adapt_episodes), config.adapt_episodes)
        step = bench.step
    before, success = bench.score(params)
    after, success_adapted = bench.score(adapted)
    if model:
        before, after = dp.expected_return(model, params), dp.expected_return(model, adapted)
    if step is not None and step.far:
        warn(warning(step, task, before, after))
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


def exact_step(policy: Policy, model: TabularModel, params: F8, adapted: F8) -> Step:
    """How far it is to ``adapted`` ``[d]``, where nothing is sampled: over the visits that are expected."""
    visits = dp.visits(model, params)[None]
    return step_between(policy, params, adapted, np.arange(visits.size)[None], visits)


def tabular_model(task: Task) -> TabularModel | None:
    """The arrays that dynamic programming needs, or None if this task must be sampled."""
    return task.environment.model() if is_tabular(task.environment.spaces, task.policy) else None


def is_tabular(spaces: Spaces, policy: Policy) -> bool:
    """Whether dynamic programming measures such tasks."""
    states = spaces.num_states
    return states is not None and states <= DP_STATES and isinstance(policy, Softmax)


class Bench:
    """One agent's streams and counters; samples with a sampler of its own, never with the task's.

    Args:
        task: The agent's.
        seed: Run seed.
        config: Budgets, episodes and step sizes.
        progress: Called before each piece of work with the number of pieces done; may raise to stop.

    Attributes:
        step: The first inner step of the newest `adapt`.
    """

    def __init__(self, task: Task, seed: int, config: Onboarding, progress: Progress | None = None) -> None:
        self.task = msgspec.structs.replace(task, sample=task.sample.fresh())
        self.seed = seed
        self.config = config
        self.alpha = task.settings.inner_step_size if config.step_size is None else config.step_size
        self.spent_to_score = 0
        self.step: Step | None = None
        self._progress = progress
        self._done = 0

    @property
    def spent_to_adapt(self) -> int:
        """Trajectories sampled for anything but scores."""
        return self.task.sample.trajectories - self.spent_to_score

    @property
    def env_steps(self) -> int:
        """Environment steps of everything."""
        return self.task.sample.env_steps

    def piece(self) -> None:
        """Announces the next piece of work; raises if the caller wants to stop."""
        if self._progress is not None:
            self._progress(self._done)
        self._done += 1

    def sample(self, params: F8, m: int, step: int, purpose: Purpose) -> Trajectories:
        """Trajectories, m of them, from the stream of this purpose and step."""
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
            before, params = params, adapt_batch(self.task, params, batch, alpha=self.alpha).params
            spent += batch.size
            if step == 0:
                self.step = sampled_step(self.task.policy, before, params, batch)
        return params, spent

    def adapt_carefully(self, params: F8, pool: Trajectories, m: int) -> tuple[F8, float]:
        """As `adapt` with m trajectories in all, but each step is tried before it is taken: `meta.careful`.

        Returns:
            The parameters ``[d]``, and the factor of the step, 0 if none was taken; of several the mean.
        """
        (n, k), factors = split(m), []
        batch = pool.part(slice(0, n))
        for step in range(self.task.settings.adapt_steps):
            if step:
                batch = self.sample(params, n, LATER_STEP + step - 1, Purpose.EVALUATE)

            def trial(candidate: F8, k: int, step: int = step) -> F8:  # each candidate on the same uniforms
                rng = stream(self.seed, self.task.agent, 0, step, Purpose.TRIAL)
                return episode_return(self.task.sample.outcomes(candidate, k, rng).rewards)

            found = careful_step(self.task, params, batch, trial, k, self.alpha)
            params = found.params
            factors.append(found.factor)
        return params, sum(factors) / len(factors)

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
