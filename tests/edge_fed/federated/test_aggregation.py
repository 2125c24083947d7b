"""Folding updates into the next parameters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edge_fed.config import Agents, RunConfig
from edge_fed.errors import BadWeight, NonFinite, OutOfOrder, ShapeError
from edge_fed.federated.aggregation import AGGREGATIONS, Fold, check_update, own_weights

VECTOR = arrays(np.float64, 5, elements=st.floats(-1e6, 1e6))


def test_uniform_mean_by_hand():
    """Params + mean of the deltas, whatever the trajectories."""
    fold = Fold(np.array([1.0, 2.0]), "uniform")
    assert [fold.add(a, np.array(d), n) for a, d, n in [(0, [2.0, 0.0], 10), (3, [0.0, 4.0], 999)]] == [1, 1]
    assert fold.result().tolist() == [2.0, 4.0]


def test_weighted_mean_by_hand():
    """[complaints 31] Three agents with 1, 1 and 2 trajectories count 1/4, 1/4 and 1/2."""
    fold = Fold(np.zeros(1), "weighted")
    for agent, delta, trajectories in [(0, 4.0, 1), (1, 8.0, 1), (2, 2.0, 2)]:
        assert fold.add(agent, np.array([delta]), trajectories) == trajectories
    assert fold.result().tolist() == [(4.0 + 8.0 + 2 * 2.0) / 4]


def test_agents_with_weights_of_their_own_by_hand():
    """[complaints 64] They multiply what the rule gives; the sum of weights normalises, agent 1 counts 1."""
    for rule, trajectories, weights in (("uniform", 9, [3.0, 1.0, 0.5]), ("weighted", 2, [6.0, 2.0, 1.0])):
        fold = Fold(np.zeros(1), rule, {0: 3.0, 2: 0.5, 7: 100.0})
        found = [
            fold.add(agent, np.array([delta]), trajectories) for agent, delta in enumerate((1.0, 4.0, 8.0))
        ]
        assert found == weights
        assert fold.result().tolist() == pytest.approx([(3 * 1.0 + 4.0 + 0.5 * 8.0) / 4.5])


def test_weights_are_those_of_the_tables():
    """Tables with a weight of 1 say nothing."""
    tables = (Agents(goals="0-1,5", weight=2.0), Agents(goals="2-4"), Agents(goals=(7,), weight=0.5))
    assert own_weights(RunConfig(agents=tables)) == {0: 2.0, 1: 2.0, 5: 2.0, 7: 0.5}


@pytest.mark.parametrize("rule", sorted(AGGREGATIONS))
@given(params=VECTOR, agents=st.integers(1, 9))
def test_zero_updates_leave_the_bits(rule, params, agents):
    """A step size of 0 changes no bit under any rule and any number of agents."""
    fold = Fold(params, rule)
    for agent in range(agents):
        fold.add(agent, np.zeros(5), 3)
    assert fold.result().tobytes() == (params + 0.0).tobytes()


def test_result_is_fresh_and_read_only():
    """Nobody can change a published version, and folding does not touch the old one."""
    params = np.zeros(3)
    fold = Fold(params)
    fold.add(0, np.ones(3), 1)
    result = fold.result()
    with pytest.raises(ValueError, match="read-only"):
        result[0] = 1.0
    assert params.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("agent", "delta", "trajectories", "error"),
    [
        (2, [0.0, 0.0], 1, OutOfOrder),
        (1, [0.0, 0.0], 1, OutOfOrder),
        (3, [0.0, np.nan], 1, NonFinite),
        (3, [np.inf, 0.0], 1, NonFinite),
        (3, [0.0], 1, ShapeError),
        (3, [[0.0, 0.0]], 1, ShapeError),
        (3, [0.0, 0.0], 0, BadWeight),
        (3, [0.0, 0.0], -1, BadWeight),
    ],
)
def test_what_must_not_be_averaged_changes_nothing(agent, delta, trajectories, error):
    """[complaints 29] A refused update raises its own error and leaves the sum as it was."""
    fold = Fold(np.zeros(2), "weighted")
    fold.add(2, np.array([1.0, 3.0]), 5)
    with pytest.raises(error):
        fold.add(agent, np.array(delta), trajectories)
    assert fold.result().tolist() == [1.0, 3.0]


def test_an_empty_round_has_no_mean():
    """No update, no result: never NaN by a division by zero."""
    with pytest.raises(BadWeight, match="skipped"):
        Fold(np.zeros(2)).result()


def test_a_refusal_names_how_many_entries_and_where():
    """The message of a non-finite update counts the entries and names the first."""
    with pytest.raises(NonFinite, match=r"2 of 4 entries .* index 1"):
        check_update(np.array([0.0, np.nan, 1.0, np.inf]), 4)


def test_finite_updates_whose_sum_overflows_are_no_result():
    """Infinity is never published, whatever the single updates look like."""
    fold = Fold(np.zeros(1))
    for agent in range(2):
        fold.add(agent, np.array([1.7e308]), 1)
    with pytest.raises(NonFinite, match="stay as they were"):
        fold.result()
