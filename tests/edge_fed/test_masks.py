"""Episodes that end early: estimators by enumeration, the mask of a sampler, and what is counted."""

import msgspec
import numpy as np
import pytest

from edge_fed.config import EnvironmentConfig
from edge_fed.envs import make_family
from edge_fed.meta.curvature import BIASED, CURVATURES
from edge_fed.policies.mlp import Mlp
from edge_fed.returns import episode_return
from edge_fed.rollouts import Sampler
from tests.edge_fed import ending_checks


def test_the_enumeration_with_a_terminal_state_is_complete():
    """The oracle: probabilities sum to 1, the mean return is dp's J, lengths 1, 2 and 3 occur."""
    ending_checks.check_endings_themselves()


@pytest.mark.parametrize("baseline", ["none", "value"])
def test_mean_gradient_is_that_of_the_return_until_the_end(baseline):
    """E[g] = grad J to 1e-10, also with a value function that gives the rubbish after an end a value."""
    ending_checks.check_gradient(baseline)


@pytest.mark.parametrize("baseline", ["none", "value"])
@pytest.mark.parametrize("name", sorted(CURVATURES.keys() - BIASED - {"finite_difference"}))
def test_mean_product_is_that_of_the_hessian(name, baseline):
    """E[H_hat v] = hess J v to 1e-10."""
    ending_checks.check_curvature(name, baseline)


@pytest.mark.parametrize("baseline", ["none", "value"])
def test_lvc_keeps_its_form(baseline):
    """E[lvc] = (H1 + H2) v, episodes of any length."""
    ending_checks.check_lvc(baseline)


@pytest.mark.parametrize("baseline", ["none", "value"])
def test_importance_weights_stop_at_the_end(baseline):
    """E[finite_difference] is the central difference of grad J at a large delta."""
    ending_checks.check_finite_difference(baseline)


def test_leave_one_out_stays_unbiased():
    """Over all pairs: an ended episode counts 0 for one that goes on, and gets nothing after its own end."""
    ending_checks.check_loo()


def test_the_value_function_is_fitted_to_valid_steps():
    """A and b written out."""
    ending_checks.check_value_fit()


@pytest.mark.parametrize(("m_in", "baseline"), [(1, "none"), (2, "none"), (2, "loo"), (1, "value")])
def test_sg_mrl_ascends_its_objective(m_in, baseline):
    """E[direction] = grad V to 1e-10 over every D_in and D_out."""
    ending_checks.check_sg_mrl(m_in, baseline)


def cart() -> Sampler:
    """CartPole of 60 steps at most, which a random policy never holds up for so long."""
    environment = make_family(EnvironmentConfig(family="cartpole", horizon=59, discount=0.9)).make(0)
    return Sampler(environment, Mlp(environment.spaces, (4,)))


def test_a_sampler_masks_what_comes_after_the_end():
    """Mask 1 until the pole is down, 0 from that step on, and no reward there; parts keep their masks."""
    sampler = cart()
    params = np.random.default_rng(0).normal(size=sampler.policy.dimension)
    batch = sampler.pool(params, [(30, np.random.default_rng(1))])
    assert batch.mask is not None and set(np.unique(batch.mask)) == {0.0, 1.0}
    ended = sampler.environment.ended(batch.states)
    assert (batch.mask == ~ended).all() and batch.mask[0].all() and not batch.mask[-1].all()
    assert not batch.rewards[batch.mask == 0].any() and batch.rewards[batch.mask == 1].any()
    assert batch.steps == batch.mask.sum() < batch.mask.size
    assert batch.part(slice(3, 7)).steps == batch.mask[:, 3:7].sum()
    unmasked = msgspec.structs.replace(batch, mask=None)
    assert unmasked.steps == batch.mask.size


def test_environment_steps_are_counted_to_the_end():
    """A sampler counts trajectories whole and steps valid, in both of its ways to sample."""
    sampler, other = cart(), cart()
    params = np.random.default_rng(0).normal(size=sampler.policy.dimension)
    batch = sampler.pool(params, [(30, np.random.default_rng(1))])
    found = other.outcomes(params, 30, np.random.default_rng(1))
    assert (sampler.trajectories, sampler.env_steps) == (30, batch.steps)
    assert (other.trajectories, other.env_steps) == (30, batch.steps)
    assert episode_return(found.rewards).tobytes() == episode_return(batch.rewards).tobytes()
