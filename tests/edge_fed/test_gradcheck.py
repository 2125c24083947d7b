"""The gradient check passes what is right, and each mistake is caught by the check that is for it."""

import msgspec
import numpy as np
import pytest

from edge_fed import gradcheck as package
from edge_fed.config import EnvironmentConfig, Overrides, PolicyConfig, RunConfig
from edge_fed.envs.gridworld import GridworldEnvironment
from edge_fed.envs.navigation import NavigationEnvironment
from edge_fed.federated.task import initial_params, make_task
from edge_fed.gradcheck import Check, gradcheck, of_policy, of_task
from edge_fed.gradcheck.findings import misfit, ratio, sampled_mean
from edge_fed.meta import CURVATURES
from edge_fed.params import params_sha256
from edge_fed.policies.gaussian import Gaussian
from edge_fed.policies.mlp import Mlp
from edge_fed.policies.softmax import Softmax
from edge_fed.rollouts import Sampler
from edge_fed.seeding import Purpose, stream
from tests.edge_fed import checks

FEW = 1024  # trajectories behind a mean: enough for the mistakes below
GRID_POLICY = ["score", "tangent", "second", "probabilities", "record", "frequencies"]
CURVED = ["curvature naive", "curvature causal", "curvature finite_difference"]


def found(config, seed=0, *, policy=None, environment=None, trajectories=FEW):
    """The findings of agent 3, with another policy or environment in place of its own."""
    task, _ = checks.task_and_params(config)
    policy = task.policy if policy is None else policy(task.environment.spaces)
    environment = task.environment if environment is None else environment
    task = msgspec.structs.replace(
        task, policy=policy, environment=environment, sample=Sampler(environment, policy)
    )
    return gradcheck(task, initial_params(config, policy), seed, trajectories)


def failed(findings):
    """Names of the checks that failed; a blind one did not."""
    return [check.name for check in findings.checks if check.result == "FAIL"]


def named(findings, name):
    """One check."""
    (check,) = [check for check in findings.checks if check.name == name]
    return check


# ------------------------------------------------------------------------- what is right passes


def test_a_gymnasium_environment_and_mlp_pass():
    """Episodes that end early included; whether the environment is sound is left to check-env."""
    place = EnvironmentConfig(family="gymnasium", horizon=30, args={"id": "CartPole-v1"})
    config = RunConfig(environment=place)
    findings = gradcheck(make_task(config, 3, Overrides()), initial_params(config), 0, FEW)
    assert findings.passed and not failed(findings)
    assert [check.name for check in findings.checks] == [*GRID_POLICY, "mean score", "return along g"]
    assert "check-env" in findings.not_proved[0]


@pytest.mark.parametrize("seed", range(3))
def test_gridworld_and_softmax_pass(seed):
    """With a model: starts, moves, gradient and every unbiased curvature estimator, at three seeds."""
    findings = found(checks.GRIDWORLD, seed, trajectories=None)
    assert findings.passed and not failed(findings)
    names = [check.name for check in findings.checks]
    assert names == ["interface", *GRID_POLICY, "starts", "moves", "gradient", *CURVED]
    assert {named(findings, name).limit for name in ("score", "tangent", "second")} == {5e-8}
    assert named(findings, "gradient").blind < 0.1


def test_navigation_and_mlp_pass():
    """Without one: the mean score, and the change of J along g."""
    findings = found(checks.NAVIGATION)
    assert findings.passed
    names = [check.name for check in findings.checks]
    assert names == ["interface", *GRID_POLICY, "mean score", "return along g"]
    assert {named(findings, name).limit for name in ("score", "tangent", "second")} == {6e-7}


