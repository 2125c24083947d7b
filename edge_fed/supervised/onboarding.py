"""A user that never trained: what the initialization is worth to it; rows as of `edge_fed.onboarding`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edge_fed.config import Onboarding
from edge_fed.learner import Onboarded, Progress, Row
from edge_fed.params import F8
from edge_fed.seeding import Purpose, stream
from edge_fed.supervised.evaluation import Bench

if TYPE_CHECKING:
    from edge_fed.supervised.learner import Supervised

LEAST = 5
"""Samples of a careful step: one to try it on, and four to take it with."""


def onboard(
    learner: "Supervised", params: F8, seed: int, config: Onboarding, progress: Progress
) -> Onboarded:
    """Measures m samples for each budget, plain and careful, the untrained model, and training from scratch.

    Args:
        learner: Fresh; it counts.
        params: The shared initialization, ``[d]``.
        seed: Run seed.
        config: Budgets, protocol and step sizes.
        progress: Called before each piece of work with the number of pieces done.
    """
    bench = Bench(learner, seed, config, max(config.m_adapt, default=0))
    rows: list[Row] = []
    best = params.copy()
    for name, m, factor, adapted in _measured(bench, params, config):
        progress(len(rows))
        spent = m * learner.settings.adapt_steps if name in ("learned", "careful") else m
        rows.append(
            {**_row(bench, name, m, spent, adapted), **({} if factor is None else {"factor": factor})}
        )
        best = adapted if name in ("learned", "careful") and m == max(config.m_adapt) else best
    return Onboarded(rows, best, learner.spent, bench.scored, 0)


def _measured(bench: Bench, params: F8, config: Onboarding) -> Iterator[tuple[str, int, float | None, F8]]:
    """Initialization, budget, part of the step that was taken (of careful ones), parameters."""
    for m in config.m_adapt:
        yield "learned", m, None, bench.adapt(params, m)
    for m in config.m_adapt if config.careful else ():
        if m >= LEAST:
            adapted, factor = bench.adapt_carefully(params, m)
            yield "careful", m, factor, adapted
    own = bench.learner.initial(stream(bench.seed, bench.learner.agent, 0, 0, Purpose.INITIAL))
    if config.random:
        yield "random", 0, None, own
    for step in range(max(config.scratch, default=0) // config.scratch_batch):
        batch = bench.batch(config.scratch_batch, step, Purpose.SCRATCH)
        own = bench.learner.stepped(own, batch, config.scratch_step_size)
        if (step + 1) * config.scratch_batch in config.scratch:
            yield "scratch", (step + 1) * config.scratch_batch, None, own


def _row(bench: Bench, init: str, m: int, spent: int, params: F8) -> Row:
    value, accuracy = bench.score(params)
    return {
        "goal": bench.learner.agent,
        "init": init,
        "m_adapt": m,
        "return": value,
        "success": accuracy,
        "trajectories": spent,
        "protocol": bench.protocol,
    }
