"""Starts one of the three runtimes with what the command line says."""

import argparse
import contextlib
import sys
from pathlib import Path

import msgspec

from edge_fed.errors import ConfigError
from edge_fed.program import log
from edge_fed.program.accountant import require
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.run_folder import RunFolder
from edge_fed.user_code import return_to_start
from scenarios.actions import Runtime
from scenarios.cast import make_folder
from scenarios.outcome import Failure, Outcome
from scenarios.progress import open_progress
from scenarios.script import hidden_messages, runtime_faults
from scenarios.timeline import Scenario
from scenarios.watching import Watch


def launch(scenario: Scenario, runtime: Runtime, options: argparse.Namespace) -> Outcome:
    """Runs a scenario.

    Args:
        scenario: Checked and resolved.
        runtime: Which of the three.
        options: ``transport``, ``curve``, ``run_dir``, ``overwrite``, ``picture``, ``log_format``.

    Raises:
        ConfigError: This runtime cannot do what the scenario says.
        ProgramError: The run folder cannot be made, or the picture not be drawn.
    """
    faults = runtime_faults(scenario, runtime)
    if options.curve:
        faults += hidden_messages(scenario)
    if faults:
        raise ConfigError(faults, scenario.name)
    if options.transport and runtime != "processes":
        raise ProgramError(
            ExitCode.USAGE, f"--transport does not belong to --runtime {runtime}", "leave it out"
        )
    if options.curve and runtime != "processes":
        raise ProgramError(ExitCode.USAGE, f"--curve does not belong to --runtime {runtime}", "leave it out")
    require(scenario)
    if options.picture:
        from scenarios.picture import require_plot

        require_plot(options.picture)
    return_to_start()  # the checks have called the user's code
    folder = None
    if runtime != "plain" or options.run_dir:
        folder = make_folder(scenario, options.run_dir, overwrite=options.overwrite)
    with open_progress(scenario, options.log_format, sys.stderr) as watch:
        outcome = _play(scenario, runtime, folder, watch, options)
    if options.picture and outcome.evaluations:
        return _draw(outcome, options.picture)
    return outcome


def _play(
    scenario: Scenario, runtime: Runtime, folder: RunFolder | None, watch: Watch, options: argparse.Namespace
) -> Outcome:
    if folder is None or runtime == "plain":
        from scenarios.plain import run_plain

        return run_plain(scenario, watch, folder)
    from scenarios.runner import run_networked

    if runtime == "processes":
        from scenarios.processes import Processes, Transport

        transport: Transport = options.transport or "ipc"
        return run_networked(
            scenario,
            runtime,
            folder,
            lambda happenings: Processes(
                scenario, folder, happenings, transport, options.log_format, curve=options.curve
            ),
            watch,
        )
    from scenarios.inproc import Tasks

    file = (folder.logs / "inproc.log").open("a", buffering=1, encoding="utf8")
    try:
        logger = log.configure(options.log_format, "info", file)
        return run_networked(
            scenario, runtime, folder, lambda happenings: Tasks(scenario, folder, happenings, logger), watch
        )
    finally:
        with contextlib.suppress(OSError):  # a full disk: the outcome says so, and is not lost to this line
            file.close()


def _draw(outcome: Outcome, path: Path) -> Outcome:
    """Draws the picture; if that fails, the run's result is still there to be shown."""
    from scenarios.picture import draw

    try:
        draw(outcome, path)
    except ProgramError as error:
        failure = outcome.failure or Failure(
            int(error.code), error.code.name.lower(), error.message, error.hint
        )
        return msgspec.structs.replace(outcome, failure=failure)
    print(f"picture: {path}", file=sys.stderr)
    return outcome
