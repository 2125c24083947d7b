"""What estimators must satisfy where episodes end early: every trajectory of an MDP with a terminal state.

The reference is dynamic programming on the same MDP: its terminal state pays nothing and is never left. What
stands in the arrays after an end is rubbish, neither drawn from the policy nor the same in every trajectory:
whoever counts it shows.
"""

import functools

import msgspec
import numpy as np

from edge_fed import dp
from edge_fed.meta import BASELINES, CURVATURES, curvature
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.rollouts import Trajectories
from tests.edge_fed import batch_checks, checks
from tests.edge_fed.tiny_batches import Tiny


class Ending(Tiny):
    """A random model whose last state is terminal; each trajectory once, however it would go on.

    Attributes:
        mask: 1 before the end, ``[H+1, N]``.
    """

    def __init__(self, num_states: int, num_actions: int, horizon: int, seed: int = 0) -> None:
        super().__init__(num_states, num_actions, horizon, seed)
        last = num_states - 1
        self.model.transition[last] = np.eye(num_states)[last]
        self.model.reward[last] = 0.0
        self.model.start[last] = 0.0
        self.model.start[:] /= self.model.start.sum()
        rows = np.arange(horizon + 1)[:, None]
        ends = np.where((self.states == last).any(axis=0), (self.states == last).argmax(axis=0), horizon + 1)
        self.mask = (rows < ends).astype(float)
        # real trajectories differ before their end alone
        keys = np.concatenate([self.states * self.mask, self.actions * self.mask, ends[None]])
        _, kept = np.unique(keys, axis=1, return_index=True)
        kept = kept[ends[kept] > 0]  # none starts at its end
        rng = np.random.default_rng(seed)
        real, self.mask = self.mask[:, kept] > 0, self.mask[:, kept]
        rubbish = rng.integers(0, num_states, (2, *real.shape))
        self.states = np.where(real | (rows == ends[kept]), self.states[:, kept], rubbish[0])
        self.actions = np.where(real, self.actions[:, kept], rubbish[1] % num_actions)
        discounted = self.model.reward[self.states, self.actions] * self.discount**rows
        self.rewards = discounted * self.mask
        self.to_go = np.cumsum(self.rewards[::-1], axis=0)[::-1]
        self.dynamics = self.model.start[self.states[0]]
        for h in range(horizon):
            moved = self.model.transition[self.states[h], self.actions[h], self.states[h + 1]]
            self.dynamics = self.dynamics * np.where(real[h], moved, 1.0)
        self.all = range(self.dynamics.size)

    def density(self, theta: np.ndarray) -> np.ndarray:
        """q(xi; theta): of what happened before the end."""
        chosen = self.log_pi(theta)[..., self.states, self.actions] * self.mask
        return self.dynamics * np.exp(chosen.sum(axis=-2))

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """psi_h before the end, 0 after it."""
        return super().scores(theta) * self.mask[..., None]

    def batch(self, params: np.ndarray, columns: list[int]) -> Trajectories:
        """With its mask, as a sampler gives it."""
        return msgspec.structs.replace(super().batch(params, columns), mask=self.mask[:, columns])


def cases() -> list[Ending]:
    """Three random models of 3 states and 3 steps."""
    return [Ending(3, 2, 2, seed) for seed in (0, 3, 6)]


def check_endings_themselves() -> None:
    """Probabilities sum to 1, the mean return is dp's J; all lengths occur, rubbish after each end."""
    for e in cases():
        q = e.density(e.theta)
        assert abs(q.sum() - 1) < 1e-12
        assert abs(q @ e.to_go[0] - dp.expected_return(e.model, e.theta)) < 1e-12
        lengths = e.mask.sum(axis=0)
        assert sorted(set(lengths.tolist())) == [1, 2, 3]
        assert 0.05 < q @ (lengths < 3) < 0.95
        assert e.model.reward[e.states, e.actions][e.mask == 0].any()


def mean(e: Ending, estimate, baseline: str = "none") -> np.ndarray:
    """E of ``estimate(batch, advantages)`` over all trajectories, batches of one, ``[d]``."""
    total = np.zeros_like(e.theta)
    for column, q in enumerate(e.density(e.theta)):
        batch = e.batch(e.theta, [column])
        total += q * estimate(batch, e.baseline(baseline).advantages(batch))
    return total


