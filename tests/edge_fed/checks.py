"""What the estimators must satisfy, as functions: the tests call them, and each mutant must break one.

Each check raises AssertionError. The reference is never the code under test: full enumeration with
dynamic programming, finite differences of log-probabilities, or the paper's formula written out.
"""

import msgspec
import numpy as np

from edge_fed import dp
from edge_fed.config import Algorithm, EnvironmentConfig, Overrides, PolicyConfig, RunConfig
from edge_fed.federated import local_update as local_update_module
from edge_fed.federated.task import initial_params, make_task
from edge_fed.meta import BASELINES, CURVATURES, VARIANTS, adaptation, curvature, guard
from edge_fed.meta.base import LocalStep
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.policies.softmax import Softmax
from edge_fed.returns import discounts
from edge_fed.rollouts import Trajectories
from edge_fed.seeding import Purpose, stream, streams
from edge_fed.spaces import Spaces
from tests.edge_fed.tiny_mdp import A, S, discounted_return, probability, random_model, trajectories

GRIDWORLD = RunConfig(
    environment=EnvironmentConfig(family="gridworld", horizon=15),
    policy=PolicyConfig(name="softmax"),
    algorithm=Algorithm(inner_step_size=2.0, outer_step_size=0.3),
)
NAVIGATION = RunConfig()
FAMILIES = {"gridworld": GRIDWORLD, "navigation": NAVIGATION}
LARGE = {"inner_batch": 60, "hessian_batch": 60, "outer_batch": 60}  # some navigation rewards for sure
UNIFORM_FLOOR = 0.2438700556  # DESIGN.md section 7


def configured(config: RunConfig, **algorithm) -> RunConfig:
    """The configuration with some fields of its algorithm replaced."""
    return msgspec.structs.replace(config, algorithm=msgspec.structs.replace(config.algorithm, **algorithm))


def task_and_params(config: RunConfig, goal: int = 3, **algorithm):
    """One agent and parameters at which no symmetry hides a mistake."""
    config = configured(config, **algorithm)
    task = make_task(config, goal, Overrides())
    params = initial_params(config)
    return task, params + np.random.default_rng(7).normal(scale=0.3, size=params.size)


def differences(function, x, eps=1e-5):
    """Central differences of a scalar or vector function along every coordinate, ``[d, ...]``."""
    return np.array([(function(x + eps * e) - function(x - eps * e)) / (2 * eps) for e in np.eye(x.size)])


