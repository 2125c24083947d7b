"""What a cut episode would still have paid: objective by enumeration, bonus by hand, fit, state."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_fed.config import Algorithm, EnvironmentConfig, Overrides, PolicyConfig, RunConfig
from edge_fed.errors import NonFinite, ShapeError
from edge_fed.federated.control_variate import OWN
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.federated.task import initial_params, make_task
from edge_fed.meta import CURVATURES, VARIANTS
from edge_fed.meta.baselines import BASELINES
from edge_fed.meta.bootstrap import Bootstrap
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.returns import reward_to_go
from edge_fed.seeding import Purpose, stream, streams
from tests.edge_fed.cut_episodes import DISCOUNT, CutEpisodes
from tests.edge_fed.gym.toy_envs import MODULE

SMALL = {"local_steps": 3, "inner_batch": 4, "hessian_batch": 3, "outer_batch": 5, "inner_step_size": 0.1}

BOOTSTRAP = {"bootstrap_A", "bootstrap_b", "bootstrap_range"}


def silent(_step):
    """Progress that nobody watches."""


def config_of(env, bootstrap="value", horizon=6, discount=0.9, env_args=None, **algorithm):
    """A run in one of the toys, or in a registered environment."""
    name = env if "-v" in env else f"{MODULE}:{env}"
    args = {"id": name, "bootstrap": bootstrap, "env_args": env_args or {}}
    policy = PolicyConfig(name="gaussian" if env == "Drift" else "mlp", args={"hidden": [4]})
    return RunConfig(
        environment=EnvironmentConfig(family="gymnasium", horizon=horizon, discount=discount, args=args),
        policy=PolicyConfig(name="softmax") if env in ("Steps", "Corridor") else policy,
        algorithm=Algorithm(**{**SMALL, **algorithm}),
    )


def made(env, **settings):
    """Agent 3's task and the run's initial parameters."""
    config = config_of(env, **settings)
    return make_task(config, 3, Overrides()), initial_params(config)


def updated(task, params, state=None, round_=1):
    """A local update."""
    return local_update(task, params, initial_state(task) if state is None else state, 0, round_, silent)


def taught(task, values):
    """A bootstrap's state in which V of finite states is ``values``."""
    state = Bootstrap.initial(task)
    weights = np.asarray(values) * (state["bootstrap_A"] + 1e-3)
    return {**state, "bootstrap_b": weights, "bootstrap_range": np.array([-1e3, 1e3])}


def rng(step=0):
    """The stream of a batch."""
    return stream(0, 3, 1, step, Purpose.OUTER)


# -------------------------------------------------------------------------- the objective


def test_the_enumeration_is_complete():
    """Probabilities sum to 1, the mean bootstrapped return is the objective, and every kind of end occurs."""
    for seed in range(3):
        c = CutEpisodes(seed)
        q, batch = c.density(), c.batch(c.theta)
        assert abs(q.sum() - 1) < 1e-12
        bonus = np.where(batch.ends.cut, DISCOUNT**c.steps * c.value[batch.ends.states], 0.0)
        expected = c.objective(c.theta, c.value)
        assert abs(q @ (batch.rewards.sum(axis=0) + bonus) - expected) < 1e-12
        assert abs(q @ bonus) > 1e-2
        kinds = set(zip(c.steps.tolist(), batch.ends.cut.tolist(), strict=True))
        assert kinds == {(t, cut) for t in (1, 2, 3) for cut in (False, True)}


