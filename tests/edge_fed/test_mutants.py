"""Mutants: each known mistake, put in by hand, breaks a named check that the real code passes.

A check that no mutant breaks tests nothing. Numbers in the table are rows of science.md section 5.
"""

import importlib
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np
import pytest

from edge_fed.envs.gridworld import GridworldEnvironment
from edge_fed.federated import local_update as local_update_module
from edge_fed.meta import (
    BASELINES,
    CURVATURES,
    VARIANTS,
    adaptation,
    baselines,
    curvature,
    guard,
    importance,
)
from edge_fed.meta.base import Estimate
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.policies.softmax import Softmax
from edge_fed.returns import discounts, reward_to_go
from edge_fed.rollouts import Sampler
from edge_fed.seeding import Purpose, stream
from tests.edge_fed import checks

Patch = pytest.MonkeyPatch

# The package's names `exact` and `first_order` are the functions; the patches need the modules.
exact = importlib.import_module("edge_fed.meta.exact")
first_order = importlib.import_module("edge_fed.meta.first_order")


class Mutant(NamedTuple):
    """A mistake, how to make it, and the check that must notice."""

    mistake: str
    apply: Callable[[Patch], None]
    check: Callable[[], None]


def curvature_sign(patch: Patch) -> None:
    """Row 7, 8: v - alpha H v, the sign of loss descent."""
    patch.setattr(exact, "guarded", lambda v, c, kappa: guard.guarded(v, -c, kappa))


def relative_discount(patch: Patch) -> None:
    """Row 11: gamma^(t-h) in the reward-to-go."""
    patch.setattr(baselines, "reward_to_go", lambda r: reward_to_go(r) / discounts(len(r) - 1, 0.9))


def mean_over_steps(patch: Patch) -> None:
    """Row 22: a mean over time steps in place of the sum."""
    score = Softmax.score
    patch.setattr(Softmax, "score", lambda self, trace, w: score(self, trace, w) / len(w))


def shared_purposes(patch: Patch) -> None:
    """Row 15: the curvature batch drawn from the inner batch's stream."""

    class Shared:
        INNER = CURVATURE = Purpose.INNER
        OUTER = Purpose.OUTER

    patch.setattr(exact, "Purpose", Shared)


def one_generator(patch: Patch) -> None:
    """Row 37: one generator for all purposes of a step, so that batches shift each other's draws."""

    def streams(seed, agent, round_, step):
        rng = stream(seed, agent, round_, step, Purpose.INNER)
        return lambda _purpose: rng

    patch.setattr(local_update_module, "streams", streams)


def fused_draws(patch: Patch) -> None:
    """Fused batches drawn from the first batch's stream (methods.md 6)."""
    draw = Sampler._draw
    patch.setattr(
        Sampler, "_draw", lambda self, b, width: draw(self, [(sum(m for m, _ in b), b[0][1])], width)
    )


def outer_at_theta(patch: Patch) -> None:
    """Row 15: D_out drawn at theta instead of theta~."""

    def stay(task, params, batch, *, alpha, baseline):
        del alpha
        return adaptation.adapt_batch(task, params, batch, alpha=0.0, baseline=baseline)

    patch.setattr(first_order, "adapt_batch", stay)


def missing_psi_baseline(_policy, batch, advantages, v):
    """Row 18: the baseline subtracted from the score products but not from Psi."""
    tangent = _policy.tangent(batch.trace, v)
    w = advantages * tangent.scores.sum(axis=0)
    return _policy.second(tangent, w, reward_to_go(batch.rewards)) / batch.size


def unweighted_ends(patch: Patch) -> None:
    """Row 9: the supervised recipe, the same trajectories at both ends without weights."""
    patch.setattr(importance, "weights", lambda _policy, batch, _params: np.ones(batch.rewards.shape))


def inverted_weights(patch: Patch) -> None:
    """Row 23: the importance ratio upside down."""
    weights = importance.weights
    patch.setattr(importance, "weights", lambda *arguments: 1 / weights(*arguments))


def whole_trajectory_weights(patch: Patch) -> None:
    """One weight per trajectory: unbiased too, but as noisy as the naive estimator."""
    weights = importance.weights
    patch.setattr(importance, "weights", lambda *arguments: weights(*arguments)[-1:])


def absolute_delta(patch: Patch) -> None:
    """Row 10: the step not scaled to the length of v."""
    finite_difference = curvature.finite_difference

    def unscaled(policy, batch, advantages, v, delta=curvature.DELTA):
        return finite_difference(policy, batch, advantages, v, delta * (guard.norm(v) or 1.0))

    patch.setattr(curvature, "finite_difference", unscaled)


def double_diagonal(policy, batch, advantages, v):
    """The products h = k counted twice: sum_{k>=h} in place of sum_{k>h}."""
    tangent = policy.tangent(batch.trace, v)
    later = reward_to_go(advantages * tangent.scores)
    w = advantages * np.cumsum(tangent.scores, axis=0) + later
    return policy.second(tangent, w, advantages) / batch.size


