"""Control variates: worked by hand, the invariant, what they are for, and what happens to a lost half."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_fed.errors import NonFinite, ShapeError
from edge_fed.federated.aggregation import Fold
from edge_fed.federated.control_variate import OWN, ServerControl, initial_control
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.federated.per_fedavg_pg import play_round
from edge_fed.federated.record import Attendance
from edge_fed.federated.task import initial_params
from edge_fed.meta import BASELINES, VARIANTS
from edge_fed.meta.base import Estimate
from edge_fed.params import params_sha256
from edge_fed.seeding import Purpose
from tests.edge_fed.federated.runs import gridworld, play, tasks_of

D = 100  # of the gridworld's softmax policy


def corrected(**algorithm):
    """A run with control variates."""
    return gridworld(**{"correction": "control_variate", **algorithm})


class Run:
    """A run whose agents' states can be looked at between the rounds."""

    def __init__(self, config, agents=8):
        self.config, self.n = config, agents
        self.tasks = tasks_of(config, range(agents))
        self.params = initial_params(config)
        self.control = initial_control(config, self.params.size)
        self.states = {}
        self.largest = 1e-300  # entry of any c_i so far: rounding errors add up on this scale

    def play(self, round_, eligible=None, **attendance):
        """One round; the agents that are there are all of them unless ``eligible`` says otherwise."""
        there = Attendance(round_, tuple(range(self.n)) if eligible is None else eligible, **attendance)
        outcome = play_round(self.config, self.tasks, self.params, self.states, there, self.control)
        self.params, self.control = outcome.params, outcome.control
        self.largest = max(self.largest, np.abs(self.own).max())
        return outcome

    @property
    def own(self):
        """Every planned agent's c_i; zero before its first counted update, ``[n, d]``."""
        zero = np.zeros(self.params.size)
        return np.array([self.states.get(i, {}).get(OWN, zero) for i in range(self.n)])

    def gap(self):
        """|sum c_i - n c|, relative to n times the largest entry of any c_i."""
        total, c = self.own.sum(axis=0), self.n * self.control.value
        return np.abs(total - c).max() / (self.n * self.largest)


def steps_along(function, patch):
    """Makes ``function`` of agent, params and local step the direction of variant ``exact``."""

    def variant(task, params, step):
        return Estimate(function(task.agent, params, step) * np.ones(D), 1, {})

    patch.setitem(VARIANTS, "exact", variant)


@pytest.fixture
def directions(monkeypatch):
    """Replaces the direction of variant ``exact``."""
    return lambda function: steps_along(function, monkeypatch)


def test_two_agents_worked_by_hand(directions):
    """Directions 3 and 1, tau beta = 1: after each was asked once, either alone moves by the mean, 2."""
    directions(lambda agent, _params, _step: (3.0, 1.0)[agent])
    run = Run(corrected(agents="0-1", variant="exact", local_steps=2, outer_step_size=0.5), agents=2)
    expected = [  # who is asked, then theta, c, c_0, c_1
        ({0}, 3.0, 1.5, 3.0, 0.0),
        ({1}, 5.5, 2.0, 3.0, 1.0),
        ({0, 1}, 7.5, 2.0, 3.0, 1.0),
        ({0}, 9.5, 2.0, 3.0, 1.0),
        ({1}, 11.5, 2.0, 3.0, 1.0),
    ]
    for k, (present, theta, c, *own) in enumerate(expected, start=1):
        run.play(k, present=frozenset(present))
        assert run.params.tolist() == [theta] * D
        assert run.control.value.tolist() == [c] * D
        assert run.own.tolist() == [[value] * D for value in own]


@pytest.mark.parametrize("seed", range(6))
def test_the_sum_of_all_halves_is_n_times_the_servers(seed):
    """sum_i c_i = n c after every round with half of the agents asked (science.md mistake 31)."""
    run = Run(corrected(seed=seed, participation=0.5, local_steps=3, baseline="value"))
    for k in range(1, 9):
        outcome = run.play(k)
        assert run.gap() < 1e-12
        assert np.abs(run.control.value).max() > 0
        assert outcome.record.control_sha256 == params_sha256(run.control.value)


ATTENDANCES = st.lists(
    st.tuples(st.sets(st.integers(0, 4), min_size=1), st.sets(st.integers(0, 4))), min_size=1, max_size=12
)


