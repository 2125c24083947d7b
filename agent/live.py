"""``python -m agent live POLICY.npz``: the device acts with its adapted policy, offline, without a server."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent.life import Habits, Life
from agent.life_store import LifeStore
from agent.life_worker import LifeWorker
from agent.live_flags import changes, parser
from agent.living import Living
from agent.news import News
from agent.policy_file import FIX, Adapted, PolicyFile, read
from edge_fed.config import Overrides, RunConfig, merge
from edge_fed.errors import EdgeFedError
from edge_fed.federated.task import make_task
from edge_fed.meta.careful import LEAST
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.reinforcement import Reinforcement

ONBOARD = 100  # trajectories, where those of the adaptation were too few for a careful step
SETTINGS = ("task", "environment", "policy", "algorithm", "seed")


def main(argv: Sequence[str]) -> int:
    """Lives; returns the exit code."""
    p = parser()
    options = p.parse_args(argv)
    if bool(options.change) != (options.change_at is not None):
        p.error("--change-at and --change belong together")
    wanted = changes(p, options.change)
    try:
        return int(live(options, wanted))
    except ProgramError as error:
        hint = f"\n  {error.hint}" if error.hint else ""
        print(f"error: {error.message}{hint}", file=sys.stderr)
        return int(error.code)
    except BrokenPipeError:  # nobody reads on, e.g. `| head`; the state is that before the news
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.FAILED)


def live(options: argparse.Namespace, wanted: dict[str, Any]) -> ExitCode:
    """A life as the flags say.

    Raises:
        ProgramError: It cannot begin or go on; says why.
    """
    if options.picture:
        from agent.life_picture import draw, require_plot

        require_plot(options.picture)
    policy = read(options.policy)
    config, own, adapted = _run_of(policy, options.policy)
    goal = adapted.goal if options.goal is None else options.goal
    seed = config.seed if options.seed is None else options.seed
    task = _task(config, goal, own, policy)
    args = {name.removeprefix("args."): value for name, value in wanted.items() if name != "goal"}
    after = _task(config, wanted.get("goal", goal), merge(own, Overrides(args=args)), policy)
    after = msgspec.structs.replace(after, agent=goal)
    worker = LifeWorker(task, after, policy.initial, adapted.step_size, seed)
    habits = Habits(
        episodes=options.episodes,
        batch=options.batch,
        learn=options.learn,
        onboard=options.onboard or (adapted.m_adapt if adapted.m_adapt >= LEAST else ONBOARD),
        inner_steps=task.settings.adapt_steps,
        reference=options.reference,
        run_length=options.run_length,
        fall=options.fall,
        budget=options.budget,
        change_at=options.change_at,
        change=", ".join(f"{name}={value}" for name, value in wanted.items()),
    )
    tell = _tell_json if options.json else _tell
    with LifeStore(options.state, policy, goal, seed) as store:
        params, state = store.load()
        code = Living(Life(habits, state), worker, params, store, tell).run()
        if options.picture:
            draw(store.lines, options.picture, goal)
    return code


def _run_of(policy: PolicyFile, path: Path) -> tuple[RunConfig, Overrides, Adapted]:
    """The settings of the run that the policy comes from, this agent's own, and how it was adapted."""
    try:
        config = msgspec.convert({name: policy.about[name] for name in SETTINGS}, RunConfig)
        own = msgspec.convert(policy.about["overrides"], Overrides)
        adapted = msgspec.convert(policy.about, Adapted)
    except (KeyError, msgspec.ValidationError) as error:
        raise ProgramError(ExitCode.USAGE, f"{path} does not describe its run: {error}", FIX) from error
    if config.task.kind != "reinforcement":
        raise ProgramError(
            ExitCode.USAGE, f"{path} is of a {config.task.kind} task; live needs an environment"
        )
    if own.device is not None:
        raise ProgramError(ExitCode.USAGE, f"{path} is of a real plant; live acts in simulations alone")
    return config, own, adapted


def _task(config: RunConfig, goal: int, overrides: Overrides, policy: PolicyFile) -> Reinforcement:
    try:
        task = make_task(config, goal, overrides)
    except (EdgeFedError, TypeError, ValueError) as error:
        raise ProgramError(ExitCode.USAGE, f"there is no such environment or policy: {error}") from error
    if task.dimension != policy.params.size or task.dimension != policy.initial.size:
        why = f"the policy has {policy.params.size} parameters, {task.description} has {task.dimension}"
        raise ProgramError(ExitCode.USAGE, why)
    return task


def _tell(news: News) -> None:
    print(news, flush=True)


def _tell_json(news: News) -> None:
    print(json.dumps(news.plain()), flush=True)
