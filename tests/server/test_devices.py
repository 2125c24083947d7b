"""Agents on real plants, as the server sees them: told, recorded, not measured, waited for by nobody."""

from typing import Any

import msgspec
import pytest

from edge_fed.config import Agents, Device, EnvironmentConfig
from edge_fed.federated.record import RoundRecord
from protocol import messages as m
from server import events as e
from server.measuring import DEVICE
from tests.edge_fed.gym.toy_envs import MODULE
from tests.server.fleet import FakeAgent, Fleet, config

PACED = {"pace_s": 0.01, "daily_trajectories": 10_000}


def fleet_with(device: dict[str, Any], agents: int = 3, **settings: Any) -> tuple[Fleet, FakeAgent]:
    """A fleet whose agent 2 is a device with these facts; all are there."""
    fleet = Fleet(config(agents=f"0-{agents - 1}", **settings))
    for goal in range(agents - 1):
        fleet.join(goal)
    made = fleet.agent(agents - 1)
    made.join(overrides={"device": device})
    return fleet, made


def journal(fleet: Fleet, event: str) -> list[dict[str, Any]]:
    """The fields of the journal's lines of one kind."""
    found = [c for c in fleet.commands if isinstance(c, e.Journal) and c.event == event]
    return [dict(command.fields) for command in found]


def test_a_device_is_named_and_recorded_with_its_facts() -> None:
    """In the journal when it registers, and in each round that it counts in."""
    fleet, device = fleet_with(PACED)
    assert journal(fleet, "device") == [{"agent": 2}]
    fleet.evaluate()
    for agent in fleet.agents:
        agent.update()
    record = fleet.record
    assert isinstance(record, RoundRecord)
    assert record.overrides[2].device == msgspec.convert(PACED, Device) and set(record.overrides) == {2}
    assert device.count(m.Theta) == 2


def test_a_device_is_not_measured() -> None:
    """Hundreds of episodes on a plant for a figure: it is not asked, and the evaluation says why."""
    fleet, device = fleet_with(PACED)
    evaluation = fleet.machine.course.measuring.evaluation
    assert evaluation is not None and evaluation.missing == {2: DEVICE}
    assert device.count(m.Evaluate) == 0
    fleet.evaluate()
    assert fleet.machine.course.measuring.latest["n"] == 2 and device.count(m.Theta) == 1


def test_a_device_that_saves_is_sent_the_final_parameters_and_nobody_waits_for_it() -> None:
    """Once, after the last round; the run ends when the others have reported."""
    fleet, device = fleet_with({**PACED, "saves": True}, rounds=1)
    assert device.count(m.Evaluate) == 0
    fleet.evaluate()
    for agent in fleet.agents:
        agent.update()
    assert device.last(m.Evaluate).round == 1
    evaluation = fleet.machine.course.measuring.evaluation
    assert evaluation is not None and evaluation.missing == {2: DEVICE} and evaluation.waiting == (0, 1)
    fleet.evaluate()
    assert fleet.machine.course.measuring.latest["n"] == 2
    assert device.last(m.Shutdown).outcome == "finished" and device.count(m.Evaluate) == 1


def test_a_fleet_of_devices_has_no_evaluation_to_wait_for() -> None:
    """It ends at once, and round 1 opens."""
    fleet, device = fleet_with(PACED, agents=1)
    assert fleet.machine.course.measuring.latest["n"] == 0 and device.count(m.Theta) == 1