@pytest.mark.parametrize("baseline", ["none", "value"])
@pytest.mark.parametrize("seed", range(3))
def test_mean_gradient_is_that_of_the_bootstrapped_objective(seed, baseline):
    """E[g] = grad (J + E[1{cut} gamma^T V(s_T)]) to 1e-10 at a fixed V, which is not grad J."""
    c = CutEpisodes(seed)
    task = c.task()
    batch = Bootstrap(task, c.state()).pool(c.theta, [(1, rng())])
    state = {"A": np.full(3, 0.01), "b": np.array([0.02, -0.03, 0.05])}
    advantages = BASELINES[baseline](task, state).advantages(batch)
    found = policy_gradient(c.policy, batch, advantages * c.density() * batch.size)
    assert np.array_equal(task.sample.given.rewards, c.batch(c.theta).rewards), "what is paid stays as it was"
    assert abs(found - c.gradient(c.theta, c.value)).max() < 1e-10
    assert abs(found - c.gradient(c.theta, 0 * c.value)).max() > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_a_clipped_value_is_the_value_of_the_objective(seed):
    """E[g] is the gradient with V between the bounds, to 1e-10, where they bite on both sides."""
    c = CutEpisodes(seed)
    low, high = np.sort(c.value[:2]) @ [[0.6, 0.4], [0.4, 0.6]]
    batch = Bootstrap(c.task(), c.state(low, high)).pool(c.theta, [(1, rng())])
    found = policy_gradient(c.policy, batch, reward_to_go(batch.rewards) * c.density() * batch.size)
    assert abs(found - c.gradient(c.theta, np.clip(c.value, low, high))).max() < 1e-10
    assert abs(found - c.gradient(c.theta, c.value)).max() > 1e-4


@pytest.mark.parametrize("name", ["naive", "causal", "finite_difference"])
def test_mean_product_is_that_of_its_hessian(name):
    """E[H_hat v] is the change of that gradient along v, to the error of a difference."""
    c, eps = CutEpisodes(1), 1e-5
    batch = Bootstrap(c.task(), c.state()).pool(c.theta, [(1, rng())])
    advantages = reward_to_go(batch.rewards) * c.density() * batch.size
    found = CURVATURES[name](c.policy, batch, advantages, c.v)
    up, down = (c.gradient(c.theta + sign * eps * c.v, c.value) for sign in (1, -1))
    assert abs(found - (up - down) / (2 * eps)).max() < 1e-7
    assert abs(found).max() > 1e-2


# ------------------------------------------------------------------------------ the bonus


@pytest.mark.parametrize(
    ("env_args", "steps", "cut"),
    [
        ({"limit": 3}, 3, True),
        ({"limit": 1}, 1, True),
        ({}, 7, True),
        ({"limit": 7}, 7, True),
        ({"end": 3}, 3, False),
        ({"end": 7}, 7, False),
        ({"end": 3, "limit": 3}, 3, False),
    ],
)
@pytest.mark.parametrize("m", [1, 3])
def test_cut_episodes_get_the_value_of_where_they_stand(env_args, steps, cut, m):
    """Exactly gamma^T V(s_T) on the last reward, by either cut; a true end gets nothing."""
    task, params = made("Steps", env_args=env_args)
    bootstrap = Bootstrap(task, taught(task, np.arange(12) + 2.0))
    batch = bootstrap.pool(params, [(m, rng())])
    expected = np.zeros((7, m))
    expected[:steps] = 0.9 ** np.arange(steps)[:, None]
    expected[steps - 1] += 0.9**steps * (steps + 2) if cut else 0.0
    np.testing.assert_allclose(batch.rewards, expected, atol=1e-13)
    assert batch.ends.cut.tolist() == [cut] * m and batch.ends.states.tolist() == [steps] * m
    assert bootstrap.mean == pytest.approx(0.9**steps * (steps + 2) if cut else 0.0)


def test_ends_go_with_their_trajectories():
    """Of a batch in which some arrive and some are cut: those that arrive get nothing, in every part."""
    task, params = made("Corridor", env_args={"limit": 3})
    bootstrap = Bootstrap(task, taught(task, [5.0, 6.0, 7.0, 8.0]))
    parts = bootstrap(params, [(20, rng(0)), (30, rng(1))])
    for k, part in enumerate(parts):
        (paid,) = task.sample(params, [(part.size, rng(k))])
        added = (part.rewards - paid.rewards).sum(axis=0)
        arrived = paid.ends.states == 3
        assert 0 < arrived.sum() < part.size and not paid.ends.cut[arrived].any()
        expected = 0.9 ** paid.mask.sum(axis=0) * (5.0 + paid.ends.states)
        np.testing.assert_allclose(added, np.where(arrived, 0.0, expected), atol=1e-13)
        assert np.array_equal(part.ends.states, paid.ends.states)


