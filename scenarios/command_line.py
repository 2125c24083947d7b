"""Flags, errors and exit codes of ``python -m scenarios``. Imported after the threads are pinned."""

import argparse
import errno
import importlib
import json
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from edge_fed.config import overrides_by_goal
from edge_fed.errors import ConfigError, EdgeFedError, Fault, nearest, printable
from edge_fed.federated.task import blueprint
from edge_fed.program import accountant
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.validation.devices import link_lines
from edge_fed.validation.federation import onboarding_lines
from scenarios import check_env, gradcheck
from scenarios.actions import ACTIONS, RUNTIMES, Runtime
from scenarios.campaign import command as campaign_command
from scenarios.expectations import METRICS
from scenarios.faults import command as faults_command
from scenarios.outcome import Failure, Outcome, Signalled, as_json
from scenarios.paper import reproduce as reproduction
from scenarios.script import library, load_scenario, runtime_faults
from scenarios.study import claims_command, comparison
from scenarios.study import command as study_command
from scenarios.theory import add_arguments, theory
from scenarios.timeline import Scenario

EXIT_CODES = "exit codes: " + ", ".join(f"{int(code)} {code.name.lower()}" for code in ExitCode)
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}
COMMANDS = ("list", "check", "run", "verify", "theory", "gradcheck", "check-env",
            "study", "compare", "claims", "reproduce", "bench", "campaign", "faults")  # fmt: skip
OTHERS = {"server": "lead one run by hand", "agent": "one agent of a fleet"}


def main(arguments: Sequence[str], program: str = "python -m scenarios") -> int:
    """Runs one command; returns the exit code."""
    if arguments[:1] and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        print(f"error: unknown command {arguments[0]!r}; {nearest(arguments[0], COMMANDS)}", file=sys.stderr)
        return int(ExitCode.USAGE)
    if arguments[:1] == ["bench"]:
        return int(importlib.import_module("scenarios.bench.__main__").main(list(arguments[1:])))
    options = parser(program).parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _signalled)
    if command is _run:
        return _run(options)
    try:
        return command(options)
    except (ConfigError, ProgramError, EdgeFedError) as error:
        failure = failure_of(error, scenario=hasattr(options, "scenario"))
    except Signalled as error:
        failure = error.failure
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        failure = _unwritable("", error, "make room, or choose another folder")
    if options.json:
        print(json.dumps({"success": False, "error": _error(failure)}))
    _complain(failure)
    return failure.code


def parser(program: str) -> argparse.ArgumentParser:
    """The flags of every command."""
    top = argparse.ArgumentParser(
        prog=program,
        description="Scripted runs of a server and its agents: joins, crashes, slow links, onboarding.",
        epilog=EXIT_CODES,
    )
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    listed = _command(commands, "list", _list, "the scenarios that come with edge_fed")
    listed.add_argument("--actions", action="store_true", help="what a timeline can do, instead")
    listed.add_argument("--metrics", action="store_true", help="what can be expected, instead")
    _scenario(_command(commands, "check", _check, "find everything that is wrong before anything starts"))
    run = _command(commands, "run", _run, "run a scenario")
    _scenario(run)
    run.add_argument("--transport", choices=("ipc", "tcp"), help="of --runtime processes; default ipc")
    run.add_argument(
        "--curve",
        action="store_true",
        help="of --runtime processes: throw-away keys for all, every byte encrypted",
    )
    run.add_argument("--run-dir", type=Path, metavar="DIR", help="default: runs/<time>-<name>; plain: none")
    run.add_argument("--overwrite", action="store_true", help="replace an earlier run in --run-dir")
    run.add_argument("--picture", type=Path, metavar="FILE.png", help="draw the result; needs the extra plot")
    run.add_argument("--log-format", choices=("text", "json"), default="text", help="of news and logs")
    verify = _command(commands, "verify", _verify, "compute a run again from its record, compare every bit")
    verify.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    add_arguments(
        _command(commands, "theory", theory, "what the paper guarantees for a family, and what not")
    )
    meaning = "check the derivatives of your policy, and the gradients in your environment"
    gradcheck.add_arguments(_command(commands, "gradcheck", gradcheck.check_gradients, meaning))
    meaning = "find what is wrong with a Gymnasium environment before it is run"
    check_env.add_arguments(_command(commands, "check-env", check_env.check_env, meaning))
    study_command.add_arguments(
        _command(commands, "study", study_command.study, "arms times seeds in parallel, into one table")
    )
    comparison.add_arguments(
        _command(commands, "compare", comparison.compare, "two arms of studies: figures, difference, budgets")
    )
    claims_command.add_arguments(
        _command(commands, "claims", claims_command.claims, "the preregistered claims, judged on results")
    )
    reproduction.add_arguments(
        _command(
            commands, "reproduce", reproduction.reproduce, "the paper's figures, its numbers beside ours"
        )
    )
    campaign_command.add_arguments(
        _command(commands, "campaign", campaign_command.campaign, "random faults on real programs, judged")
    )
    faults_command.add_arguments(
        _command(commands, "faults", faults_command.faults, "one run per fault of the network, judged")
    )
    commands.add_parser("bench", help="measure speed, see bench --help", add_help=False)
    if program == "edge-fed":
        for name, meaning in OTHERS.items():
            commands.add_parser(name, help=f"{meaning}, see {name} --help", add_help=False)
    return top


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], meaning: str
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.", epilog=EXIT_CODES
    )
    command.add_argument("--json", action="store_true", help="one JSON object on stdout, nothing else there")
    command.set_defaults(command=run)
    return command


