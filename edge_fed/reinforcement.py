"""Reinforcement learning as a `edge_fed.learner.Learner`: a policy, an environment, its sampler."""

from typing import Any

import msgspec
from numpy.random import Generator

from edge_fed.config import Onboarding, Overrides, RunConfig, effective_algorithm
from edge_fed.envs import make_family
from edge_fed.envs.base import Environment, Mdp
from edge_fed.envs.gymnasium import EpisodicEnvironment
from edge_fed.episodes import EpisodeSampler
from edge_fed.evaluation import evaluate, is_tabular
from edge_fed.learner import Blueprint, Onboarded, Progress, Row, Unit, Warn
from edge_fed.meta import VARIANTS
from edge_fed.meta.adaptation import adapt
from edge_fed.meta.base import AgentState, Estimate, LocalStep, Task
from edge_fed.meta.baselines import BASELINES, ValueBaseline, initial_state
from edge_fed.meta.bootstrap import Bootstrap
from edge_fed.meta.careful import adapt_carefully
from edge_fed.meta.regression import regression
from edge_fed.onboarding import onboard
from edge_fed.params import F8
from edge_fed.policies import make_policy
from edge_fed.policies.base import Policy
from edge_fed.rollouts import BaseSampler, Sampler
from edge_fed.seeding import Streams
from edge_fed.user_code import blamed


class Reinforcement(Task, frozen=True):
    """A task of reinforcement learning with all that a run asks of it; see `Learner` for the methods."""

    @property
    def unit(self) -> Unit:
        """Trajectories."""
        return "trajectories"

    @property
    def spent(self) -> int:
        """Trajectories sampled so far."""
        return self.sample.trajectories

    @property
    def env_steps(self) -> int:
        """Actions that the environment took so far."""
        return self.sample.env_steps

    @property
    def dimension(self) -> int:
        """Of the policy."""
        return self.policy.dimension

    @property
    def description(self) -> str:
        """Of the policy."""
        return self.policy.description

    def fresh(self) -> "Reinforcement":
        """The same with a sampler of its own."""
        return msgspec.structs.replace(self, sample=self.sample.fresh())

    def initial(self, rng: Generator) -> F8:
        """The policy's, ``[d]``."""
        return self.policy.initial(rng)

    def initial_state(self) -> AgentState:
        """Of the baseline, and of the bootstrap if there is one."""
        state = initial_state(self)
        return {**state, **Bootstrap.initial(self)} if self._bootstraps else state

    @property
    def _bootstraps(self) -> bool:
        return isinstance(self.environment, EpisodicEnvironment) and self.environment.bootstrap

    @property
    def fits_values(self) -> bool:
        """Whether its local steps fit values of states: `edge_fed.meta.regression`."""
        return self._bootstraps or BASELINES[self.settings.baseline] is ValueBaseline

    def local_step(
        self, params: F8, state: AgentState, streams: Streams, memory: dict[str, Any]
    ) -> tuple[Estimate, AgentState]:
        """The variant's estimate with this step's baseline and bootstrap, and their states after it.

        Raises:
            UserCodeError: A user's variant, curvature estimator or baseline failed.
        """
        settings = self.settings
        with blamed(settings.variant, settings.curvature, settings.baseline):
            return self._local_step(params, state, streams, memory)

    def _local_step(
        self, params: F8, state: AgentState, streams: Streams, memory: dict[str, Any]
    ) -> tuple[Estimate, AgentState]:
        variant, baseline = VARIANTS[self.settings.variant], BASELINES[self.settings.baseline](self, state)
        step = LocalStep(streams, baseline, memory)
        if not self._bootstraps:
            return variant(self, params, step), baseline.after()
        bootstrap = Bootstrap(self, state)
        estimate = variant(msgspec.structs.replace(self, sample=bootstrap), params, step)
        metrics = {**estimate.metrics, "bootstrap": bootstrap.mean}
        estimate = msgspec.structs.replace(estimate, metrics=metrics)
        return estimate, {**baseline.after(), **bootstrap.after()}

    def adapt(
        self, params: F8, m: int, rng: Generator, *, alpha: float | None = None, careful: bool = False
    ) -> F8:
        """One policy-gradient step or more: `edge_fed.meta.adaptation`, `edge_fed.meta.careful`."""
        how = adapt_carefully if careful else adapt
        return how(self, params, m, rng, alpha=alpha)

    def evaluate(self, params: F8, seed: int, config: Onboarding, warn: Warn = lambda _text: None) -> Row:
        """Returns before and after adaptation."""
        return evaluate(self, params, seed, config, warn)

    def onboard(
        self,
        params: F8,
        seed: int,
        config: Onboarding,
        progress: Progress,
        warn: Warn = lambda _text: None,
    ) -> Onboarded:
        """Returns for each budget, and of the baselines."""
        return onboard(self, params, seed, config, progress, warn)


def make_task(config: RunConfig, goal: int, overrides: Overrides) -> Reinforcement:
    """Builds one agent's environment, policy and sampler; its attack finds no colluders yet.

    Args:
        config: The run's settings.
        goal: Agent id = goal, a training or a held-out one.
        overrides: What this agent changes for itself.

    Raises:
        UnknownName: No such family or policy.
        UnknownGoal: The family has no such goal; the message names the range.
        TypeError, ValueError: An argument of family or policy is wrong, or observations are too large for the
            fits that are asked for; the message names it.
    """
    family = make_family(config.environment)
    environment = family.make(goal, overrides.args)
    policy = make_policy(config.policy, environment.spaces)
    settings = effective_algorithm(config.algorithm, overrides)
    if settings.adapt_baseline is None:
        settings = msgspec.structs.replace(settings, adapt_baseline=family.adapt_baseline)
    completeness = 1.0 if overrides.completeness is None else overrides.completeness
    sample = _sampler(environment, policy)
    task = Reinforcement(goal, environment, policy, sample, settings, completeness, overrides.attack)
    if task.fits_values:
        regression(environment.spaces)
    return task


def _sampler(environment: Mdp, policy: Policy) -> BaseSampler:
    if isinstance(environment, EpisodicEnvironment):
        return EpisodeSampler(environment, policy)
    if not isinstance(environment, Environment):
        raise TypeError(f"{type(environment).__name__} lacks methods of edge_fed.envs.base.Environment")
    return Sampler(environment, policy)


def blueprint(config: RunConfig) -> Blueprint:
    """The shape of the family's tasks and of the policy.

    Raises:
        UnknownName, TypeError, ValueError: As `make_task`.
    """
    family = make_family(config.environment)
    spaces = family.make(0).spaces
    policy = make_policy(config.policy, spaces)
    return Blueprint(
        config.environment.family,
        family.num_train,
        family.num_held_out,
        policy.dimension,
        policy.description,
        policy.initial,
        "dp" if is_tabular(spaces, policy) else "mc",
    )
