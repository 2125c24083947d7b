"""What is wrong with the devices and links of a run: found from its settings, before anything starts.

A link that cannot carry a round's parameters within the round's deadline, or keeps the agent's heartbeats
waiting behind its update for longer than the lease, gives a run in which that agent never counts.
"""

from collections.abc import Iterator

from edge_fed.config import Agents, RunConfig, overrides_by_goal
from edge_fed.errors import Fault
from edge_fed.federated.cohort import round_cohort
from edge_fed.federated.ending import MAX_SKIPPED
from edge_fed.federated.robust import needed_updates
from edge_fed.profiles import HEADER_BYTES, HEARTBEAT_BYTES, PURPOSES, link_values, lost, sending_s

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
        yield from _link(config, table, dimension, f"{path}.{key}")
    yield from _too_few(config)


def _link(config: RunConfig, table: Agents, dimension: int, path: str) -> Iterator[Fault]:
    """A link on which no update counts; all times are the least possible, without jitter."""
    link, federation = link_values(table), config.federation
    vectors = 1 if config.algorithm.correction == "none" else 2
    down, up = HEADER_BYTES + 8 * dimension * vectors, HEADER_BYTES + 8 * dimension
    beat_s, down_s, up_s = (sending_s(link, size) for size in (HEARTBEAT_BYTES, down, up))
    name = f"over {table.profile!r}" if table.profile is not None else "over this link"
    frames = f"{down} bytes take {down_s:.3g} s down and {up} bytes {up_s:.3g} s up {name}"
    work_s = config.algorithm.local_steps * (table.compute_delay_s or 0.0)
    round_s = down_s + up_s + 2 * link.get("latency_s", 0.0) + work_s
    if beat_s > federation.heartbeat_s:
        yield Fault(
            path,
            f"a heartbeat of {HEARTBEAT_BYTES} bytes takes {beat_s:.3g} s {name}, longer than "
            f"federation.heartbeat_s = {federation.heartbeat_s:g}: they would pile up",
            "send fewer heartbeats (and give lease_s several of them), or take a faster link",
        )
    elif round_s > federation.round_deadline_s:
        yield Fault(
            path,
            f"{frames}: a round needs at least {round_s:.3g} s, longer than "
            f"federation.round_deadline_s = {federation.round_deadline_s:g}; no update would count",
            "give the round more time, or take a smaller policy or a faster link",
        )
    elif (silence_s := federation.heartbeat_s + up_s) > federation.lease_s:
        yield Fault(
            path,
            f"{frames}: heartbeats wait behind the update, and {silence_s:.3g} s of silence are longer than "
            f"federation.lease_s = {federation.lease_s:g}; the agent would be lost in each round",
            f"give lease_s at least {federation.heartbeat_s + silence_s:.3g}, or take a faster link",
        )


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
