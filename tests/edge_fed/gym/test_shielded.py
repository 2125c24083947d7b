"""Shields: what is applied, what is counted, and how one that fails is named."""

import sys
from typing import Any

import numpy as np
import pytest

from edge_fed.envs.gymnasium import EpisodicEnvironment
from edge_fed.envs.gymnasium.instance import Instance, Scales
from edge_fed.envs.gymnasium.shielded import Shielded
from edge_fed.errors import BadEnvironment
from edge_fed.params import F8
from edge_fed.plant import Plant
from edge_fed.policies.gaussian import Gaussian
from edge_fed.spaces import Spaces
from tests.edge_fed.gym.toy_envs import Corridor
from tests.edge_fed.plants import Cart
from tests.edge_fed.test_plant import Site

SCALES = Scales(1.0, 0.0, np.array(10.0))


def behind(shield: Any, env: Any = None) -> Instance:
    """An environment behind a shield."""
    return Instance(Shielded(Cart() if env is None else env, shield, "shields:limit"), SCALES)


def step(instance: Instance, action: Any) -> F8:
    """One step after a reset, and the observation behind it."""
    out = np.zeros((2, 2))
    instance.reset(1, out, 0)
    instance.step(action, out, 1)
    return out


def test_what_the_shield_returns_is_applied_and_counted() -> None:
    """It sees the observation and the action as the environment has them; only changed ones count."""
    seen: list[Any] = []

    def limit(observation: Any, action: Any) -> Any:
        seen.append((observation.copy(), action.copy()))
        action *= 0.5  # a shield may write into what it gets
        observation *= 0
        return action.tolist() if len(seen) == 1 else seen[-1][1]

    instance = behind(limit)
    env: Any = instance.env
    action = np.float32([[0.8], [0.4]])
    out = step(instance, action)
    assert np.allclose(env.unwrapped.actions[0], 0.5 * action) and env.overridden == 1
    assert np.allclose(10 * seen[0][0], out[0]), "the policy sees scaled observations, the shield does not"
    assert np.allclose(action, [[0.8], [0.4]]) and not np.allclose(out[0], 0)
    instance.step(action, out, 0)
    assert env.overridden == 1 and np.allclose(10 * seen[1][0], out[1])


def test_the_score_is_of_the_action_that_the_policy_chose() -> None:
    """The record holds the policy's sample, the plant gets the shield's; the episode counts how often."""
    policy = Gaussian(Spaces(None, (2,), action_low=(-1.0, -2.0), action_high=(1.0, 2.0)), (3,))
    made: list[Any] = []

    def make() -> Instance:
        made.append(behind(lambda _observation, action: np.zeros_like(action)))
        return made[-1]

    environment = EpisodicEnvironment("it", 4, 1.0, make, lambda: True)
    plant = Plant(environment, Site(), "always", lambda: made[-1].env.overridden if made else 0)
    episode = plant.play(policy, np.ones(policy.dimension), 3, np.full((5, 2), 0.7))
    assert episode.overridden == 5 and np.abs(episode.actions).min() > 0.1
    assert not np.any(made[-1].env.unwrapped.actions)


@pytest.mark.parametrize(
    ("shield", "why"),
    [
        (lambda _o, _a: 1 / 0, "raised ZeroDivisionError"),
        (lambda _o, _a: sys.exit("no valve"), "raised SystemExit: no valve"),
        (lambda _o, _a: None, "returned None"),
        (lambda _o, _a: "stop", "returned 'stop'"),
        (lambda _o, a: a * np.nan, "returned array"),
        (lambda _o, a: a + 5, "returned array"),
        (lambda _o, a: a[:1], "returned array"),
    ],
)
def test_a_shield_that_fails_stops_before_anything_is_applied(shield: Any, why: str) -> None:
    """The plant gets no action; the message names the shield."""
    instance = behind(shield)
    env: Any = instance.env
    with pytest.raises(BadEnvironment, match=f"the shield shields:limit {why}"):
        step(instance, np.float32([[0.8], [0.4]]))
    assert env.unwrapped.actions == []


@pytest.mark.parametrize("chosen", [1, 4, 2.5, None])
def test_of_finite_actions_too(chosen: Any) -> None:
    """Actions 2 and 3 are those of this environment."""
    instance = behind(lambda _o, _a: chosen, Corridor())
    out = np.zeros(2, dtype=np.int64)
    instance.reset(1, out, 0)
    with pytest.raises(BadEnvironment, match=r"which is not in Discrete\(2, start=2\)"):
        instance.step(3, out, 1)
