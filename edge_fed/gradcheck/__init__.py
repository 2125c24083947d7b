"""Checks the derivatives of a policy, and what an environment makes of them, for one task.

Three kinds of reference, none of them the code under test:

- central differences of `Policy.log_prob`: score, scores along v, products with Psi;
- if the environment is finite and has a model: dynamic programming;
- else what holds in every MDP: E[sum_h psi_h] = 0, and J changes along a direction as g says.

The deviation of a sampled mean is measured in its standard errors, so each such check has a smallest error
that it can see; the findings name it. Draws come from (seed, agent, DIAGNOSE), steps 1 and up.
"""

from collections.abc import Iterator
from math import isfinite

from numpy.random import Generator

from edge_fed.envs.base import Environment
from edge_fed.envs.checker import check_environment
from edge_fed.errors import BadEnvironment
from edge_fed.evaluation import tabular_model
from edge_fed.gradcheck.findings import Check, Findings
from edge_fed.gradcheck.of_policy import actions, box_actions, derivatives
from edge_fed.gradcheck.of_task import BATCHES, Report, with_model, without_model
from edge_fed.meta.base import Task
from edge_fed.meta.curvature import BIASED
from edge_fed.params import F8
from edge_fed.seeding import Purpose, stream

__all__ = ["FEWEST", "MOST", "Check", "Findings", "gradcheck"]

INTERFACE = "interface"
SHORT = 16  # trajectories whose states and actions the derivatives are checked on
TRAJECTORIES = 8_192
FINITE_TRAJECTORIES = 65_536  # a step of a finite environment costs a tenth
FEWEST, MOST = 2 * BATCHES, 1_000_000
"""Trajectories: fewer have no standard error, more take minutes."""


def gradcheck(
    task: Task,
    initial: F8,
    seed: int,
    trajectories: int | None = None,
    report: Report = lambda _what: None,
) -> Findings:
    """Checks the environment and policy of one agent.

    Args:
        task: The agent's; left as it is.
        initial: Parameters ``[d]`` beside which everything is checked: at a symmetric point, such as zeros,
            mistakes cancel.
        seed: Of the draws.
        trajectories: Behind each sampled mean, as `BATCHES` equal batches of at least two; None: 65,536 if
            there is a model, else 8,192.
        report: Is told what is being sampled.
    """
    checks: list[Check] = []
    try:
        if isinstance(task.environment, Environment):
            check_environment(task.environment, seed=seed, name=f"goal {task.agent}")
            checks.append(_interface())
    except BadEnvironment as error:
        return Findings((_interface(str(error)),), ("anything else: mend the environment first",))

    def rng(step: int) -> Generator:
        return stream(seed, task.agent, 0, step, Purpose.DIAGNOSE)

    params = initial + rng(1).normal(scale=0.3, size=initial.size)
    sampler = task.sample.fresh()
    batch = sampler.pool(params, [(SHORT, rng(2))])
    checks += derivatives(task.policy, batch, rng(3))
    if task.environment.spaces.num_actions is not None:
        checks += actions(task.policy, batch, task.environment.spaces.num_actions, rng(4))
    else:
        checks += box_actions(task.policy, batch, rng(4))
    model = tabular_model(task)
    size = max((trajectories or (FINITE_TRAJECTORIES if model else TRAJECTORIES)) // BATCHES, 2)
    if model is None:
        checks += without_model(sampler, params, size, rng, report)
    else:
        checks += with_model(sampler, params, model, size, rng, report)
    return Findings(tuple(checks), tuple(_not_proved(checks, has_model=model is not None)))


def _interface(breaches: str = "") -> Check:
    return Check(
        INTERFACE,
        float(bool(breaches)),
        0.0,
        "breaches",
        "shapes, types, determinism; no reward depends on a later state; a model pays the same rewards",
        breaches,
    )


def _not_proved(checks: list[Check], *, has_model: bool) -> Iterator[str]:
    if all(check.name != INTERFACE for check in checks):
        yield "that episodes depend on seed and actions alone, and more: see python -m scenarios check-env"
    yield "anything at other parameters, or in states that were not visited"
    sampled = [(check.name, check.blind) for check in checks if check.blind is not None]
    hidden = ", ".join(f"{name} {blind:.0%}" if isfinite(blind) else f"{name} all" for name, blind in sampled)
    yield f"what sampling noise hides (less with more trajectories), as relative errors up to: {hidden}"
    if has_model:
        yield f"anything about curvature {', '.join(sorted(BIASED))}: biased by construction, so not compared"
        yield "that the MDP is the one you mean: environment and model only agree with each other"
        return
    yield (
        "that rewards follow the convention (of the state BEFORE the action): one that a state carries over "
        "from the step before passes"
    )
    yield "that the MDP is Markov: a reward that looks back at earlier steps passes"
    yield "that the curvature estimators are unbiased here: without a model nothing says what hess J is"