def test_which_instances_and_which_other_batches_changes_no_bit():
    """One rollout of two batches, or two rollouts; fresh instances, or many that were used."""
    (task, params), (other, _) = made("Corridor"), made("Corridor")
    state = taught(task, [1.0, 2.0, 3.0, 4.0])
    other.sample.pool(params, [(40, rng(9))])
    fused = Bootstrap(task, state)(params, [(4, rng(0)), (7, rng(1))])
    apart = Bootstrap(other, state)
    for k, part in enumerate(fused):
        (alone,) = apart(params, [(part.size, rng(k))])
        assert part.rewards.tobytes() == alone.rewards.tobytes()


@pytest.mark.parametrize("variant", list(VARIANTS))
@pytest.mark.parametrize("env", ["CartPole-v1", "Drift"])
def test_the_first_local_step_is_that_without(variant, env):
    """V is 0: not a bit differs. The second step differs, and counts the same trajectories and steps."""
    found = {}
    for steps in (1, 2):
        for bootstrap in ("none", "value"):
            how = {"variant": variant, "local_steps": steps, "outer_step_size": 0.01}
            task, params = made(env, bootstrap=bootstrap, **how)
            found[steps, bootstrap] = updated(task, params), task.spent
    one, other = found[1, "none"][0], found[1, "value"][0]
    assert one.delta.tobytes() == other.delta.tobytes() and one.delta.any()
    assert other.metrics == {**one.metrics, "bootstrap": 0.0}
    (one, spent), (other, also) = found[2, "none"], found[2, "value"]
    assert one.delta.tobytes() != other.delta.tobytes()
    assert one.trajectories == other.trajectories == spent == also
    assert other.metrics["bootstrap"] != 0.0 and one.state == {}


def test_scores_and_adaptation_count_what_is_paid():
    """Neither the sampler that evaluation shares nor an adapted newcomer knows V."""
    (task, params), (plain, _) = made("CartPole-v1"), made("CartPole-v1", bootstrap="none")
    updated(task, params)
    assert task.adapt(params, 6, rng()).tobytes() == plain.adapt(params, 6, rng()).tobytes()
    found = Bootstrap(task, initial_state(task)).outcomes(params, 6, rng())
    assert found.rewards.tobytes() == plain.sample.outcomes(params, 6, rng()).rewards.tobytes()


# -------------------------------------------------------------------------------- the fit


def test_the_fit_is_a_least_squares_fit_of_valid_steps():
    """Two steps of learning on CartPole with a limit, against `numpy.linalg.lstsq` on written-out rows.

    Each reward is 1, so that V lies between 0 and 10.
    """
    task, params = made("CartPole-v1", horizon=30, env_args={"max_episode_steps": 18})
    phi = lambda s: np.array(  # noqa: E731
        [1, *s, *(s[i] * s[k] for i in range(4) for k in range(i, 4))]
    )
    rows, targets, weights = [], [], []
    state, w, cuts = Bootstrap.initial(task), np.zeros(15), 0
    for step in range(2):
        rows, weights = list(rows), [0.9 * weight for weight in weights]
        bootstrap = Bootstrap(task, state)
        parts = bootstrap(params, [(25, rng(step)), (15, rng(10 + step))])
        bootstrap(params, [(3, rng(20 + step))])
        parts += task.sample(params, [(3, rng(20 + step))])
        state = bootstrap.after()
        for part in parts:
            for j, taken in enumerate(part.mask.sum(axis=0).astype(int)):
                cut = taken == 18 and part.ends.cut[j]
                cuts += cut
                to_go = np.clip(w @ phi(part.ends.states[j]), 0.0, 10.0) if cut else 0.0
                for h in reversed(range(taken)):
                    to_go = 1.0 + 0.9 * to_go
                    rows.append(phi(part.states[h, j]))
                    targets.append(to_go)
                    weights.append(1.0)
        root = np.sqrt(weights)[:, None]
        ridge = np.sqrt(0.01 * 0.9 ** (step + 1) + 1e-3) * np.eye(15)
        A, y = np.vstack([root * rows, ridge]), np.concatenate([root[:, 0] * targets, np.zeros(15)])
        w = np.linalg.lstsq(A, y)[0]
        np.testing.assert_allclose(Bootstrap(task, state)._weights, w, rtol=1e-6, atol=1e-8)
    assert 0 < cuts < 86 and abs(w).max() > 1


