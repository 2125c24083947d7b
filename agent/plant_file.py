"""The settings of a device: ``--device FILE.toml``. They belong to its owner, and none comes from a server.

    environment         the plant: ``module:factory`` of a file in the working directory, or a registered id
    env_args            its keyword arguments; default none
    pace_s              an action follows the one before it no earlier; default 0: `step` takes its own time
    reset               ``always`` before each episode, or ``never``: once, when this program has started
    daily_trajectories  begun per day, UTC; default: as many as the run asks for
    shield              ``module:function``, (observation, action) -> the action that is applied; default none

The observation that the policy acts on is the one that `step` returned. Where the plant moves on during
``pace_s``, let `step` itself wait and read its sensors then, and leave ``pace_s`` at 0.

`close` is called when the agent ends, when the plant or the shield fails, and before a next run: it must
leave the plant safe. A `step` that does not return within 2 s of a stop, and kill -9, end the program without
it: what happens then is up to the watchdog of the plant. Foreign code that does not let go of Python's lock
leaves only kill -9.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from edge_fed.config import Count, Device, Pace, Settings
from edge_fed.errors import ConfigError, Fault
from edge_fed.program.config_file import parse, read
from edge_fed.program.conversion import convert
from edge_fed.program.toml_lines import key_lines, line_of
from edge_fed.user_code import is_user_code


class PlantFile(Settings, frozen=True, kw_only=True):
    """What the file says, see the head of this one."""

    environment: Annotated[str, Meta(min_length=1)]
    env_args: dict[str, Any] = msgspec.field(default_factory=dict)
    pace_s: Pace = 0.0
    reset: Literal["always", "never"] = "always"
    daily_trajectories: Count | None = None
    shield: str | None = None

    def facts(self, *, saves: bool = False) -> Device:
        """What the server must know, and records; ``saves``: it wants a policy of its own at the end."""
        return Device(
            pace_s=self.pace_s,
            reset=self.reset,
            daily_trajectories=self.daily_trajectories,
            shielded=self.shield is not None,
            saves=saves,
        )


def read_plant_file(path: Path) -> PlantFile:
    """Reads the file.

    Raises:
        ConfigError: Lists every fault with its line.
    """
    text = read(path)
    faults: list[Fault] = []
    found = convert(parse(text, str(path)), PlantFile, faults)
    if found is not None and found.shield is not None and not is_user_code(found.shield):
        faults.append(Fault("shield", f"is {found.shield!r}, no module:function", "e.g. plant:limit"))
    if found is None or faults:
        lines = key_lines(text)
        placed = [msgspec.structs.replace(fault, line=line_of(fault.path, lines)) for fault in faults]
        raise ConfigError(placed, str(path))
    return found
