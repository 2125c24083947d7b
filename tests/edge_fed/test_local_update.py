"""A round's work of one agent: pure, counted, keyed, refused by name when not finite."""

import msgspec
import numpy as np
import pytest

from edge_fed.errors import NonFinite, ShapeError
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.meta import VARIANTS
from edge_fed.meta.base import Estimate
from tests.edge_fed import checks


def silent(_step):
    """Progress that nobody watches."""


def run(task, params, state=None, seed=0, round_=1):
    """A local update with the initial state unless one is given."""
    return local_update(task, params, initial_state(task) if state is None else state, seed, round_, silent)


@pytest.mark.parametrize(("variant", "per_step"), [("exact", 12), ("first_order", 7), ("fedavg_pg", 12)])
def test_trajectories_are_counted_exactly(variant, per_step):
    """[complaints 36] It is tau (m_in + m_h + m_out), without m_h in first_order."""
    checks.check_counters(variant, per_step)


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_steps_start_from_theta_not_from_the_adapted_parameters(family):
    """[complaints 34] One step gives delta = beta direction; beta = 0 changes nothing."""
    checks.check_base_of_outer_step(family)


@pytest.mark.parametrize("family", checks.FAMILIES)
@pytest.mark.parametrize("baseline", ["none", "loo", "value"])
def test_update_is_a_function_of_its_arguments(family, baseline):
    """Twice the same bits; inputs untouched; another seed, round or agent gives another update."""
    task, params = checks.task_and_params(
        checks.FAMILIES[family], variant="exact", baseline=baseline, **checks.LARGE
    )
    state = run(task, params).state
    copies = params.tobytes(), {name: array.tobytes() for name, array in state.items()}
    first, again = run(task, params, state), run(task, params, state)
    assert first.delta.tobytes() == again.delta.tobytes()
    assert all(first.state[name].tobytes() == again.state[name].tobytes() for name in state)
    assert (params.tobytes(), {name: array.tobytes() for name, array in state.items()}) == copies
    other = checks.task_and_params(checks.FAMILIES[family], goal=4, variant="exact", baseline=baseline)[0]
    for changed in (run(task, params, state, seed=1), run(task, params, state, round_=2), run(other, params)):
        assert changed.delta.tobytes() != first.delta.tobytes()


def test_value_state_advances_and_matters():
    """The state after a round differs from before, and another state gives another update."""
    task, params = checks.task_and_params(checks.GRIDWORLD, variant="first_order", baseline="value")
    first = run(task, params)
    assert (first.state["A"] != initial_state(task)["A"]).any()
    assert run(task, params, first.state).delta.tobytes() != first.delta.tobytes()


def test_stateless_baselines_have_no_state():
    """Nothing to persist for none and loo."""
    for baseline in ("none", "loo"):
        task, params = checks.task_and_params(checks.GRIDWORLD, baseline=baseline)
        assert run(task, params).state == {}


def test_progress_is_called_before_each_step_and_may_stop():
    """There are tau calls with the step's number; what it raises ends the update."""
    task, params = checks.task_and_params(checks.GRIDWORLD, local_steps=4)
    seen = []
    local_update(task, params, {}, 0, 1, seen.append)
    assert seen == [0, 1, 2, 3]

    def stop(step):
        if step == 2:
            raise KeyboardInterrupt

    before = task.sample.trajectories
    with pytest.raises(KeyboardInterrupt):
        local_update(task, params, {}, 0, 1, stop)
    assert task.sample.trajectories - before == 2 * 20


def test_second_step_draws_from_its_own_streams():
    """The second step of a round draws from streams of its own, at the parameters reached."""
    task, params = checks.task_and_params(checks.GRIDWORLD, variant="first_order", local_steps=2)
    one = msgspec.structs.replace(task, settings=msgspec.structs.replace(task.settings, local_steps=1))
    both, first = run(task, params), run(one, params)
    middle = params + first.delta
    again = run(one, middle)  # the same streams as step 0: must differ from the second step
    assert (both.delta != first.delta).any()
    assert ((middle + again.delta) - params != both.delta).any()


def test_metrics_say_what_happened():
    """Norms, median curvature ratio, guard rate, cosine and trajectories are there and plausible."""
    task, params = checks.task_and_params(checks.GRIDWORLD, variant="exact", guard=0.5, curvature="causal")
    metrics = run(task, params).metrics
    assert set(metrics) == {
        "direction_norm", "inner_norm", "curvature_ratio", "guard_rate", "cosine", "trajectories"
    }  # fmt: skip
    assert metrics["direction_norm"] > 0
    assert metrics["inner_norm"] > 0
    assert 0 <= metrics["guard_rate"] <= 1
    assert -1 <= metrics["cosine"] <= 1
    assert all(type(value) is float for value in metrics.values())  # plain values go over the wire


@pytest.mark.parametrize(
    ("direction", "step_size", "message"),
    [(np.inf, 0.2, "local step 0: the direction"), (100.0, 1e308, "round 1: the update")],
)
def test_overflow_is_refused_by_name(monkeypatch, direction, step_size, message):
    """An infinite direction, or a step that overflows, is NonFinite with agent, round and step."""
    task, params = checks.task_and_params(
        checks.NAVIGATION, variant="exact", local_steps=1, outer_step_size=step_size
    )
    estimate = Estimate(np.full_like(params, direction), 30, {})
    monkeypatch.setitem(VARIANTS, "exact", lambda *_: estimate)
    with pytest.raises(NonFinite, match=f"agent 3, .*{message}"):
        run(task, params)


def test_non_finite_parameters_are_refused_by_name():
    """NaN in: NonFinite with agent, round and step."""
    task, params = checks.task_and_params(checks.NAVIGATION, variant="exact", **checks.LARGE)
    with pytest.raises(NonFinite, match="agent 3, round 7, local step 0"):
        run(task, params * np.nan, round_=7)


def test_wrong_dimension_is_refused():
    """Parameters of another policy are refused with both sizes."""
    task, params = checks.task_and_params(checks.GRIDWORLD)
    with pytest.raises(ShapeError, match=r"\(99,\).*\(100,\)"):
        run(task, params[:-1])


def test_draws_do_not_depend_on_other_purposes():
    """A larger curvature batch changes no inner or outer draw."""
    task, params = checks.task_and_params(checks.GRIDWORLD, variant="exact", inner_step_size=0.0)
    wide = msgspec.structs.replace(task, settings=msgspec.structs.replace(task.settings, hessian_batch=33))
    assert run(task, params).delta.tobytes() == run(wide, params).delta.tobytes()