@given(rounds=ATTENDANCES, seed=st.integers(0, 10))
def test_the_invariant_stands_whoever_comes_and_goes(rounds, seed):
    """Late joiners, leavers, missing updates and skipped rounds: n stays the number of planned agents."""
    settings = {"variant": "exact", "local_steps": 2, "participation": 0.6}
    run = Run(corrected(seed=seed, agents="0-4", **settings), agents=5)
    with pytest.MonkeyPatch.context() as patch:
        steps_along(lambda _agent, _params, step: step.streams(Purpose.INNER).normal(1.0, 3.0, D), patch)
        for k, (there, arrived) in enumerate(rounds, start=1):
            run.play(k, tuple(sorted(there)), present=frozenset(arrived))
            assert run.gap() < 1e-12


def test_full_participation_leaves_the_mean_direction_as_it_was():
    """At one local step the corrections of a full round cancel: the same parameters, up to rounding."""
    plain = play(gridworld(rounds=6, local_steps=1), range(8))
    with_control = play(corrected(rounds=6, local_steps=1), range(8))
    for one, other in zip(plain, with_control, strict=True):
        assert np.abs(one.params - other.params).max() < 1e-12
    assert plain[-1].params.tobytes() != with_control[-1].params.tobytes()


def test_the_first_round_is_the_uncorrected_one():
    """All halves are zero before round 1."""
    config = {"rounds": 2, "participation": 0.5}
    (first, second), (other, another) = (play(make(**config), range(8)) for make in (gridworld, corrected))
    assert first.params.tobytes() == other.params.tobytes()
    assert second.params.tobytes() != another.params.tobytes()


def test_identical_agents_need_no_correction(directions):
    """Once everybody was asked, c_i = c, and the corrected direction is the agents' own."""
    directions(lambda _agent, _params, _step: 2.0)
    run = Run(corrected(agents="0-1", variant="exact", local_steps=1), agents=2)
    for k, agent in enumerate((0, 1, 0), start=1):
        outcome = run.play(k, present=frozenset({agent}))
    assert run.control.value.tolist() == [2.0] * D
    assert outcome.metrics[0]["correction_norm"] == 0.0


def test_sampled_agents_reach_the_optimum_of_all(directions):
    """Quadratics with optima 4 and -1 and curvatures 1 and 4: the optimum of the sum is 0.

    Without the correction one agent at a time pulls to its own optimum for good; with many local steps even
    full rounds end elsewhere.
    """
    slope, optimum = (1.0, 4.0), (4.0, -1.0)
    directions(lambda agent, params, _step: slope[agent] * (optimum[agent] - params))
    ends = {}
    for name, r in (("none", 0.5), ("none", 1.0), ("control_variate", 0.5), ("control_variate", 1.0)):
        settings = {"local_steps": 10, "outer_step_size": 0.02, "participation": r, "variant": "exact"}
        run = Run(gridworld(agents="0-1", correction=name, **settings), agents=2)
        path = [abs(run.play(k).params).max() for k in range(1, 301)]
        ends[name, r] = max(path[-50:])
    assert ends["control_variate", 0.5] < 1e-9
    assert ends["control_variate", 1.0] < 1e-9
    assert min(ends["none", 0.5], ends["none", 1.0]) > 0.1


def test_what_never_counted_leaves_both_halves():
    """A skipped round, and an update that never came, are as if they had not been."""
    everybody = tuple(range(8))
    skipping, straight = Run(corrected(local_steps=2)), Run(corrected(local_steps=2))
    skipping.play(1)
    before = skipping.own
    assert skipping.play(2, present=frozenset({0, 1, 2})).record.outcome == "skipped"
    assert np.array_equal(skipping.own, before)
    skipping.play(3, present=frozenset(everybody) - {5})
    straight.play(1)
    straight.play(3, present=frozenset(everybody) - {5})
    assert np.array_equal(skipping.own, straight.own)
    assert np.array_equal(skipping.own[5], before[5])
    assert np.array_equal(skipping.control.value, straight.control.value)
    assert np.array_equal(skipping.params, straight.params)


