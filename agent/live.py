"""``python -m agent live POLICY.npz``: the device acts with its adapted policy, offline, without a server."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from agent.device_flags import not_installed
from agent.device_lock import DeviceLock
from agent.life import Habits, Life
from agent.life_store import LifeStore
from agent.life_worker import LifeWorker
from agent.live_flags import changes, parser, plant_of
from agent.living import Living
from agent.news import News
from agent.plant_file import PlantFile
from agent.policy_file import FIX, Adapted, PolicyFile, read
from agent.state_store import default_folder
from agent.stops import HEED_S, Stops
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
    plant = plant_of(p, options)
    try:
        return int(live(options, wanted, plant))
    except ProgramError as error:
        hint = f"\n  {error.hint}" if error.hint else ""
        print(f"error: {error.message}{hint}", file=sys.stderr)
        return int(error.code)
    except BrokenPipeError:  # nobody reads on, e.g. `| head`; the state is that before the news
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.FAILED)


def live(options: argparse.Namespace, wanted: dict[str, Any], plant: PlantFile | None = None) -> ExitCode:
    """A life as the flags say.

    Args:
        options: The flags.
        wanted: What ``--change`` sets.
        plant: Of the real plant that it acts on; None: it simulates.

    Raises:
        ProgramError: It cannot begin or go on; says why.
    """
    if options.picture:
        from agent.life_picture import draw, require_plot

        require_plot(options.picture)
    policy = read(options.policy)
    config, own, adapted = _run_of(policy, options.policy)
    if own.device is not None and plant is None:
        why = f"{options.policy} is of a real plant"
        raise ProgramError(ExitCode.USAGE, why, "say how it is reached: --device FILE.toml")
    goal = adapted.goal if options.goal is None else options.goal
    seed = config.seed if options.seed is None else options.seed
    task = _task(config, goal, own, policy)
    after = _after(config, task, own, policy, wanted)
    draws = (policy.initial, adapted.step_size, seed)
    habits = _habits(options, adapted, task.settings.adapt_steps, wanted)
    folder = options.state or (default_folder() if plant else None)
    with ExitStack() as stack:
        stops = stack.enter_context(Stops(HEED_S if plant else None))
        if plant is not None and folder is not None:
            stack.enter_context(DeviceLock(folder, goal))
        name = plant.environment if plant else None
        store = stack.enter_context(LifeStore(folder, policy, goal, seed, name))
        params, state = store.load()
        tell = _teller(store, _tell_json if options.json else _tell)
        worker = LifeWorker(task, after, *draws)
        if plant is not None and folder is not None:
            try:
                from agent.plant_worker import PlantWorker, described  # gymnasium loads, for devices alone
            except ModuleNotFoundError as error:
                raise not_installed(error) from error
            run = config.environment
            worker = PlantWorker(task, run, *draws, settings=plant, folder=folder, stops=stops, tell=tell)
            stack.enter_context(worker)
            tell(described(plant, state.episode, options.budget))
        code = Living(Life(habits, state), worker, params, store, tell, stops).run()
        if options.picture:
            draw(store.lines, options.picture, goal)
    return code


def _habits(options: argparse.Namespace, adapted: Adapted, steps: int, wanted: dict[str, Any]) -> Habits:
    return Habits(
        episodes=options.episodes,
        batch=options.batch,
        learn=options.learn,
        onboard=options.onboard or (adapted.m_adapt if adapted.m_adapt >= LEAST else ONBOARD),
        inner_steps=steps,
        reference=options.reference,
        run_length=options.run_length,
        fall=options.fall,
        budget=options.budget,
        change_at=options.change_at,
        change=", ".join(f"{name}={value}" for name, value in wanted.items()),
    )


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


def _after(
    config: RunConfig, task: Reinforcement, own: Overrides, policy: PolicyFile, wanted: dict[str, Any]
) -> Reinforcement:
    """The task after the simulated change."""
    if not wanted:
        return task
    args = {name.removeprefix("args."): value for name, value in wanted.items() if name != "goal"}
    after = _task(config, wanted.get("goal", task.agent), merge(own, Overrides(args=args)), policy)
    return msgspec.structs.replace(after, agent=task.agent)


def _teller(store: LifeStore, show: Callable[[News], None]) -> Callable[[News], None]:
    """What keeps news, then shows it."""

    def tell(news: News) -> None:
        store.note(news.plain())
        show(news)

    return tell


def _tell(news: News) -> None:
    print(news, flush=True)


def _tell_json(news: News) -> None:
    print(json.dumps(news.plain()), flush=True)