def relative(found, expected) -> float:
    """Relative error in the Euclidean norm."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


# ------------------------------------------------------------------------- closed forms


def check_score(policy, trace, states, params, w, limit) -> None:
    """Sum of w psi equals differences of sum w log pi."""
    expected = differences(lambda x: float((w * policy.log_prob(x, states, trace.actions)).sum()), params)
    assert relative(policy.score(trace, w), expected) < limit


def check_second(policy, record, states, params, v, w, q, limit) -> None:
    """Scores along v and sum of (w psi + q Psi v) equal differences of log pi and of the score.

    ``record(params)`` gives the trace of the same trajectories at other parameters.
    """
    eps, trace = 1e-5, record(params)
    tangent = policy.tangent(trace, v)
    up, down = params + eps * v, params - eps * v
    along = policy.log_prob(up, states, trace.actions) - policy.log_prob(down, states, trace.actions)
    assert relative(tangent.scores, along / (2 * eps)) < limit
    change = (policy.score(record(up), q) - policy.score(record(down), q)) / (2 * eps)
    assert relative(policy.second(tangent, w, q), policy.score(trace, w) + change) < limit


# -------------------------------------------------------------------------- enumeration


class Enumeration:
    """Every trajectory of a tiny MDP as one batch, each with its probability.

    The estimators are linear in the advantages of each trajectory, so scaling those by m q(trajectory)
    turns a batch mean into the exact expectation.
    """

    def __init__(self, seed: int = 0, horizon: int = 2) -> None:
        self.model = msgspec.structs.replace(random_model(seed), horizon=horizon)
        rng = np.random.default_rng(seed + 100)
        self.theta, self.v = rng.normal(size=(2, S * A))
        self.baseline = rng.normal(size=(horizon + 1, S))  # any b_h(s)
        self.policy = Softmax(Spaces(num_actions=A, observation_shape=(), num_states=S))
        pairs = list(trajectories(self.model))
        self.states = np.array([states for states, _ in pairs]).T.copy()
        self.actions = np.array([actions for _, actions in pairs]).T.copy()
        self.q = np.array([probability(self.model, self.theta, *pair) for pair in pairs])
        self.returns = np.array([discounted_return(self.model, *pair) for pair in pairs])

    def batch(self, columns=slice(None), scale=None) -> Trajectories:
        """The chosen trajectories; rewards multiplied by ``scale`` per trajectory."""
        states, actions = self.states[:, columns], self.actions[:, columns]
        trace = self.policy.begin(self.theta, states)
        trace.actions[:] = actions
        rewards = self.model.reward[states, actions] * discounts(self.model.horizon, self.model.discount)
        return Trajectories(states, actions, rewards if scale is None else rewards * scale, trace)

    def weighted(self, with_baseline: bool) -> tuple[Trajectories, np.ndarray]:
        """The batch and its advantages, both scaled by m q."""
        scale = self.q * self.q.size
        batch = self.batch(scale=scale)
        advantages = BASELINES["none"](None, {}).advantages(batch)
        if with_baseline:
            steps = np.arange(len(self.states))[:, None]
            advantages = advantages - self.baseline[steps, self.states] * scale
        return batch, advantages


def check_enumeration_itself() -> None:
    """216 trajectories whose probabilities sum to 1 and whose mean return is dp's J."""
    e = Enumeration()
    assert e.q.size == 216
    assert abs(e.q.sum() - 1) < 1e-12
    assert abs(e.q @ e.returns - dp.expected_return(e.model, e.theta)) < 1e-12


def check_policy_gradient_mean(with_baseline: bool) -> None:
    """E[g] = grad J to 1e-8, whatever the baseline."""
    for seed in range(3):
        e = Enumeration(seed)
        batch, advantages = e.weighted(with_baseline)
        expected = dp.gradient(e.model, e.theta)
        assert abs(policy_gradient(e.policy, batch, advantages) - expected).max() < 1e-8
        assert abs(expected).max() > 1e-2


def check_curvature_mean(estimate, with_baseline: bool) -> None:
    """E[H_hat v] = hess J v to 1e-8, whatever the baseline."""
    for seed in range(3):
        e = Enumeration(seed)
        batch, advantages = e.weighted(with_baseline)
        expected = dp.hessian_vector(e.model, e.theta, e.v)
        assert abs(estimate(e.policy, batch, advantages, e.v) - expected).max() < 1e-8
        assert abs(expected).max() > 1e-2


def parts_of_the_hessian(e: Enumeration) -> tuple[np.ndarray, np.ndarray]:
    """((H1 + H2) v, (H12 + H12^T) v) of science.md 2.4 by dynamic programming, ``[d]`` each.

    H1 + H2 is the Hessian of sum_h d_h(s) pi(a|s) Q_h(s, a) with d and Q held fixed, in closed form;
    H12 = sum_h d_h(s) pi(a|s) psi(s, a) (grad Q_h(s, a))^T by differences of Q.
    """

    def q_values(theta):
        values = dp.values.chain(e.model, theta).values
        return e.model.reward + dp.values.backed_up(e.model, values[1:])

    found = dp.values.chain(e.model, e.theta)
    pi, visits = found.policy, dp.values.occupancy(e.model, found.kernel)
    v = e.v.reshape(S, A)
    pi_dot = pi * (v - (pi * v).sum(axis=1, keepdims=True))
    q = np.einsum("hs,hsa->sa", visits, q_values(e.theta))
    fixed = pi_dot * (q - (pi * q).sum(axis=1, keepdims=True)) - pi * (pi_dot * q).sum(axis=1, keepdims=True)

    slopes = differences(q_values, e.theta)  # [d, H+1, S, A]
    along = np.einsum("hs,dhsa,d->sa", visits, slopes, e.v)
    cross = pi * (along - (pi * along).sum(axis=1, keepdims=True))
    transposed = np.einsum("hs,sa,dhsa->d", visits, pi_dot, slopes)
    return fixed.ravel(), cross.ravel() + transposed


