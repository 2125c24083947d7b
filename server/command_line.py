"""Flags, signals and exit codes of ``python -m server``. Imported after the threads are pinned."""

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from edge_fed.config import RunConfig
from edge_fed.errors import ConfigError, printable
from edge_fed.program import log
from edge_fed.program.accountant import require
from edge_fed.program.config_file import load_config
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.flags import Flags
from edge_fed.program.guard import end_on_failure
from edge_fed.program.results import print_result
from edge_fed.program.run_folder import RunFolder
from edge_fed.program.stopping import Stopping
from edge_fed.program.supervision import NoSupervisor, StdioSupervisor, Supervisor
from server.binding import DEFAULT_BIND
from server.console import Bar, is_terminal
from server.doorkeeper import Doorkeeper
from server.recovery import had_keys
from server.runtime import ServerProgram

SIGNALS = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}
EXIT_CODES = "exit codes: " + ", ".join(f"{int(code)} {code.name.lower()}" for code in ExitCode)


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = Flags(
        prog="python -m server",
        description="Leads one run: waits for agents, averages their updates, records every round, and hands "
        "the result to onboarders. Without flags it serves the few-shot configuration on "
        + DEFAULT_BIND
        + ". Keys for other machines are made by python -m server keygen DIR, see keygen --help.",
        epilog=EXIT_CODES,
    )
    source = flags.add_mutually_exclusive_group()
    source.add_argument("--config", type=Path, metavar="FILE", help="TOML file with the keys of RunConfig")
    source.add_argument("--resume", type=Path, metavar="RUN_DIR", help="go on with an earlier run")
    flags.add_argument(
        "--set", dest="sets", action="append", default=[], metavar="KEY=VALUE", help="override any key"
    )
    flags.add_argument("--seed", type=int, help="run seed, short for --set seed=N")
    flags.add_argument("--bind", default=DEFAULT_BIND, metavar="ADDR", help="tcp://HOST:PORT or ipc://PATH")
    flags.add_argument(
        "--keys", type=Path, metavar="DIR",
        help="encrypt, and let in only agents whose keys DIR/allowed.txt lists; see keygen --help",
    )  # fmt: skip
    flags.add_argument(
        "--insecure", action="store_true", help="without --keys: allow an address that other machines reach"
    )
    flags.add_argument("--run-dir", type=Path, metavar="DIR", help="default: runs/<time>-<name>")
    flags.add_argument("--serve", action="store_true", help="stay for onboarders when the run is complete")
    flags.add_argument("--json", action="store_true", help="print the summary on stdout at the end")
    flags.add_argument("--log-format", choices=("text", "json"), default="text")
    flags.add_argument("--log-level", choices=tuple(log.LEVELS), default="info")
    flags.add_argument(
        "--supervised", action="store_true", help="events on stdout, commands on stdin (for a runner)"
    )
    flags.add_argument(
        "--hold", default="", metavar="ROUNDS", help="with --supervised: ask before these rounds, e.g. 5,10"
    )
    return flags


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments[:1] == ["keygen"]:
        from server.keygen import main as keygen

        return keygen(arguments[1:])
    options = parser().parse_args(arguments)
    try:
        return int(_run(options))
    except ConfigError as error:
        print(f"error: {_faults(error)}", file=sys.stderr)
        return int(ExitCode.USAGE)
    except ProgramError as error:
        hint = f"\n  {printable(error.hint)}" if error.hint else ""
        print(f"error: {printable(error.message)}{hint}", file=sys.stderr)
        return int(error.code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)


def _faults(error: ConfigError) -> str:
    if error.source == "file":  # it cannot be read: there is one fault, which names it
        return str(error.faults[0])
    many = f"{len(error.faults)} faults" if len(error.faults) > 1 else "1 fault"
    return f"{error.source} has {many}:" + "".join(f"\n  {fault}" for fault in error.faults)


