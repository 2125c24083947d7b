"""The flags of ``python -m agent live``."""

import argparse
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent import device_flags
from agent.flag_values import place
from agent.plant_file import PlantFile
from edge_fed.drift import FALL, RUN_LENGTH
from edge_fed.meta.careful import LEAST
from edge_fed.program.flags import Flags

LEAST_REFERENCE = 20  # episodes: of fewer nothing can be said of a run length
EPILOG = """\
what it does, each time with one line of news on stdout:
  reference      the first episodes measure the return; from then on a CUSUM watches for a fall
  alarm          returns fell. By chance alone that happens every --run-length episodes or more
  re-onboarding  after an alarm the shared initialization, which the file holds, is adapted anew and tried
                 beside the policy at hand; the better one goes on, with a new reference
  step taken     with --learn: a policy-gradient step, tried before it was taken (else: step not taken)

All episodes count, those of trials and re-onboardings too; one that has begun is finished even beyond N.
With --learn an alarm is noticed at the end of a batch of four fifths of M episodes. With --state a life goes
on where it was, kill -9 included: the piece of work at hand is done again, its news may be told twice. The
policy at hand is DIR/live-K.npz, of the format of POLICY.npz; DIR/live-K.jsonl has the news and the return
of each batch.

on a real plant (--device; docs/devices.md has the file): the episodes are played there, at its pace and
behind its shield, and count for its day, together with those of python -m agent. When the day is used up the
life waits for the next one, and says so. Every finished episode is kept in DIR until the life is past it.
Without a shield no policy is tried that the life did not begin with, unless --budget says how many episodes
may try. A signal ends the life before the next action; the plant is closed.

exit codes: 0 all episodes were played; 1 environment, policy, disk or picture failed, or nobody reads the
news; 2 usage, no policy of a known environment, or another program holds the device; 4 a plant of other
spaces; 130, 143 signals: in a simulation the piece of work at hand is finished and kept (a second signal
ends at once)
"""
EXAMPLE = "args.held_out='[-0.4, 0.8, 0.4]'"


def parser() -> argparse.ArgumentParser:
    """The flags."""
    p = Flags(
        prog="python -m agent live",
        description="Lives with a policy that --save kept: acts, watches for drift, adapts anew; no server.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("policy", type=Path, metavar="POLICY.npz", help="from python -m agent --goal K --save")
    p.add_argument("--goal", type=_count, metavar="K", help="goal of its environment; default: the policy's")
    p.add_argument("--episodes", type=_count, default=1000, metavar="N", help="of the whole life (1000)")
    p.add_argument("--seed", type=_count, metavar="S", help="of all draws; default: the run's")
    p.add_argument(
        "--state", type=place, metavar="DIR",
        help="where the life survives a restart; of a device the default is where agents keep their state",
    )  # fmt: skip
    device_flags.add_device(p)
    p.add_argument("--json", action="store_true", help="news as JSON objects, one a line")
    p.add_argument("--picture", type=place, metavar="FILE.png", help="draw the life; needs the extra plot")
    habits = p.add_argument_group("habits")
    habits.add_argument(
        "--learn", type=_adapting, nargs="?", const=100, default=0, metavar="M",
        help="try a policy-gradient step every M episodes (100), a fifth of which try it",
    )  # fmt: skip
    habits.add_argument(
        "--batch", type=_positive, default=10, metavar="N", help="episodes at once, without --learn (10)"
    )
    habits.add_argument(
        "--onboard",
        type=_adapting,
        metavar="M",
        help="trajectories of a re-onboarding, besides a fifth to compare; default: as the policy had",
    )
    habits.add_argument(
        "--budget", type=_count, metavar="N",
        help="most episodes of trials and re-onboardings; default: any, 0 for a device without a shield",
    )  # fmt: skip
    drift = p.add_argument_group("drift alarm")
    drift.add_argument(
        "--reference", type=_reference, default=100, metavar="N", help="episodes that measure it (100)"
    )
    drift.add_argument(
        "--run-length", type=_run_length, default=RUN_LENGTH, metavar="N",
        help="mean number of episodes from one false alarm to the next, at least (10000)",
    )  # fmt: skip
    drift.add_argument(
        "--fall", type=_fall, default=FALL, metavar="SD",
        help="fall of the return that is to be found soonest, in standard deviations (1)",
    )  # fmt: skip
    trying = p.add_argument_group("for trying it out, in a simulation")
    trying.add_argument("--change-at", type=_count, metavar="E", help="change the environment at episode E")
    trying.add_argument(
        "--change", action="append", default=[], metavar="KEY=VALUE",
        help=f"to what: args.NAME of the family, e.g. {EXAMPLE}, or goal",
    )  # fmt: skip
    return p


def changes(p: argparse.ArgumentParser, pairs: Sequence[str]) -> dict[str, Any]:
    """What ``--change`` sets: ``goal`` and ``args.NAME``, as TOML values; ends the program if it is wrong."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not (name == "goal" or (name.startswith("args.") and name != "args.")):
            p.error(f"--change {pair!r}: write --change args.NAME=VALUE or --change goal=K")
        try:
            found[name] = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            found[name] = text
        if name == "goal" and (type(found[name]) is not int or found[name] < 0):
            p.error(f"--change {pair!r}: a goal is a whole number from 0 on")
    return found


def plant_of(p: argparse.ArgumentParser, options: argparse.Namespace) -> PlantFile | None:
    """The settings of the plant that the life acts on, if it is one; without a shield ``--budget`` gets 0.

    Ends the program if they are wrong, or if other flags cannot be kept on a plant.
    """
    plant = device_flags.plant_of(p, options)
    if plant is None:
        return None
    if options.change:
        p.error("--change is of a simulation: a real plant changes by itself")
    if plant.shield is None and options.budget is None:
        if options.learn:
            p.error(
                "--learn acts on the plant with policies that nobody has seen there, and it has no shield: "
                f"name one in {options.device}, or say with --budget how many episodes may try"
            )
        options.budget = 0
    return plant


def _count(text: str) -> int:
    return _whole(text, 0)


def _positive(text: str) -> int:
    return _whole(text, 1)


def _adapting(text: str) -> int:
    return _whole(text, LEAST)


def _reference(text: str) -> int:
    return _whole(text, LEAST_REFERENCE)


def _whole(text: str, least: int) -> int:
    if not (text.isdecimal() and len(text) < 19 and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from {least} on")
    return int(text)


def _run_length(text: str) -> float:
    return _between(text, 10.0, 1e9)


def _fall(text: str) -> float:
    return _between(text, 0.1, 10.0)


def _between(text: str, low: float, high: float) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not low <= found <= high:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from {low:g} to {high:g}")
    return found
