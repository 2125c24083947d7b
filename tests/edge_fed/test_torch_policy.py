"""Policies of `torch.nn.Module`s: equal to the closed forms in NumPy, and to differences for any module."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from edge_fed.config import PolicyConfig
from edge_fed.errors import NonFinite
from edge_fed.policies import make_policy
from edge_fed.policies.gaussian import make_gaussian
from edge_fed.policies.mlp import Mlp
from edge_fed.policies.softmax import Softmax
from edge_fed.spaces import Spaces
from tests.edge_fed import checks

pytest.importorskip("torch", reason="policy 'torch' needs PyTorch: pip install 'edge-fed[torch]'")

SPACES = Spaces(num_actions=8, observation_shape=(2,))
TABLE = Spaces(num_actions=4, observation_shape=(), num_states=9)
IMAGE = Spaces(num_actions=3, observation_shape=(2, 4, 3))
BOX = Spaces(num_actions=None, observation_shape=(2,), action_low=(-2.0, 0.0), action_high=(2.0, 3.0))
STEPS, M = 4, 6


def policy_of(name, spaces=SPACES, **args):
    """A torch policy of one of the networks in `tests.edge_fed.nets`."""
    config = PolicyConfig(name="torch", args={"module": f"tests.edge_fed.nets:{name}", **args})
    return make_policy(config, spaces)


def observations(spaces, rng):
    """Random ones of 4 steps and 6 trajectories."""
    if spaces.num_states:
        return rng.integers(0, spaces.num_states, (STEPS, M))
    return rng.uniform(-1, 1, (STEPS, M, *spaces.observation_shape))


def recorder(policy, states, noise):
    """A function of the parameters: the record of the same states with the same actions."""
    params = policy.initial(np.random.default_rng(0))
    first = policy.begin(params, states)
    for h in range(STEPS):
        policy.act(first, h, noise[h])

    def record(theta):
        trace = policy.begin(theta, states)
        for h in range(STEPS):
            policy.act(trace, h, noise[h])
        trace.actions[:] = first.actions
        return trace

    return record


def transposed(sizes, params):
    """The NumPy network's matrices ``[in + 1, out]`` in the order of ``named_parameters``, then the rest."""
    parts, end = [], 0
    for rows, columns in pairwise(sizes):
        begin, end = end, end + (rows + 1) * columns
        matrix = params[begin:end].reshape(rows + 1, columns)
        parts += [matrix[:-1].T.ravel(), matrix[-1]]
    return np.concatenate([*parts, params[end:]])


def assert_equal(plain, policy, into_torch):
    """All that the interface gives, at random parameters, states, weights and directions."""
    rng = np.random.default_rng(1)
    assert policy.dimension == plain.dimension
    theta, other, v = rng.normal(size=(3, plain.dimension))
    states, (w, q) = rng.uniform(-1, 1, (STEPS, M, 2)), rng.normal(size=(2, STEPS, M))
    noise = plain.noise(np.random.default_rng(5), STEPS, M)
    assert (policy.noise(np.random.default_rng(5), STEPS, M) == noise).all()

    def found(of, change):
        trace = of.begin(change(theta), states)
        actions = np.array([of.act(trace, h, noise[h]) for h in range(STEPS)])
        assert (trace.actions == actions).all()
        tangent = of.tangent(trace, change(v))
        log_pi = of.log_prob(change(theta), states, actions)
        values = (actions, log_pi, tangent.scores, of.kl(change(theta), change(other), states))
        return values, (of.score(trace, w), of.second(tangent, w, q))

    values, gradients = found(policy, into_torch)
    plain_values, plain_gradients = found(plain, lambda x: x)
    expected = (*plain_values, *(into_torch(gradient) for gradient in plain_gradients))
    for a, b in zip((*values, *gradients), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10, rtol=1e-12)
    return values[0], plain_values[0]


@pytest.mark.parametrize("hidden", [(32,), (5, 4)])
def test_it_equals_the_network_in_closed_form(hidden):
    """Actions are the same; log-probability, score, scores along v, Psi v and KL agree to 1e-10."""
    plain = Mlp(SPACES, hidden)
    policy = policy_of("Net", dtype="float64", kwargs={"hidden": list(hidden)})
    actions, expected = assert_equal(plain, policy, lambda x: transposed((2, *hidden, 8), x))
    assert (actions == expected).all()


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("log_std", [-0.3, "learned"])
def test_a_gaussian_equals_the_one_in_closed_form(log_std, squash):
    """The same conventions: unit action space, learned log-std behind the weights, stored samples."""
    settings = {"log_std": log_std, "squash": squash}
    plain = make_gaussian(BOX, settings)
    policy = policy_of("Mean", BOX, dtype="float64", **settings)
    actions, _ = assert_equal(plain, policy, lambda x: transposed((2, 32, 2), x))
    np.testing.assert_allclose(policy.executed(actions), plain.executed(actions), atol=1e-15)
    rng = np.random.default_rng(0)
    own = policy.dimension - 162
    assert own == (2 if log_std == "learned" else 0)
    np.testing.assert_allclose(policy.initial(rng)[162:], plain.initial(rng)[162:], atol=1e-15)


