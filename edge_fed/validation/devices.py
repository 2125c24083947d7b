"""What is wrong with the devices and links of a run: found from its settings, before anything starts.

A link that cannot carry a round's parameters within the round's deadline, or keeps the agent's heartbeats
waiting behind its update for longer than the lease, gives a run in which that agent never counts.
"""

from collections.abc import Iterator
from typing import NamedTuple

from edge_fed.config import Agents, RunConfig, overrides_by_goal
from edge_fed.errors import Fault
from edge_fed.federated.cohort import round_cohort
from edge_fed.federated.ending import MAX_SKIPPED
from edge_fed.federated.robust import needed_updates
from edge_fed.profiles import HEADER_BYTES, HEARTBEAT_BYTES, PURPOSES, link_values, lost, sending_s
from edge_fed.validation.plants import plant_faults, plant_line, plant_s, rounded_up


class Times(NamedTuple):
    """Seconds that one round takes over a link, the least possible but for ``about``.

    Attributes:
        down: Of the parameters, until the last byte has left.
        up: Of the update.
        whole: Of both, the latency each way and the device's own delay.
        about: The same with the longest jitter each way and the median of the responsiveness: a round lasts
            as long as its slowest agent.
    """

    down: float
    up: float
    whole: float
    about: float


MAX_DRAWS = 200_000  # of a check: about half a second


def device_faults(config: RunConfig, dimension: int) -> Iterator[Fault]:
    """What is wrong with availability, completeness, connectivity and links.

    Args:
        config: Settings that are right otherwise.
        dimension: d, of the run's parameters.
    """
    for index, table in enumerate(config.agents):
        path = f"agents.{index}"
        if table.completeness not in (None, 1.0) and config.algorithm.correction != "none":
            yield Fault(
                f"{path}.completeness",
                f"is {table.completeness:g}, but control variates divide each update by all local steps",
                "leave it out, or choose correction 'none'",
            )
        answers, deadline_s = table.responsiveness, config.federation.round_deadline_s
        if answers is not None and answers.median_s > deadline_s:
            yield Fault(
                f"{path}.responsiveness.median_s",
                f"is {answers.median_s:g}, longer than federation.round_deadline_s = {deadline_s:g}: in more "
                "than half of the rounds no update of these agents would count",
                "give the round more time, or a shorter median",
            )
        key = "profile" if table.profile is not None else "link"
        slow_plant = list(plant_faults(config, table, path))
        yield from slow_plant or _link(config, table, dimension, f"{path}.{key}")
    yield from _too_few(config)


def _link(config: RunConfig, table: Agents, dimension: int, path: str) -> Iterator[Fault]:
    """A link on which no update counts, or everything is sent twice."""
    link, federation = link_values(table), config.federation
    beat_s, (down, up) = sending_s(link, HEARTBEAT_BYTES), _sizes(config, dimension)
    times = round_times(config, table, dimension)
    name = _name(table)
    frames = f"{down} bytes take {times.down:.3g} s down and {up} bytes {times.up:.3g} s up {name}"
    travel_s = 2 * (link.get("latency_s", 0.0) + link.get("jitter_s", 0.0))
    silence_s = federation.heartbeat_s + times.up + times.down + travel_s
    if beat_s > federation.heartbeat_s:
        yield Fault(
            path,
            f"a heartbeat of {HEARTBEAT_BYTES} bytes takes {beat_s:.3g} s {name}, longer than "
            f"federation.heartbeat_s = {federation.heartbeat_s:g}: they would pile up",
            "send fewer heartbeats (and give lease_s several of them), or take a faster link",
        )
    elif times.whole > federation.round_deadline_s:
        yield Fault(
            path,
            f"{frames}: a round needs at least {times.whole:.3g} s, longer than "
            f"federation.round_deadline_s = {federation.round_deadline_s:g}; no update would count",
            "give the round more time, or take a smaller policy or a faster link",
        )
    elif silence_s > federation.lease_s:
        yield Fault(
            path,
            f"{frames}: heartbeats wait behind the update, and their answers behind the next parameters: "
            f"{silence_s:.3g} s of silence are longer than federation.lease_s = {federation.lease_s:g}; the "
            "agent would be lost, or register again, in each round",
            f"give lease_s at least {rounded_up(federation.heartbeat_s + silence_s):g}, "
            "or take a faster link",
        )


def round_times(config: RunConfig, table: Agents, dimension: int) -> Times:
    """How long a round takes for the agents of a table, if each message is sent once."""
    link = link_values(table)
    down_s, up_s = (sending_s(link, size) for size in _sizes(config, dimension))
    work_s = config.algorithm.local_steps * (table.compute_delay_s or 0.0) + plant_s(config, table)
    whole_s = down_s + up_s + 2 * link.get("latency_s", 0.0) + work_s
    median_s = table.responsiveness.median_s if table.responsiveness is not None else 0.0
    return Times(down_s, up_s, whole_s, whole_s + 2 * link.get("jitter_s", 0.0) + median_s)


def link_lines(config: RunConfig, dimension: int) -> list[str]:
    """For people: about how long a round lasts for each table with an emulated link or a device."""
    found, rounds = [], config.algorithm.rounds
    for index, table in enumerate(config.agents):
        if link_values(table):
            times = round_times(config, table, dimension)
            found.append(
                f"agents.{index} {_name(table)}: a round takes about {times.about:.3g} s ({times.down:.3g} s "
                f"down, {times.up:.3g} s up), {rounds} rounds about {rounds * times.about:.0f} s"
            )
        if table.device is not None:
            found.append(plant_line(config, table, f"agents.{index}"))
    return found


def _sizes(config: RunConfig, dimension: int) -> tuple[int, int]:
    """Bytes of one THETA and one UPDATE."""
    vectors = 1 if config.algorithm.correction == "none" else 2
    return HEADER_BYTES + 8 * dimension * vectors, HEADER_BYTES + 8 * dimension


def _name(table: Agents) -> str:
    return f"over {table.profile!r}" if table.profile is not None else "over this link"


def _too_few(config: RunConfig) -> Iterator[Fault]:
    """Availability and connectivity leave too few updates in so many rounds in a row that the run ends."""
    words: list[tuple[float, str, str]] = [
        (getattr(table, word), word, f"agents.{index}.{word}")
        for index, table in enumerate(config.agents)
        for word in PURPOSES
        if getattr(table, word) < 1
    ]
    agents, rounds = tuple(overrides_by_goal(config)), config.algorithm.rounds
    if not words or 2 * len(agents) * rounds > MAX_DRAWS:
        return
    blamed: list[str] = []  # of each skipped round in a row: what left it too few updates
    for round_ in range(1, rounds + 1):
        asked = round_cohort(config, round_, agents)
        arrive, need = len(asked) - len(lost(config, round_, asked)), needed_updates(config, len(asked))
        if arrive >= need:
            blamed.clear()
            continue
        blamed.append("connectivity" if len(asked) >= need else "availability")
        if len(blamed) == MAX_SKIPPED:
            word = max(blamed, key=blamed.count)
            yield Fault(
                min((entry for entry in words if entry[1] == word), default=min(words))[2],
                f"with this seed the rounds {round_ - 2} to {round_} are skipped for too few updates "
                f"(of round {round_}, {arrive} arrive), and the run ends after {MAX_SKIPPED} such rounds",
                "raise it, lower federation.min_updates, or take more agents or another seed",
            )
            return