def _scenario(command: argparse.ArgumentParser) -> None:
    command.add_argument("scenario", metavar="FILE|NAME", help="a TOML file, or a name that list shows")
    command.add_argument("--runtime", choices=RUNTIMES, help="run: default processes; check: default all")
    command.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE",
                         help="override any key, e.g. algorithm.rounds=20 or agents.0.goals=0-2")  # fmt: skip
    command.add_argument("--seed", type=int, metavar="N", help="run seed, short for --set seed=N")


def _load(options: argparse.Namespace) -> Scenario:
    seed = [f"seed={options.seed}"] if options.seed is not None else []
    return load_scenario(options.scenario, [*options.sets, *seed])


def _list(options: argparse.Namespace) -> int:
    from scenarios.report import output, table_of

    if options.actions:
        rows = [
            (name, kind.meaning, ", ".join([*kind.args, *kind.server_args])) for name, kind in ACTIONS.items()
        ]
        heads, title = ("action", "meaning", "arguments"), "Actions of a timeline"
    elif options.metrics:
        rows = [(name, meaning, "") for name, meaning in METRICS.items()]
        heads, title = ("metric", "meaning", ""), "Metrics that can be expected"
    else:
        scenarios = [load_scenario(name) for name in library()]
        rows = [
            (s.name, s.description, f"{len(overrides_by_goal(s))} agents, {s.algorithm.rounds} rounds")
            for s in scenarios
        ]
        heads, title = ("name", "description", "size"), "Scenarios"
    if options.json:
        print(json.dumps([dict(zip(heads, row, strict=True)) for row in rows]))
    else:
        output().print(table_of(title, heads, rows))
    return 0


def _check(options: argparse.Namespace) -> int:
    scenario = _load(options)
    private = accountant.planned(scenario)
    runtimes = [options.runtime] if options.runtime else list(RUNTIMES)
    faults = {runtime: runtime_faults(scenario, runtime) for runtime in runtimes}
    able = [runtime for runtime in runtimes if not faults[runtime]]
    if options.json:
        refused = {name: [str(fault) for fault in found] for name, found in faults.items() if found}
        print(
            json.dumps(
                {
                    "success": bool(able),
                    "scenario": scenario.name,
                    "runtimes": able,
                    "refused": refused,
                    "privacy": private,
                }
            )
        )
    else:
        for runtime in able:
            print(f"{scenario.name}: right for --runtime {runtime}")
        if private:
            print(f"{scenario.name}: {accountant.line(private, 'an agent that is asked in every round')}")
        shape = blueprint(scenario)
        lines = link_lines(scenario, shape.dimension)
        lines += onboarding_lines(scenario, shape.num_train, shape.num_held_out)
        for line in [*lines, *_refused(faults, able)]:
            print(f"{scenario.name}: {line}")
    return 0 if able else int(ExitCode.USAGE)


def _refused(faults: Mapping[str, Sequence[Fault]], able: Sequence[str]) -> list[str]:
    """What some runtimes cannot do: one line if others can, else everything that stands in the way."""
    unable = [runtime for runtime, found in faults.items() if found]
    if not able:
        return [str(fault) for runtime in unable for fault in faults[runtime]]
    if not unable:
        return []
    first, count = faults[unable[0]][0], sum(len(faults[runtime]) for runtime in unable)
    more = f" (and {count - 1} more reasons)" if count > 1 else ""
    return [f"not with --runtime {' or '.join(unable)}: {first}{more}"]