@pytest.mark.parametrize("env_args", [{"limit": 2}, {"limit": 5}, {}])
def test_it_settles_at_what_is_paid_without_a_cut(env_args):
    """One state that pays 1 for ever, always cut: V becomes 1 / (1 - gamma), whenever the cut comes."""
    task, params = made("Steps", env_args={"cells": 1, **env_args}, outer_step_size=0.0)
    state = initial_state(task)
    for step in range(600):
        estimate, state = task.local_step(params, state, streams(0, 3, 1, step), {})
        assert np.isfinite(estimate.direction).all()
    value = float(Bootstrap(task, state)._weights[0])
    assert value == pytest.approx(10.0, rel=1e-3)
    taken = env_args.get("limit", 7)
    assert estimate.metrics["bootstrap"] == pytest.approx(0.9**taken * 10, rel=1e-3)


@pytest.mark.parametrize("discount", [0.0, 1e-3])
def test_late_steps_do_not_spoil_it(discount):
    """Where gamma^h underflows, steps are not fitted, and V stays what the others say."""
    task, params = made("Steps", horizon=149, discount=discount, env_args={"cells": 1})
    state = initial_state(task)
    for step in range(60):
        _, state = task.local_step(params, state, streams(0, 3, 1, step), {})
    assert float(Bootstrap(task, state)._weights[0]) == pytest.approx(1 / (1 - discount), rel=1e-3)


# ------------------------------------------------------------------------------ the bounds


def ranges(state):
    """Least and largest reward that a state knows."""
    return state["bootstrap_range"].tolist()


@pytest.mark.parametrize("discount", [0.9, 0.999])
def test_no_future_is_worth_more_than_all_rewards_to_come(discount):
    """States grow beyond all that was fitted; V stays within max |r| / (1 - gamma), and so do its targets."""
    task, params = made("Runaway", horizon=19, discount=discount, local_steps=1)
    state, bound, beyond = initial_state(task), (1 + 1e-12) / (1 - discount), 0
    far = np.concatenate([np.geomspace(0.1, 1e6, 50), -np.geomspace(0.1, 1e6, 50)])[:, None]
    for step in range(40):
        found = Bootstrap(task, state)
        assert abs(found.values(far)).max() <= bound
        beyond += abs(far ** np.arange(4) @ found._weights).max() > 10 * bound
        assert abs(found.pool(params, [(8, rng(step))]).rewards).max() <= 1 + bound
        assert all(abs(targets).max() <= bound for _, targets in found._seen)
        estimate, state = task.local_step(params, state, streams(0, 3, 1, step), {})
        assert np.isfinite(estimate.direction).all()
    assert beyond > 20, "without bounds V would leave them"
    low, high = ranges(state)
    assert -1 <= low < -0.5 and 0.5 < high <= 1


def test_the_bounds_of_a_step_are_those_of_the_steps_before():
    """What a step samples widens them for the next alone, whatever its bonus was: V is fixed before."""
    task, params = made("Steps", env_args={"cells": 1})
    state = Bootstrap.initial(task)
    assert ranges(state) == [0.0, 0.0]
    bootstrap = Bootstrap(task, {**state, "bootstrap_b": np.array([9.0])})
    batch = bootstrap.pool(params, [(3, rng())])
    assert np.array_equal(batch.rewards, bootstrap._task.sample.pool(params, [(3, rng())]).rewards)
    state = bootstrap.after()
    assert ranges(state) == pytest.approx([0.0, 1.0])
    wide = {**state, "bootstrap_range": np.array([-3.0, 2.0]), "bootstrap_b": np.array([1e6])}
    bootstrap = Bootstrap(task, wide)
    batch = bootstrap.pool(params, [(3, rng())])
    assert batch.rewards[-1] == pytest.approx(0.9**6 + 0.9**7 * 20), "2 / (1 - 0.9)"
    assert ranges(bootstrap.after()) == [-3.0, 2.0] == ranges(wide), "nothing is forgotten"


