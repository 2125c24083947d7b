"""Strikes in a row, from the records of rounds, in the plain loop and in its replay."""

import msgspec
import numpy as np
import pytest

from edge_fed.config import Federation, RunConfig
from edge_fed.errors import TooLarge
from edge_fed.federated import per_fedavg_pg as loop
from edge_fed.federated.aggregation import check_update
from edge_fed.federated.privacy import private_update
from edge_fed.federated.quarantine import Quarantine
from edge_fed.federated.record import Contribution, RoundRecord
from edge_fed.federated.replay import replay
from tests.edge_fed.federated.runs import gridworld, play

ALL = tuple(range(4))


def record(good: tuple[int, ...] = (), missing: dict[int, str] | None = None, **fields) -> RoundRecord:
    """A round with these contributors."""
    parts = tuple(Contribution(agent, 0, 1.0, 1) for agent in good)
    return RoundRecord(
        round=1,
        eligible=ALL,
        cohort=ALL,
        contributors=parts,
        params_sha256="",
        missing=missing or {},
        **fields,
    )


REFUSED = record((0,), {1: "refused: its norm is 9"})


def test_the_third_refusal_in_a_row_quarantines() -> None:
    """A documented number; the agent is named once, and not admitted from then on."""
    quarantine = Quarantine(3)
    assert [quarantine.judge(REFUSED) for _ in range(4)] == [(), (), (1,), ()]
    assert quarantine.admitted((3, 1, 0)) == (0, 3)


@pytest.mark.parametrize("why", ["refused: x", "refused: too many malformed messages", "error: round 3: NaN"])
def test_what_counts_as_refused(why: str) -> None:
    """Refused by the server, or reported by the agent itself: the plain loop cannot tell them apart."""
    assert Quarantine(1).judge(record(missing={1: why})) == (1,)


@pytest.mark.parametrize("why", ["deadline", "lease", "bye", "lost", "absent", "not back after the restart"])
def test_what_does_not(why: str) -> None:
    """A bad network is no bad update: the count stays as it is, it neither grows nor starts again."""
    quarantine = Quarantine(2)
    assert quarantine.judge(REFUSED) == ()
    assert quarantine.judge(record(missing={1: why})) == ()
    assert quarantine.judge(record((0,))) == ()  # it was not asked
    assert quarantine.judge(REFUSED) == (1,)


def test_an_update_that_counts_starts_the_count_again() -> None:
    """In a row means in a row."""
    quarantine = Quarantine(2)
    assert [quarantine.judge(r) for r in (REFUSED, record((0, 1)), REFUSED, REFUSED)] == [(), (), (), (1,)]


def test_a_conflict_is_a_strike_although_the_first_update_counts() -> None:
    """Two different updates of one round: the first stands, the agent is suspect."""
    quarantine = Quarantine(2)
    both = record((0, 1), conflicts=(1,))
    assert [quarantine.judge(both), quarantine.judge(both)] == [(), (1,)]


def test_off_quarantines_nobody() -> None:
    """And so the strikes of a run that switches it off never end."""
    quarantine = Quarantine("off")
    assert [quarantine.judge(REFUSED) for _ in range(9)] == [()] * 9


def test_an_absurd_norm_is_refused_by_name() -> None:
    """The norm over the whole vector, with both numbers; one that overflows is above any bound."""
    check_update(np.array([3.0, 4.0]), 2, 5.0)
    with pytest.raises(TooLarge, match=r"its norm is 5, above max_update_norm = 4\.9"):
        check_update(np.array([3.0, 4.0]), 2, 4.9)
    with pytest.raises(TooLarge, match="its norm is inf"):
        check_update(np.full(4, 1e300), 4, 1e300)


def wild(monkeypatch: pytest.MonkeyPatch, *rounds: int) -> None:
    """Makes the updates of agent 1 huge in these rounds."""

    def update(task, params, state, seed, round_, *rest, **more):
        found = private_update(task, params, state, seed, round_, *rest, **more)
        if task.agent != 1 or round_ not in rounds:
            return found
        return msgspec.structs.replace(found, delta=1e9 * found.delta)

    monkeypatch.setattr(loop, "private_update", update)


def settings(rounds: int = 6, **federation) -> RunConfig:
    """Four agents on the grid that refuse long updates."""
    config = gridworld(agents="0-3", rounds=rounds, local_steps=1, baseline="value")
    limits = Federation(**{"max_update_norm": 100.0, **federation})
    return msgspec.structs.replace(config, federation=limits)


def test_the_plain_loop_refuses_and_quarantines(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the fourth round on the run is that of the other agents alone."""
    wild(monkeypatch, *range(1, 7))
    records = [outcome.record for outcome in play(settings(), ALL)]
    assert all("max_update_norm" in r.missing[1] for r in records[:3])
    assert [r.quarantined for r in records] == [(), (), (1,), (), (), ()]
    assert [r.eligible for r in records] == [ALL] * 3 + [(0, 2, 3)] * 3
    assert [[c.agent for c in r.contributors] for r in records] == [[0, 2, 3]] * 6


def test_two_refusals_and_an_update_that_counts_quarantine_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds 1, 2 and 4, 5 are refused, round 3 counts."""
    wild(monkeypatch, 1, 2, 4, 5)
    records = [outcome.record for outcome in play(settings(), ALL)]
    assert [1 in r.missing for r in records] == [True, True, False, True, True, False]
    assert not any(r.quarantined for r in records)


def test_verify_judges_the_quarantine_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An honest record replays; one that hides the quarantine, or asks a quarantined agent, does not."""
    wild(monkeypatch, *range(1, 7))
    config = settings()
    records = [outcome.record for outcome in play(config, ALL)]
    assert [r.differences for r in replay(config, records)] == [()] * 6
    hidden = [msgspec.structs.replace(r, quarantined=()) for r in records]
    third = list(replay(config, hidden))[2]
    assert third.differences == ("quarantined [] were recorded, [1] follow",)
    asked = [*records[:4], msgspec.structs.replace(records[4], eligible=ALL)]
    assert "[1] are in quarantine" in list(replay(config, asked))[4].differences[0]


def test_without_a_bound_a_long_update_is_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is off."""
    assert Federation().max_update_norm == "off"
    wild(monkeypatch, *range(1, 7))
    config = settings(max_update_norm="off", rounds=1)
    assert [c.agent for c in play(config, ALL)[0].record.contributors] == [0, 1, 2, 3]