def check_lvc_mean(estimate, with_baseline: bool) -> None:
    """E[lvc] = (H1 + H2) v to 1e-8, and that is not hess J v, which it is together with H12 + H12^T."""
    for seed in range(3):
        e = Enumeration(seed)
        batch, advantages = e.weighted(with_baseline)
        hessian = dp.hessian_vector(e.model, e.theta, e.v)
        fixed, cross = parts_of_the_hessian(e)
        assert abs(fixed + cross - hessian).max() < 1e-8
        assert abs(estimate(e.policy, batch, advantages, e.v) - fixed).max() < 1e-8
        assert abs(fixed - hessian).max() > 1e-3


def check_finite_difference_mean(with_baseline: bool) -> None:
    """At ANY delta the mean is the central difference of grad J by dp, over a step of that length."""
    for seed in range(3):
        e = Enumeration(seed)
        batch, advantages = e.weighted(with_baseline)
        length = np.linalg.norm(e.v)
        for delta in (0.5, 0.05):
            step = delta * e.v / length
            change = dp.gradient(e.model, e.theta + step) - dp.gradient(e.model, e.theta - step)
            found = curvature.finite_difference(e.policy, batch, advantages, e.v, delta)
            assert abs(found - change * length / (2 * delta)).max() < 1e-10


def check_finite_difference_order() -> None:
    """The bias for hess J v is of second order in delta: a tenth of the step, a hundredth of the bias."""
    for seed in range(3):
        e = Enumeration(seed)
        batch, advantages = e.weighted(with_baseline=True)
        expected = dp.hessian_vector(e.model, e.theta, e.v)
        coarse, fine = (
            np.linalg.norm(curvature.finite_difference(e.policy, batch, advantages, e.v, delta) - expected)
            for delta in (0.1, 0.01)
        )
        assert coarse > 1e-5
        assert 90 < coarse / fine < 110


def check_finite_difference_limit(family: str) -> None:
    """As delta -> 0 it is `causal` on every single trajectory, for any advantages; naive is not."""
    task, params = task_and_params(FAMILIES[family])
    rng = np.random.default_rng(0)
    (whole,) = task.sample(params, [(10, rng)])
    v, weights = rng.normal(size=params.size), rng.normal(size=whole.rewards.shape)
    for j in range(whole.size):
        batch, advantages = whole.part(slice(j, j + 1)), weights[:, j : j + 1]
        causal = CURVATURES["causal"](task.policy, batch, advantages, v)
        naive = CURVATURES["naive"](task.policy, batch, advantages, v)
        assert relative(curvature.finite_difference(task.policy, batch, advantages, v), causal) < 1e-5
        assert relative(naive, causal) > 1e-2


def check_finite_difference_scale(family: str) -> None:
    """H(c v) = c H(v): delta is relative to the length of v. v = 0 gives 0."""
    task, params = task_and_params(FAMILIES[family])
    rng = np.random.default_rng(0)
    (batch,) = task.sample(params, [(20, rng)])
    v, advantages = rng.normal(size=params.size), rng.normal(size=batch.rewards.shape)
    expected = curvature.finite_difference(task.policy, batch, advantages, v)
    for c in (-1.0, 3.0, 1e-6, 1e6):
        found = curvature.finite_difference(task.policy, batch, advantages, c * v)
        assert relative(found / c, expected) < 1e-10
    assert not curvature.finite_difference(task.policy, batch, advantages, 0 * v).any()