def _verify(options: argparse.Namespace) -> int:
    from scenarios.verify import EXIT_CODES as CODES
    from scenarios.verify import verify

    found = verify(options.run_dir)
    if options.json:
        print(json.dumps(msgspec.to_builtins(found)))
    else:
        where = f" at round {found.round}" if found.round is not None else ""
        why = f": {found.reason}" if found.reason else ""
        print(f"{options.run_dir}: {found.outcome}{why}{where}, {found.rounds} rounds compared")
        for difference in (*found.differences, *found.notes):
            print(f"  {printable(difference)}")
    return int(CODES[found.outcome])


def _run(options: argparse.Namespace) -> int:
    """Whatever happens, ``--json`` prints one object of the same keys."""
    from scenarios.report import output, print_report

    outcome = _guarded(options)
    if options.json:
        print(json.dumps(as_json(outcome), allow_nan=False))
    elif outcome.rounds or outcome.evaluations:
        print_report(outcome, output())
    if outcome.failure:
        _complain(outcome.failure)
    return outcome.exit_code


def _guarded(options: argparse.Namespace) -> Outcome:
    from scenarios.launch import launch

    runtime: Runtime = options.runtime or "processes"
    scenario: Scenario | None = None
    try:
        scenario = _load(options)
        return launch(scenario, runtime, options)
    except (ConfigError, ProgramError, EdgeFedError) as error:
        return Outcome(scenario=scenario, runtime=runtime, failure=failure_of(error))
    except Signalled as error:
        return Outcome(scenario=scenario, runtime=runtime, failure=error.failure)
    except KeyboardInterrupt:
        return Outcome(scenario=scenario, runtime=runtime, failure=Signalled(signal.SIGINT).failure)
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            return _bug(error, scenario, runtime)
        failure = _unwritable("the run folder ", error, "make room, or choose another --run-dir")
        return Outcome(scenario=scenario, runtime=runtime, failure=failure)
    except Exception as error:
        return _bug(error, scenario, runtime)


def _unwritable(what: str, error: OSError, hint: str) -> Failure:
    where = error.filename or "the result"
    return Failure(int(ExitCode.FAILED), "failed", f"{what}{where} cannot be written: {error.strerror}", hint)


def _bug(error: Exception, scenario: Scenario | None, runtime: str) -> Outcome:
    """Its trace, and still the one object."""
    traceback.print_exc()
    failure = Failure(1, "internal", f"{type(error).__name__}: {error}", "this is a bug; please report it")
    return Outcome(scenario=scenario, runtime=runtime, failure=failure)


def failure_of(error: Exception, *, scenario: bool = True) -> Failure:
    """A mistake that a person can mend, as the result says it.

    Args:
        error: What was raised.
        scenario: Whether the command reads a scenario, which ``check`` would check.
    """
    if isinstance(error, ProgramError):
        return Failure(int(error.code), error.code.name.lower(), error.message, error.hint)
    if isinstance(error, ConfigError):
        if error.source == "file":
            hint = "see python -m scenarios list" if scenario else ""
            return Failure(int(ExitCode.USAGE), "usage", str(error.faults[0]), hint)
        many = f"{len(error.faults)} faults" if len(error.faults) > 1 else "1 fault"
        lines = "".join(f"\n  {fault}" for fault in error.faults)
        hint = "correct it and run check" if scenario else ""
        return Failure(int(ExitCode.USAGE), "usage", f"{error.source} has {many}:{lines}", hint)
    return Failure(int(ExitCode.FAILED), "failed", str(error))


def _error(failure: Failure) -> dict[str, str]:
    return {"type": failure.type, "message": failure.message, "hint": failure.hint}


def _complain(failure: Failure) -> None:
    lines = failure.message.split("\n") if failure.type == "usage" else [failure.message]  # a list of faults
    message = "\n".join(map(printable, lines))
    hint = f"\nnext: {printable(failure.hint)}" if failure.hint else ""
    print(f"error: {message}{hint}", file=sys.stderr)


def _signalled(number: int, _frame: object) -> NoReturn:
    raise Signalled(number)
