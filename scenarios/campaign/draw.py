"""Draws a small scenario and its faults: everything is a function of the seed. Pure.

The settings exercise agent state (baselines, control variates), client sampling, checkpoints and short
leases; the timeline everything that `scenarios.actions` can do to programs. What `check` refuses is drawn
again, so that each sequence is one that a user could have written.
"""

from collections.abc import Callable
from collections.abc import Sequence as Several
from typing import Any, Literal

import msgspec
import numpy as np

from edge_fed.config import Agents, Algorithm, EnvironmentConfig, Federation, Onboarding, PolicyConfig
from scenarios.script import check, resolve, runtime_faults
from scenarios.timeline import Action, Scenario

HELD_OUT = 8  # the goal of a 3 x 3 grid that never trains
FAULTS = 7  # at most, in one timeline
COMMIT = ("before-array", "half-array", "array", "half-sidecar", "sidecar", "committed", "half-line")
TRIES = 40  # draws of actions; some are refused


class Cut(msgspec.Struct, frozen=True):
    """All programs end after a round, and a person goes on with the run.

    Attributes:
        how: TERM: the runner is told to stop; KILL: every program dies at once.
        after_round: As the runner hears of it.
    """

    how: Literal["TERM", "KILL"]
    after_round: int


class Sequence(msgspec.Struct, frozen=True):
    """What a seed stands for."""

    seed: int
    scenario: Scenario
    transport: Literal["ipc", "tcp"]
    cut: Cut | None = None


