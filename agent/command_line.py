"""Flags, signals and exit codes of ``python -m agent``. Imported after the threads are pinned."""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agent.device_flags import add_device, performer_of, plant_of
from agent.device_lock import DeviceLock
from agent.flag_values import at, count, folder, noise, save, seconds
from agent.own_flags import add_own, overrides_of
from agent.plan import DEFAULT_SERVER
from agent.runtime import AgentProgram
from agent.state_store import default_folder
from agent.table import table
from edge_fed.program import log
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.flags import Flags
from edge_fed.program.guard import end_on_failure
from edge_fed.program.results import print_result
from edge_fed.program.stopping import Stopping
from edge_fed.program.supervision import NoSupervisor, StdioSupervisor, Supervisor
from protocol.transport import AgentKeys

EPILOG = """\
exit codes: 0 done; 1 a step failed; 2 usage, or another program holds its device; 4 refused by the server;
5 no server within --give-up-after; 6 address; 7 the goal is in use or was taken over; 8 authentication
(keys); 9 the server ended early; 130, 143 signals
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = Flags(
        prog="python -m agent",
        description="One agent: trains its goal with the others, or onboards a goal that does not train. "
        "All settings come from the server; the ones below change this agent alone and are recorded.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--goal", type=count, required=True, metavar="K", help="goal = agent id")
    p.add_argument("--server", default=DEFAULT_SERVER, metavar="ADDR", help="default: %(default)s")
    p.add_argument(
        "--keys", type=Path, metavar="FILE",
        help="encrypt, with this agent's key file or the folder that holds it (python -m server keygen)",
    )  # fmt: skip
    p.add_argument("--onboard", action="store_true", help="do not train, even if the goal could")
    p.add_argument(
        "--at", type=at, default="final", metavar="WHEN",
        help="initialization that an onboarder adapts: final (default), now, or a round",
    )  # fmt: skip
    p.add_argument("--save", type=save, metavar="FILE.npz", help="keep the adapted policy")
    p.add_argument(
        "--give-up-after", type=seconds, default=60.0, metavar="S", help="patience without a server (60)"
    )
    p.add_argument("--take-over", action="store_true", help="displace a living agent of the same goal")
    own = p.add_argument_group("this agent alone")
    add_own(own)
    add_device(own)
    p.add_argument("--state-dir", type=folder, metavar="DIR", help="where agent state survives a restart")
    p.add_argument(
        "--secret-dir", type=folder, metavar="DIR",
        help="where the secret of its private noise survives a restart; default: with the state",
    )  # fmt: skip
    p.add_argument(
        "--min-noise", type=noise, default=0.0, metavar="Z",
        help="take part only if the run's privacy.noise_multiplier is at least Z; report no measurements",
    )  # fmt: skip
    p.add_argument("--log-format", choices=("text", "json"), default="text")
    p.add_argument("--log-level", choices=tuple(log.LEVELS), default="info")
    p.add_argument("--supervised", action="store_true", help="JSON events on stdout, commands on stdin")
    p.add_argument("--json", action="store_true", help="one JSON object on stdout at the end")
    return p


def main(arguments: list[str] | None = None) -> int:
    """Runs one agent; returns its exit code."""
    with ExitStack() as until_end:
        return _main(arguments, until_end)


def _main(arguments: list[str] | None, until_end: ExitStack) -> int:
    p = parser()
    chosen = p.parse_args(arguments)
    plant = plant_of(p, chosen)
    saves = chosen.save is not None and not chosen.onboard
    overrides = overrides_of(p, chosen, plant.facts(saves=saves) if plant else None)
    logger = log.configure(chosen.log_format, chosen.log_level, agent=chosen.goal)
    supervisor: Supervisor = StdioSupervisor() if chosen.supervised else NoSupervisor()
    state = chosen.state_dir or default_folder()
    shown: dict[str, Any] = {"round": None, "rows": []}

    def show(round_: int, rows: tuple[dict[str, Any], ...]) -> None:
        shown.update(round=round_, rows=list(rows))
        if not chosen.json and not chosen.supervised:
            print_result(table(rows))

    try:
        keys, key_file = _keys(chosen)
        if plant is not None:
            until_end.enter_context(DeviceLock(state, chosen.goal))
    except ProgramError as error:
        logger.error(f"exit: {error.message}", code=int(error.code), hint=error.hint)
        supervisor.event("exit", code=int(error.code), why=error.message)
        return int(error.code)
    program = AgentProgram(
        chosen.goal,
        chosen.server,
        logger=logger,
        state_folder=state,
        supervisor=supervisor,
        overrides=overrides,
        role="onboard" if chosen.onboard else "auto",
        give_up_after_s=chosen.give_up_after,
        at=chosen.at,
        save=chosen.save,
        take_over=chosen.take_over,
        secret_folder=chosen.secret_dir,
        min_noise=chosen.min_noise,
        keys=keys,
        key_file=key_file,
        show=show,
        performer=performer_of(chosen, overrides, plant, state, logger.info),
    )
    try:
        code, why = asyncio.run(_run(program)), program.exit.why if program.exit else ""
    except ProgramError as error:
        code, why = error.code, error.message
        logger.error(f"exit: {why}", code=int(code), **({"hint": error.hint} if error.hint else {}))
    except Exception as error:
        code, why = ExitCode.FAILED, f"a bug: {error!r}"
        logger.exception(f"exit: {why}", code=int(code))
        supervisor.event("exit", code=int(code), why=why)
    if chosen.json and not chosen.supervised:
        print_result(json.dumps({"goal": chosen.goal, "code": int(code), "why": why, **shown}))
    if program.busy:
        _leave_now(code)
    return int(code)


async def _run(program: AgentProgram) -> ExitCode:
    loop = asyncio.get_running_loop()
    end_on_failure(loop, program.fail)
    stopping = Stopping()
    for number, code in ((signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)):
        loop.add_signal_handler(number, _signalled, program, number, code, stopping.order)
    return await program.run()


def _signalled(
    program: AgentProgram, number: signal.Signals, code: ExitCode, order: Callable[[float], str]
) -> None:
    """The first signal ends in order, the second at once."""
    meaning = order(time.monotonic())
    if meaning == "second":
        _leave_now(code)
    if meaning == "first":
        program.stop(f"got {number.name}", code)


def _leave_now(code: ExitCode) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code))


def _keys(chosen: argparse.Namespace) -> tuple[AgentKeys | None, str]:
    """The agent's keys and their file."""
    if chosen.keys is None:
        return None, ""
    from edge_fed.program.keys import find_agent_file, read_agent_file

    path = find_agent_file(chosen.keys, chosen.goal)
    return AgentKeys(*read_agent_file(path)), str(path)
