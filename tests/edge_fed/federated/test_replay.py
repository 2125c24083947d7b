"""Replaying records: equal for an honest one, different at the altered round for any other."""

import msgspec
import pytest

from edge_fed.config import Overrides
from edge_fed.federated.per_fedavg_pg import play_round
from edge_fed.federated.record import Attendance
from edge_fed.federated.replay import replay
from edge_fed.federated.task import initial_params, make_task
from tests.edge_fed.federated.runs import gridworld, play

CONFIG = gridworld(rounds=4, participation=0.5, baseline="value", local_steps=2)
EVERYBODY = tuple(range(8))


@pytest.fixture(scope="module")
def records():
    """Four rounds with sampling, a state reset in the third."""
    rounds = [Attendance(k, EVERYBODY, state_resets=EVERYBODY if k == 3 else ()) for k in range(1, 5)]
    return [outcome.record for outcome in play(CONFIG, EVERYBODY, rounds)]


def test_an_honest_record_replays_to_the_same_bits(records):
    """No round differs."""
    assert [(r.round, r.differences) for r in replay(CONFIG, records)] == [(k, ()) for k in range(1, 5)]


def alter(record, what):
    """The record with one thing changed."""
    first = record.contributors[0]
    changed = {
        "cohort": {"cohort": tuple(sorted({*record.cohort[1:], *(set(EVERYBODY) - set(record.cohort))}))[:4]},
        "crc32": {"contributors": (msgspec.structs.replace(first, crc32=1), *record.contributors[1:])},
        "weight": {"contributors": (msgspec.structs.replace(first, weight=2.0), *record.contributors[1:])},
        "contributors": {"contributors": record.contributors[1:]},
        "params_sha256": {"params_sha256": "0" * 64},
        "outcome": {"outcome": "skipped"},
        "state_resets": {"state_resets": record.cohort if record.round == 4 else ()},
        "overrides": {"overrides": {first.agent: Overrides(inner_batch=3)}},
    }[what]
    return msgspec.structs.replace(record, **changed)


@pytest.mark.parametrize("round_", [3, 4])
@pytest.mark.parametrize(
    "what",
    ["cohort", "crc32", "weight", "contributors", "params_sha256", "outcome", "state_resets", "overrides"],
)
def test_an_altered_record_is_found_at_its_round(records, what, round_):
    """Whatever is changed in round r's record, the replay says so at round r and not before.

    [complaints 32]
    """
    altered = [alter(r, what) if r.round == round_ else r for r in records]
    outcomes = list(replay(CONFIG, altered))
    assert [bool(r.differences) for r in outcomes[: round_ - 1]] == [False] * (round_ - 1)
    assert outcomes[round_ - 1].differences


def test_a_missing_round_is_named(records):
    """A record with a hole is not replayed past it."""
    outcomes = list(replay(CONFIG, records[:1] + records[2:]))
    assert outcomes[-1].differences == ("round 2 is missing from the records",)


def test_overrides_of_the_record_are_used():
    """An agent that worked with its own batch sizes replays with them."""
    config = gridworld(rounds=1, agents="0-1", local_steps=2)
    small = Overrides(inner_batch=3)
    tasks = {0: make_task(config, 0, Overrides()), 1: make_task(config, 1, small)}
    outcome = play_round(config, tasks, initial_params(config), {}, Attendance(1, (0, 1)))
    record = msgspec.structs.replace(outcome.record, overrides={1: small})
    assert [r.differences for r in replay(config, [record])] == [()]
    assert next(replay(config, [outcome.record])).differences


CORRECTED = gridworld(rounds=5, participation=0.5, local_steps=2, correction="control_variate")


@pytest.fixture(scope="module")
def corrected_records():
    """Five rounds with control variates; in the third one agent had lost its state."""
    rounds = [Attendance(k, EVERYBODY, state_resets=(0,) if k == 3 else ()) for k in range(1, 6)]
    return [outcome.record for outcome in play(CORRECTED, EVERYBODY, rounds)]