def direction(e: Ending) -> np.ndarray:
    """Some v, ``[d]``."""
    return np.random.default_rng(7).normal(size=e.theta.size)


def along(estimate, e: Ending, v: np.ndarray):
    """An estimator of curvature as `mean` calls it."""
    return lambda batch, advantages: estimate(e.policy, batch, advantages, v)


def check_gradient(baseline: str = "none") -> None:
    """E[g] = grad J to 1e-10."""
    for e in cases():
        found = mean(e, lambda batch, advantages, e=e: policy_gradient(e.policy, batch, advantages), baseline)
        expected = dp.gradient(e.model, e.theta)
        assert abs(found - expected).max() < 1e-10
        assert abs(expected).max() > 1e-2


def check_curvature(name: str, baseline: str = "none") -> None:
    """E[H_hat v] = hess J v to 1e-10."""
    for e in cases():
        v = direction(e)
        found = mean(e, along(CURVATURES[name], e, v), baseline)
        expected = dp.hessian_vector(e.model, e.theta, v)
        assert abs(found - expected).max() < 1e-10
        assert abs(expected).max() > 1e-2


def check_lvc(baseline: str = "none") -> None:
    """E[lvc] = (H1 + H2) v to 1e-8 (differences), which is not hess J v."""
    for seed in (0, 3, 6):
        e = Ending(checks.S, checks.A, 2, seed)
        e.v = direction(e)
        found = mean(e, along(curvature.lvc, e, e.v), baseline)
        fixed, cross = checks.parts_of_the_hessian(e)
        assert abs(found - fixed).max() < 1e-8
        assert abs(fixed + cross - dp.hessian_vector(e.model, e.theta, e.v)).max() < 1e-8
        assert abs(cross).max() > 1e-3


def check_finite_difference(baseline: str = "none") -> None:
    """At a large delta the mean is the central difference of grad J by dp, to 1e-10."""
    delta = 0.3
    for e in cases():
        v = direction(e)
        length = np.linalg.norm(v)
        up, down = (dp.gradient(e.model, e.theta + sign * delta * v / length) for sign in (1, -1))
        found = mean(e, along(functools.partial(curvature.finite_difference, delta=delta), e, v), baseline)
        assert abs(found - (up - down) * length / (2 * delta)).max() < 1e-10
        assert abs(up - down).max() > 1e-2


def check_loo() -> None:
    """E over all pairs of g and of H_hat v with leave-one-out, to 1e-10; ended ones count 0."""
    for seed in range(3):
        e = Ending(3, 2, 1, seed)
        v, q, baseline = direction(e), e.density(e.theta), BASELINES["loo"](e.task(), {})
        gradient, product = np.zeros((2, v.size))
        for i in e.all:
            for j in e.all:
                batch = e.batch(e.theta, [i, j])
                advantages = baseline.advantages(batch)
                gradient += q[i] * q[j] * policy_gradient(e.policy, batch, advantages)
                product += q[i] * q[j] * CURVATURES["naive"](e.policy, batch, advantages, v)
        assert abs(gradient - dp.gradient(e.model, e.theta)).max() < 1e-10
        assert abs(product - dp.hessian_vector(e.model, e.theta, v)).max() < 1e-10


def check_sg_mrl(m_in: int, baseline: str = "none") -> None:
    """E[direction] = grad V to 1e-10, from all batches of episodes that end after one step or two."""
    batch_checks.check_sg_mrl_mean(Ending(2, 2, 1, seed=3), m_in, baseline)


def check_value_fit() -> None:
    """A is the sum over VALID steps of zeta^2 per state, b that of zeta R^h: rubbish is not fitted."""
    for e in cases():
        batch, task = e.batch(e.theta, list(e.all)), e.task()
        baseline = BASELINES["value"](task, BASELINES["value"].initial(task))
        baseline.advantages(batch)
        state = baseline.after()
        zeta = np.array([1.0, 0.9 * (1 + 0.9) / (1 + 0.9 + 0.81), 0.81 / (1 + 0.9 + 0.81)])[:, None] * e.mask
        for s in range(3):
            here = e.states == s
            assert abs(state["A"][s] - 0.009 - (zeta**2)[here].sum()) < 1e-9
            assert abs(state["b"][s] - (zeta * e.to_go)[here].sum()) < 1e-9
        assert abs(state["A"][-1] - 0.009) < 1e-15, "nothing happens in the terminal state"