def check_loo_mean() -> None:
    """E over all pairs of trajectories of g and H_hat v with leave-one-out equals dp (batches of 2)."""
    e = Enumeration(horizon=1)
    baseline = BASELINES["loo"](None, {})
    gradient, product = np.zeros((2, e.v.size))
    for i, q_i in enumerate(e.q):
        for j, q_j in enumerate(e.q):
            batch = e.batch([i, j])
            advantages = baseline.advantages(batch)
            gradient += q_i * q_j * policy_gradient(e.policy, batch, advantages)
            product += q_i * q_j * CURVATURES["causal"](e.policy, batch, advantages, e.v)
    assert abs(gradient - dp.gradient(e.model, e.theta)).max() < 1e-8
    assert abs(product - dp.hessian_vector(e.model, e.theta, e.v)).max() < 1e-8


# ----------------------------------------------------------------------------- rollouts


def check_rollout_conventions() -> None:
    """H+1 actions; gamma^t times the reward of the state BEFORE action t; moves follow the actions."""
    task, params = task_and_params(GRIDWORLD)
    (batch,) = task.sample(params, [(400, stream(0, 3, 1, 0, Purpose.OUTER))])
    assert batch.actions.shape == batch.states.shape == batch.rewards.shape == (16, 400)
    model = task.environment.model()
    assert (model.transition[batch.states[:-1], batch.actions[:-1], batch.states[1:]] == 1).all()
    expected = model.reward[batch.states, batch.actions] * 0.9 ** np.arange(16)[:, None]
    assert abs(batch.rewards - expected).max() < 1e-15
    assert expected.any(axis=1)[-1]  # a last reward that counts exists in this sample


def check_uniform_floor() -> None:
    """200,000 sampled trajectories of the uniform policy average to the exact floor within 4 errors.

    Wrong horizons or reward times give 0.236, 0.251 or 0.271: seven errors and more away.
    """
    task, params = task_and_params(GRIDWORLD, goal=0)
    returns = []
    for goal in range(8):
        task, _ = task_and_params(GRIDWORLD, goal=goal)
        (batch,) = task.sample(np.zeros_like(params), [(25_000, stream(0, goal, 1, 0, Purpose.OUTER))])
        returns.append(batch.rewards.sum(axis=0))
    total = np.concatenate(returns)
    assert abs(total.mean() - UNIFORM_FLOOR) < 4 * total.std() / np.sqrt(total.size)


def check_own_streams(family: str) -> None:
    """Fused batches hold the very draws that each would have alone."""
    task, params = task_and_params(FAMILIES[family])
    draw = streams(5, 3, 2, 1)
    sizes = {Purpose.INNER: 7, Purpose.CURVATURE: 5, Purpose.OUTER: 6}
    fused = task.sample(params, [(m, draw(purpose)) for purpose, m in sizes.items()])
    for found, (purpose, m) in zip(fused, sizes.items(), strict=True):
        (alone,) = task.sample(params, [(m, draw(purpose))])
        assert (found.states[0] == alone.states[0]).all()
        assert (found.actions == alone.actions).all()
        assert found.size == m


# ------------------------------------------------------------------------- meta-gradients


def written_out(task, params, draw) -> np.ndarray:
    """The direction by the paper's formula, each batch sampled alone on its stream."""
    settings, policy = task.settings, task.policy

    def sampled(theta, m, purpose):
        (batch,) = task.sample(theta, [(m, draw(purpose))])
        return batch, np.flip(np.cumsum(np.flip(batch.rewards, axis=0), axis=0), axis=0)

    def gradient(batch, to_go):
        return policy.score(batch.trace, to_go) / batch.size

    d_in, r_in = sampled(params, settings.inner_batch, Purpose.INNER)
    adapted = params + settings.inner_step_size * gradient(d_in, r_in)
    d_out, r_out = sampled(adapted, settings.outer_batch, Purpose.OUTER)
    g_out = gradient(d_out, r_out)
    if settings.variant == "first_order":
        return g_out
    d_h, r_h = d_in, r_in
    if settings.curvature_batch == "fresh":
        d_h, r_h = sampled(params, settings.hessian_batch, Purpose.CURVATURE)
    return g_out + settings.inner_step_size * CURVATURES[settings.curvature](policy, d_h, r_h, g_out)


