"""Which inner steps lead far: worked by hand, over visited states alone, and what is said of them."""

import math
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_fed.config import PolicyConfig
from edge_fed.envs.gymnasium import EpisodicEnvironment
from edge_fed.meta.step_length import FAR, LOOKED_AT, Step, sampled_step, step_between, warning
from edge_fed.policies import make_policy
from edge_fed.policies.gaussian import Gaussian
from edge_fed.policies.mlp import Mlp
from edge_fed.policies.softmax import Softmax
from edge_fed.spaces import Spaces
from tests.edge_fed import checks

BOX = Spaces(num_actions=3, observation_shape=(2,))
CELLS = Spaces(num_actions=2, observation_shape=(), num_states=2)
TORQUE = Spaces(num_actions=None, observation_shape=(2,), action_low=(-1.0,), action_high=(1.0,))
COIN, BIASED = np.log([0.5, 0.5, 0.5, 0.5]), np.log([0.5, 0.5, 0.1, 0.9])
FIGURES = st.floats(0, 1e6)


def test_divergence_is_the_mean_over_visits_worked_by_hand():
    """A coin that becomes 1 : 9 in state 1: 0.5 ln 5 + 0.5 ln(5/9) there, and 3 of 4 visits are there."""
    there = 0.5 * math.log(5) + 0.5 * math.log(5 / 9)
    found = step_between(Softmax(CELLS), COIN, BIASED, np.array([[0, 1]]), np.array([[1.0, 3.0]]))
    assert found.kl == pytest.approx(0.75 * there)
    assert found.length == pytest.approx(math.hypot(math.log(0.2), math.log(1.8)))


def test_states_after_an_episode_s_end_do_not_count():
    """Their divergence may be anything, infinity among it."""
    policy = SimpleNamespace(kl=lambda *_: np.array([[0.25, np.inf], [0.75, np.nan]]))
    found = step_between(
        policy, np.ones(2), np.zeros(2), np.zeros((2, 2)), np.array([[1.0, 0.0], [1.0, 0.0]])
    )
    assert found == Step(0.5, math.sqrt(2), math.sqrt(2))
    assert not found.far, "neither limit is passed"


def test_at_zero_the_length_says_nothing_and_the_divergence_does():
    """Any step is longer than theta = 0; a table of log-odds has no yardstick at other parameters, either."""
    table, network, here = Softmax(CELLS), Mlp(BOX, (2,)), np.array([[0, 1]])
    short = step_between(table, np.zeros(4), np.array([0.0, 0.1, 0.0, 0.1]), here, np.ones((1, 2)))
    assert 0 < short.kl < FAR and not short.far
    assert not step_between(
        table, np.full(4, 1e-3), np.array([0.0, 0.1, 0.0, 0.1]), here, np.ones((1, 2))
    ).far
    assert step_between(table, np.zeros(4), np.array([0.0, 9.0, 0.0, 9.0]), here, np.ones((1, 2))).far
    zero, seen = np.zeros(network.dimension), np.ones((1, 2, 2))
    assert not step_between(network, zero, zero + 1e-3, seen, np.ones((1, 2))).far


def test_a_network_s_step_that_is_longer_than_theta_is_far():
    """Also where the policy is as before: a bias that all logits share moves no probability."""
    network = Mlp(BOX, (2,))
    params, change = network.initial(np.random.default_rng(0)), np.zeros(network.dimension)
    change[-3:] = np.linalg.norm(params)
    for factor, far in ((0.5, False), (0.6, True)):  # sqrt(3) times as long as theta, times the factor
        found = step_between(network, params, params + factor * change, np.ones((1, 2, 2)), np.ones((1, 2)))
        assert found.kl < 1e-12 and found.far is far


@pytest.mark.parametrize("policy", [Mlp(BOX, (4,)), Gaussian(TORQUE, (4,)), Softmax(CELLS), "Net", "Mean"])
def test_every_kind_of_policy_is_looked_at(policy):
    """No step: 0 nats. Parameters that overflow on the way: far, and no warning of NumPy's."""
    if isinstance(policy, str):
        pytest.importorskip("torch", reason="policy 'torch' needs PyTorch: pip install 'edge-fed[torch]'")
        config = PolicyConfig(name="torch", args={"module": f"tests.edge_fed.nets:{policy}"})
        policy = make_policy(config, BOX if policy == "Net" else TORQUE)
    params = policy.initial(np.random.default_rng(0))
    states = np.array([[0, 1]]) if isinstance(policy, Softmax) else np.ones((1, 2, 2))
    still = step_between(policy, params, params, states, np.ones((1, 2)))
    assert still.kl == pytest.approx(0, abs=1e-12) and still.length == 0 and not still.far
    for adapted in (np.full_like(params, np.inf), params + 1e200, params * np.nan):
        assert step_between(policy, params, adapted, states, np.ones((1, 2))).far


@given(FIGURES, FIGURES, FIGURES)
def test_far_is_either_limit(kl, length, yardstick):
    """More than 0.5 nats, or longer than theta where theta is a yardstick; equal is not more."""
    assert Step(kl, length, yardstick).far == (kl > 0.5 or (yardstick > 0 and length > yardstick))
    assert not Step(min(kl, FAR), yardstick, yardstick).far
    assert Step(math.nan, length, yardstick).far


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_a_batch_is_looked_at_where_it_went(family):
    """The first 32 trajectories, as far as each of them lasted."""
    task, params = checks.task_and_params(checks.FAMILIES[family], **checks.LARGE)
    (batch,) = task.sample(params, [(40, np.random.default_rng(1))])
    lasted = 1 + np.arange(40) % len(batch.rewards)
    batch = msgspec.structs.replace(batch, mask=1.0 * (np.arange(len(batch.rewards))[:, None] < lasted))
    adapted = params + 0.1
    seen = batch.part(slice(0, LOOKED_AT))
    expected = seen.masked(task.policy.kl(params, adapted, seen.states)).sum() / seen.steps
    found = sampled_step(task.policy, params, adapted, batch)
    assert found.kl == pytest.approx(expected, rel=1e-12)
    assert found.length == pytest.approx(0.1 * math.sqrt(params.size))


def test_what_is_said_has_the_figures_and_what_to_do():
    """Theta only where it is the reason, returns where they are known, no advice that does not apply."""
    task = checks.task_and_params(checks.FAMILIES["navigation"])[0]
    text = warning(Step(1.25, 2.0, 14.0), task, 3.5, 2.25)
    for part in ("KL 1.25 nats (limit 0.5)", "||alpha g|| = 2;", "return 3.5 before", "2.25 after"):
        assert part in text
    assert 'a smaller inner_step_size, or adapt_baseline = "loo";' in text and "||theta||" not in text
    centred = msgspec.structs.replace(
        task, settings=msgspec.structs.replace(task.settings, adapt_baseline="loo")
    )
    text = warning(Step(0.25, 2.0, 1.5), centred, math.nan, 1.0)
    assert "||alpha g|| = 2 beside ||theta|| = 1.5" in text and "a smaller inner_step_size;" in text
    assert "adapt_baseline" not in text and "before adaptation" not in text
    plant = EpisodicEnvironment("a plant", 3, 0.9, lambda: None, lambda: True)
    text = warning(Step(1.25, 2.0, 14.0), msgspec.structs.replace(centred, environment=plant), 3.5, 2.25)
    assert "a smaller inner_step_size or reward_scale;" in text
