"""Rollouts on one plant: the record of m simulations, one instance, no reset, stops and kept episodes."""

from typing import Any

import msgspec
import numpy as np
import pytest

from edge_fed.config import Algorithm, EnvironmentConfig, PolicyConfig
from edge_fed.envs import make_family
from edge_fed.envs.gymnasium import EpisodicEnvironment
from edge_fed.episodes import EpisodeSampler
from edge_fed.errors import BadEnvironment
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.federated.task import make_task
from edge_fed.meta import CURVATURES, VARIANTS
from edge_fed.plant import Episode, Key, Plant
from edge_fed.plant_sampler import PlantSampler, per_local_step
from edge_fed.policies import make_policy
from edge_fed.returns import reward_to_go
from edge_fed.rollouts import Trajectories
from edge_fed.seeding import Purpose, stream
from tests.edge_fed.gym.toy_envs import MODULE
from tests.edge_fed.plants import PLANTS
from tests.scenarios.tiny import tiny

pytest.importorskip("gymnasium", reason="plants need gymnasium: pip install 'edge-fed[gym]'")
H = 5


class Stop(BaseException):
    """Nobody wants the work any more; no Exception, as `agent.worker.Stopped` is none."""


class Site:
    """Lets everything happen, remembers it, and stops where it is told to."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.acted: list[tuple[int, int]] = []
        self.episodes: dict[Key, Episode] = {}
        self.stops_at = -1

    def begin(self, episode: int, episodes: int) -> None:
        """Remembers."""
        self.begun.append((episode, episodes))

    def act(self, step: int, steps: int) -> None:
        """Remembers, or stops."""
        if len(self.acted) == self.stops_at:
            self.stops_at = -1
            raise Stop
        self.acted.append((step, steps))

    def kept(self, key: Key) -> Episode | None:
        """What is there."""
        return self.episodes.get(key)

    def keep(self, key: Key, episode: Episode) -> None:
        """Keeps it."""
        self.episodes[key] = episode


def made(kind: str, horizon: int = H, **env_args: Any) -> EpisodicEnvironment:
    """One toy environment."""
    where = PLANTS if kind == "Cart" else MODULE
    args = {"id": f"{where}:{kind}", "env_args": env_args, "success": True, "goals": 1, "held_out": 0}
    config = EnvironmentConfig(family="gymnasium", horizon=horizon, args=args)
    found = make_family(config).make(0)
    assert isinstance(found, EpisodicEnvironment)
    return found


POLICIES = {"Corridor": ("softmax", {}), "Cart": ("gaussian", {"hidden": [3], "squash": True})}


def sampler(kind: str, reset: Any = "always", **env_args: Any) -> tuple[PlantSampler, Site, Any]:
    """A plant's sampler, its site, and parameters."""
    environment, site = made(kind, **env_args), Site()
    name, args = POLICIES.get(kind, ("gaussian", {"hidden": [3]}))
    policy = make_policy(PolicyConfig(name=name, args=args), environment.spaces)
    params = np.random.default_rng(2).normal(scale=0.4, size=policy.dimension)
    return PlantSampler(Plant(environment, site, reset), policy), site, params


def batches(*sizes: int) -> list[Any]:
    """Batches of one local step, each of a stream of its own."""
    purposes = (Purpose.INNER, Purpose.CURVATURE)
    return [(size, stream(5, 1, 3, 2, purpose)) for size, purpose in zip(sizes, purposes, strict=False)]


def derivatives(plant: PlantSampler, batch: Trajectories, w: Any, v: Any) -> Any:
    """Weighted score, and its product along v."""
    tangent = plant.policy.tangent(batch.trace, v)
    return plant.policy.score(batch.trace, w), plant.policy.second(tangent, w * tangent.scores, w)


def envs_of(plant: PlantSampler) -> list[Any]:
    """The environments behind the instances that stand ready."""
    return [instance.env for instance in plant.environment._idle]


@pytest.mark.parametrize("kind", ["Corridor", "Cart"])
@pytest.mark.parametrize("sizes", [(1,), (3, 4)])
def test_a_seeded_plant_gives_the_record_of_m_simulations(kind: str, sizes: tuple[int, ...]) -> None:
    """States, actions, rewards, mask, score and curvature along v, one episode of a batch or seven."""
    plant, _, params = sampler(kind)
    simulated = EpisodeSampler(made(kind), plant.policy)
    found, expected = plant.pool(params, batches(*sizes)), simulated.pool(params, batches(*sizes))
    mask = expected.mask
    assert mask is not None and np.array_equal(found.mask, mask) and found.size == sum(sizes)
    assert np.allclose(found.states, expected.states, atol=1e-12)
    assert np.allclose(found.rewards, expected.rewards, atol=1e-12)
    taken = mask > 0
    assert np.allclose(found.actions[taken], expected.actions[taken], atol=1e-12)
    w = reward_to_go(found.rewards) * mask
    v = np.random.default_rng(3).normal(size=params.size)
    assert np.allclose(derivatives(plant, found, w, v), derivatives(plant, expected, w, v), atol=1e-10)
    assert (plant.trajectories, plant.env_steps) == (simulated.trajectories, simulated.env_steps)


def test_scores_are_of_the_same_episodes() -> None:
    """What `outcomes` samples, its success included, is what the simulations would come to."""
    plant, _, params = sampler("Corridor")
    found = plant.outcomes(params, 6, stream(5, 1, 0, 1, Purpose.EVALUATE))
    simulated = EpisodeSampler(made("Corridor"), plant.policy)
    expected = simulated.outcomes(params, 6, stream(5, 1, 0, 1, Purpose.EVALUATE))
    assert np.array_equal(found.states, expected.states)
    assert np.allclose(found.rewards, expected.rewards, atol=1e-12)
    assert found.success is not None and expected.success is not None and expected.success.any()
    assert np.array_equal(found.success, expected.success)