def check_composition(family: str, variant: str, **algorithm) -> None:
    """The direction equals the paper's formula written out."""
    task, params = task_and_params(FAMILIES[family], variant=variant, **LARGE, **algorithm)
    draw = streams(1, 3, 1, 0)
    found = VARIANTS[variant](task, params, LocalStep(draw, BASELINES["none"](task, {}))).direction
    assert relative(found, written_out(task, params, draw)) < 1e-12


def check_fedavg(family: str) -> None:
    """fedavg_pg is the plain mean over all three batches at theta."""
    task, params = task_and_params(
        FAMILIES[family], variant="fedavg_pg", inner_batch=40, hessian_batch=70, outer_batch=50
    )
    draw, total = streams(1, 3, 1, 0), np.zeros_like(params)
    for purpose, m in ((Purpose.INNER, 40), (Purpose.CURVATURE, 70), (Purpose.OUTER, 50)):
        (batch,) = task.sample(params, [(m, draw(purpose))])
        total += task.policy.score(batch.trace, np.cumsum(batch.rewards[::-1], axis=0)[::-1])
    estimate = VARIANTS["fedavg_pg"](task, params, LocalStep(draw, BASELINES["none"](task, {})))
    assert relative(estimate.direction, total / 160) < 1e-12
    assert estimate.trajectories == 160


def check_alpha_zero(family: str, **algorithm) -> None:
    """At alpha = 0 exact equals first_order to the bit, over rounds of local steps."""
    received = {"exact": None, "first_order": None}
    for variant in received:
        task, params = task_and_params(
            FAMILIES[family], variant=variant, inner_step_size=0.0, **LARGE, **algorithm
        )
        for round_ in range(1, 5):
            update = local_update_module.local_update(task, params, {}, 11, round_, lambda _t: None)
            params = params + update.delta
        received[variant] = params
        assert abs(update.delta).max() > 0
    assert received["exact"].tobytes() == received["first_order"].tobytes()


def check_counters(variant: str, per_step: int) -> None:
    """A round counts tau times the variant's batches, in the update and in the sampler."""
    task, params = task_and_params(
        GRIDWORLD, variant=variant, inner_batch=3, hessian_batch=5, outer_batch=4, local_steps=6
    )
    update = local_update_module.local_update(task, params, {}, 0, 1, lambda _t: None)
    assert update.trajectories == update.metrics["trajectories"] == 6 * per_step
    assert task.sample.trajectories == 6 * per_step


def check_base_of_outer_step(family: str) -> None:
    """One local step moves from theta, not from the adapted parameters: delta = beta direction."""
    task, params = task_and_params(FAMILIES[family], variant="exact", local_steps=1, **LARGE)
    update = local_update_module.local_update(task, params, {}, 4, 2, lambda _t: None)
    expected = task.settings.outer_step_size * written_out(task, params, streams(4, 3, 2, 0))
    assert relative(update.delta, expected) < 1e-10
    still = msgspec.structs.replace(
        task, settings=msgspec.structs.replace(task.settings, outer_step_size=0.0)
    )
    assert not local_update_module.local_update(still, params, {}, 4, 2, lambda _t: None).delta.any()


def check_adaptation(family: str) -> None:
    """Adaptation is theta + alpha g, ascent, with the same bits as adapt_batch on the batch of its stream."""
    task, params = task_and_params(FAMILIES[family], adapt_baseline="none")
    alpha = task.settings.inner_step_size
    (batch,) = task.sample(params, [(90, stream(0, 3, 0, 0, Purpose.ADAPT))])
    to_go = np.flip(np.cumsum(np.flip(batch.rewards, axis=0), axis=0), axis=0)
    found = adaptation.adapt(task, params, 90, stream(0, 3, 0, 0, Purpose.ADAPT))
    assert abs(found - params).max() > 0
    assert relative(found - params, alpha * task.policy.score(batch.trace, to_go) / 90) < 1e-12
    assert found.tobytes() == adaptation.adapt_batch(task, params, batch).params.tobytes()


