"""Sampling of a round's agents."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_fed.federated.cohort import cohort, cohort_size, minimum_updates

AGENTS = st.sets(st.integers(0, 200), min_size=1, max_size=30).map(sorted)
FRACTION = st.floats(0.01, 1.0)


@given(AGENTS, FRACTION, st.integers(0, 2**32), st.integers(1, 1000), st.randoms())
def test_choice_ignores_the_order_of_the_list(agents, participation, seed, round_, random):
    """[complaints 38] Any order of the eligible agents gives the same ascending cohort of the stated size."""
    shuffled = list(agents)
    random.shuffle(shuffled)
    chosen = cohort(seed, round_, shuffled, participation)
    assert chosen == cohort(seed, round_, agents, participation)
    assert list(chosen) == sorted(set(chosen))
    assert set(chosen) <= set(agents)
    assert len(chosen) == cohort_size(len(agents), participation)


@given(AGENTS, st.integers(0, 2**32), st.integers(1, 1000))
def test_full_participation_asks_everybody(agents, seed, round_):
    """Participation = 1 is all eligible agents."""
    assert cohort(seed, round_, agents, 1.0) == tuple(agents)


def test_an_absent_agent_moves_no_other_agents_draw():
    """Whoever was chosen among all is still chosen when an agent that was not chosen is gone."""
    everybody = list(range(10))
    for round_ in range(1, 30):
        chosen = cohort(7, round_, everybody, 0.3)
        gone = next(agent for agent in everybody if agent not in chosen)
        rest = [agent for agent in everybody if agent != gone]
        assert cohort(7, round_, rest, 3 / 9) == chosen


def test_rounds_and_seeds_draw_anew_and_every_agent_has_its_turn():
    """Over 300 rounds each of 10 agents is asked about as often as the fraction says."""
    counts = [0] * 10
    for round_ in range(1, 301):
        for agent in cohort(3, round_, range(10), 0.3):
            counts[agent] += 1
    expected, spread = 300 * 0.3, math.sqrt(300 * 0.3 * 0.7)
    assert all(abs(count - expected) < 4 * spread for count in counts)
    assert cohort(3, 1, range(100), 0.3) != cohort(4, 1, range(100), 0.3)


@pytest.mark.parametrize(
    ("eligible", "participation", "size"),
    [(0, 1.0, 0), (1, 0.01, 1), (6, 0.5, 3), (7, 0.5, 4), (30, 0.1, 3), (6, 1.0, 6), (10, 0.29, 3)],
)
def test_size_is_rounded_up_and_never_zero(eligible, participation, size):
    """ceil(r n), at least one; binary rounding of 0.1 * 30 does not ask a fourth agent."""
    assert cohort_size(eligible, participation) == size


def test_minimum_is_half_of_the_cohort_unless_configured():
    """ceil(n / 2) by default; a configured number stands."""
    assert [minimum_updates(n, None) for n in (1, 2, 3, 6, 7)] == [1, 1, 2, 3, 4]
    assert minimum_updates(6, 5) == 5
