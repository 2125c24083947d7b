"""``--device FILE.toml``: the environment is one real plant, and who computes for it."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.plant_file import PlantFile, read_plant_file
from edge_fed.config import Overrides
from edge_fed.errors import ConfigError
from edge_fed.program.exit_codes import ExitCode, ProgramError

if TYPE_CHECKING:  # it knows messages, and with them sockets, which a life has none of
    from agent.worker import Performer


def add_device(p: argparse._ActionsContainer) -> None:
    """The flag."""
    p.add_argument(
        "--device", type=Path, metavar="FILE.toml",
        help="its environment is the one real plant that this file names: agent/plant_file.py",
    )  # fmt: skip


def plant_of(p: argparse.ArgumentParser, chosen: argparse.Namespace) -> PlantFile | None:
    """The settings of the device, if this agent is one."""
    if chosen.device is None:
        return None
    try:
        return read_plant_file(chosen.device)
    except ConfigError as error:
        p.error(f"--device {error}")


def performer_of(
    chosen: argparse.Namespace,
    overrides: Overrides,
    plant: PlantFile | None,
    state: Path,
    say: Callable[[str], Any],
) -> "Callable[[], Performer] | None":
    """Who computes for a device; None: who computes for a simulated agent."""
    if plant is None:
        return None

    def make() -> "Performer":
        try:
            from agent.plant_learner import PlantLearner  # environments load while the socket connects
        except ModuleNotFoundError as error:
            raise not_installed(error) from error
        own = (chosen.goal, overrides, state, chosen.save, chosen.secret_dir, chosen.min_noise)
        return PlantLearner(*own, settings=plant, say=say)

    return make


def not_installed(error: ModuleNotFoundError) -> ProgramError:
    """What it means for a device that a package is missing."""
    why = f"a device needs what is not installed: {error.name}"
    return ProgramError(ExitCode.USAGE, why, "pip install 'edge-fed[gym]'")