def test_a_finite_environment_with_another_policy_is_sampled():
    """Dynamic programming knows the per-state softmax only: another policy has no model here."""

    class Wrapped:
        def __init__(self, spaces):
            self._inner = Softmax(spaces)

        def __getattr__(self, name):
            return getattr(self._inner, name)

    findings = found(checks.GRIDWORLD, policy=Wrapped, trajectories=4 * FEW)
    assert findings.passed
    assert findings.checks[-1].name == "return along g"
    assert named(findings, "score").limit == of_policy.GENERAL_LIMIT


# ----------------------------------------------------------------------- mistakes of a policy


class _WrongSign(Softmax):
    """Descends."""

    def score(self, trace, w):
        return -super().score(trace, w)


class _ClippedScore(Softmax):
    """Differentiates the action after clipping."""

    def score(self, trace, w):
        clipped = trace.columns(slice(None))
        clipped.actions = np.minimum(clipped.actions, 2)
        return super().score(clipped, w)


class _SecondWithoutScores(Softmax):
    """Forgets w psi."""

    def second(self, tangent, w, q):
        return super().second(tangent, 0 * w, q)


class _SecondWithoutPsi(Softmax):
    """Forgets q Psi v."""

    def second(self, tangent, w, q):
        return super().second(tangent, w, 0 * q)


class _UncentredTangent(Softmax):
    """Forgets the mean of v under pi."""

    def tangent(self, trace, v):
        tangent = super().tangent(trace, v)
        tangent.scores = v.take(tangent.pairs).reshape(trace.actions.shape)
        return tangent


class _Unnormalised(Softmax):
    """Returns the logit for its log-probability."""

    def log_prob(self, params, states, actions):
        return params.reshape(self.shape)[states, actions]


class _OtherDraws(Softmax):
    """Draws as if the uniforms were squares."""

    def act(self, trace, h, uniforms):
        return super().act(trace, h, uniforms**2)


class _ClippedAction(Softmax):
    """Hands out another action than it records."""

    def act(self, trace, h, uniforms):
        return np.minimum(super().act(trace, h, uniforms), 2)


@pytest.mark.parametrize(
    ("policy", "first", "surely", "perhaps"),
    [
        (_WrongSign, "score", {"second", "gradient"}, {*CURVED}),
        (_ClippedScore, "score", {"gradient"}, {"second", *CURVED}),
        (_SecondWithoutScores, "second", {*CURVED[:2]}, set()),
        (_SecondWithoutPsi, "second", {*CURVED[:2]}, set()),
        (_UncentredTangent, "tangent", set(), {*CURVED[:2]}),
        (_Unnormalised, "score", {"tangent", "probabilities"}, {CURVED[2]}),
        (_OtherDraws, "frequencies", {"gradient"}, {*CURVED}),
        (_ClippedAction, "record", {"frequencies", "moves"}, {"gradient", *CURVED}),
    ],
)
def test_each_mistake_of_a_policy_is_caught(policy, first, surely, perhaps):
    """The first check to fail is the one that is for it; no unrelated check fails."""
    names = failed(found(checks.GRIDWORLD, policy=policy, trajectories=None))
    assert names[0] == first
    assert surely <= set(names[1:]) <= surely | perhaps


@pytest.mark.parametrize("mistake", ["sign", "second", "draws"])
def test_mistakes_of_a_neural_policy_are_caught_without_a_model(mistake):
    """A wrong sign also by the change of J, a lost term by `second`, other draws also by the mean score."""

    class Wrong(Mlp):
        def score(self, trace, w):
            return super().score(trace, w) * (-1 if mistake == "sign" else 1)

        def second(self, tangent, w, q):
            return super().second(tangent, w * (mistake != "second"), q)

        def act(self, trace, h, uniforms):
            return super().act(trace, h, uniforms**2 if mistake == "draws" else uniforms)

    expected = {
        "sign": ["score", "second", "return along g"],
        "second": ["second"],
        "draws": ["frequencies", "mean score"],
    }[mistake]
    assert failed(found(checks.NAVIGATION, policy=Wrong, trajectories=2 * FEW))[: len(expected)] == expected


