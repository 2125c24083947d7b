"""What a record must be whatever its updates were: judged without computing one."""

import msgspec
import pytest

from edge_fed.config import Federation, Overrides
from edge_fed.federated.chain import Chain
from edge_fed.federated.record import Attendance
from edge_fed.federated.task import initial_params
from edge_fed.params import params_sha256
from tests.edge_fed.federated.runs import gridworld, play

CONFIG = gridworld(rounds=4, participation=0.5, local_steps=1)
EVERYBODY = tuple(range(8))


@pytest.fixture(scope="module")
def records():
    """Four rounds; the second is skipped, agent 0 of the third is missing."""
    rounds = [Attendance(k, EVERYBODY, frozenset() if k == 2 else None) for k in range(1, 5)]
    return [outcome.record for outcome in play(CONFIG, EVERYBODY, rounds)]


def judged(records, config=CONFIG):
    """The faults of each round; the last one is why the rest cannot be compared, if so."""
    chain, found = Chain(config, params_sha256(initial_params(config))), []
    for record in records:
        if why := chain.ends(record):
            return [*found, (why,)]
        found.append(tuple(chain.faults(record)))
    return found


def test_an_honest_record_has_no_faults(records):
    """With a skipped round in it."""
    assert [r.outcome for r in records] == ["folded", "skipped", "folded", "folded"]
    assert judged(records) == [()] * 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"private_noise": True}, "private_noise True was recorded, the run's settings say False"),
        ({"eligible": (0, 1, 2, 3, 4, 5, 7, 6)}, "not each once and ascending"),
        ({"eligible": (0, 1)}, "is drawn"),
        ({"cohort": (0, 1, 2, 3)}, "is drawn"),
        ({"contributors": ()}, "outcome folded was recorded with 0 updates, 2 are needed"),
        ({"outcome": "skipped"}, "outcome skipped was recorded, and contributors"),
        ({"state_resets": (9,)}, "state_resets [9] were recorded"),
        ({"conflicts": (9,)}, "conflicts [9] were recorded"),
        ({"quarantined": (1,)}, "quarantined [1] were recorded, [] follow"),
        ({"overrides": {9: Overrides()}}, "overrides of agents [9] were recorded"),
        ({"fingerprints": {"x": (9,)}}, "fingerprints of agents [9] were recorded"),
        ({"missing": {9: "lease"}}, "missing [9] were recorded"),
    ],
)
def test_what_cannot_be_is_named_at_its_round(records, changes, words):
    """One thing of round 3 is another one; rounds 1 and 2 have no fault."""
    altered = [msgspec.structs.replace(r, **changes) if r.round == 3 else r for r in records]
    found = judged(altered)
    assert found[:2] == [(), ()]
    assert words in " ".join(found[2])


def test_contributors_were_asked_each_once(records):
    """In ascending order, and out of the cohort."""
    parts = records[0].contributors
    for changed, words in [
        (tuple(reversed(parts)), "not each once and ascending"),
        ((*parts, msgspec.structs.replace(parts[-1], agent=9)), "contributors [9] were recorded"),
    ]:
        (found, *_) = judged([msgspec.structs.replace(records[0], contributors=changed)])
        assert words in " ".join(found)


def test_an_agent_has_one_fingerprint(records):
    """Not two machines at once."""
    agent = records[0].contributors[0].agent
    marks = {"x": (agent,), "y": (agent,)}
    (found,) = judged([msgspec.structs.replace(records[0], fingerprints=marks)])
    assert found == (f"agents [{agent}] were recorded with two fingerprints",)


def test_a_skipped_round_changes_no_parameters(records):
    """Its hash is that of the round before."""
    altered = [records[0], msgspec.structs.replace(records[1], params_sha256="0" * 64)]
    assert judged(altered)[1] == ("params_sha256 000000000000… was recorded, a skipped round changes none",)


def test_whoever_is_in_quarantine_is_not_eligible(records):
    """After so many refused rounds in a row, as they are recorded."""
    config = msgspec.structs.replace(CONFIG, federation=Federation(quarantine_after=1))
    struck = records[0].contributors[0].agent
    first = msgspec.structs.replace(records[0], conflicts=(struck,), quarantined=(struck,))
    found = judged([first, *records[1:]], config)
    assert found[0] == ()
    assert f"but [{struck}] are in quarantine" in found[1][0]


@pytest.mark.parametrize(
    ("rounds", "why"),
    [
        ((1, 3), "round 2 is missing from the records"),
        ((2,), "round 1 is missing from the records"),
        ((1, 1), "round 2 is missing from the records"),
        ((1, 2, 3, 4, 5), "round 5 was recorded, the run has 4"),
    ],
)
def test_rounds_are_consecutive_and_no_more_than_the_run_has(records, rounds, why):
    """A fifth round of four, though everything in it fits."""
    played = [msgspec.structs.replace(records[min(k, 4) - 1], round=k) for k in rounds]
    assert judged(played)[-1] == (why,)