def test_a_device_that_says_bye_excuses_itself_and_may_come_back() -> None:
    """The round goes on at once; the same process registers again and is asked in the next one."""
    fleet, device = fleet_with(PACED, rounds=4)
    fleet.evaluate()
    device.send(m.Bye(reason="the daily budget is spent; back at 2026-12-01T00:00Z"))
    for agent in fleet.agents[:2]:
        agent.update()
    assert fleet.record.missing == {2: "bye"} and not fleet.record.quarantined
    (lost,) = journal(fleet, "lost")
    assert lost["reason"].endswith("back at 2026-12-01T00:00Z")
    assert fleet.machine.course.training.waiting() == (0, 1)
    device.session = type(device.session)("agent", run=device.session.run, now=fleet.now)
    device.join(known_run=device.session.run, overrides={"device": PACED})
    for agent in fleet.agents[:2]:
        agent.update()
    assert fleet.machine.course.training.waiting() == (0, 1, 2)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"pace_s": 100.0}, "--device pace_s: is 100: a round of 100 trajectories of 16 actions takes"),
        (
            {"daily_trajectories": 99},
            "--device daily_trajectories: is 99, but a round of this device needs 100",
        ),
        ({"pace_s": -1.0}, "device.pace_s"),
        ({"pace": 1.0}, "unknown field `pace`"),
    ],
)
def test_a_device_that_cannot_take_part_is_refused_by_name(facts: dict[str, Any], why: str) -> None:
    """Before it moves anything: too slow for the deadline, too small a day, or facts that are none."""
    device = Fleet(config(agents="0-2")).agent(2)
    device.register(overrides={"device": facts})
    reject = device.last(m.Reject)
    assert reject.reason == "overrides" and why in reject.message


@pytest.mark.parametrize("role", ["auto", "onboard"])
def test_what_a_device_lacks_for_rounds_an_onboarder_does_not_need(role: Any) -> None:
    """A bootstrap, a pace that the deadline allows, a day that holds a round: whoever trains is refused."""
    args = {"id": f"{MODULE}:Corridor", "goals": 3, "held_out": 0, "success": False, "bootstrap": "value"}
    plain = config(agents="0-2")
    environment = EnvironmentConfig(family="gymnasium", horizon=15, args=args)
    bootstrapped = msgspec.structs.replace(plain, environment=environment)
    slow, short = {"pace_s": 100.0}, {"daily_trajectories": 1}
    for settings, facts, why in (
        (bootstrapped, PACED, "bootstrap 'value'"),
        (plain, slow, "pace_s"),
        (plain, short, "daily"),
    ):
        device = Fleet(settings).agent(2)
        device.register(role=role, overrides={"device": facts})
        if role == "auto":
            assert why in device.last(m.Reject).message
        else:
            assert device.last(m.Welcome).role == "onboard"


def test_only_an_agent_itself_can_say_that_it_is_a_device() -> None:
    """A plan in the run's settings makes nobody one: who comes without a plant simulates, and it is said."""
    settings = config(agents="0-1")
    plan = Agents(goals="2", device=Device(pace_s=0.01))
    fleet = Fleet(msgspec.structs.replace(settings, agents=(*settings.agents, plan)))
    for goal in range(3):
        fleet.join(goal)
    assert journal(fleet, "simulated") == [{"agent": 2}] and journal(fleet, "device") == []
    fleet.evaluate()
    for agent in fleet.agents:
        agent.update()
    assert fleet.record.overrides == {}


def test_a_long_wait_says_where_its_devices_are() -> None:
    """Twenty leases of heartbeats: nobody is lost, and each line of the wait is followed by theirs."""
    fleet, device = fleet_with(PACED, round_deadline_s=200.0)
    fleet.evaluate()
    for agent in fleet.agents[:2]:
        agent.update()
    fleet.commands.clear()
    for beat in range(100):
        fleet.wait(1.0)
        for agent in fleet.agents:
            says = f"step {beat} of 3000\x1b[2J" if agent is device else ""
            agent.send(m.Heartbeat(phase="training", round=1, message=says))
    lines = [c.text for c in fleet.commands if isinstance(c, e.Log)]
    assert len(lines) > 5 and all(line.startswith("agent 2: step ") for line in lines)
    assert "\x1b" not in "".join(lines), "what an agent says must not command the terminal"
    assert fleet.machine.course.training.waiting() == (2,) and fleet.machine.members.eligible() == (0, 1, 2)
    device.update()
    assert fleet.record.missing == {}