PENDULUM = RunConfig(
    environment=EnvironmentConfig(family="pendulum", horizon=10), policy=PolicyConfig(name="gaussian")
)


@pytest.mark.parametrize("mistake", ["none", "wide", "shifted", "record", "second"])
def test_mistakes_of_a_gaussian_are_caught(mistake):
    """A wrong spread, which the mean score does not see, by `spread`; a shift by the mean score."""

    class Wrong(Gaussian):
        def act(self, trace, h, noise):
            drawn = noise * (1.1 if mistake == "wide" else 1.0) + 0.2 * (mistake == "shifted")
            return super().act(trace, h, drawn) + (mistake == "record")

        def second(self, tangent, w, q):
            return super().second(tangent, w, 1.05 * q if mistake == "second" else q)

    expected = {
        "none": [],
        "wide": ["spread"],
        "shifted": ["mean score"],
        "record": ["record"],
        "second": ["second", "spread"],
    }[mistake]
    names = failed(found(PENDULUM, policy=Wrong))
    assert names[: len(expected)] == expected and bool(names) == bool(expected)


def test_an_estimator_that_misses_a_piece_is_caught(monkeypatch):
    """Only hess nu, without the derivative of the sampling distribution: its own check fails, no other."""

    def hess_nu(policy, batch, advantages, v):
        return policy.second(policy.tangent(batch.trace, v), 0 * advantages, advantages) / batch.size

    monkeypatch.setitem(CURVATURES, "naive", hess_nu)
    assert failed(found(checks.GRIDWORLD, trajectories=None)) == ["curvature naive"]


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_rewards_to_go_with_a_discount_of_their_own_are_caught(family, monkeypatch):
    """gamma^(t-h) in place of gamma^t: the sampled gradient is none of J."""

    def relative_discount(rewards):
        to_go = np.add.accumulate(rewards[::-1], axis=0)[::-1]
        return to_go / 0.9 ** np.arange(len(rewards))[:, None]

    monkeypatch.setattr(of_task, "reward_to_go", relative_discount)
    names = failed(found(checks.FAMILIES[family], trajectories=16 * FEW))
    assert names[:1] == [{"gridworld": "gradient", "navigation": "return along g"}[family]]


# ------------------------------------------------------------------ mistakes of an environment


class _Grid(GridworldEnvironment):
    """Goal 3 of the 5 x 5 grid, with a model that a subclass falsifies."""

    def __init__(self):
        task, _ = checks.task_and_params(checks.GRIDWORLD)
        self.__dict__.update(vars(task.environment))
        self.true = task.environment.model()

    def model(self):
        return msgspec.structs.replace(self.true, **self.changed())


class _TiltedStart(_Grid):
    """The model starts in some cells more often."""

    def changed(self):
        tilt = self.true.start * np.linspace(0.7, 1.3, self.true.start.size)
        return {"start": tilt / tilt.sum()}


class _Slippery(_Grid):
    """The model slips in a tenth of the moves, the simulation does not."""

    def changed(self):
        rest = np.full_like(self.true.transition, 1 / self.true.start.size)
        return {"transition": 0.9 * self.true.transition + 0.1 * rest}


class _OtherGoal(_Grid):
    """The model pays for another cell."""

    def changed(self):
        return {"reward": np.roll(self.true.reward, 1, axis=0)}


@pytest.mark.parametrize(
    ("environment", "first"), [(_TiltedStart, "starts"), (_Slippery, "moves"), (_OtherGoal, "interface")]
)
def test_a_model_that_disagrees_with_its_simulation_is_caught(environment, first):
    """Starts, moves and rewards each by their check, before any gradient."""
    findings = found(checks.GRIDWORLD, environment=environment(), trajectories=None)
    assert failed(findings)[0] == first