def psi_sign(patch: Patch) -> None:
    """A sign in the closed form of Psi v."""
    second = Softmax.second
    patch.setattr(Softmax, "second", lambda self, t, w, q: second(self, t, w, -q))


def short_horizon(patch: Patch) -> None:
    """Row 12: H actions in place of H+1; the last reward is lost."""
    rewards = GridworldEnvironment.rewards

    def lost(self, states, actions):
        found = rewards(self, states, actions)
        found[-1] = 0
        return found

    patch.setattr(GridworldEnvironment, "rewards", lost)


def next_state_reward(patch: Patch) -> None:
    """Row 13: the reward of the state after the action."""
    rewards = GridworldEnvironment.rewards

    def shifted(self, states, actions):
        after = np.empty_like(states[:1])
        self.step(states[-1], actions[-1], after[0])
        return rewards(self, np.concatenate([states[1:], after]), actions)

    patch.setattr(GridworldEnvironment, "rewards", shifted)


def late_discount(patch: Patch) -> None:
    """Row 11: rewards discounted once too often, gamma^(t+1)."""
    init = Sampler.__init__

    def late(self, environment, policy):
        init(self, environment, policy)
        self._discounts = self._discounts * environment.discount

    patch.setattr(Sampler, "__init__", late)


def adapted_base(patch: Patch) -> None:
    """Row 5: the outer step applied to the adapted parameters."""

    def from_adapted(task, params, step):
        right = VARIANTS_EXACT(task, params, step)
        (d_in,) = task.sample(params, [(task.settings.inner_batch, step.streams(Purpose.INNER))])
        shift = adaptation.adapt_batch(task, params, d_in, baseline=step.baseline).params - params
        moved = right.direction + shift / max(task.settings.outer_step_size, 1e-300)
        return Estimate(moved, right.trajectories, right.metrics)

    patch.setitem(local_update_module.VARIANTS, "exact", from_adapted)


VARIANTS_EXACT = VARIANTS["exact"]


def descent(patch: Patch) -> None:
    """Row 8: the inner step descends."""
    patch.setattr(adaptation, "policy_gradient", lambda *a: -policy_gradient(*a))


def second_alpha(patch: Patch) -> None:
    """Row 28: the outer step size used in the inner step."""
    adapt_batch = adaptation.adapt_batch

    def confused(task, params, batch, *, alpha, baseline):
        del alpha
        return adapt_batch(task, params, batch, alpha=task.settings.outer_step_size, baseline=baseline)

    patch.setattr(exact, "adapt_batch", confused)


def extra_step(patch: Patch) -> None:
    """Row 6: one local step too many."""
    local_update = local_update_module.local_update

    def longer(task, *arguments):
        settings = msgspec.structs.replace(task.settings, local_steps=task.settings.local_steps + 1)
        return local_update(msgspec.structs.replace(task, settings=settings), *arguments)

    patch.setattr(local_update_module, "local_update", longer)


def uncounted_curvature(patch: Patch) -> None:
    """Row 36: budgets computed without the curvature batch."""

    def cheap(task, params, step):
        found = VARIANTS_EXACT(task, params, step)
        return Estimate(found.direction, found.trajectories - task.settings.hessian_batch, found.metrics)

    patch.setitem(local_update_module.VARIANTS, "exact", cheap)


def in_sample_mean(patch: Patch) -> None:
    """Row 20: the batch mean, own trajectory included, as a baseline."""

    class InSample(baselines.LeaveOneOut):
        def advantages(self, batch):
            to_go = reward_to_go(batch.rewards)
            return to_go - to_go.mean(axis=1, keepdims=True)

    patch.setitem(BASELINES, "loo", InSample)


def fitted_on_itself(patch: Patch) -> None:
    """Row 20: the value baseline refitted on the batch that it is subtracted from."""

    class Refitted(baselines.ValueBaseline):
        def advantages(self, batch):
            super().advantages(batch)
            state = self.after()
            self._weights = self._regression.solve(state["A"], state["b"])
            self._seen.pop()
            return super().advantages(batch)

    patch.setitem(BASELINES, "value", Refitted)


def constant_share(patch: Patch) -> None:
    """The value baseline without zeta: the same prediction at every step."""
    patch.setattr(baselines, "remaining_share", lambda horizon, _discount: np.ones((horizon + 1, 1)))


def no_forgetting(patch: Patch) -> None:
    """Old statistics kept at full weight."""
    patch.setattr(baselines, "FORGETTING", 1.0)


def guard_scales_v(patch: Patch) -> None:
    """The guard shrinking the whole direction in place of the curvature term."""
    guarded = guard.guarded

    def wrong(v, c, kappa):
        found = guarded(v, c, kappa)
        scale = 1.0 if not found.bites else kappa * guard.norm(v) / guard.norm(c)
        return msgspec.structs.replace(found, direction=scale * (v + c))

    patch.setattr(guard, "guarded", wrong)


