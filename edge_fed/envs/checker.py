"""The common checker: does an environment or a family keep the interface of `edge_fed.envs.base`?

Run it on a family of your own before training with it::

    check_family(MyFamily(horizon=20, discount=0.9, args={}))
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from edge_fed.envs.base import Environment, Family, TabularModel
from edge_fed.errors import BadEnvironment, UnknownGoal
from edge_fed.params import F8
from edge_fed.seeding import Purpose, stream
from edge_fed.spaces import Spaces, States

EPISODES = 64  # enough that a sparse reward occurs


def check_family(family: Family) -> None:
    """Checks every goal of a family, and that goals outside its range are refused by name.

    Raises:
        BadEnvironment: The message lists every breach of the first goal that has one.
    """
    count = family.num_train + family.num_held_out
    for goal in range(count):
        environment = family.make(goal)
        if not isinstance(environment, Environment):
            raise BadEnvironment(
                f"{family.name} goal {goal}: it lacks methods of edge_fed.envs.base.Environment "
                "(a Gymnasium environment is checked by: python -m scenarios check-env)"
            )
        check_environment(environment, name=f"{family.name} goal {goal}")
        if environment.spaces != family.make(0).spaces:
            raise BadEnvironment(f"{family.name} goal {goal}: its spaces differ from those of goal 0")
    for goal in (-1, count):
        try:
            family.make(goal)
        except UnknownGoal:
            continue
        raise BadEnvironment(f"{family.name}: goal {goal} does not exist, but make() raised no UnknownGoal")


def check_environment(environment: Environment, *, seed: int = 0, name: str = "environment") -> None:
    """Checks shapes, dtypes, determinism, rewards, aliasing and, if there is one, the tabular model.

    Args:
        environment: What to check; nothing of it is changed.
        seed: Of the start states and random actions.
        name: How to call it in the message.

    Raises:
        BadEnvironment: The message lists every breach found.
    """
    stages: list[Callable[[Environment, int], Iterator[str]]] = [
        _settings,
        _start,
        _step,
        _rewards,
        _success,
        _ended,
        _model,
    ]
    for stage in stages:  # a later stage needs what an earlier one has shown
        breaches = list(stage(environment, seed))
        if breaches:
            raise BadEnvironment(f"{name}: " + "; ".join(breaches))


def random_actions(spaces: Spaces, rng: Generator, shape: tuple[int, ...]) -> Any:
    """Uniform over the action set, int64 ``[*shape]``, or over the box, float64 ``[*shape, k]``."""
    if spaces.num_actions is not None:
        return rng.integers(0, spaces.num_actions, shape)
    return rng.uniform(spaces.action_low, spaces.action_high, (*shape, len(spaces.action_low)))


def random_trajectories(environment: Environment, seed: int, m: int = EPISODES) -> tuple[States, Any]:
    """Whole trajectories under uniform actions: states ``[H+1, m, *s]``, actions ``[H+1, m]``."""
    rng = stream(seed, 0, 0, 0, Purpose.EVALUATE)
    steps = environment.horizon + 1
    actions = random_actions(environment.spaces, rng, (steps, m))
    first = environment.start(rng, m)
    states = np.empty((steps, *first.shape), dtype=first.dtype)
    states[0] = first
    for h in range(environment.horizon):
        environment.step(states[h], actions[h], states[h + 1])
    return states, actions


def _settings(environment: Environment, _seed: int) -> Iterator[str]:
    spaces = environment.spaces
    if environment.horizon < 1:
        yield f"horizon is {environment.horizon}, must be at least 1"
    if not 0 <= environment.discount <= 1:
        yield f"discount is {environment.discount}, must be in [0, 1]"
    if spaces.num_actions is not None and spaces.num_actions < 1:
        yield f"num_actions is {spaces.num_actions}, must be at least 1"
    low, high = np.array(spaces.action_low), np.array(spaces.action_high)
    box = (
        low.size > 0
        and low.shape == high.shape
        and bool((low < high).all() and np.isfinite(high - low).all())
    )
    if box == (spaces.num_actions is not None):
        yield "spaces need either num_actions, or a finite box action_low < action_high"
    if (spaces.num_states is None) == (spaces.observation_shape == ()):
        yield "spaces need either num_states and observation_shape (), or a shape and no num_states"


def _start(environment: Environment, seed: int) -> Iterator[str]:
    first, again = (environment.start(stream(seed, 0, 0, 0, Purpose.EVALUATE), EPISODES) for _ in range(2))
    yield from _states("start", environment, first)
    if not np.array_equal(first, again):
        yield "start: equal streams gave different states"
    if np.shares_memory(first, again):
        yield "start: two calls returned the same memory"


def _states(what: str, environment: Environment, states: States) -> Iterator[str]:
    spaces = environment.spaces
    dtype = np.float64 if spaces.num_states is None else np.int64
    if states.shape != (EPISODES, *spaces.observation_shape):
        yield f"{what}: shape {states.shape}, must be {(EPISODES, *spaces.observation_shape)}"
    if states.dtype != dtype:
        yield f"{what}: dtype {states.dtype}, must be {np.dtype(dtype)}"
    elif not np.isfinite(states).all():
        yield f"{what}: states are not finite"
    elif spaces.num_states is not None and not ((states >= 0) & (states < spaces.num_states)).all():
        yield f"{what}: states outside 0..{spaces.num_states - 1}"


def _step(environment: Environment, seed: int) -> Iterator[str]:
    rng = stream(seed, 0, 0, 0, Purpose.EVALUATE)
    states = environment.start(rng, EPISODES)
    actions = random_actions(environment.spaces, rng, (EPISODES,))
    before, chosen = states.copy(), actions.copy()
    out, again = np.full_like(states, -7), np.full_like(states, -9)
    environment.step(states, actions, out)
    if not (np.array_equal(states, before) and np.array_equal(actions, chosen)):
        yield "step: changed the states or actions it was given"
        return
    kept = out.copy()
    environment.step(states, actions, again)
    yield from _states("step", environment, out)
    if not np.array_equal(out, kept):
        yield "step: a second call changed the first call's result"
    elif not np.array_equal(out, again):
        yield "step: left parts of `out` unwritten, or equal states and actions gave different successors"
    part = np.empty_like(states[3:5])
    environment.step(states[3:5], actions[3:5], part)
    if not np.array_equal(part, kept[3:5]):
        yield "step: a trajectory's successor depends on the other trajectories of the batch"


def _rewards(environment: Environment, seed: int) -> Iterator[str]:
    states, actions = random_trajectories(environment, seed)
    before = states.copy()
    rewards = environment.rewards(states, actions)
    if rewards.shape != actions.shape[:2] or rewards.dtype != np.float64:
        yield f"rewards: {rewards.dtype} {rewards.shape}, must be float64 {actions.shape[:2]}"
        return
    if not np.isfinite(rewards).all():
        yield "rewards: not finite"
    if not np.array_equal(states, before):
        yield "rewards: changed the states it was given"
    if not np.array_equal(rewards, environment.rewards(states, actions)):
        yield "rewards: equal trajectories gave different rewards"
    for h in range(environment.horizon):
        if not np.array_equal(_with_other_future(environment, states, actions, h), rewards[: h + 1]):
            yield f"rewards: the reward of step {h} depends on a later state; it belongs to the state before"
            return


def _with_other_future(environment: Environment, states: States, actions: Any, h: int) -> F8:
    """Rewards up to step h when each trajectory continues, after step h, as its neighbour did."""
    mixed, chosen = states.copy(), actions.copy()
    mixed[h + 1 :] = np.roll(states[h + 1 :], 1, axis=1)
    chosen[h + 1 :] = np.roll(actions[h + 1 :], 1, axis=1)
    return environment.rewards(mixed, chosen)[: h + 1]


def _success(environment: Environment, seed: int) -> Iterator[str]:
    states, _ = random_trajectories(environment, seed)
    success = environment.success(states)
    if success is not None and (success.shape != (EPISODES,) or success.dtype != np.bool_):
        yield f"success: {success.dtype} {success.shape}, must be bool {(EPISODES,)} or None"


def _ended(environment: Environment, seed: int) -> Iterator[str]:
    states, actions = random_trajectories(environment, seed)
    ended = environment.ended(states)
    if ended is None:
        return
    if ended.shape != actions.shape[:2] or ended.dtype != np.bool_:
        yield f"ended: {ended.dtype} {ended.shape}, must be bool {actions.shape[:2]} or None"
    elif ended[0].any():
        yield "ended: an episode starts in a terminal state"
    elif (ended[:-1] & ~ended[1:]).any():
        yield "ended: an action left a terminal state"


def _model(environment: Environment, seed: int) -> Iterator[str]:
    model = environment.model()
    if model is None:
        return
    breaches = list(_model_arrays(environment, model))
    yield from breaches
    if breaches:
        return
    states, actions = random_trajectories(environment, seed)
    if not model.start[states[0]].all():
        yield "model: start states occur that have probability 0"
    if not model.transition[states[:-1], actions[:-1], states[1:]].all():
        yield "model: transitions occur that have probability 0"
    if not np.array_equal(model.reward[states, actions], environment.rewards(states, actions)):
        yield "model: its rewards differ from those of rewards()"


def _model_arrays(environment: Environment, model: TabularModel) -> Iterator[str]:
    S, A = environment.spaces.num_states, environment.spaces.num_actions
    shapes = (model.transition.shape, model.reward.shape, model.start.shape)
    if shapes != ((S, A, S), (S, A), (S,)):
        yield f"model: shapes {shapes}, must be {((S, A, S), (S, A), (S,))}"
        return
    if (model.discount, model.horizon) != (environment.discount, environment.horizon):
        yield "model: another discount or horizon than the environment's"
    for name, rows in (("transition", model.transition), ("start", model.start)):
        if (rows < 0).any() or not np.allclose(rows.sum(axis=-1), 1.0, rtol=0, atol=1e-12):
            yield f"model: {name} is no probability distribution"
    if not np.isfinite(model.reward).all():
        yield "model: rewards are not finite"
