"""Mutants: each known mistake, put in by hand, breaks a named check that the real code passes.

A check that no mutant breaks tests nothing. Numbers in the table are rows of science.md section 5.
"""

import importlib
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np
import pytest

from edge_fed import reinforcement
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
    inner_gradient,
)
from edge_fed.meta.base import Estimate, LocalStep
from edge_fed.meta.policy_gradient import policy_gradient
from edge_fed.policies.softmax import Softmax
from edge_fed.returns import discounts, reward_to_go
from edge_fed.rollouts import Sampler, Trajectories
from edge_fed.seeding import Purpose, stream
from tests.edge_fed import batch_checks, checks, ending_checks
from tests.edge_fed.tiny_batches import BANDIT

Patch = pytest.MonkeyPatch

# The package's names `exact`, `first_order` and `sg_mrl` are the functions; the patches need the modules.
exact = importlib.import_module("edge_fed.meta.exact")
first_order = importlib.import_module("edge_fed.meta.first_order")
sg_mrl = importlib.import_module("edge_fed.meta.sg_mrl")


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

    def stay(task, params, batch, *, alpha, **rest):
        del alpha
        return adaptation.adapt_batch(task, params, batch, alpha=0.0, **rest)

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

    patch.setitem(reinforcement.VARIANTS, "exact", from_adapted)


VARIANTS_EXACT = VARIANTS["exact"]


def descent(patch: Patch) -> None:
    """Row 8: the inner step descends."""
    patch.setattr(adaptation, "policy_gradient", lambda *a: -policy_gradient(*a))


def second_alpha(patch: Patch) -> None:
    """Row 28: the outer step size used in the inner step."""
    adapt_batch = adaptation.adapt_batch

    def confused(task, params, batch, *, alpha, **rest):
        del alpha
        return adapt_batch(task, params, batch, alpha=task.settings.outer_step_size, **rest)

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

    patch.setitem(reinforcement.VARIANTS, "exact", cheap)


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


def no_scores(patch: Patch) -> None:
    """Row 17: sg_mrl without the score term."""
    patch.setattr(sg_mrl, "through_batch", lambda *_arguments: 0.0)


def mean_of_scores(patch: Patch) -> None:
    """Row 17: the score term averaged over D_in, as g_in is."""
    total = sg_mrl.through_batch
    patch.setattr(sg_mrl, "through_batch", lambda policy, d_in, *rest: total(policy, d_in, *rest) / d_in.size)


def centred_outer_returns(patch: Patch) -> None:
    """Row 17: centred advantages of D_out in place of its returns."""
    patch.setattr(sg_mrl, "episode_return", lambda r: r.sum(axis=0) - r.sum(axis=0).mean())


def in_sample_return(patch: Patch) -> None:
    """The mean return of D_in, own trajectory included, as the baseline of the score term."""
    through_batch = sg_mrl.through_batch

    def own_included(policy, d_in, advantages, d_out):
        to_go = reward_to_go(d_in.rewards)
        return through_batch(policy, d_in, to_go - to_go.mean(axis=1, keepdims=True), d_out)

    patch.setattr(sg_mrl, "through_batch", own_included)


def hessian_in_sg_mrl(patch: Patch) -> None:
    """Row 16: u in place of hess nu."""
    patch.setattr(sg_mrl, "through_step", curvature.naive)


def returns_in_hess_nu(patch: Patch) -> None:
    """Row 18: g_in with the baseline and hess nu without."""
    through_step = sg_mrl.through_step
    patch.setattr(
        sg_mrl,
        "through_step",
        lambda policy, d_in, _advantages, v: through_step(policy, d_in, reward_to_go(d_in.rewards), v),
    )


def score_term_past_the_guard(patch: Patch) -> None:
    """The guard on the curvature alone, the score term added to what it gives."""
    kept = []
    through_batch = sg_mrl.through_batch

    def aside(*arguments):
        kept.append(through_batch(*arguments))
        return 0.0

    def late(v, c, kappa):
        found = guard.guarded(v, c, kappa)
        return msgspec.structs.replace(found, direction=found.direction + kept.pop())

    patch.setattr(sg_mrl, "through_batch", aside)
    patch.setattr(sg_mrl, "guarded", late)


def sign_of_the_step_before(patch: Patch) -> None:
    """The sign of mean w g(theta_{t-1})."""
    patch.setattr(inner_gradient, "gradient_elsewhere", lambda *a: -importance.gradient_elsewhere(*a))


def eta_for_one_minus_eta(patch: Patch) -> None:
    """The weight of the new batch taken for that of the past."""
    patch.setattr(
        adaptation,
        "recursive_gradient",
        lambda policy, batch, advantages, momentum, memory: inner_gradient.recursive_gradient(
            policy, batch, advantages, 1 - momentum, memory
        ),
    )