# ------------------------------------------------------------------------ guard, baseline


def check_guard() -> None:
    """The direction is v + min(1, kappa ||v|| / ||c||) c on worked cases."""
    v, c = np.array([3.0, 4.0]), np.array([0.0, 20.0])
    assert np.allclose(guard.guarded(v, c, 0.5).direction, [3.0, 6.5], atol=1e-15)  # s = 2.5 / 20
    assert guard.guarded(v, c, 0.5).bites
    assert np.array_equal(guard.guarded(v, c, "off").direction, [3.0, 24.0])
    assert not guard.guarded(v, c, 4.0).bites  # ||c|| = kappa ||v|| is within the bound
    assert np.array_equal(guard.guarded(v, c, 4.0).direction, [3.0, 24.0])
    assert np.array_equal(guard.guarded(v, c, 8.0).direction, [3.0, 24.0])  # within it: c as it is
    assert guard.guarded(v, c, 0.5).ratio == 4.0
    assert abs(guard.guarded(v, c, 0.5).cosine - 0.8) < 1e-15
    assert not guard.guarded(0 * v, c, 0.5).direction.any()


def check_value_baseline() -> None:
    """Two local steps of a hand-worked case: 2 states, H = 1, gamma = 1/2.

    zeta = (1, 1/3). Batch: states (0, 1) with rewards (1, 1/2 * 2 = 1), so R = (2, 1).
    Step 1: w = 0. Then A = 0.009 + (1, 1/9), b = (2, 1/3).
    Step 2: w = b / (A + 0.001), the prediction is zeta w, whatever was seen in this step.
    """
    task = hand_task()
    first = BASELINES["value"](task, BASELINES["value"].initial(task))
    batch = hand_batch()
    assert np.array_equal(first.advantages(batch), [[2.0], [1.0]])
    state = first.after()
    assert np.allclose(state["A"], [1.009, 0.009 + 1 / 9], atol=1e-14)
    assert np.allclose(state["b"], [2.0, 1 / 3], atol=1e-14)
    second = BASELINES["value"](task, state)
    w = np.array([2.0 / 1.010, (1 / 3) / (0.010 + 1 / 9)])
    for _ in range(2):
        found = second.advantages(batch)
        assert np.allclose(found, [[2 - w[0]], [1 - w[1] / 3]], atol=1e-14)
    later = second.after()
    assert np.allclose(later["A"], 0.9 * state["A"] + [2.0, 2 / 9], atol=1e-14)
    assert np.allclose(later["b"], 0.9 * state["b"] + [4.0, 2 / 3], atol=1e-14)


class HandEnvironment(msgspec.Struct):
    """Just what a baseline asks an environment."""

    horizon: int = 1
    discount: float = 0.5
    spaces: Spaces = Spaces(num_actions=2, observation_shape=(), num_states=2)


def hand_task():
    """A task whose environment only says its size."""
    task, _ = task_and_params(GRIDWORLD)
    return msgspec.structs.replace(task, environment=HandEnvironment())


def hand_batch() -> Trajectories:
    """One trajectory through states 0 and 1 with discounted rewards 1 and 1."""
    states, actions = np.array([[0], [1]]), np.array([[0], [0]])
    trace = Softmax(HandEnvironment().spaces).begin(np.zeros(4), states)
    return Trajectories(states, actions, np.array([[1.0], [1.0]]), trace)


def check_sampling_edge() -> None:
    """A uniform just below 1 never picks an action that does not exist, nor the first by default."""
    policy = Softmax(Spaces(num_actions=7, observation_shape=(), num_states=50))
    theta = np.random.default_rng(0).normal(scale=3, size=(50, 7))
    pi = policy.probabilities(theta.ravel())
    assert (np.cumsum(pi, axis=1)[:, -1] < 1 - 2**-53).any()  # rounding does leave sums below 1
    trace = policy.begin(theta.ravel(), np.arange(50)[None, :])
    assert (policy.act(trace, 0, np.full((50, 1), 1 - 2**-53)) == 6).all()