def test_there_is_one_instance_and_the_site_allows_each_action() -> None:
    """Episodes one after the other; fresh samplers share the plant."""
    plant, site, params = sampler("Cart")
    plant.pool(params, batches(2, 1))
    plant.fresh().outcomes(params, 2, stream(5, 1, 0, 1, Purpose.EVALUATE))
    (env,) = envs_of(plant)
    assert site.begun == [(0, 3), (1, 3), (2, 3), (0, 2), (1, 2)]
    assert site.acted == [(h, H + 1) for _ in range(5) for h in range(H + 1)]
    assert len(env.actions) == len(site.acted)


def test_without_resets_an_episode_starts_where_the_last_one_ended() -> None:
    """The environment is reset once, and none of its states is skipped or seen twice as a start."""
    plant, _, params = sampler("Cart", reset="never", pull=0.3)
    batch = plant.pool(params, batches(3))
    (env,) = envs_of(plant)
    assert env.resets == 1
    starts = batch.states[0]
    for j in range(2):
        action = np.clip(plant.policy.executed(batch.actions[H, j]), [-1, -2], [1, 2])
        ended = np.clip(batch.states[H, j] + 0.3 * action, -10, 10)
        assert np.allclose(starts[j + 1], ended, atol=1e-6)
    again = plant.pool(params, batches(1))
    assert env.resets == 1 and not np.allclose(again.states[0], starts[0])


def test_a_plant_that_ends_by_itself_cannot_go_on_without_a_reset() -> None:
    """Refused by name, with what to do, instead of being stepped behind its end."""
    plant, _, params = sampler("Corridor", reset="never")
    with pytest.raises(BadEnvironment, match="reset is 'never': return both flags False"):
        plant.pool(params, batches(40))


def test_stopped_work_leaves_the_plant_as_it_is() -> None:
    """It is neither closed nor reset: without resets, the next episode starts where the action before led."""
    plant, site, params = sampler("Cart", reset="never")
    site.stops_at = 3
    with pytest.raises(Stop):
        plant.pool(params, batches(2))
    (env,) = envs_of(plant)
    assert len(env.actions) == 3
    batch = plant.pool(params, batches(2))
    assert np.allclose(batch.states[0, 0], env.path[3]) and env.resets == 1 and envs_of(plant) == [env]


def test_a_plant_that_fails_is_closed_and_named() -> None:
    """No action follows, and the message says whose it is."""
    plant, site, params = sampler("Broken", fault="raises")
    with pytest.raises(BadEnvironment, match=r"agent 0 .*Broken.*step raised"):
        plant.pool(params, batches(2))
    assert envs_of(plant) == [] and len(site.acted) < H + 1


def test_kept_episodes_are_not_played_again_and_give_the_same_record() -> None:
    """Of seven, the four that are there are taken; also counted, for an update says what it is made of."""
    plant, site, params = sampler("Cart")
    whole = plant.pool(params, batches(3, 4))
    kept = dict(list(site.episodes.items())[:4])
    again, site, _ = sampler("Cart")
    site.episodes = dict(kept)
    found = again.pool(params, batches(3, 4))
    assert [episode for episode, _ in site.begun] == [4, 5, 6] and again.trajectories == 7
    assert np.array_equal(found.states, whole.states) and np.array_equal(found.actions, whole.actions)
    keys = list(site.episodes)
    assert [key[:4] for key in keys[:3]] == [(3, 2, Purpose.INNER, j) for j in range(3)]
    assert [key[:4] for key in keys[3:]] == [(3, 2, Purpose.CURVATURE, j) for j in range(4)]
    other = sampler("Cart")[0]
    other._plant.site.episodes = dict(kept)
    other.pool(params + 1e-9, batches(3, 4))
    assert len(other._plant.site.begun) == 7, "of other parameters"


@pytest.mark.parametrize(
    "change",
    [
        {"rewards": np.zeros(0)},
        {"rewards": np.full(H + 1, np.nan)},
        {"states": np.zeros((H + 1, 3))},
        {"states": np.zeros((H + 1, 2), dtype=np.int64)},
        {"actions": np.zeros(H + 1)},
    ],
)
def test_a_kept_episode_that_cannot_be_one_is_played_again(change: dict[str, Any]) -> None:
    """Of another length, shape or kind, or not finite."""
    plant, site, params = sampler("Cart")
    plant.pool(params, batches(2))
    _, second = site.episodes
    site.episodes[second] = site.episodes[second]._replace(**change)
    site.begun.clear()
    plant.pool(params, batches(2))
    assert site.begun == [(1, 2)]


@pytest.mark.parametrize("variant", list(VARIANTS))
@pytest.mark.parametrize("curvature_batch", ["fresh", "inner"])
def test_the_trajectories_of_a_local_step_are_known_before(variant: str, curvature_batch: Any) -> None:
    """What a day's budget is compared with is what the variant then samples."""
    settings = Algorithm(
        variant=variant,
        curvature=next(iter(CURVATURES)),
        curvature_batch=curvature_batch,
        local_steps=2,
        inner_batch=3,
        hessian_batch=2,
        outer_batch=4,
    )
    config = msgspec.structs.replace(tiny(), algorithm=settings)
    task = make_task(config, 0, config.agents[0])
    update = local_update(task, np.zeros(task.dimension), initial_state(task), 1, 1, lambda _step: None)
    assert update.trajectories == 2 * per_local_step(settings)
