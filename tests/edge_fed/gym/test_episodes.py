"""Rollouts of Gymnasium environments: lockstep, ends, seeds, instances, refusals."""

import gc

import msgspec
import numpy as np
import pytest

from edge_fed import dp
from edge_fed.config import EnvironmentConfig, Overrides, PolicyConfig, RunConfig
from edge_fed.envs import make_family
from edge_fed.envs.base import TabularModel
from edge_fed.episodes import SCORED_AT_ONCE, EpisodeSampler
from edge_fed.errors import BadEnvironment
from edge_fed.federated.task import make_task
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.returns import reward_to_go
from edge_fed.seeding import Purpose, stream, streams
from tests.edge_fed.gym.toy_envs import CELLS, MODULE, SLIP

H = 6


def task_of(kind="Corridor", horizon=H, discount=0.9, policy="softmax", **args):
    """One agent in a toy environment."""
    config = RunConfig(
        environment=EnvironmentConfig(
            family="gymnasium", horizon=horizon, discount=discount, args={"id": f"{MODULE}:{kind}", **args}
        ),
        policy=PolicyConfig(name=policy),
    )
    return make_task(config, 3, Overrides())


def params_of(task):
    """Parameters at which no symmetry hides a mistake."""
    return np.random.default_rng(7).normal(scale=0.5, size=task.dimension)


class Wide:
    """A stand-in for a policy over a box: its actions are the noise, far beyond the box."""

    dimension = 1

    class _Trace:
        def __init__(self, params, shape):
            self.params, self.actions = params, np.empty(shape)

        def columns(self, part):
            found = Wide._Trace(self.params, (0,))
            found.actions = self.actions[:, part]
            return found

    def begin(self, params, states):
        """Opens the record."""
        return self._Trace(params, (*states.shape[:2], 2))

    def noise(self, rng, steps, m):
        """Normals."""
        return rng.normal(scale=2.0, size=(steps, m, 2))

    def act(self, trace, h, noise):
        """The noise."""
        trace.actions[h] = noise
        return trace.actions[h]

    def executed(self, actions):
        """Stored actions upside down, to tell both kinds apart."""
        return -actions


def wide(kind="Drift", **settings):
    """A sampler of that policy."""
    family = EnvironmentConfig(
        family="gymnasium",
        horizon=settings.pop("horizon", H),
        discount=settings.pop("discount", 0.9),
        args={"id": f"{MODULE}:{kind}", **settings},
    )
    return EpisodeSampler(make_family(family).make(3), Wide())


def rng(step=0):
    """The stream of a batch."""
    return stream(0, 3, 1, step, Purpose.OUTER)


def same(found, other):
    """Whether two batches are equal to the bit."""
    names = ("states", "actions", "rewards", "mask")
    return all(np.array_equal(getattr(found, name), getattr(other, name)) for name in names)


def instances(task, count=1):
    """The environments that stand ready, of a task or a sampler."""
    with task.environment.instances(count) as found:
        return [instance.env for instance in found]


def corridor_model(horizon=H, discount=0.9):
    """The corridor as arrays, written without the code under test; its last cell absorbs and pays nothing."""
    transition = np.zeros((CELLS, 2, CELLS))
    for cell in range(CELLS - 1):
        transition[cell, 0, max(cell - 1, 0)] = 1
        transition[cell, 1, cell + 1], transition[cell, 1, cell] = 1 - SLIP, SLIP
    transition[-1, :, -1] = 1
    reward = np.repeat(np.array([0.5, 1.5, 2.5, 0.0])[:, None], 2, axis=1)
    return TabularModel(transition, reward, np.array([1, 1, 1, 0]) / 3, discount, horizon)


