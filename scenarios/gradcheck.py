"""``python -m scenarios gradcheck``: are a policy's derivatives right, and its gradients those of J?"""

import argparse
import json
import math
from typing import Any

from msgspec.structs import replace
from rich.console import Console

from edge_fed.config import Overrides, overrides_by_goal
from edge_fed.errors import UnknownGoal
from edge_fed.federated.task import initial_params, make_task
from edge_fed.gradcheck import FEWEST, MOST, Check, Findings, gradcheck
from edge_fed.meta.base import Task
from edge_fed.program.exit_codes import ExitCode, ProgramError
from scenarios.patience import only_if_slow
from scenarios.report import output, table_of
from scenarios.script import load_scenario
from scenarios.timeline import Scenario


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The flags."""
    command.add_argument("scenario", metavar="FILE|NAME", nargs="?", default="few-shot",
                         help="names environment and policy; default few-shot")  # fmt: skip
    command.add_argument("--agent", type=int, metavar="K", help="agent id = goal; default: the first planned")
    command.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE",
                         help="override any key, e.g. policy.args.hidden=[8] or seed=3")  # fmt: skip
    command.add_argument("--trajectories", type=int, metavar="N",
                         help=f"behind each sampled mean, {FEWEST} to {MOST}; "
                              "default 65536 with a model, else 8192")  # fmt: skip


def check_gradients(options: argparse.Namespace) -> int:
    """Runs the checks of one agent; 0 if all pass, 1 if one fails or could not have failed.

    Raises:
        ConfigError: The scenario is wrong.
        ProgramError: A flag is.
    """
    if options.trajectories is not None and not FEWEST <= options.trajectories <= MOST:
        raise _usage(f"--trajectories {options.trajectories}: must be {FEWEST} to {MOST}")
    scenario = _in_double(load_scenario(options.scenario, options.sets))
    task = _task(scenario, options.agent)
    initial, report = initial_params(scenario, task.policy), only_if_slow("gradcheck")
    found = gradcheck(task, initial, scenario.seed, options.trajectories, report)
    if options.json:
        print(json.dumps(_as_json(scenario, task, found), allow_nan=False))
    else:
        _print(scenario, task, found, output())
    return int(ExitCode.OK if found.passed else ExitCode.FAILED)


def _in_double(scenario: Scenario) -> Scenario:
    """A module of torch is checked in float64: differences of float32 log-probabilities show noise."""
    if scenario.policy.name != "torch":
        return scenario
    args = {**scenario.policy.args, "dtype": "float64"}
    return replace(scenario, policy=replace(scenario.policy, args=args))


def _task(scenario: Scenario, agent: int | None) -> Task:
    planned = overrides_by_goal(scenario)
    goal = min(planned) if agent is None else agent
    try:
        return make_task(scenario, goal, planned.get(goal, Overrides()))
    except UnknownGoal as error:
        raise _usage(f"--agent {goal}: {error}") from None


def _usage(message: str) -> ProgramError:
    return ProgramError(ExitCode.USAGE, message, "see python -m scenarios gradcheck --help")


def _as_json(scenario: Scenario, task: Task, found: Findings) -> dict[str, Any]:
    """Numbers that JSON has not (an infinite deviation) become null."""
    return {
        "success": found.passed,
        "scenario": scenario.name,
        "family": scenario.environment.family,
        "policy": task.policy.description,
        "agent": task.agent,
        "seed": scenario.seed,
        "checks": [
            {
                "name": check.name,
                "passed": check.passed,
                "result": check.result,
                "measured": _finite(check.measured),
                "limit": check.limit,
                "unit": check.unit,
                "proves": check.proves,
                "detail": check.detail,
                "blind": None if check.blind is None else _finite(check.blind),
            }
            for check in found.checks
        ],
        "not_proved": list(found.not_proved),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _print(scenario: Scenario, task: Task, found: Findings, console: Console) -> None:
    rows = [
        (
            check.name,
            check.result,
            f"{check.measured:.2g}",
            f"{check.limit:.2g} {check.unit}",
            check.proves,
        )
        for check in found.checks
    ]
    title = f"{task.policy.description} in {scenario.environment.family}, agent {task.agent}"
    console.print(table_of(title, ("check", "", "measured", "limit", "what a PASS proves"), rows))
    for check in found.checks:
        if check.detail:
            _say(console, f"{check.name}: {check.detail}")
    _say(console, "Not proved:")
    for line in found.not_proved:
        _say(console, f"- {line}")
    _say(console, _verdict(found.checks))


def _verdict(checks: tuple[Check, ...]) -> str:
    failed = [check.name for check in checks if check.result == "FAIL"]
    blind = [check for check in checks if check.result == "BLIND"]
    lines = []
    if failed:
        lines.append(f"{len(failed)} of {len(checks)} checks failed, mend the first one first: {failed[0]}")
    if blind:
        are = "is" if len(blind) == 1 else "are"
        named = ", ".join(map(_blindness, blind))
        lines.append(f"{len(blind)} of {len(checks)} checks {are} blind: {named}")
        lines.append("next: more --trajectories; four times as many halve what noise hides")
    return "\n" + ("\n".join(lines) or f"all {len(checks)} checks passed")


def _blindness(check: Check) -> str:
    """E.g. ``gradient (errors up to 113 %)``; where the truth is zero nothing can be relative to it."""
    blind = check.blind or 0.0
    hidden = f"errors up to {blind:.0%}" if math.isfinite(blind) else "any error: what it measures is zero"
    return f"{check.name} ({hidden})"


def _say(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False, markup=False)
