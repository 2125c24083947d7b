"""Of a run with a device, the updates of the others are computed again, as far as their state is known."""

from typing import Any

import msgspec
import numpy as np
import pytest

from edge_fed.config import Device, RunConfig, overrides_by_goal
from edge_fed.federated.beside import Beside
from edge_fed.federated.control_variate import initial_control
from edge_fed.federated.per_fedavg_pg import play_round
from edge_fed.federated.record import Attendance, RoundRecord
from edge_fed.federated.task import initial_params, make_learner
from edge_fed.params import F8
from tests.scenarios.tiny import tiny

DEVICE = 1
Played = list[tuple[RoundRecord, F8, F8 | None]]


def played(*sets: str, resets: int = 0) -> tuple[RunConfig, Played]:
    """Rounds with their parameters and control variate; agent 1 is marked as a device.

    Args:
        sets: Of the tiny scenario.
        resets: Round before which agent 2 loses its state; 0: never.
    """
    config = tiny("", "algorithm.participation=0.75", *sets)
    planned = overrides_by_goal(config)
    tasks = {agent: make_learner(config, agent, own) for agent, own in planned.items()}
    params, states = initial_params(config), {}
    control, rounds = initial_control(config, params.size), []
    for number in range(1, config.algorithm.rounds + 1):
        lost = (2,) if number == resets else ()
        attendance = Attendance(round=number, eligible=tuple(planned), state_resets=lost)
        found = play_round(config, tasks, params, states, attendance, control)
        counted = [part.agent for part in found.record.contributors]
        marks = {agent: msgspec.structs.replace(planned[agent], device=Device()) for agent in counted}
        own = {agent: mark for agent, mark in marks.items() if agent == DEVICE}
        record = msgspec.structs.replace(found.record, overrides=own)
        rounds.append((record, params, None if control is None else control.value))
        params, control = found.params, found.control
    return config, rounds


def faults(config: RunConfig, rounds: Played) -> list[str]:
    """What is found in all of them."""
    beside = Beside(config)
    return [f"round {line[0].round}: {text}" for line in rounds for text in beside.faults(*line)]


def doctored(record: RoundRecord, agent: int, **changes: Any) -> RoundRecord:
    """Something else is said of an agent's update."""
    parts = [
        msgspec.structs.replace(part, **changes) if part.agent == agent else part
        for part in record.contributors
    ]
    return msgspec.structs.replace(record, contributors=tuple(parts))


STATEFUL = ("algorithm.baseline=value", "algorithm.correction=control_variate")


@pytest.mark.parametrize("sets", [(), ("algorithm.baseline=value",), STATEFUL])
@pytest.mark.parametrize("resets", [0, 4])
def test_honest_updates_of_the_others_are_found_right(sets: tuple[str, ...], resets: int) -> None:
    """With baselines and control variates that follow from round to round, and through a lost state."""
    config, rounds = played(*sets, resets=resets)
    assert faults(config, rounds) == []
    assert any(DEVICE in record.overrides for record, _, _ in rounds)


@pytest.mark.parametrize("change", [{"crc32": 5}, {"trajectories": 7}])
def test_another_update_is_found_at_its_round_unless_it_is_the_device_s(change: dict[str, int]) -> None:
    """What nobody can play again is not judged."""
    config, rounds = played(*STATEFUL)
    (name,) = change
    for place, (record, params, control) in enumerate(rounds):
        for part in record.contributors:
            bad = doctored(record, part.agent, **change)
            found = faults(config, [*rounds[:place], (bad, params, control), *rounds[place + 1 :]])
            if part.agent == DEVICE:
                assert found == []
            else:
                (text,) = found
                assert text.startswith(f"round {record.round}: agent {part.agent}: {name} ")


def test_what_an_agent_did_without_kept_parameters_leaves_its_state_unknown() -> None:
    """Its later updates are judged again from its next initial state on; an agent without state at once."""
    for sets in ((), ("algorithm.baseline=value",)):
        config, rounds = played(*sets, resets=5)
        record, _, control = rounds[1]
        holes = [rounds[0], (record, None, control), *rounds[2:]]
        assert faults(config, holes) == []
        asked = [part.agent for part in record.contributors if part.agent not in (DEVICE, 2)]
        bad = [(doctored(r, asked[0], crc32=5), p, c) if r.round > 2 else (r, p, c) for r, p, c in holes]
        later = sum(asked[0] in [part.agent for part in r.contributors] for r, _, _ in rounds[2:])
        assert later and len(faults(config, bad)) == (0 if sets else later)
        lost = [(doctored(r, 2, crc32=5), p, c) if r.round >= 5 else (r, p, c) for r, p, c in holes]
        there = sum(2 in [part.agent for part in r.contributors] for r, _, _ in rounds[4:])
        assert there and len(faults(config, lost)) == there


def test_strangers_are_left_to_others() -> None:
    """An agent of no table has no task to compute with; the chain of records names it."""
    config, rounds = played()
    record, params, control = rounds[0]
    stranger = msgspec.structs.replace(record.contributors[0], agent=77)
    bad = msgspec.structs.replace(record, contributors=(*record.contributors, stranger))
    assert list(Beside(config).faults(bad, params, control)) == []
    wrong = list(Beside(config).faults(record, np.zeros(3), control))
    assert wrong and all("cannot be computed again: params have shape (3,)" in text for text in wrong)
