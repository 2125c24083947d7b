"""The server of a run with private noise: counts every update that it saw, and asks for no measurement."""

from pathlib import Path

import msgspec

from edge_fed.config import Privacy, RunConfig
from edge_fed.federated.task import initial_params
from edge_fed.params import crc32
from edge_fed.program.run_folder import RunFolder
from protocol import messages as m
from server.ledger import Ledger, Released
from server.recovery import recover
from server.training import released
from tests.server.fleet import FakeAgent, Fleet, config

NOISY = Privacy(clip_norm=1.0, noise_multiplier=2.0)


def noisy(**changes: object) -> RunConfig:
    """A run of three agents with private noise."""
    return msgspec.structs.replace(config(**changes), privacy=NOISY)  # type: ignore[arg-type]


def counts(fleet: Fleet) -> dict[int, int]:
    """Agent -> updates that were seen."""
    return {agent: seen.count for agent, seen in fleet.machine.room.ledger.released.items()}


def answer(agent: FakeAgent, value: float, round_: int) -> None:
    """An update of a round, whether or not it is open."""
    theta = agent.last(m.Theta)
    delta = agent.tensors["params"] * 0 + value
    agent.update_with(delta, round=round_, theta_crc32=theta.crc32, crc32=crc32(delta))


def test_every_different_update_counts_once_whatever_becomes_of_it() -> None:
    """Folded, repeated, in conflict, refused and late: the server saw them all but the repetition twice."""
    fleet = Fleet(noisy(agents="0-2", rounds=3, min_updates=1, round_deadline_s=5.0, lease_s=100.0))
    a, b, c = fleet.join(0, 1, 2)
    a.update(1.0)
    a.update(1.0)  # the same bits
    a.update(2.0)  # a conflict
    b.update(float("nan"))  # refused
    assert counts(fleet) == {0: 2, 1: 1}
    fleet.wait(6.0)  # c is excused, round 2 opens
    answer(c, 1.0, 1)  # late
    answer(c, 1.0, 2)
    assert counts(fleet) == {0: 2, 1: 1, 2: 2}


def test_the_count_survives_a_restart() -> None:
    """It is in the checkpoint; rounds that were opened and never committed count as seen."""
    fleet = Fleet(noisy(agents="0-1", rounds=3))
    for agent in fleet.join(0, 1):
        agent.update()
    book = msgspec.json.decode(msgspec.json.encode(fleet.saved[-1].book), type=type(fleet.saved[-1].book))
    again = Ledger(fleet.machine.room.ledger.params, 1, book)
    assert {agent: seen.count for agent, seen in again.released.items()} == {0: 1, 1: 1}
    again.note_unseen((0, 1), 2)
    again.note_unseen((0, 1), 0)
    assert {agent: seen.count for agent, seen in again.released.items()} == {0: 3, 1: 3}


def test_a_flood_of_updates_fills_no_memory() -> None:
    """All of them count; the checksums of a few are kept."""
    ledger = Fleet(noisy()).machine.room.ledger
    update = m.Update(round=1, theta_crc32=0, crc32=0, trajectories=1, trajectories_spent=1)
    for checksum in range(1000):
        ledger.note_release(0, msgspec.structs.replace(update, crc32=checksum))
    assert ledger.released[0] == Released(1000, 1, tuple(range(992, 1000)))


def test_what_was_seen_outlives_any_number_of_deaths_in_one_round(tmp_path: Path) -> None:
    """Each process journals what it saw and what those before it may have seen; none of it is forgotten."""
    settings = noisy(agents="0-1", rounds=3)
    fleet = Fleet(settings)
    a, _ = fleet.join(0, 1)
    a.update(1.0)
    a.update(2.0)
    assert [row["seen"] for row in fleet.journal("released")] == [1, 2]
    folder = RunFolder.create(settings, tmp_path / "run")
    rows = [{"event": "round_opened", "round": 1, "eligible": [0, 1], "cohort": [0, 1]}]
    rows += [{"event": "released", **row} for row in fleet.journal("released")]
    for expected in (3, 4, 5):  # one more each time that a process dies with the round open
        folder.events.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        ledger = recover(folder, initial_params(settings)).ledger
        assert ledger.released[0].count == expected
        rows += [dict(released(0, ledger).fields, event="released")]


def test_nobody_is_asked_to_evaluate() -> None:
    """Neither before the first round nor after the last: what agents measure has no noise."""
    fleet = Fleet(noisy(agents="0-1", rounds=1, evaluate_every=1))
    agents = fleet.join(0, 1)
    for agent in agents:
        agent.update()
    assert fleet.machine.course.ended
    assert not any(agent.count(m.Evaluate) for agent in agents)
    assert fleet.saved[-1].record is not None and fleet.saved[-1].record.private_noise


def test_without_noise_nothing_is_counted() -> None:
    """The checkpoint of other runs is as small as before."""
    fleet = Fleet(config(agents="0-1", rounds=1))
    for agent in fleet.started(0, 1):
        agent.update()
    assert counts(fleet) == {}


def test_a_round_that_an_earlier_process_had_open_counts_as_seen(tmp_path: Path) -> None:
    """It may have received every update of it before it died; a round without noise counts for nothing."""
    for privacy, expected in ((NOISY, {0: 1, 1: 1}), (Privacy(), {})):
        settings = msgspec.structs.replace(config(agents="0-1", rounds=3), privacy=privacy)
        folder = RunFolder.create(settings, tmp_path / str(len(expected)))
        opened = {"event": "round_opened", "round": 1, "eligible": [0, 1], "cohort": [0, 1]}
        folder.events.write_bytes(msgspec.json.encode(opened) + b"\n")
        ledger = recover(folder, initial_params(settings)).ledger
        assert {agent: seen.count for agent, seen in ledger.released.items()} == expected