def parameters_of_the_round(patch: Patch) -> None:
    """Theta_0 of the round kept in place of theta_{t-1}."""

    def keep_first(policy, batch, advantages, momentum, memory):
        first = memory.get("inner_params", batch.trace.params)
        found = inner_gradient.recursive_gradient(policy, batch, advantages, momentum, memory)
        memory["inner_params"] = first
        return found

    patch.setattr(adaptation, "recursive_gradient", keep_first)


def memory_across_rounds(patch: Patch) -> None:
    """The step before the first of a round is the last of the round before."""
    shared: dict = {}
    patch.setattr(
        reinforcement,
        "LocalStep",
        lambda streams, baseline, _memory: LocalStep(streams, baseline, shared),
    )


def memory_of_one_step(patch: Patch) -> None:
    """Every local step starts anew."""
    patch.setattr(reinforcement, "LocalStep", lambda streams, baseline, _memory: LocalStep(streams, baseline))


def no_mask(patch: Patch) -> None:
    """What stands in the arrays after an end counts, wherever an estimator or baseline would mask it."""
    patch.setattr(Trajectories, "masked", lambda _self, x: x)


def mean_over_valid_steps(patch: Patch) -> None:
    """Divides by valid steps in units of whole trajectories, so that short episodes count more."""
    patch.setattr(Trajectories, "size", property(lambda self: self.steps / len(self.rewards)))


def nothing(_patch: Patch) -> None:
    """For mutants that are another function handed to the check."""


def exact_on_grid() -> None:
    """Equation 7 written out, on the grid."""
    checks.check_composition("gridworld", "exact")


def first_order_on_grid() -> None:
    """The outer gradient written out, on the grid."""
    checks.check_composition("gridworld", "first_order")


def sg_mrl_on_a_bandit() -> None:
    """The gradient of V on three arms, from batches of two."""
    batch_checks.check_sg_mrl_mean(BANDIT, 2)


def recursive_rounds_on_grid() -> None:
    """Rounds start plain, on the grid."""
    batch_checks.check_recursive_rounds("gridworld")


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
    Mutant("sg_mrl without scores", no_scores, sg_mrl_on_a_bandit),
    Mutant("sg_mrl, mean of scores", mean_of_scores, sg_mrl_on_a_bandit),
    Mutant("sg_mrl, centred outer returns", centred_outer_returns, sg_mrl_on_a_bandit),
    Mutant("sg_mrl, mean return of its own batch", in_sample_return, sg_mrl_on_a_bandit),
    Mutant("sg_mrl with u", hessian_in_sg_mrl, sg_mrl_on_a_bandit),
    Mutant(
        "sg_mrl, baseline missing in hess nu",
        returns_in_hess_nu,
        lambda: batch_checks.check_sg_mrl_mean(BANDIT, 2, "loo"),
    ),
    Mutant(
        "sg_mrl, score term past the guard",
        score_term_past_the_guard,
        lambda: batch_checks.check_sg_mrl_guard("none"),
    ),
    Mutant("recursive without weights", unweighted_ends, batch_checks.check_recursive_mean),
    Mutant("recursive, new over old weights", inverted_weights, batch_checks.check_recursive_mean),
    Mutant("recursive, sign of the step before", sign_of_the_step_before, batch_checks.check_recursive_mean),
    Mutant("recursive from theta of the round", parameters_of_the_round, batch_checks.check_recursive_mean),
    Mutant(
        "recursive, eta for 1 - eta",
        eta_for_one_minus_eta,
        lambda: batch_checks.check_recursive_step("none", 1),
    ),
    Mutant(
        "recursive with one weight per trajectory",
        whole_trajectory_weights,
        lambda: batch_checks.check_recursive_composition("gridworld", "first_order"),
    ),
    Mutant(
        "mask forgotten in the naive sum", no_mask, lambda: ending_checks.check_curvature("naive", "none")
    ),
    Mutant("mask forgotten in leave-one-out", no_mask, ending_checks.check_loo),
    Mutant("mask forgotten in the value", no_mask, lambda: ending_checks.check_gradient("value")),
    Mutant("mask forgotten in the fit", no_mask, ending_checks.check_value_fit),
    Mutant("mask forgotten in sg_mrl", no_mask, lambda: ending_checks.check_sg_mrl(1)),
    Mutant("mean over valid steps", mean_over_valid_steps, ending_checks.check_gradient),
    Mutant(
        "mean over valid steps in the curvature",
        mean_over_valid_steps,
        lambda: ending_checks.check_curvature("causal"),
    ),
    Mutant("recursive across rounds", memory_across_rounds, recursive_rounds_on_grid),
    Mutant("recursive forgets every step", memory_of_one_step, recursive_rounds_on_grid),
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