def test_a_table_of_logits_equals_softmax():
    """Finite states arrive as indices; an embedding is the tabular policy."""
    rng = np.random.default_rng(2)
    plain, policy = Softmax(TABLE), policy_of("Table", TABLE, dtype="float64")
    theta, v = rng.normal(size=(2, 36))
    states, (w, q) = observations(TABLE, rng), rng.normal(size=(2, STEPS, M))
    noise = rng.random((STEPS, M, 1))
    results = []
    for of in (plain, policy):
        trace = of.begin(theta, states)
        for h in range(STEPS):
            of.act(trace, h, noise[h])
        results.append((trace.actions, of.score(trace, w), of.second(of.tangent(trace, v), w, q)))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


CASES = {
    "two layers": ("Net", {"dtype": "float64", "kwargs": {"hidden": [5, 4]}}),
    "silu": ("Net", {"dtype": "float64", "kwargs": {"activation": "SiLU"}}),
    "shared, frozen, layer norm": ("Rich", {"dtype": "float64"}),
    "factory": ("make", {"dtype": "float64", "kwargs": {"hidden": 3}}),
    "convolution": ("Conv", {"dtype": "float64", "spaces": IMAGE}),
    "gaussian": ("Mean", {"dtype": "float64", "log_std": "learned", "spaces": BOX}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_derivatives_equal_differences(case, seed):
    """Score, scores along v and Psi v of any module agree with differences of log_prob to 1e-6."""
    name, args = CASES[case]
    policy, rng = policy_of(name, **args), np.random.default_rng(seed)
    states = observations(args.get("spaces", SPACES), rng)
    params, v = rng.normal(scale=0.5, size=(2, policy.dimension))
    w, q = rng.normal(size=(2, STEPS, M))
    record = recorder(policy, states, policy.noise(rng, STEPS, M))
    checks.check_score(policy, record(params), states, params, w, 1e-6)
    checks.check_second(policy, record, states, params, v, w, q, 1e-6)


@pytest.mark.parametrize("case", CASES)
def test_properties_of_derivatives(case):
    """Scores are the score's pairing with v; both are linear in the weights; v = 0 leaves the score."""
    name, args = CASES[case]
    policy, rng = policy_of(name, **args), np.random.default_rng(4)
    params, v = rng.normal(size=(2, policy.dimension))
    w, q = rng.normal(size=(2, STEPS, M))
    trace = recorder(policy, observations(args.get("spaces", SPACES), rng), policy.noise(rng, STEPS, M))(
        params
    )
    tangent, score = policy.tangent(trace, v), policy.score(trace, w)
    assert abs((w * tangent.scores).sum() - score @ v) < 1e-10
    np.testing.assert_allclose(policy.score(trace, w + 2 * q), score + 2 * policy.score(trace, q), atol=1e-10)
    still = policy.second(policy.tangent(trace, 0 * v), w, q)
    np.testing.assert_allclose(still, score, atol=1e-12)
    product = policy.second(tangent, 0 * w, q)
    other = rng.normal(size=v.size)
    there = policy.second(policy.tangent(trace, other), 0 * w, q)
    assert abs(product @ other - there @ v) < 1e-9, "the Hessian is symmetric"
    assert not policy.kl(params, params, trace.states).any()


def test_columns_are_trajectories_of_their_own():
    """The score of some columns equals that of the whole record with the other weights at zero."""
    policy, rng = policy_of("make", dtype="float64"), np.random.default_rng(4)
    trace = recorder(policy, observations(SPACES, rng), policy.noise(rng, STEPS, M))(
        rng.normal(size=policy.dimension)
    )
    w = rng.normal(size=(STEPS, M))
    only = np.zeros_like(w)
    only[:, 2:5] = w[:, 2:5]
    found = policy.score(trace.columns(slice(2, 5)), w[:, 2:5])
    np.testing.assert_allclose(found, policy.score(trace, only), atol=1e-12)


def test_single_precision_has_a_double_master_vector():
    """A step below float32's resolution is kept in the vector, and gradients are those of float64 to 1e-4."""
    single, double, rng = policy_of("Net"), policy_of("Net", dtype="float64"), np.random.default_rng(3)
    params = single.initial(rng)
    assert params.dtype == np.float64
    states, w = observations(SPACES, rng), rng.normal(size=(STEPS, M))
    noise = single.noise(rng, STEPS, M)
    scores = [policy.score(recorder(policy, states, noise)(params), w) for policy in (single, double)]
    assert scores[0].dtype == np.float64
    assert 0 < abs(scores[0] - scores[1]).max() < 1e-4
    assert single.log_prob(params * (1 + 1e-12), states, np.zeros((STEPS, M), int)).dtype == np.float64


def test_a_rollout_uses_the_parameters_that_it_was_opened_with():
    """Records of two parameter vectors may take turns; a vector that its owner changed is read again."""
    policy, rng = policy_of("Net", dtype="float64"), np.random.default_rng(6)
    first, second = rng.normal(size=(2, policy.dimension))
    states, noise = observations(SPACES, rng), policy.noise(rng, STEPS, M)
    alone = {}
    for name, params in (("first", first), ("second", second)):
        trace = policy.begin(params, states)
        alone[name] = np.array([policy.act(trace, h, noise[h]) for h in range(STEPS)])
    assert (alone["first"] != alone["second"]).any()
    traces = {"first": policy.begin(first, states), "second": policy.begin(second, states)}
    for h in range(STEPS):
        for name, trace in traces.items():
            assert (policy.act(trace, h, noise[h]) == alone[name][h]).all()
    moving = first.copy()
    policy.act(policy.begin(moving, states), 0, noise[0])
    moving[:] = second
    assert (policy.act(policy.begin(moving, states), 0, noise[0]) == alone["second"][0]).all()


def test_the_initialization_is_the_modules_own_under_our_seed():
    """Equal streams give equal parameters, other streams others; torch's own generator is left alone."""
    import torch

    policy = policy_of("Net")
    torch.manual_seed(1)
    before = torch.get_rng_state()
    a, b, c = (policy.initial(np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert (a == b).all()
    assert (a != c).any()
    assert torch.equal(torch.get_rng_state(), before)
    weights = a[:64]  # of nn.Linear(2, 32): uniform within 1 / sqrt(2)
    assert 0.6 < abs(weights).max() <= 2**-0.5
    assert (a[:64].astype(np.float32) == a[:64]).all()


def test_threads_do_not_disturb_each_others_initialization():
    """The agents of an inproc run build in threads of one process, and torch has one generator for all."""
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda _: policy_of("Net").initial(np.random.default_rng(7)), range(200))
        assert len({params.tobytes() for params in found}) == 1


def test_the_description_is_the_layout():
    """Names, shapes and dtypes in the order of the vector; constants by their bytes; frozen is constant."""
    policy = policy_of("Rich")
    head, *parts, structure = policy.description.split("; ")
    assert head == "torch categorical 8"
    assert parts[:4] == [
        "inward.weight float32[6,2]",
        "inward.bias float32[6]",
        "norm.weight float32[6]",
        "norm.bias float32[6]",
    ]
    assert parts[4:6] == ["out.weight float64[8,6]", "out.bias float64[8]"]
    assert [part.rpartition(" ")[0] for part in parts[6:]] == [
        "constant scale float32[6]",
        "constant shift float32[6]",
    ]
    assert structure.startswith("structure ")
    assert policy.dimension == 12 + 6 + 6 + 6 + 48 + 8
    assert policy_of("Net", kwargs={"activation": "ReLU"}).description != policy_of("Net").description


def test_the_module_with_some_parameters_is_the_users_to_keep():
    """A module of its own: its logits give log_prob, and later rollouts leave it alone."""
    import torch

    policy, rng = policy_of("Net", dtype="float64"), np.random.default_rng(2)
    params, other = rng.normal(size=(2, policy.dimension))
    module = policy.module(params)
    states, noise = observations(SPACES, rng), policy.noise(rng, STEPS, M)
    policy.act(policy.begin(other, states), 0, noise[0])
    with torch.no_grad():
        log_pi = torch.log_softmax(module(torch.tensor(states)), -1)[..., 3].numpy()
    np.testing.assert_allclose(policy.log_prob(params, states, np.full((STEPS, M), 3)), log_pi, atol=1e-12)


def test_nan_is_refused_with_its_cause():
    """A module that gives NaN, and an environment that does, are told apart."""
    policy = policy_of("Net")
    params = policy.initial(np.random.default_rng(0))
    states, noise = np.zeros((1, 2, 2)), np.full((2, 1), 0.5)
    with pytest.raises(NonFinite, match=r"module 'tests\.edge_fed\.nets:Net' gives NaN .* smaller step size"):
        policy.act(policy.begin(params * np.nan, states), 0, noise)
    with pytest.raises(NonFinite, match="the environment's observation is NaN"):
        policy.act(policy.begin(params, states * np.nan), 0, noise)


def test_read_only_parameters_are_read_without_a_warning():
    """As they come off the wire."""
    policy, rng = policy_of("Net"), np.random.default_rng(0)
    params = policy.initial(rng)
    params.flags.writeable = False
    trace = recorder(policy, observations(SPACES, rng), policy.noise(rng, STEPS, M))(params)
    assert policy.score(trace, np.ones((STEPS, M))).shape == params.shape