def guard_normalises(patch: Patch) -> None:
    """The guard scaling c up as well as down."""
    guarded = guard.guarded

    def wrong(v, c, kappa):
        found = guarded(v, c, kappa)
        if kappa == "off":
            return found
        return msgspec.structs.replace(found, direction=v + kappa * guard.norm(v) / guard.norm(c) * c)

    patch.setattr(guard, "guarded", wrong)


def open_cdf(patch: Patch) -> None:
    """Row 26: the running sum left as rounding made it."""
    begin = Softmax.begin

    def open_end(self, params, states):
        trace = begin(self, params, states)
        trace.cdf[:, -1] = np.cumsum(trace.pi, axis=1)[:, -1]
        return trace

    patch.setattr(Softmax, "begin", open_end)


def nothing(_patch: Patch) -> None:
    """For mutants that are another function handed to the check."""


def exact_on_grid() -> None:
    """Equation 7 written out, on the grid."""
    checks.check_composition("gridworld", "exact")


def first_order_on_grid() -> None:
    """The outer gradient written out, on the grid."""
    checks.check_composition("gridworld", "first_order")


MUTANTS = [
    Mutant("sign of the curvature term", curvature_sign, exact_on_grid),
    Mutant("gamma^(t-h)", relative_discount, lambda: checks.check_policy_gradient_mean(False)),
    Mutant(
        "gamma^(t-h) in the curvature",
        relative_discount,
        lambda: checks.check_curvature_mean(curvature.causal, False),
    ),
    Mutant("gamma^(t+1)", late_discount, checks.check_rollout_conventions),
    Mutant("mean over steps", mean_over_steps, lambda: checks.check_policy_gradient_mean(False)),
    Mutant("curvature shares the inner stream", shared_purposes, exact_on_grid),
    Mutant("one generator per step", one_generator, lambda: checks.check_alpha_zero("gridworld")),
    Mutant("fused batches share a stream", fused_draws, lambda: checks.check_own_streams("gridworld")),
    Mutant("outer batch at theta", outer_at_theta, first_order_on_grid),
    Mutant(
        "baseline missing in the Psi term",
        nothing,
        lambda: checks.check_curvature_mean(missing_psi_baseline, True),
    ),
    Mutant(
        "finite difference without weights",
        unweighted_ends,
        lambda: checks.check_finite_difference_mean(False),
    ),
    Mutant(
        "finite difference with inverted weights",
        inverted_weights,
        lambda: checks.check_finite_difference_mean(False),
    ),
    Mutant(
        "finite difference with one weight per trajectory",
        whole_trajectory_weights,
        lambda: checks.check_finite_difference_limit("gridworld"),
    ),
    Mutant(
        "finite difference, delta not relative",
        absolute_delta,
        lambda: checks.check_finite_difference_scale("gridworld"),
    ),
    Mutant("lvc taken for the Hessian", nothing, lambda: checks.check_curvature_mean(curvature.lvc, False)),
    Mutant("diagonal counted twice", nothing, lambda: checks.check_curvature_mean(double_diagonal, False)),
    Mutant("sign of Psi", psi_sign, lambda: checks.check_curvature_mean(curvature.naive, False)),
    Mutant("H actions, convention", short_horizon, checks.check_rollout_conventions),
    Mutant("H actions, floor", short_horizon, checks.check_uniform_floor),
    Mutant("reward of the next state, convention", next_state_reward, checks.check_rollout_conventions),
    Mutant("reward of the next state, floor", next_state_reward, checks.check_uniform_floor),
    Mutant(
        "outer step from the adapted parameters",
        adapted_base,
        lambda: checks.check_base_of_outer_step("gridworld"),
    ),
    Mutant("inner step descends", descent, lambda: checks.check_adaptation("gridworld")),
    Mutant("beta in place of alpha", second_alpha, exact_on_grid),
    Mutant("one local step too many", extra_step, lambda: checks.check_counters("exact", 12)),
    Mutant("curvature batch not counted", uncounted_curvature, lambda: checks.check_counters("exact", 12)),
    Mutant("in-sample mean as a baseline", in_sample_mean, checks.check_loo_mean),
    Mutant("value baseline fitted on its own batch", fitted_on_itself, checks.check_value_baseline),
    Mutant("value baseline without zeta", constant_share, checks.check_value_baseline),
    Mutant("value baseline never forgets", no_forgetting, checks.check_value_baseline),
    Mutant("guard shrinks v too", guard_scales_v, checks.check_guard),
    Mutant("guard enlarges c", guard_normalises, checks.check_guard),
    Mutant("running sum below one", open_cdf, checks.check_sampling_edge),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.mistake for mutant in MUTANTS])
def test_mutant_breaks_its_check(mutant, monkeypatch):
    """The mistake makes its named check fail."""
    mutant.apply(monkeypatch)
    with pytest.raises(AssertionError):
        mutant.check()


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.mistake for mutant in MUTANTS])
def test_check_passes_without_the_mutant(mutant):
    """The same check passes on the code as it is (where the mutant is a patch of it)."""
    if mutant.apply is nothing:
        for name in CURVATURES.keys() - curvature.BIASED:
            checks.check_curvature_mean(CURVATURES[name], True)
    else:
        mutant.check()