def test_a_broken_interface_ends_the_check_and_says_where():
    """Nothing else is checked, and that is said; the detail is the checker's message."""
    findings = found(checks.GRIDWORLD, environment=_OtherGoal())
    (check,) = findings.checks
    assert "goal 3: model: its rewards differ from those of rewards()" in check.detail
    assert findings.not_proved == ("anything else: mend the environment first",)


class _Delayed(NavigationEnvironment):
    """Pays one step late: the reward looks back, which the interface allows."""

    def rewards(self, states, actions):
        late = np.roll(super().rewards(states, actions), 1, axis=0)
        late[0] = 0.0
        return late


def test_what_cannot_be_proved_is_said_and_indeed_passes():
    """A delayed reward keeps every law that is checked without a model; the findings name that gap."""
    base = checks.task_and_params(checks.NAVIGATION)[0].environment
    late = _Delayed.__new__(_Delayed)
    late.__dict__.update(vars(base))
    findings = found(checks.NAVIGATION, environment=late)
    assert findings.passed
    assert any("looks back" in line for line in findings.not_proved)
    assert not any("lvc" in line for line in findings.not_proved)  # without a model no estimator is compared
    assert any("BEFORE the action" in line for line in findings.not_proved)
    assert any(line.endswith("%") and "return along g" in line for line in findings.not_proved)


def test_noise_is_not_taken_for_a_slope():
    """The reward depends on the start alone: grad J = 0, and no direction fitted to noise says otherwise.

    Nothing failed, and nothing of gradients was seen: blind, which is no success.
    """

    class Indifferent(NavigationEnvironment):
        def rewards(self, states, actions):
            rewards = np.zeros(actions.shape)
            rewards[0] = states[0, :, 0]
            return rewards

    base = checks.task_and_params(checks.NAVIGATION)[0].environment
    indifferent = Indifferent.__new__(Indifferent)
    indifferent.__dict__.update(vars(base))
    findings = found(checks.NAVIGATION, environment=indifferent)
    assert failed(findings) == [] and not findings.passed
    check = named(findings, "return along g")
    assert check.blind > 1 and (check.result, check.passed) == ("BLIND", False)
    assert named(findings, "mean score").passed  # what it should be is zero, and no error relative to it


def test_without_any_reward_nothing_of_gradients_is_proved():
    """Zero against zero is blind, not passed, and the findings say that every error is hidden."""

    class Unpaid(NavigationEnvironment):
        def rewards(self, states, actions):
            return np.zeros(actions.shape)

    base = checks.task_and_params(checks.NAVIGATION)[0].environment
    unpaid = Unpaid.__new__(Unpaid)
    unpaid.__dict__.update(vars(base))
    findings = found(checks.NAVIGATION, environment=unpaid)
    assert failed(findings) == [] and named(findings, "return along g").result == "BLIND"
    assert any("return along g all" in line for line in findings.not_proved)


# -------------------------------------------------------------------------------- statistics


def test_deviation_of_a_mean_is_counted_in_standard_errors():
    """Estimates 0 and 2 in one of two coordinates: mean 1, standard error 1; 3 away is 2 standard errors."""
    estimates = [np.array([0.0, 0.0]), np.array([2.0, 0.0])]
    check = sampled_mean("x", estimates, np.array([3.0, 0.0]), "")
    assert (check.measured, check.limit, check.result) == (2.0, 4.0, "BLIND")
    assert check.blind == pytest.approx(4 / 3)
    assert sampled_mean("x", estimates, np.array([4.5, 0.0]), "").result == "PASS"  # 3.5 away, blind to 8/9
    assert sampled_mean("x", estimates, np.array([6.0, 0.0]), "").result == "FAIL"


@pytest.mark.parametrize(
    ("measured", "blind", "result"),
    [
        (3.0, None, "PASS"),
        (3.0, 1.0, "PASS"),
        (3.0, 1.01, "BLIND"),
        (3.0, np.inf, "BLIND"),
        (5.0, 36.8, "FAIL"),
        (np.nan, 0.1, "FAIL"),
        (3.0, np.nan, "BLIND"),
    ],
)
def test_a_check_that_cannot_see_its_whole_value_has_not_passed(measured, blind, result):
    """What it saw comes first; then whether it could have told the value from zero."""
    check = Check("x", measured, 4.0, "s.e.", "", blind=blind)
    assert (check.result, check.passed) == (result, result == "PASS")