def test_an_episode_counts_until_it_ends():
    """Reward of the state before the action, absolute discount, mask and rewards 0 after the last cell."""
    task = task_of()
    batch = task.sample.pool(params_of(task), [(200, rng())])
    cells, taken = batch.states, batch.mask.sum(axis=0).astype(int)
    assert batch.states.shape == (H + 1, 200)
    assert (taken <= H).any() and (taken == H + 1).any(), "some end early, some do not"
    for j, steps in enumerate(taken):
        expected = [0.9**h * (cells[h, j] + 0.5) for h in range(steps)]
        np.testing.assert_allclose(batch.rewards[:, j], expected + [0] * (H + 1 - steps), atol=1e-15)
        assert (batch.mask[:, j] == [1] * steps + [0] * (H + 1 - steps)).all()
        assert (cells[steps:, j] == CELLS - 1).all(), "the last observation stays"
        assert (cells[:steps, j] != CELLS - 1).all()
    assert (task.spent, task.env_steps) == (200, taken.sum())


def test_never_more_steps_than_actions_of_the_horizon():
    """H+1 steps of an environment that never ends by itself, none of an episode that is over."""
    sample = wide(horizon=4)
    sample.pool(np.zeros(1), [(3, rng())])
    assert [len(env.actions) for env in instances(sample, 3)] == [5, 5, 5]
    task = task_of()
    task.sample.pool(params_of(task), [(9, rng())])
    assert sum(env.steps for env in instances(task, 9)) == task.env_steps


@pytest.mark.parametrize("kind", ["terminated", "truncated"])
def test_both_flags_end_an_episode(kind):
    """An environment's own time limit ends it as its goal does; J counts what came before."""
    limit = {"limit": 2} if kind == "truncated" else {}
    task = task_of(env_args=limit)
    batch = task.sample.pool(params_of(task), [(100, rng())])
    assert batch.mask.sum(axis=0).max() == (2 if kind == "truncated" else H + 1)
    assert batch.mask.sum(axis=0).min() == 1, "a start beside the last cell ends after one action"


def test_what_stands_ready_changes_no_bit():
    """The same batch from fresh instances, from used ones, and from the first of many."""
    task, other = task_of(), task_of()
    params = params_of(task)
    first = task.sample.pool(params, [(5, rng())])
    other.sample.pool(params, [(40, rng(9))])
    other.sample.outcomes(params, 3, rng(8))
    assert same(first, other.sample.pool(params, [(5, rng())]))
    assert same(first, task.sample.pool(params, [(5, rng())]))
    assert len(task.environment._idle) == 5 and len(other.environment._idle) == 40


def test_fused_batches_are_those_that_roll_out_alone():
    """Seeds and noise of a batch come from its own stream; a tabular policy's rows are equal to the bit."""
    task = task_of()
    params, draw = params_of(task), streams(0, 3, 1, 0)
    batches = [(4, Purpose.INNER), (0, Purpose.CURVATURE), (7, Purpose.OUTER)]
    fused = task.sample(params, [(m, draw(purpose)) for m, purpose in batches])
    for batch, (m, purpose) in zip(fused, batches, strict=True):
        if m:
            assert same(batch, task.sample(params, [(m, draw(purpose))])[0])
    assert fused[1].size == 0


def test_one_trajectory_has_two_rows_and_one_instance():
    """No one-row product, no second episode, no second count."""
    task = task_of()
    batch = task.sample.pool(params_of(task), [(1, rng())])
    assert (batch.size, batch.states.base.shape[1], task.spent) == (1, 2, 1)
    assert task.env_steps == batch.mask.sum()
    assert len(task.environment._idle) == 1


@pytest.mark.parametrize("m", [1, 2, 30, SCORED_AT_ONCE])
def test_outcomes_are_those_of_a_rollout_that_keeps_everything(m):
    """Same draws, same bits, same counts."""
    task, other = task_of(), task_of()
    params, (one, two) = params_of(task), (rng(), rng())
    found, pool = task.sample.outcomes(params, m, one), other.sample.pool(params, [(m, two)])
    assert np.array_equal(found.states, pool.states)
    assert np.array_equal(found.rewards, pool.rewards)
    assert (task.spent, task.env_steps) == (other.spent, other.env_steps)
    assert one.random() == two.random()


