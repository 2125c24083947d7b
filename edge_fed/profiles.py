"""How devices and their links differ from the ideal: FLGo's four words, and presets of emulated links. Pure.

    availability     chance that an agent can be asked in a round                       decides who is asked
    connectivity     chance that the update of a round gets through                     decides who is counted
    completeness     least part of the local steps that it does; uniform from there up  decides the update
    responsiveness   how long it takes before it begins to work in a round, log-normal  changes time only

Each is drawn anew per round from a stream of (run seed, agent, round), so that the plain loop, the server,
the agent and verify see the same. The words are those of FLGo (flgo/simulator); completeness is the uniform
number of local steps of FedNova's experiments (Wang et al. 2020), responsiveness FLGo's log-normal latency.
The first two belong to the run and stand in its ``[[agents]]`` tables alone; an agent may set the others for
itself. Numbers and sources: docs/network.md.
"""

import math
from collections.abc import Iterable
from typing import Literal

from edge_fed.config import Overrides, Responsiveness, RunConfig, parse_goals
from edge_fed.seeding import Purpose, stream

LOST = "connectivity: the update was lost on its way"
"""Why a round went on without an agent whose update did not get through."""

LINK_BOUNDS: dict[str, tuple[float, float]] = {
    "latency_s": (0.0, 60.0),
    "jitter_s": (0.0, 60.0),
    "bandwidth_bps": (1.0, 1e12),
    "loss": (0.0, 0.9),
}
"""Keys of an emulated link (fields of ``protocol.link.LinkProfile``; tests keep
the names equal and the bounds within what a link accepts)."""

PRESETS: dict[str, dict[str, float]] = {
    "ethernet": {"latency_s": 0.0002, "jitter_s": 0.0001, "bandwidth_bps": 1e9, "loss": 0.0},
    "wifi": {"latency_s": 0.0015, "jitter_s": 0.011, "bandwidth_bps": 2e7, "loss": 0.001},
    "lte": {"latency_s": 0.035, "jitter_s": 0.03, "bandwidth_bps": 6e6, "loss": 0.0},
    "lora": {"latency_s": 0.06, "jitter_s": 0.1, "bandwidth_bps": 5470.0, "loss": 0.0},
}
"""Links by name; both directions alike, with the numbers of the slower one."""

HEADER_BYTES = 200  # of a THETA and, without metrics, an UPDATE: preamble and header
HEARTBEAT_BYTES = 130
MAX_RESPONSE_S = 1e6

Word = Literal["availability", "connectivity"]
PURPOSES: dict[Word, Purpose] = {
    "availability": Purpose.AVAILABILITY,
    "connectivity": Purpose.CONNECTIVITY,
}


def available(config: RunConfig, round_: int, agents: Iterable[int]) -> tuple[int, ...]:
    """Those of ``agents`` that can be asked in this round, in the order given."""
    away = _failing(config, "availability", round_)
    return tuple(agent for agent in agents if agent not in away)


def unavailable(config: RunConfig, round_: int, agents: Iterable[int]) -> tuple[int, ...]:
    """Those of ``agents`` that cannot be asked in this round, in the order given."""
    away = _failing(config, "availability", round_)
    return tuple(agent for agent in agents if agent in away)


def lost(config: RunConfig, round_: int, cohort: Iterable[int]) -> frozenset[int]:
    """Those of ``cohort`` whose update of this round does not get through."""
    return _failing(config, "connectivity", round_).intersection(cohort)


def _failing(config: RunConfig, word: Word, round_: int) -> frozenset[int]:
    """Planned agents whose draw is not below their chance."""
    return frozenset(
        agent
        for table in config.agents
        if getattr(table, word) < 1
        for agent in parse_goals(table.goals)
        if stream(config.seed, agent, round_, 0, PURPOSES[word]).random() >= getattr(table, word)
    )


def steps_done(completeness: float, local_steps: int, seed: int, agent: int, round_: int) -> int:
    """How many local steps an agent does in a round: uniform on ceil(completeness tau), ..., tau."""
    if completeness == 1.0:
        return local_steps
    least = max(1, math.ceil(completeness * local_steps - 1e-9))  # 0.6 * 5 is a little more than 3 in binary
    return int(stream(seed, agent, round_, 0, Purpose.COMPLETENESS).integers(least, local_steps + 1))


def response_s(responsiveness: Responsiveness | None, seed: int, agent: int, round_: int) -> float:
    """Seconds before an agent begins to work in a round: median * exp(spread * z), z standard normal."""
    if responsiveness is None:
        return 0.0
    z = float(stream(seed, agent, round_, 0, Purpose.RESPONSIVENESS).standard_normal())
    return min(MAX_RESPONSE_S, responsiveness.median_s * math.exp(responsiveness.spread * z))


def link_values(overrides: Overrides) -> dict[str, float]:
    """The emulated link of an agent: its preset, and the keys of ``link`` over it; empty: no emulation.

    Raises:
        KeyError: There is no such preset; `edge_fed.validation` finds that before.
    """
    preset = PRESETS[overrides.profile] if overrides.profile is not None else {}
    return {**preset, **(overrides.link or {})}


def sending_s(link: dict[str, float], size: int) -> float:
    """Seconds until the last of ``size`` bytes has left, retransmissions of lost segments included."""
    bandwidth = link.get("bandwidth_bps", 0.0)
    return 8 * size / bandwidth / (1 - link.get("loss", 0.0)) if bandwidth else 0.0
