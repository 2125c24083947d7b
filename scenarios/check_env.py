"""``python -m scenarios check-env``: what is wrong with an environment, before a run.

Exit codes: 0 no errors (warnings are none), 1 at least one error, 2 the file or a flag is wrong.
"""

import argparse
import contextlib
import importlib.util
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from edge_fed.config import EnvironmentConfig
from edge_fed.envs import make_family
from edge_fed.envs.base import Environment
from edge_fed.envs.checker import check_environment
from edge_fed.envs.gymnasium import bootstraps, read_settings
from edge_fed.envs.gymnasium.goal_args import goal_args
from edge_fed.errors import BadEnvironment, EdgeFedError, UnknownGoal
from edge_fed.meta.regression import regression
from edge_fed.program.config_file import load, read
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.spaces import Spaces
from scenarios.patience import only_if_slow
from scenarios.script import library
from scenarios.study.preregistration import as_ranges
from scenarios.timeline import Scenario

HORIZON, DISCOUNT = 199, 0.99  # of an id or factory that no file says more about
OTHER_GOALS = 64  # of a family, that are made to compare their spaces
GOALS_S = 10.0  # since goal 0 was begun; until then one more is
SPEED_S = 0.5  # measured until then
Result = dict[str, Any]


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The flags."""
    command.add_argument("environment", metavar="ID|MODULE:FACTORY|FILE|NAME",
                         help="a registered id, a factory of yours, or a scenario")  # fmt: skip
    command.add_argument("--goal", type=int, metavar="K",
                         help=f"this goal alone; default: all that {GOALS_S:g} s are enough for")  # fmt: skip
    command.add_argument("--horizon", type=int, metavar="H",
                         help=f"episodes have H+1 steps; default: the scenario's, or {HORIZON}")  # fmt: skip
    command.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE",
                         help="override any key, e.g. environment.args.env_args.gravity=9.8")  # fmt: skip


def check_env(options: argparse.Namespace) -> int:
    """Examines the goals' environments; 0 if no finding is an error.

    Raises:
        ConfigError: The scenario's text is wrong.
        ProgramError: A flag or an argument is, or gymnasium is not installed.
    """
    config = _environment(options)
    before = set(threading.enumerate())
    examine = _gymnasium if config.family == "gymnasium" else _arrays
    with contextlib.redirect_stdout(sys.stderr):  # what an environment prints is no part of the result
        result = examine(config, options.goal)
    left = sorted(thread.name for thread in set(threading.enumerate()) - before)
    if left:
        text = f"close leaves threads behind: {', '.join(left)}"
        result["findings"].append(_finding("warning", "close", text, "end them in close"))
    result["success"] = all(finding["level"] != "error" for finding in result["findings"])
    if options.json:
        print(json.dumps(result, allow_nan=False))
    else:
        _print(result, Console())
    return int(ExitCode.OK if result["success"] else ExitCode.FAILED)


def _environment(options: argparse.Namespace) -> EnvironmentConfig:
    """``[environment]`` of the scenario, or of one that says nothing but this id."""
    named, known = options.environment, library()
    sets = options.sets + ([] if options.horizon is None else [f"environment.horizon={options.horizon}"])
    if named in known or named.endswith(".toml"):
        path = known.get(named, Path(named))
        text = read(path, known)
    else:
        text = f'[environment]\nfamily = "gymnasium"\nhorizon = {HORIZON}\ndiscount = {DISCOUNT}\n'
        text += f"args = {{ id = {json.dumps(named)} }}\n"
    return load(text, Scenario, lambda _scenario: [], sets, named).environment


def _gymnasium(config: EnvironmentConfig, only: int | None) -> Result:
    if importlib.util.find_spec("gymnasium") is None:
        raise ProgramError(ExitCode.USAGE, "gymnasium is not installed", "pip install 'edge-fed[gym]'")
    from edge_fed.envs.gymnasium.making import make_env
    from edge_fed.gym.examine import examine

    try:
        settings = read_settings(config.args)
    except ValueError as error:
        raise _usage(str(error)) from None
    count = settings.goals + settings.held_out
    if only is not None and not 0 <= only < count:
        raise _usage(f"--goal {only}: there are goals 0 to {count - 1}")
    say, estimated, in_time = only_if_slow("check-env"), bootstraps(config, {}), _in_time()

    def examined(kwargs: Result) -> Result:
        make = partial(make_env, settings.id, kwargs)
        found = examine(make, config.horizon, config.discount, say, bootstrap=estimated)
        return {**msgspec.to_builtins(found), "fit": found.fit}

    goal = only or 0
    kwargs = goal_args(settings.env_args, goal, settings.seed)
    result: Result = {"environment": settings.id, "goal": goal, "goals": [goal], "of_goals": count}
    result |= {"env_args": kwargs, "speed": None, **examined(kwargs)}
    if result.pop("fit"):
        if only is None:
            _others(result, lambda k: goal_args(settings.env_args, k, settings.seed), examined, in_time)
        result["findings"] += _of_family(config, count)
        result["speed"] = _speed(partial(make_env, settings.id, kwargs), config.horizon)
    return result


def _others(
    result: Result,
    args_of: Callable[[int], Result],
    examined: Callable[[Result], Result],
    in_time: Callable[[], bool],
) -> None:
    """Adds the other goals to what goal 0 gave: of each kind of error and warning the first goal that has it.

    Goals with the same arguments have the same environment: one of them says it all.
    """
    known = {msgspec.json.encode(result["env_args"])}
    told = {(finding["level"], finding["check"]) for finding in result["findings"]}
    for goal in range(1, result["of_goals"]):
        kwargs = args_of(goal)
        if (key := msgspec.json.encode(kwargs)) not in known:
            if not in_time():
                return
            known.add(key)
            for finding in examined(kwargs)["findings"]:
                kind = finding["level"], finding["check"]
                if finding["level"] != "note" and kind not in told:
                    told.add(kind)
                    finding["message"] = f"goal {goal}{_with(kwargs)}: {finding['message']}"
                    result["findings"].append(finding)
        result["goals"].append(goal)


def _in_time() -> Callable[[], bool]:
    began = _now()
    return lambda: _now() - began < GOALS_S


def _now() -> float:
    return time.monotonic()


def _of_family(config: EnvironmentConfig, count: int) -> Iterator[Result]:
    """Whether all goals, or those that can be made in time, share their spaces, as one policy needs it."""
    in_time = _in_time()
    try:
        family = make_family(config)
        spaces = family.make(0).spaces
        yield from _of_fits(config, spaces)
        first = _shape(spaces)
        for goal in range(1, min(count, OTHER_GOALS)):
            if not in_time():
                return
            other = _shape(family.make(goal).spaces)
            if other != first:
                text = f"goal {goal} has other spaces than goal 0: {other} and {first}"
                yield _finding("error", "family", text, "all agents share one policy: give them equal spaces")
                return
    except (ValueError, EdgeFedError) as error:
        yield _finding("error", "family", str(error))


def _of_fits(config: EnvironmentConfig, spaces: Spaces) -> Iterator[Result]:
    """Whether observations are too large for fits of values: a run may do without, unless it bootstraps."""
    try:
        regression(spaces)
    except ValueError as error:
        yield _finding("error" if bootstraps(config, {}) else "note", "fits of values", str(error))


def _shape(spaces: Spaces) -> tuple[Any, ...]:
    return spaces.observation_shape, spaces.num_states, spaces.num_actions, len(spaces.action_low)


def _speed(make: Callable[[], Any], horizon: int) -> Result:
    """Of one instance under random actions, as the adapter steps it."""
    from edge_fed.envs.gymnasium.instance import Instance, Scales
    from edge_fed.envs.gymnasium.play import Play

    began = time.perf_counter()
    instance = Instance(make(), Scales(1.0, 0.0, None))
    made = time.perf_counter()
    episodes, steps, now = 0, 0, made
    while now - made < SPEED_S:
        steps += len(Play(instance, episodes, horizon).episode().rewards)
        episodes, now = episodes + 1, time.perf_counter()
    instance.close()
    return {
        "make_s": made - began,
        "episodes_per_s": episodes / (now - made),
        "steps_per_s": steps / (now - made),
    }


def _arrays(config: EnvironmentConfig, only: int | None) -> Result:
    """A family of arrays: its own checker, up to the first goal that it refuses."""
    result: Result = {"environment": config.family, "goal": only or 0, "goals": [], "findings": []}
    in_time = _in_time()
    try:
        family = make_family(config)
        count = family.num_train + family.num_held_out
        result |= {"of_goals": count, "speed": None}
        wanted: Iterable[int] = range(count) if only is None else [only]
        for goal in wanted:
            if result["goals"] and not in_time():
                break
            result["goals"].append(goal)
            environment = family.make(goal)
            if isinstance(environment, Environment):
                check_environment(environment, name=f"{config.family} goal {goal}")
    except BadEnvironment as error:
        result["findings"].append(_finding("error", "interface", str(error)))
    except (UnknownGoal, ValueError, TypeError) as error:
        raise _usage(str(error)) from None
    return result


def _finding(level: str, check: str, message: str, hint: str = "") -> Result:
    return {"level": level, "check": check, "message": message, "hint": hint}


def _usage(message: str) -> ProgramError:
    return ProgramError(ExitCode.USAGE, message, "see python -m scenarios check-env --help")


def _print(result: Result, console: Console) -> None:
    def say(line: str) -> None:
        console.print(line, soft_wrap=True, highlight=False, markup=False)

    say(f"{result['environment']}, goal {result['goal']}{_with(result.get('env_args'))}")
    if looked := _looked(result):
        say(f"{'goals':>9}  {looked}")
    for finding in result["findings"]:
        say(f"{finding['level']:>9}  {finding['check']}: {finding['message']}")
        if finding["hint"]:
            say(f"{'next':>9}  {finding['hint']}")
    if observed := result.get("observed"):
        say(f"{'seen':>9}  {_observed(observed)}")
    if result.get("suggestions"):
        args = ", ".join(f"{name} = {value}" for name, value in result["suggestions"].items())
        say(f"{'try':>9}  args = {{ {args} }}, which brings returns and observations to order 1")
    if speed := result["speed"]:
        say(
            f"{'speed':>9}  {speed['steps_per_s']:.0f} steps/s, {speed['episodes_per_s']:.1f} episodes/s, "
            f"{1000 * speed['make_s']:.1f} ms to make one"
        )
    errors = sum(finding["level"] == "error" for finding in result["findings"])
    if errors:
        say(f"\n{errors} error{'s' if errors > 1 else ''}, mend the first one first")
    else:
        say("\nthe environment is fit for a run; settings and policy: python -m scenarios check")


def _looked(result: Result) -> str:
    """Which goals the findings are of; empty: of the one that there is."""
    goals, count = result["goals"], result["of_goals"]
    if len(goals) == count:
        of = "; what is seen, tried and timed is of goal 0" if result.get("observed") else ""
        return "" if count == 1 else f"all {count}{of}"
    return f"only {as_ranges(goals)}, of {count}; another one: --goal K"


def _with(kwargs: Result | None) -> str:
    return ": " + ", ".join(f"{name}={value!r}" for name, value in kwargs.items()) if kwargs else ""


def _observed(found: Result) -> str:
    low, high = found["discounted_return"]
    success = "" if found["success"] is None else f", success in {found['success']:.0%}"
    return (
        f"{found['episodes']} episodes under random actions: {found['mean_length']:.0f} steps on average, "
        f"{found['terminated']:.0%} terminated, rewards {found['reward'][0]:.3g} to "
        f"{found['reward'][1]:.3g}, discounted returns {low:.3g} to {high:.3g}{success}"
    )