def test_many_episodes_are_scored_with_few_instances():
    """At most `SCORED_AT_ONCE` instances, whatever the machine; the first chunk is a small pool."""
    task, m = task_of(), 2 * SCORED_AT_ONCE + 1
    found = task.sample.outcomes(params_of(task), m, rng())
    assert found.states.shape == (H + 1, m) and found.rewards.shape == (H + 1, m)
    assert found.success.shape == (m,)
    assert task.spent == m
    assert len(task.environment._idle) == SCORED_AT_ONCE
    starts = wide().outcomes(np.zeros(1), m, rng()).states[0]
    assert len(set(starts[:, 0].tolist())) == m, "every episode has a seed of its own"


def test_success_is_reported_at_any_step_or_not_at_all():
    """As the environment's info says; None where no episode mentions it, or where the scenario says so."""
    task = task_of()
    found = task.sample.outcomes(params_of(task), 60, rng())
    assert np.array_equal(found.success, (found.states == CELLS - 1).any(axis=0) | _arrived_last(found))
    assert 0 < found.success.mean() < 1
    assert task_of(success=False).sample.outcomes(params_of(task), 4, rng()).success is None
    assert wide("Flicker").outcomes(np.zeros(1), 4, rng()).success.all()
    assert not wide("Flicker", horizon=1).outcomes(np.zeros(1), 4, rng()).success.any()
    assert wide().outcomes(np.zeros(1), 4, rng()).success is None
    assert not wide(success=True).outcomes(np.zeros(1), 4, rng()).success.any()


def _arrived_last(found):
    """Success of the very last action shows in no state; then the last cell before it is the neighbour."""
    return found.success & (found.states[-1] == CELLS - 2)


def test_gradients_are_those_of_an_mdp_with_a_terminal_state():
    """Sampled policy gradients have the mean that dynamic programming gives, within four standard errors."""
    task, model = task_of(horizon=4), corridor_model(horizon=4)
    params = params_of(task)
    found = []
    for k in range(40):
        batch = task.sample.pool(params, [(100, rng(k))])
        found.append(policy_gradient(task.policy, batch, reward_to_go(batch.rewards)))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    expected = dp.gradient(model, params)
    assert (np.abs(mean - expected) <= 4 * error + 1e-12).all()
    assert np.linalg.norm(mean - expected) < 0.1 * np.linalg.norm(expected)


def test_outcomes_execute_actions_as_a_rollout_does():
    """What a policy stores is not always what the environment gets."""
    found, pool = wide().outcomes(np.zeros(1), 5, rng()), wide().pool(np.zeros(1), [(5, rng())])
    assert np.array_equal(found.states, pool.states) and np.array_equal(found.rewards, pool.rewards)


def test_boxes_are_clipped_for_the_environment_alone():
    """The trace keeps the unclipped sample, of which the score is; the environment sees its own dtype."""
    sample = wide(horizon=30)
    batch = sample.pool(np.zeros(1), [(2, rng())])
    spaces = sample.environment.spaces
    low, high = np.array(spaces.action_low), np.array(spaces.action_high)
    assert low.tolist() == [-1, -2] and high.tolist() == [1, 2]
    outside = (-batch.actions < low) | (-batch.actions > high)
    assert outside.any()
    for j, env in enumerate(instances(sample, 2)):
        seen = np.array(env.actions)
        assert seen.shape == (31, 2, 1) and seen.dtype == np.float32
        expected = np.clip(-batch.actions[:, j], low, high).astype(np.float32)
        assert np.array_equal(seen[:, :, 0], expected)