def test_after_a_lost_state_all_halves_start_from_zero():
    """The round is recorded with its state reset; other agent state stays; the next round is uncorrected."""
    run = Run(corrected(local_steps=2, baseline="value"))
    run.play(1)
    record = run.play(2, state_resets=(3,)).record
    assert record.state_resets == (3,)
    assert not run.own.any() and not run.control.value.any()
    assert all((run.states[i]["A"] != BASELINES["value"].initial(run.tasks[i])["A"]).any() for i in range(8))
    assert record.control_sha256 == params_sha256(np.zeros(D))
    third = run.play(3)
    assert all(metrics["correction_norm"] == 0.0 for metrics in third.metrics.values())
    assert run.gap() < 1e-12 and run.control.value.any()


def test_a_lost_half_that_stays_in_the_mean_would_push_for_good():
    """Why all start again: c keeps the lost c_i, and every later full round moves by its share too far."""
    run = Run(corrected(local_steps=1))
    run.play(1)
    lost = run.own[3]
    run.states[3] = {OWN: np.zeros(D)}  # and nobody is told
    for k in range(2, 6):
        run.play(k)
        assert np.allclose(8 * run.control.value - run.own.sum(axis=0), lost, rtol=0, atol=1e-12)


@pytest.mark.parametrize("baseline", BASELINES)
def test_the_state_has_room_for_baseline_and_control_variate(baseline):
    """Neither takes the other's name, and the first round's baseline is that of an uncorrected run."""
    with_control, plain = corrected(baseline=baseline), gridworld(baseline=baseline)
    (task,), (other,) = (tasks_of(config, [3]).values() for config in (with_control, plain))
    start, zero = initial_params(plain), np.zeros(D)
    state = local_update(task, start, initial_state(task), 0, 1, lambda _: None, zero).state
    expected = local_update(other, start, initial_state(other), 0, 1, lambda _: None).state
    assert OWN not in expected
    assert set(state) == {*expected, OWN}
    assert all(np.array_equal(state[name], expected[name]) for name in expected)


def test_inputs_are_left_as_they_were():
    """Of both halves: c is read-only, c_i is replaced, never changed."""
    (task,) = tasks_of(corrected(), [3]).values()
    state, control = {OWN: np.ones(D)}, np.full(D, 2.0)
    update = local_update(task, initial_params(corrected()), state, 0, 1, lambda _: None, control)
    assert state[OWN].tolist() == [1.0] * D
    assert control.tolist() == [2.0] * D
    assert update.metrics["correction_norm"] == 10.0
    assert not initial_control(corrected(), D).value.flags.writeable


@pytest.mark.parametrize(
    ("config", "control", "state", "message"),
    [
        (corrected(), None, {OWN: np.zeros(D)}, "c of the run has shape None"),
        (corrected(), np.zeros(D - 1), {OWN: np.zeros(D)}, r"c of the run has shape \(99,\)"),
        (corrected(), np.zeros(D), {}, "c_i of this agent has shape None"),
        (corrected(), np.zeros(D), {OWN: np.zeros(1)}, r"c_i of this agent has shape \(1,\)"),
        (gridworld(), np.zeros(D), {}, "the run has no correction"),
    ],
)
def test_a_half_that_does_not_fit_is_named(config, control, state, message):
    """Missing, of another size, or too much: no update is computed with a wrong correction."""
    (task,) = tasks_of(config, [3]).values()
    with pytest.raises(ShapeError, match=message):
        local_update(task, initial_params(config), state, 0, 1, lambda _: None, control)


def test_a_step_size_of_zero_is_refused_by_name():
    """Validation says so before; whoever builds a task by hand is told by the update."""
    (task,) = tasks_of(corrected(outer_step_size=0.0), [3]).values()
    with pytest.raises(NonFinite, match="agent 3, round 1: its control variate"):
        local_update(
            task, initial_params(corrected()), initial_state(task), 0, 1, lambda _: None, np.zeros(D)
        )


def test_a_half_that_overflows_skips_the_round(monkeypatch):
    """Finite updates whose sum, divided by tau beta, is not finite change nothing."""
    control = ServerControl(np.zeros(D), 1e-300, 8)
    fold = Fold(np.zeros(D))
    fold.add(0, np.full(D, 1e10), 1)
    with pytest.raises(NonFinite, match="control variate of the run"):
        control.after(fold)
    run = Run(corrected(local_steps=1))
    run.control = msgspec.structs.replace(run.control, round_step=1e-320)
    monkeypatch.setattr("edge_fed.federated.control_variate.round_step", lambda _settings: 1.0)
    assert run.play(1).record.outcome == "skipped"
    assert not run.control.value.any() and run.states == {}