class Draws:
    """A stream of draws that only depends on the seed (uniform doubles of Philox)."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.Generator(np.random.Philox(seed))

    def real(self, low: float, high: float) -> float:
        """Uniform, to milliseconds."""
        return round(low + (high - low) * float(self._rng.random()), 3)

    def whole(self, low: int, high: int) -> int:
        """Uniform from low to high, both included."""
        return low + int((high - low + 1) * float(self._rng.random()))

    def one(self, choices: Several[Any]) -> Any:
        """One of several."""
        return choices[self.whole(0, len(choices) - 1)]

    def chance(self, probability: float) -> bool:
        """True as often as that."""
        return bool(self._rng.random() < probability)


def draw(seed: int) -> Sequence:
    """The sequence of a seed."""
    draws = Draws(seed)
    scenario = _settings(draws, seed)
    while check(scenario):
        scenario = _settings(draws, seed)
    cut = None
    if draws.chance(0.12):
        cut = Cut(draws.one(("TERM", "KILL")), draws.whole(1, scenario.algorithm.rounds - 2))
        quiet = msgspec.structs.replace(scenario.onboarding, goals=())  # nobody would start them again
        scenario = msgspec.structs.replace(scenario, onboarding=quiet)
    scenario = _with_faults(draws, scenario)
    transport: Literal["ipc", "tcp"] = "tcp" if draws.chance(0.3) else "ipc"
    return Sequence(seed, resolve(scenario), transport, cut)


def _settings(draws: Draws, seed: int) -> Scenario:
    agents = draws.whole(2, 4)
    correction: Literal["none", "control_variate"] = "control_variate" if draws.chance(0.35) else "none"
    variant = draws.one(("first_order", "exact", "fedavg_pg", "sg_mrl"))
    return Scenario(
        name=f"campaign-{seed}",
        seed=seed,
        environment=EnvironmentConfig(family="gridworld", horizon=draws.whole(3, 6), args={"size": 3}),
        policy=PolicyConfig(name="softmax"),
        algorithm=Algorithm(
            variant=variant,
            rounds=draws.whole(4, 10),
            local_steps=draws.whole(1, 3),
            inner_step_size=1.0,
            outer_step_size=0.3,
            inner_batch=draws.whole(2, 4),
            hessian_batch=draws.whole(2, 4),
            outer_batch=draws.whole(2, 4),
            inner_gradient="recursive" if draws.chance(0.2) else "plain",
            curvature=draws.one(("naive", "causal", "lvc", "finite_difference")),
            curvature_batch=draws.one(("fresh", "inner")),
            guard=0.5 if draws.chance(0.5) else "off",
            baseline=draws.one(("none", "loo", "value", "value")),
            participation=draws.one((1.0, 1.0, 0.75, 0.5)),
            aggregation="weighted" if correction == "none" and draws.chance(0.3) else "uniform",
            correction=correction,
        ),
        federation=_federation(draws),
        agents=tuple(_agent(draws, goal) for goal in range(agents)),
        onboarding=Onboarding(
            goals=(HELD_OUT,) if draws.chance(0.2) else (),
            m_adapt=(0, 4),
            adapt_episodes=4,
            eval_episodes=8,
            scratch=(),
            random=False,
        ),
    )


def _federation(draws: Draws) -> Federation:
    return Federation(
        min_updates=draws.one((None, 1, 1)),
        join_deadline_s=90.0,
        round_deadline_s=draws.one((3.0, 6.0)),
        heartbeat_s=draws.one((0.1, 0.2)),
        lease_s=draws.one((1.0, 2.0)),
        durability=draws.one(("process", "power")),
        evaluate_every=draws.one((0, 0, 2)),
        keep_checkpoints=draws.one((0, 0, 1, 2, 3)),
    )


def _agent(draws: Draws, goal: int) -> Agents:
    link = {"latency_s": draws.real(0, 0.02), "jitter_s": draws.real(0, 0.02), "loss": draws.one((0.0, 0.1))}
    return Agents(
        goals=(goal,),
        inner_batch=draws.whole(2, 5) if draws.chance(0.2) else None,
        curvature=draws.one(("naive", "causal")) if draws.chance(0.2) else None,
        compute_delay_s=draws.real(0.0, 0.05) if draws.chance(0.6) else None,
        link=link if draws.chance(0.25) else None,
    )


# --- faults ----------------------------------------------------------------------------------------


def _with_faults(draws: Draws, scenario: Scenario) -> Scenario:
    """Adds one action after the other, as long as the whole stays one that can be run."""
    wanted = draws.whole(1, FAULTS)
    for _ in range(TRIES):
        if len(scenario.timeline) >= wanted:
            break
        actions = draws.one(KINDS)(draws, scenario)
        trial = msgspec.structs.replace(scenario, timeline=(*scenario.timeline, *actions))
        if not check(trial) and not runtime_faults(trial, "processes"):
            scenario = trial
    return scenario


def _when(draws: Draws, scenario: Scenario) -> dict[str, Any]:
    if draws.chance(0.35):
        return {"at_s": draws.real(0.0, 1.2)}
    return {"at_round": draws.whole(1, scenario.algorithm.rounds)}


def _who(draws: Draws, scenario: Scenario) -> str:
    return str(draws.whole(0, len(scenario.agents) - 1))


def _death(draws: Draws, scenario: Scenario) -> list[Action]:
    """An agent dies, with or without a goodbye, at once or at a point, for good or not."""
    when, args = _when(draws, scenario), {}
    back = draws.chance(0.75)
    if "at_round" in when:
        if draws.chance(0.5):
            args["point"] = draws.one(("assigned", "trained", "sent"))
        if back and draws.chance(0.3):
            args["down_rounds"] = draws.whole(1, 3)
    if "point" not in args and draws.chance(0.3):
        args["signal"] = "TERM"
    return [Action(do="restart" if back else "kill", who=_who(draws, scenario), args=args, **when)]


def _server_death(draws: Draws, scenario: Scenario) -> list[Action]:
    when, args = _when(draws, scenario), {}
    if "at_round" in when and draws.chance(0.6):
        args["point"] = draws.one(("theta", "update", *COMMIT))
    if draws.chance(0.4):
        args["down_s"] = draws.real(0.0, 1.5)
    return [Action(do="kill", who="server", args=args, **when)]


def _pause(draws: Draws, scenario: Scenario) -> list[Action]:
    """STOP and CONT; some pauses are longer than a lease."""
    who = "server" if draws.chance(0.25) else _who(draws, scenario)
    for_s = draws.real(0.1, 2.5)
    when = _when(draws, scenario)
    if "at_s" in when and draws.chance(0.5):
        later = round(when["at_s"] + for_s, 3)
        return [Action(do="pause", who=who, at_s=when["at_s"]), Action(do="resume", who=who, at_s=later)]
    return [Action(do="pause", who=who, args={"for_s": for_s}, **when)]


def _leave(draws: Draws, scenario: Scenario) -> list[Action]:
    """Goes in order, and perhaps comes back; or comes late."""
    who, rounds = _who(draws, scenario), scenario.algorithm.rounds
    gone = draws.whole(1, rounds - 1)
    leave = Action(do="leave", who=who, at_round=gone)
    join = Action(do="join", who=who, at_round=draws.whole(gone + 1, rounds))
    return draws.one(([leave], [leave, join], [join]))  # type: ignore[no-any-return]


def _slow(draws: Draws, scenario: Scenario) -> list[Action]:
    args: dict[str, float | str] = {"compute_delay_s": draws.real(0.0, 0.2)}
    return [Action(do="slow", who=_who(draws, scenario), args=args, **_when(draws, scenario))]


def _link(draws: Draws, scenario: Scenario) -> list[Action]:
    args: dict[str, float | str] = {"latency_s": draws.real(0.0, 0.1), "loss": draws.one((0.0, 0.2))}
    return [Action(do="link", who=_who(draws, scenario), args=args, **_when(draws, scenario))]


def _onboard(draws: Draws, scenario: Scenario) -> list[Action]:
    who = str(draws.one((HELD_OUT, 0)))
    return [Action(do="onboard", who=who, **_when(draws, scenario))]


def _fault(draws: Draws, scenario: Scenario) -> list[Action]:
    """The proxy on an agent's way: messages are lost, late, doubled; or nothing passes at all."""
    kind = draws.one(("drop", "delay", "duplicate", "reorder", "cut", "throttle", "freeze", "half_open"))
    args: dict[str, float | str] = {"kind": kind, "for_s": draws.real(0.2, 2.5)}
    args["direction"] = draws.one(("up", "down", "both"))
    if kind in ("delay", "reorder"):
        args["seconds"] = draws.real(0.05, 0.8)
    if kind == "throttle":
        args["bytes_per_s"] = draws.whole(2_000, 50_000)
    if kind in ("drop", "delay", "duplicate", "reorder", "cut"):
        if draws.chance(0.5):
            args["only"] = draws.one(("UPDATE", "THETA", "ACK", "HEARTBEAT", "REGISTER", "WELCOME", "READY"))
        args["chance"] = draws.real(0.3, 1.0)
    fault = Action(do="fault", who=_who(draws, scenario), args=args, **_when(draws, scenario))
    if draws.chance(0.2) and fault.at_s is not None:
        return [fault, Action(do="heal", who=fault.who, at_s=round(fault.at_s + 0.3, 3))]
    return [fault]


KINDS: tuple[Callable[[Draws, Scenario], list[Action]], ...] = (
    *(_death,) * 6,
    *(_server_death,) * 5,
    *(_pause,) * 4,
    *(_fault,) * 5,
    *(_leave,) * 2,
    _slow,
    _link,
    _onboard,
)
"""What is drawn; the more often it stands here, the more often."""
