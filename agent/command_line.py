"""Flags, signals and exit codes of ``python -m agent``. Imported after the threads are pinned."""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from agent.plan import DEFAULT_SERVER
from agent.plant_file import PlantFile, read_plant_file
from agent.runtime import AgentProgram
from agent.table import table
from agent.worker import Performer
from edge_fed.config import Overrides, changed
from edge_fed.errors import ConfigError, Fault, nearest
from edge_fed.profiles import LINK_BOUNDS, PRESETS
from edge_fed.program import log
from edge_fed.program.conversion import UNKNOWN_KEY, convert
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.flags import Flags
from edge_fed.program.guard import end_on_failure
from edge_fed.program.results import print_result
from edge_fed.program.stopping import Stopping
from edge_fed.program.supervision import NoSupervisor, StdioSupervisor, Supervisor
from protocol.codec import encode
from protocol.errors import LocalProtocolError
from protocol.messages import Header, Register
from protocol.transport import AgentKeys

FLAG_OF = {"compute_delay_s": "--compute-delay"}  # the others have the name of their setting
EPILOG = """\
exit codes: 0 done; 1 a step failed; 2 usage; 4 refused by the server; 5 no server within --give-up-after;
6 address; 7 the goal is in use or was taken over; 8 authentication (keys); 9 the server ended early;
130, 143 signals
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
    p.add_argument("--goal", type=_count, required=True, metavar="K", help="goal = agent id")
    p.add_argument("--server", default=DEFAULT_SERVER, metavar="ADDR", help="default: %(default)s")
    p.add_argument(
        "--keys", type=Path, metavar="FILE",
        help="encrypt, with this agent's key file or the folder that holds it (python -m server keygen)",
    )  # fmt: skip
    p.add_argument("--onboard", action="store_true", help="do not train, even if the goal could")
    p.add_argument(
        "--at", type=_at, default="final", metavar="WHEN",
        help="initialization that an onboarder adapts: final (default), now, or a round",
    )  # fmt: skip
    p.add_argument("--save", type=_save, metavar="FILE.npz", help="keep the adapted policy")
    p.add_argument(
        "--give-up-after", type=_seconds, default=60.0, metavar="S", help="patience without a server (60)"
    )
    p.add_argument("--take-over", action="store_true", help="displace a living agent of the same goal")
    own = p.add_argument_group("this agent alone")
    own.add_argument("--inner-batch", type=_count, metavar="N")
    own.add_argument("--hessian-batch", type=_count, metavar="N")
    own.add_argument("--outer-batch", type=_count, metavar="N")
    own.add_argument("--curvature", metavar="NAME", help="estimator of the exact variant")
    own.add_argument("--env-arg", action="append", default=[], metavar="KEY=VALUE", help="of its environment")
    own.add_argument("--compute-delay", type=_seconds, metavar="S", help="added to each local step")
    own.add_argument(
        "--link", action="append", default=[], metavar="KEY=VALUE",
        help="emulated link: " + ", ".join(LINK_BOUNDS),
    )  # fmt: skip
    own.add_argument("--profile", choices=tuple(PRESETS), help="emulated link by name; --link goes over it")
    own.add_argument("--completeness", metavar="PART", help="least part of the local steps that it does")
    own.add_argument(
        "--device", type=Path, metavar="FILE.toml",
        help="its environment is the one real plant that this file names: agent/plant_file.py",
    )  # fmt: skip
    own.add_argument(
        "--responsiveness", action="append", default=[], metavar="KEY=VALUE",
        help="seconds before it begins to work in a round, log-normal: median_s, spread",
    )  # fmt: skip
    p.add_argument("--state-dir", type=_folder, metavar="DIR", help="where agent state survives a restart")
    p.add_argument(
        "--secret-dir", type=_folder, metavar="DIR",
        help="where the secret of its private noise survives a restart; default: with the state",
    )  # fmt: skip
    p.add_argument(
        "--min-noise", type=_noise, default=0.0, metavar="Z",
        help="take part only if the run's privacy.noise_multiplier is at least Z; report no measurements",
    )  # fmt: skip
    p.add_argument("--log-format", choices=("text", "json"), default="text")
    p.add_argument("--log-level", choices=tuple(log.LEVELS), default="info")
    p.add_argument("--supervised", action="store_true", help="JSON events on stdout, commands on stdin")
    p.add_argument("--json", action="store_true", help="one JSON object on stdout at the end")
    return p


def main(arguments: list[str] | None = None) -> int:
    """Runs one agent; returns its exit code."""
    p = parser()
    chosen = p.parse_args(arguments)
    plant = _plant(p, chosen)
    overrides = _overrides(p, chosen, plant)
    logger = log.configure(chosen.log_format, chosen.log_level, agent=chosen.goal)
    supervisor: Supervisor = StdioSupervisor() if chosen.supervised else NoSupervisor()
    shown: dict[str, Any] = {"round": None, "rows": []}

    def show(round_: int, rows: tuple[dict[str, Any], ...]) -> None:
        shown.update(round=round_, rows=list(rows))
        if not chosen.json and not chosen.supervised:
            print_result(table(rows))

    try:
        keys, key_file = _keys(chosen)
    except ProgramError as error:
        logger.error(f"exit: {error.message}", code=int(error.code), hint=error.hint)
        supervisor.event("exit", code=int(error.code), why=error.message)
        return int(error.code)
    if plant is not None and chosen.save is not None and not chosen.onboard:
        text = "a device that trains is not measured: --save keeps a policy only of one that onboards"
        logger.warning(text, hint="add --onboard")
    program = AgentProgram(
        chosen.goal,
        chosen.server,
        logger=logger,
        state_folder=chosen.state_dir or _state_folder(),
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
        performer=_performer(chosen, overrides, plant, logger),
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


def _plant(p: argparse.ArgumentParser, chosen: argparse.Namespace) -> PlantFile | None:
    """The settings of the device, if this agent is one."""
    if chosen.device is None:
        return None
    try:
        return read_plant_file(chosen.device)
    except ConfigError as error:
        p.error(f"--device {error}")


def _performer(
    chosen: argparse.Namespace, overrides: Overrides, plant: PlantFile | None, logger: log.Logger
) -> Callable[[], Performer] | None:
    """Who computes for a device; None: who computes for a simulated agent."""
    if plant is None:
        return None
    state, secret = chosen.state_dir or _state_folder(), chosen.secret_dir

    def make() -> Performer:
        try:
            from agent.plant_learner import PlantLearner  # environments load while the socket connects
        except ModuleNotFoundError as error:
            why = f"a device needs what is not installed: {error.name}"
            raise ProgramError(ExitCode.USAGE, why, "pip install 'edge-fed[gym]'") from error
        own = (chosen.goal, overrides, state, chosen.save, secret, chosen.min_noise)
        return PlantLearner(*own, settings=plant, say=logger.info)

    return make


def _overrides(p: argparse.ArgumentParser, chosen: argparse.Namespace, plant: PlantFile | None) -> Overrides:
    """This agent's own settings, checked as far as that is possible without the server."""
    tree: dict[str, Any] = {
        "args": _pairs(p, "--env-arg", chosen.env_arg),
        "inner_batch": chosen.inner_batch,
        "hessian_batch": chosen.hessian_batch,
        "outer_batch": chosen.outer_batch,
        "curvature": chosen.curvature,
        "compute_delay_s": chosen.compute_delay,
        "link": _pairs(p, "--link", chosen.link) or None,
        "profile": chosen.profile,
        "completeness": None if chosen.completeness is None else _value(chosen.completeness),
        "responsiveness": _pairs(p, "--responsiveness", chosen.responsiveness) or None,
        "device": msgspec.to_builtins(plant.facts()) if plant else None,
    }
    faults: list[Fault] = []
    overrides = convert({name: value for name, value in tree.items() if value is not None}, Overrides, faults)
    if overrides is None or faults:  # an unknown key alone gives a record
        wrong = _link_faults(tree.get("link") or {})
        others = [_of_flag(fault) for fault in faults if fault.path != "link.profile"]
        p.error("; ".join([*others, *wrong]))
    if wrong := _link_faults(overrides.link or {}):
        p.error("; ".join(wrong))
    try:
        encode(Header(), Register(agent=chosen.goal, incarnation=bytes(16), overrides=changed(overrides)))
    except LocalProtocolError as error:
        p.error(f"the settings of this agent cannot be sent: {error}")
    return overrides