@settings(max_examples=30, deadline=None)
@given(
    scale=st.floats(-1e6, 1e6),
    shift=st.floats(-1e3, 1e3),
    discount=st.sampled_from([0.0, 1e-9, 0.5, 0.99, 0.999999]),
    weight=st.floats(-1e12, 1e12),
)
def test_v_lies_between_what_the_least_and_the_largest_reward_add_up_to(scale, shift, discount, weight):
    """For any rewards and weights; also where gamma^h leaves the numbers before the episode's end."""
    config = config_of("Steps", horizon=59, discount=discount, env_args={"cells": 1, "limit": 50})
    task = make_task(config, 3, Overrides(args={"reward_scale": scale, "reward_shift": shift}))
    params = np.zeros(task.dimension)
    bootstrap = Bootstrap(task, Bootstrap.initial(task))
    bootstrap.pool(params, [(2, rng())])
    state = bootstrap.after()
    r = scale * (1.0 + shift)
    assert ranges(state) == pytest.approx([min(r, 0.0), max(r, 0.0)], rel=1e-9)
    low, high = state["bootstrap_range"] / (1 - discount)
    found = Bootstrap(task, {**state, "bootstrap_b": np.array([weight])})
    (value,) = found.values(np.zeros(1, dtype=np.int64))
    assert low <= value <= high


# ------------------------------------------------------------------------------ the state


@pytest.mark.parametrize(
    ("algorithm", "names"),
    [
        ({}, set()),
        ({"baseline": "loo"}, set()),
        ({"baseline": "value"}, {"A", "b"}),
        ({"baseline": "value", "correction": "control_variate"}, {"A", "b", OWN}),
    ],
)
def test_every_part_of_the_state_is_kept(algorithm, names):
    """After a round all names are there, each has moved, and what was passed in is as it was."""
    task, params = made("CartPole-v1", **algorithm)
    state = initial_state(task)
    assert set(state) == names | BOOTSTRAP
    before = {name: array.tobytes() for name, array in state.items()}
    control = np.ones(task.dimension) if OWN in names else None
    after = local_update(task, params, state, 0, 1, silent, control).state
    assert set(after) == set(state)
    assert all(after[name].tobytes() != before[name] for name in state)
    assert {name: array.tobytes() for name, array in state.items()} == before


def test_the_state_carries_it_from_round_to_round():
    """Another task with the same state gives the same bits; without it, others."""
    (task, params), (other, _) = (made("CartPole-v1", baseline="value") for _ in range(2))
    state = updated(task, params).state
    expected = updated(task, params, state, 2)
    assert updated(other, params, state, 2).delta.tobytes() == expected.delta.tobytes()
    assert updated(other, params, None, 2).delta.tobytes() != expected.delta.tobytes()


def test_a_state_that_does_not_fit_is_refused():
    """Of another task, or of a run without bootstrap; and one that has left the numbers."""
    task, _ = made("Steps")
    state = Bootstrap.initial(task)
    for wrong in ({}, {**state, "bootstrap_A": np.ones(3)}):
        with pytest.raises(ShapeError, match=r"^bootstrap: state 'bootstrap_A'"):
            Bootstrap(task, wrong)
    with pytest.raises(NonFinite, match="the fitted V is not finite"):
        Bootstrap(task, taught(task, np.full(12, np.inf)))


def test_an_agent_may_bootstrap_alone():
    """Its own arguments say so; the others of the run keep their objective."""
    config = config_of("Steps", bootstrap="none")
    mine = make_task(config, 3, Overrides(args={"bootstrap": "value"}))
    assert set(initial_state(mine)) == BOOTSTRAP
    assert initial_state(make_task(config, 3, Overrides())) == {}
    assert msgspec.structs.replace(mine).fresh().initial_state().keys() == initial_state(mine).keys()
