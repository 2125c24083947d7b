"""Rules beside the mean: worked by hand, and held against updates that are wrong on purpose."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_fed.config import Algorithm
from edge_fed.errors import BadWeight, NonFinite, OutOfOrder, ShapeError
from edge_fed.federated.aggregation import Fold, norm
from edge_fed.federated.robust import (
    RULES,
    aggregator,
    clipped,
    coordinate_median,
    geometric_median,
    krum,
    needed_updates,
    trimmed_mean,
)
from tests.edge_fed.federated.runs import gridworld

ROBUST = sorted(set(RULES) - {"mean"})
RESISTANT = sorted(set(RULES) - {"mean", "clipped_mean"})
D = 7


def folded(rule: str, deltas: list, f: int = 1, params=None, **changes) -> np.ndarray:
    """The next parameters under a rule; agents 0, 1, 2, ... sent these updates."""
    deltas = [np.asarray(delta, dtype=float) for delta in deltas]
    config = Algorithm(rule=rule, byzantine=f, **{"clip_norm": 1e9, **changes})
    fold = aggregator(np.zeros(deltas[0].size) if params is None else params, config)
    for agent, delta in enumerate(deltas):
        assert fold.add(agent, delta, 10) == 1.0
    return fold.result()


def honest(n: int, seed: int = 0) -> list[np.ndarray]:
    """Updates that are alike: around one direction, a tenth of its length apart."""
    rng = np.random.default_rng(seed)
    return list(np.linspace(1, 2, D) + 0.1 * rng.normal(size=(n, D)))


@pytest.mark.parametrize(
    ("rule", "deltas", "expected"),
    [
        ("median", [[1, 9], [2, 5], [9, 1]], [2, 5]),
        ("median", [[1, 0], [2, 0], [4, 0], [100, 8]], [3, 0]),
        ("trimmed_mean", [[1, 10], [2, 20], [6, 30], [100, -99], [-100, 99]], [3, 20]),
        ("geometric_median", [[0, 0], [4, 0], [0, 4], [4, 4], [2, 2]], [2, 2]),  # the centre of a square
        ("geometric_median", [[0, 0], [0, 0], [0, 0], [9, 9], [5, -7]], [0, 0]),  # the majority
        ("krum", [[0, 0], [1, 0], [0, 1.5], [0.5, 0.5], [50, 50]], [0.5, 0.5]),
        ("clipped_mean", [[3, 4], [0, 2]], [(1.2 + 0) / 2, (1.6 + 2) / 2]),  # 5 long and 2 long, to 2
        ("mean", [[1, 0], [2, 0], [6, 3]], [3, 1]),
    ],
)
def test_rules_worked_by_hand(rule: str, deltas: list, expected: list) -> None:
    """Small cases whose result a person can compute."""
    assert folded(rule, deltas, clip_norm=2.0) == pytest.approx(np.array(expected), abs=1e-9)


def test_the_geometric_median_of_a_triangle_is_its_fermat_point() -> None:
    """It sees every side under 120 degrees: the unit vectors to the corners add up to nothing."""
    corners = [np.array(corner) for corner in ([0.0, 0.0], [4.0, 0.0], [1.0, 3.0])]
    point = geometric_median(corners)
    pull = sum((corner - point) / norm(corner - point) for corner in corners)
    assert norm(pull) < 1e-5


def test_krum_scores_by_hand() -> None:
    """On a line at 0, 1, 2.5, 3, 10 with f = 1 each counts its 2 nearest: 7.25, 3.25, 2.5, 4.25, 105.25."""
    line = [np.array([x]) for x in (0.0, 1.0, 2.5, 3.0, 10.0)]
    assert krum(line, 1).tolist() == [2.5]


def test_krum_takes_the_lowest_agent_of_a_tie() -> None:
    """Equal scores: the first in agent order, so that no runtime chooses another one."""
    square = [np.array(corner) for corner in ([1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [8.0, 8.0])]
    assert krum(square, 1).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("rule", ROBUST)
def test_the_order_of_agents_decides_nothing(rule: str) -> None:
    """Whoever sent which update: to the bit where values are chosen, to rounding where they are averaged."""
    updates = honest(5)
    results = [folded(rule, list(order)) for order in itertools.permutations(updates)]
    exact = rule in ("median", "trimmed_mean", "krum")
    for result in results:
        assert result == pytest.approx(results[0], rel=0 if exact else 1e-9, abs=0 if exact else 1e-9)


@pytest.mark.parametrize("rule", sorted(RULES))
@given(value=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), n=st.integers(5, 9))
@settings(max_examples=30, deadline=None)
def test_equal_updates_give_that_update(rule: str, value: list[float], n: int) -> None:
    """Nobody differs: nothing is lost."""
    result = folded(rule, [value] * n)
    assert result == pytest.approx(np.array(value), rel=1e-14, abs=1e-300)
    if rule in ("median", "trimmed_mean", "geometric_median", "krum"):
        assert result.tolist() == value


@pytest.mark.parametrize("rule", RESISTANT)
@pytest.mark.parametrize("size", [1e6, 1e200, 1.7e308])
@pytest.mark.parametrize("where", ["first", "last"])
def test_f_wrong_updates_of_any_size_do_not_move_the_result_far(rule: str, size: float, where: str) -> None:
    """Seven honest, three wrong agents: the result stays where the theory of the rule says."""
    good, f = honest(7), 2 if rule == "krum" else 3
    bad = [np.full(D, size), np.full(D, size), np.full(D, -size)][:f]
    result = folded(rule, bad + good if where == "first" else good + bad, f)
    low, high = np.min(good, axis=0), np.max(good, axis=0)
    if rule == "krum":
        assert any(np.array_equal(result, update) for update in good)
    elif rule == "geometric_median":  # within 2 (n-f) / (n-2f) radii of any centre of the honest
        n, centre = len(good) + f, np.mean(good, axis=0)
        radius = max(norm(update - centre) for update in good)
        assert norm(result - centre) <= 2 * (n - f) / (n - 2 * f) * radius
    else:
        assert np.all((low <= result) & (result <= high))


def test_one_wrong_update_moves_the_mean_as_far_as_it_likes() -> None:
    """What the rules are for."""
    assert norm(folded("mean", [*honest(7), np.full(D, 1e6)])) > 1e5


def test_clipping_bounds_what_one_agent_can_do() -> None:
    """A wrong agent moves the mean by at most clip_norm / n, whatever it sends; it is not excluded."""
    good = honest(7)
    alone = folded("clipped_mean", [*good, np.zeros(D)], clip_norm=3.0)
    for wrong in (np.full(D, 1e6), np.full(D, -1e300), np.full(D, 1.7e308)):
        moved = folded("clipped_mean", [*good, wrong], clip_norm=3.0)
        assert norm(moved - alone) == pytest.approx(3.0 / 8)


def test_an_update_within_the_bound_is_not_touched() -> None:
    """Clipping rounds nothing that it does not shorten."""
    delta = np.array([0.1, 0.2])
    assert clipped(delta, norm(delta)) is delta
    assert norm(clipped(delta, 0.1)) == pytest.approx(0.1)


@pytest.mark.parametrize("block", [1, 2, 3, 64, 1000])
@pytest.mark.parametrize("n", [1, 2, 9, 20])
def test_the_block_size_changes_no_bit(block: int, n: int) -> None:
    """[n, block] is a matter of memory alone."""
    updates = list(np.random.default_rng(4).normal(size=(n, 200)) * 10.0 ** np.arange(-4, 4).repeat(25))
    f = min(2, (n - 1) // 2)
    assert trimmed_mean(updates, f, block).tobytes() == trimmed_mean(updates, f).tobytes()


@pytest.mark.parametrize(
    ("rule", "needs"),
    [("median", 1), ("geometric_median", 1), ("clipped_mean", 1), ("trimmed_mean", 3), ("krum", 5)],
)
def test_one_and_two_updates(rule: str, needs: int) -> None:
    """One is the result, two give their mean; a rule that needs more refuses, by a number it names."""
    assert RULES[rule].needs(1) == needs
    if needs > 1:
        with pytest.raises(BadWeight, match=f"2 updates, the rule needs {needs}"):
            folded(rule, [[1.0, 2.0], [3.0, 4.0]])
        return
    assert folded(rule, [[1.0, 2.0]]).tolist() == [1.0, 2.0]
    assert folded(rule, [[1.0, 2.0], [3.0, 4.0]]).tolist() == [2.0, 3.0]


@pytest.mark.parametrize("rule", sorted(RULES))
def test_what_must_not_be_averaged_changes_nothing(rule: str) -> None:
    """Not finite, of another size, out of order: refused by name, and the round goes on without it."""
    fold = aggregator(np.zeros(2), Algorithm(rule=rule, byzantine=0, clip_norm=1e9))
    for agent in (0, 1, 2):
        fold.add(agent, np.array([1.0, 3.0]), 5)
    wrong: list[tuple[int, list, type[Exception]]] = [
        (2, [0.0, 0.0], OutOfOrder),
        (3, [0.0, np.nan], NonFinite),
        (3, [-np.inf, 0.0], NonFinite),
        (3, [0.0], ShapeError),
    ]
    for agent, delta, error in wrong:
        with pytest.raises(error):
            fold.add(agent, np.array(delta), 1)
    assert fold.result().tolist() == [1.0, 3.0]


@pytest.mark.parametrize("rule", sorted(RULES))
def test_the_result_is_the_parameters_plus_the_combined_update(rule: str) -> None:
    """A fresh read-only array; the parameters received are left alone."""
    params = np.array([10.0, 20.0])
    result = folded(rule, [[1.0, 2.0]] * 5, params=params)
    assert result.tolist() == [11.0, 22.0]
    assert params.tolist() == [10.0, 20.0]
    assert not result.flags.writeable


@pytest.mark.parametrize("rule", ["mean", *RESISTANT])
def test_a_result_that_overflows_is_refused(rule: str) -> None:
    """Infinity is never published, whatever the single updates look like."""
    with pytest.raises(NonFinite, match="stay as they were"):
        folded(rule, [[1.7e308, 0.0]] * 5, params=np.array([1.7e308, 0.0]))


def test_the_default_is_the_mean_to_the_bit() -> None:
    """Without a rule it is the streaming mean that the paper's algorithm says."""
    updates = list(np.random.default_rng(1).normal(size=(8, 100)))
    fold = Fold(np.ones(100))
    for agent, delta in enumerate(updates):
        fold.add(agent, delta, 1)
    assert Algorithm().rule == "mean"
    assert folded("mean", updates, params=np.ones(100)).tobytes() == fold.result().tobytes()
    assert isinstance(aggregator(np.ones(3), Algorithm()), Fold)


def test_only_the_rules_that_gather_say_so() -> None:
    """What holds n vectors is declared: the memory of a server depends on it."""
    assert {name for name, rule in RULES.items() if rule.kind == "gather"} == set(RESISTANT)


def test_a_round_needs_what_its_rule_needs() -> None:
    """The run's minimum, unless the rule promises nothing below a larger number."""
    assert needed_updates(gridworld(), 8) == 4
    assert needed_updates(gridworld(rule="krum", byzantine=2), 8) == 7
    assert needed_updates(gridworld(rule="trimmed_mean", byzantine=1, min_updates=6), 8) == 6


def test_medians_of_random_updates_are_those_of_numpy() -> None:
    """Odd and even numbers of agents."""
    for n in (1, 2, 5, 8):
        updates = list(np.random.default_rng(n).normal(size=(n, 50)))
        assert coordinate_median(updates) == pytest.approx(np.median(updates, axis=0), rel=1e-15)