def test_scales_are_fixed_and_applied_once():
    """reward_scale * (r + reward_shift), observations times obs_scale; the environment is as it was."""
    scales = {"reward_scale": 0.5, "reward_shift": 3.0, "obs_scale": [2.0, 0.25]}
    one, two = (
        wide(discount=1.0, **some).pool(np.zeros(1), [(4, rng())])  # of the same noise
        for some in ({}, scales)
    )
    np.testing.assert_allclose(two.states, one.states * [2.0, 0.25], rtol=1e-15)
    np.testing.assert_allclose(two.rewards, 0.5 * (one.rewards + 3.0), rtol=1e-15)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("observation is NaN", r"the observation after step 3 holds NaN or infinity"),
        ("observation has another shape", r"step 3: the observation has float32 \(1,\).*says float32 \(2,\)"),
        ("observation is text", r"step 3: the observation has <U1"),
        ("reward is NaN", r"step 3: the reward is nan"),
        ("reward is an array", r"step 3: the reward is a ndarray of shape \(1,\).*float\(reward\)"),
        ("info is None", r"step 3: step returned info of NoneType"),
        ("four values", r"step 3: step must return \(observation, reward, terminated, truncated, info\)"),
        ("raises", r"step 3: step raised RuntimeError: the motor is hot"),
        ("exits", r"step 3: step raised SystemExit: 0"),
        ("is cancelled", r"step 3: step raised CancelledError: gone"),
        ("fails twice", r"step 3: step raised BaseExceptionGroup: both"),
        ("pays an int of 400 digits", r"step 3: the reward is inf"),
        ("ends a generator", r"step 3: step raised GeneratorExit"),
        ("terminated is text", r"step 3: terminated is a str \('False'\); return one truth value"),
        ("truncated is an array", r"step 3: truncated is a ndarray of shape \(2,\); .*bool\(truncated\)"),
        ("success is an array", r"step 3: info\['is_success'\] is a ndarray of shape \(2,\)"),
        ("success is a distance", r"step 3: info\['is_success'\] is a float \(0\.3\)"),
    ],
)
def test_wrong_values_are_refused_with_their_place(fault, message):
    """The message names agent, episode, its seed and the step; the instances of that rollout are closed."""
    sample = wide("Broken", env_args={"fault": fault})
    where = rf"^agent 3 \({MODULE}:Broken, fault='{fault}'\): episode 0 of the batch, seed \d+.*"
    with pytest.raises(BadEnvironment, match=where + message):
        sample.pool(np.zeros(1), [(4, rng())])
    assert sample.environment._idle == []
    assert sample.trajectories == 0


def test_environments_are_closed_when_nobody_holds_them():
    """All instances, once each."""
    task = task_of()
    task.sample.pool(params_of(task), [(3, rng())])
    envs = instances(task, 3)
    assert [env.closed for env in envs] == [0, 0, 0]
    del task
    gc.collect()
    assert [env.closed for env in envs] == [1, 1, 1]


def test_two_rollouts_at_once_share_no_instance():
    """Instances are lent: a second borrower gets others."""
    environment = task_of().environment
    with environment.instances(2) as first, environment.instances(2) as second:
        assert len({id(instance) for instance in (*first, *second)}) == 4
    with environment.instances(3) as third:
        assert set(map(id, third)) < set(map(id, (*first, *second)))


def test_an_empty_rollout_is_refused():
    """As the sampler of arrays does."""
    task = task_of()
    with pytest.raises(ValueError, match="one trajectory or more"):
        task.sample(params_of(task), [(0, rng())])


def test_a_fresh_sampler_counts_anew_and_shares_the_instances():
    """An evaluation makes no second set of environments."""
    task = task_of()
    task.sample.pool(params_of(task), [(3, rng())])
    fresh = task.fresh()
    fresh.sample.pool(params_of(task), [(3, rng())])
    assert (task.spent, fresh.spent) == (3, 3)
    assert fresh.environment is task.environment and len(task.environment._idle) == 3
    assert msgspec.structs.replace(task).sample is task.sample