def test_of_an_expected_zero_every_error_is_hidden():
    """No scale, so no relative error can be seen: blind, also where all estimates are zero."""
    assert sampled_mean("x", [np.zeros(2), np.zeros(2)], np.zeros(2), "").blind == np.inf


def test_few_trajectories_pass_nothing():
    """Two in a batch hide 36 times the gradient, at any seed; that is said, and is no pass."""
    for seed in range(3):
        findings = found(checks.NAVIGATION, seed, trajectories=1)
        assert not findings.passed and named(findings, "return along g").result == "BLIND"


def test_many_returns_are_sampled_batch_by_batch(monkeypatch):
    """However many there are in all, no more than a batch lies in memory; the report counts them."""
    task, params = checks.task_and_params(checks.NAVIGATION)
    sizes, said = [], []
    outcomes = Sampler.outcomes

    def record(self, params, m, rng):
        sizes.append(m)
        return outcomes(self, params, m, rng)

    monkeypatch.setattr(Sampler, "outcomes", record)
    gradcheck(task, params, 0, 640, said.append)
    assert sizes == [10] * 128
    assert said[63:65] == ["sampled gradients, batch 64 of 64", "sampled returns, batch 1 of 64"]


def test_noise_across_does_not_hide_a_deviation_along():
    """Large noise in a hundred other coordinates: the component along the truth still shows it is halved."""
    rng = np.random.default_rng(0)
    expected = np.eye(101)[0]
    estimates = [0.5 * expected + np.append(0.01, np.ones(100)) * rng.normal(size=101) for _ in range(64)]
    assert np.linalg.norm(np.mean(estimates, axis=0) - expected) < 2
    assert not sampled_mean("x", estimates, expected, "").passed


def test_nan_fails():
    """Whatever cannot be measured is no pass."""
    estimates = [np.array([np.nan, 0.0]), np.array([1.0, 0.0])]
    assert not sampled_mean("x", estimates, np.array([1.0, 0.0]), "").passed
    assert not Check("x", float("nan"), 1.0, "", "").passed


def test_misfit_of_worked_counts():
    """Of 100 draws at p = 1/2 61 is 11 / sqrt(26) away; what has probability 0 must not occur."""
    assert misfit(np.array([[61, 39]]), np.array([[0.5, 0.5]])) == pytest.approx(11 / 26**0.5)
    assert misfit(np.array([[99, 1]]), np.array([[1.0, 0.0]])) == float("inf")
    assert misfit(np.array([[0, 0]]), np.array([[1.0, 0.0]])) == 0.0


def test_ratio_of_nothing_to_nothing_is_nothing():
    """0 / 0 is 0, an error against 0 is infinite."""
    assert (ratio(0.0, 0.0), ratio(1.0, 0.0), ratio(1.0, 4.0)) == (0.0, float("inf"), 0.25)


def test_draws_are_keyed_and_nothing_is_changed(monkeypatch):
    """Streams of (seed, agent, DIAGNOSE), steps 1 to 7; parameters and the task's counter stay."""
    keys = set()

    def record(*key):
        keys.add(key)
        return stream(*key)

    monkeypatch.setattr(package, "stream", record)
    for config in checks.FAMILIES.values():
        task, params = checks.task_and_params(config)
        before = params_sha256(params)
        assert gradcheck(task, params, 5, 128) == gradcheck(task, params, 5, 128)
        assert params_sha256(params) == before and task.sample.trajectories == 0
    assert keys == {(5, 3, 0, step, Purpose.DIAGNOSE) for step in range(1, 8)}
