"""What is wrong with real plants in a run: found from its settings, before anything moves."""

import math
from collections.abc import Iterator

from edge_fed.config import Agents, RunConfig, effective_algorithm
from edge_fed.envs.gymnasium import bootstraps
from edge_fed.errors import Fault
from edge_fed.plant_sampler import per_local_step


def plant_faults(config: RunConfig, table: Agents, path: str) -> Iterator[Fault]:
    """A plant on which no round can be played, or none in a day."""
    device, deadline_s = table.device, config.federation.round_deadline_s
    if device is None:
        return
    if config.task.kind == "supervised":
        yield Fault(f"{path}.device", "is set, but supervised tasks have no plant", "leave it out")
        return
    if bootstraps(config.environment, table.args):
        message = "is set, but bootstrap 'value' needs how each episode ended, which a device does not keep"
        yield Fault(
            f"{path}.device",
            message,
            "choose bootstrap 'none' in environment.args, or simulate, or --onboard",
        )
        return
    episodes, work_s = _episodes(config, table), plant_s(config, table)
    many = f"{episodes} trajectories of {config.environment.horizon + 1} actions"
    if work_s > deadline_s:
        yield Fault(
            f"{path}.device.pace_s",
            f"is {device.pace_s:g}: a round of {many} takes {_s(work_s)}, longer than "
            f"federation.round_deadline_s = {deadline_s:g}; no update of this device would count",
            f"give the round at least {rounded_up(work_s):g} s, or fewer trajectories or local steps",
        )
    if device.daily_trajectories is not None and device.daily_trajectories < episodes:
        yield Fault(
            f"{path}.device.daily_trajectories",
            f"is {device.daily_trajectories}, but a round of this device needs {episodes}: it could take "
            "part in none",
            "raise it, or take smaller batches or fewer local steps",
        )


def _episodes(config: RunConfig, table: Agents) -> int:
    """Trajectories of a whole round."""
    return config.algorithm.local_steps * per_local_step(effective_algorithm(config.algorithm, table))


def plant_s(config: RunConfig, table: Agents) -> float:
    """Seconds of a round's actions at a device's pace, if no episode ends early."""
    if table.device is None:
        return 0.0
    return _episodes(config, table) * (config.environment.horizon + 1) * table.device.pace_s


def plant_line(config: RunConfig, table: Agents, path: str) -> str:
    """How long a device works on a round, and how many rounds a day has for it."""
    assert table.device is not None
    episodes, daily = _episodes(config, table), table.device.daily_trajectories
    takes = f"takes {_s(plant_s(config, table))}" if table.device.pace_s else "takes as long as its steps do"
    line = (
        f"{path} on a device: a round of {episodes} trajectories {takes}, of federation.round_deadline_s = "
        f"{config.federation.round_deadline_s:g}"
    )
    return f"{line}; {daily // episodes} rounds a day" if daily is not None else line


def _s(seconds: float) -> str:
    """Three digits, and all of a whole number: rounds on a plant take hours."""
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def rounded_up(seconds: float) -> float:
    """Two digits of the seconds, upwards: whoever follows an advice must not meet it again."""
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return math.ceil(seconds / unit) * unit