def test_control_variates_replay_to_the_same_bits(corrected_records):
    """With and without a reset the server's half is computed again and has the recorded hash."""
    assert len({record.control_sha256 for record in corrected_records}) == 5
    assert [r.differences for r in replay(CORRECTED, corrected_records)] == [()] * 5


@pytest.mark.parametrize(
    ("round_", "change", "part"),
    [
        (4, {"control_sha256": "0" * 64}, "control_sha256 000000000000… was recorded"),
        (4, {"control_sha256": ""}, "control_sha256 nothing was recorded"),
        (4, {"state_resets": (1,)}, "control_sha256"),
        (3, {"state_resets": ()}, "control_sha256"),
    ],
)
def test_an_altered_control_variate_or_reset_is_found_at_its_round(corrected_records, round_, change, part):
    """What is changed in a record is named there, and not before."""
    altered = [msgspec.structs.replace(r, **change) if r.round == round_ else r for r in corrected_records]
    outcomes = list(replay(CORRECTED, altered))
    assert [bool(r.differences) for r in outcomes[: round_ - 1]] == [False] * (round_ - 1)
    assert any(part in line for line in outcomes[round_ - 1].differences)


def test_the_record_of_an_uncorrected_run_has_no_control_variate(records):
    """And a corrected run is not taken for it."""
    assert {record.control_sha256 for record in records} == {""}
    claimed = msgspec.structs.replace(records[0], control_sha256="0" * 64)
    assert "nothing is computed" in next(replay(CONFIG, [claimed])).differences[0]


@pytest.mark.parametrize("name", ["conflicts", "quarantined"])
def test_agents_that_were_not_there_cannot_have_acted(records, name):
    """A conflict or a quarantine of an agent that was not eligible is named."""
    changed = [msgspec.structs.replace(r, **({name: (9,)} if r.round == 2 else {})) for r in records]
    differences = [r.differences for r in replay(CONFIG, changed)]
    assert [bool(found) for found in differences] == [False, True, False, False]
    assert f"{name} [9] were recorded, but these agents were not eligible in that round" in differences[1]
    fits = msgspec.structs.replace(records[0], conflicts=(records[0].cohort[0],))
    assert next(replay(CONFIG, [fits])).differences == ()


def replayed_with(records, **changed):
    """The differences of each round, with these fields of round 2 changed."""
    altered = [msgspec.structs.replace(r, **changed) if r.round == 2 else r for r in records]
    return [r.differences for r in replay(CONFIG, altered)]


def test_only_agents_that_were_asked_can_be_missing(records):
    """An excuse of an agent outside the cohort is named."""
    idle = min(set(EVERYBODY) - set(records[1].cohort))
    found = replayed_with(records, missing={idle: "deadline"})
    assert [bool(differences) for differences in found] == [False, True, False, False]
    assert found[1] == (
        f"missing [{idle}] were recorded, but these agents are not in the cohort of that round",
    )


def test_whoever_was_asked_either_counts_or_is_missing(records):
    """An agent whose excuse was removed, and a contributor with an excuse, are named."""
    first, *others = records[1].contributors
    rounds = [Attendance(1, EVERYBODY), Attendance(2, EVERYBODY, frozenset(p.agent for p in others))]
    honest = [outcome.record for outcome in play(CONFIG, EVERYBODY, rounds)]
    assert [r.differences for r in replay(CONFIG, honest)] == [(), ()]
    assert replayed_with(honest, missing={})[1] == (
        f"agents [{first.agent}] of the cohort were recorded neither as contributors nor as missing",
    )
    assert replayed_with(records, missing={first.agent: "lease"})[1] == (
        f"agents [{first.agent}] were recorded as contributors and as missing",
    )


def test_agents_that_the_run_does_not_plan_are_never_eligible(records):
    """Also such as have no goal in the family: the record is named, nothing is computed from it."""
    for agent in (8, 999):
        found = replayed_with(records, eligible=(*EVERYBODY, agent))
        assert found[1] == (f"eligible [{agent}] were recorded, but these agents are in no [[agents]] table",)