def _link_faults(link: dict[str, Any]) -> list[str]:
    """Keys that no link has, and numbers beyond its bounds."""
    found = []
    for key, value in link.items():
        if key == "profile":
            found.append("--link has no 'profile'; use --profile")
        elif key not in LINK_BOUNDS:
            found.append(f"--link has no {key!r}; {nearest(key, LINK_BOUNDS)}")
        elif isinstance(value, float) and not LINK_BOUNDS[key][0] <= value <= LINK_BOUNDS[key][1]:
            low, high = LINK_BOUNDS[key]
            found.append(f"--link {key}={value:g}: expected a number from {low:g} to {high:g}")
    return found


def _of_flag(fault: Fault) -> str:
    if fault.message == UNKNOWN_KEY:
        flag, _, key = _flag(fault.path).partition(" ")
        return f"{flag} has no {key!r}; {fault.hint}"
    return f"{_flag(fault.path)} {fault.message}"


def _flag(path: str) -> str:
    setting, _, below = path.partition(".")
    flag = FLAG_OF.get(setting, "--" + setting.replace("_", "-"))
    return f"{flag} {below}".rstrip()


def _pairs(p: argparse.ArgumentParser, option: str, pairs: list[str]) -> dict[str, Any]:
    found = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            p.error(f"{option} {pair!r}: write {option} key=value")
        found[key] = _value(text)
    return found


def _value(text: str) -> Any:
    """A TOML value, else the text itself."""
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # no TOML, digits without end, brackets without end
        return text


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from 0 on")
    if len(text) > 19 or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text[:40]} is too large")
    return int(text)


def _seconds(text: str) -> float:
    return _number(text, "number of seconds", 1e7)


def _noise(text: str) -> float:
    return _number(text, "noise multiplier", 1e6)


def _number(text: str, what: str, most: float) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is no {what} from 0 to {most:g}")
    return found


def _at(text: str) -> str | int:
    if text in ("final", "now"):
        return text
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is neither final, now nor a round")
    return _count(text)


def _save(text: str) -> Path:
    """A file that can be written at the end of the work; found out before it."""
    path = Path(text)
    folder = path.absolute().parent
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}")
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{text} is a folder")
    if os.path.lexists(path) and not os.path.isfile(path):
        raise argparse.ArgumentTypeError(f"{text} is no regular file")
    _try_to_write(text, folder)
    return path


def _folder(text: str) -> Path:
    """A folder that exists and can be written, or that can be made."""
    path = Path(text).absolute()
    there = next(place for place in (path, *path.parents) if os.path.lexists(place))
    if not there.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: {there} is no folder")
    _try_to_write(text, there)
    return Path(text)


def _try_to_write(text: str, folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = f"{text}: the folder {folder} cannot be written: {error.strerror}"
        raise argparse.ArgumentTypeError(why) from error


def _state_folder() -> Path:
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "edge-fed"