def _run(options: argparse.Namespace) -> ExitCode:
    holds = _holds(options)
    if options.bind.startswith("inproc://"):
        raise ProgramError(
            ExitCode.ADDRESS,
            f"{options.bind} can be reached from inside this process alone",
            "bind tcp://127.0.0.1:5555 or ipc://PATH",
        )
    name = {"program": "server"} if options.log_format == "json" else {}  # a person sees one program's lines
    logger = log.configure(options.log_format, options.log_level, None, **name)
    doorkeeper = Doorkeeper(options.keys, logger) if options.keys is not None else None
    config, folder, withdraw = _folder(options)
    if options.resume and options.keys is None and not options.insecure and had_keys(folder):
        raise ProgramError(
            ExitCode.USAGE,
            f"the run in {folder.path} had keys; its agents do not speak with a server that has none",
            "add --keys DIR; or --insecure, to go on without",
        )
    supervisor: Supervisor = StdioSupervisor() if options.supervised else NoSupervisor()
    watched = is_terminal() and options.log_format == "text" and not options.supervised
    bar = Bar(config, max([0, *folder.committed_rounds()])) if watched else None
    if bar is not None:
        bar.attach(logger)
    program = ServerProgram(
        config,
        folder,
        options.bind,
        logger=logger,
        supervisor=supervisor,
        holds=holds,
        serve=options.serve,
        resume=options.resume is not None,
        insecure=options.insecure,
        doorkeeper=doorkeeper,
        console=bar,
    )
    try:
        code = asyncio.run(_with_signals(program, doorkeeper))
    except ProgramError as error:
        if error.code == ExitCode.ADDRESS:
            withdraw()
        supervisor.event("exit", code=int(error.code), why=error.message)
        raise
    except Exception as error:
        logger.exception("the server failed", hint=program.go_on())
        supervisor.event("exit", code=int(ExitCode.FAILED), why=repr(error))
        return ExitCode.FAILED
    if options.json and not options.supervised:
        print_result(json.dumps({"run_dir": str(folder.path), **program.summary}))
    supervisor.event("exit", code=int(code), why=program.summary["why"])
    return code


async def _with_signals(program: ServerProgram, doorkeeper: Doorkeeper | None) -> ExitCode:
    """The first signal ends the run in order, the second one at once; SIGHUP reads the allow-list again."""
    loop = asyncio.get_running_loop()
    end_on_failure(loop, program.fail)
    stopping = Stopping()

    def received(number: signal.Signals) -> None:
        order = stopping.order(loop.time())
        if order == "second":
            os._exit(int(SIGNALS[number]))
        if order == "first":
            program.stop(f"stopped by {number.name}", SIGNALS[number])

    for number in SIGNALS:
        loop.add_signal_handler(number, received, number)
    if doorkeeper is not None:
        loop.add_signal_handler(signal.SIGHUP, doorkeeper.read_again)
    return await program.run()


def _folder(options: argparse.Namespace) -> tuple[RunConfig, RunFolder, Callable[[], None]]:
    """The run's settings, its folder, and what takes back the making of that folder."""
    if options.resume is not None:
        if options.sets or options.seed is not None or options.run_dir is not None:
            raise ProgramError(
                ExitCode.USAGE,
                "--resume goes on with the configuration that the run folder holds",
                "leave --set, --seed and --run-dir out, or start a new run",
            )
        folder = RunFolder.open(options.resume)
        folder.check()
        require(folder.config)
        return folder.config, folder, lambda: None
    sets = [*options.sets, *([f"seed={options.seed}"] if options.seed is not None else [])]
    config = load_config(options.config, sets)
    require(config)
    was_there = options.run_dir is not None and options.run_dir.is_dir()
    folder = RunFolder.create(config, options.run_dir)
    return config, folder, lambda: _withdraw(folder.path, keep=was_there)


def _withdraw(path: Path, *, keep: bool) -> None:
    """Removes the folder of a run that never began; it was made here, or was here and empty (``keep``)."""
    for inside in path.iterdir() if keep else ():
        shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
    if not keep:
        shutil.rmtree(path)


def _holds(options: argparse.Namespace) -> frozenset[int]:
    text: str = options.hold
    parts = [part.strip() for part in text.split(",") if part.strip()]
    wrong = [part for part in parts if not (part.isdecimal() and len(part) < 19 and int(part) > 0)]
    if wrong:
        raise ProgramError(
            ExitCode.USAGE, f"--hold {text}: {wrong[0]!r} is no round", "write e.g. --hold 5,10"
        )
    if parts and not options.supervised:
        raise ProgramError(
            ExitCode.USAGE, f"--hold {text}: nobody is there to be asked", "--hold belongs to --supervised"
        )
    return frozenset(int(part) for part in parts)
