"""Any Gymnasium environment as a family: `gymnasium`.

Description:
    Every goal is the same registered environment, or the same factory of the user, with other arguments.
    Gymnasium itself is imported when the first environment is made (extra ``gym``).

Action space:
    ``Discrete`` with any start and at most 1,000,000 actions, or a bounded ``Box`` of floats: the policy's
    sample is clipped to it here.

Observation space:
    ``Discrete`` with any start and at most 1,000,000 states, or ``Box`` of any dtype and any shape that holds
    a number, as float64.

Starting state:
    ``reset(seed=s)`` with a seed drawn for each episode from its batch's stream.

Rewards:
    ``step(a_t)`` returns r(s_t, a_t); it counts as ``reward_scale * (r + reward_shift)``. What an environment
    calls the reward of a step is taken as the reward of the state before it.

Episode end:
    After H+1 actions, or when ``terminated`` or ``truncated`` comes earlier; what follows counts nowhere. Of
    an episode that was only cut by time training may add an estimate of it (``bootstrap``).

Success:
    ``info["is_success"]``, a truth value or 0 or 1, at any step; none if ``success`` is false.

Arguments:
    id: E.g. ``CartPole-v1``, or ``module:factory`` of a Python file in the working directory.
    goals, held_out: Number of training goals and of held-out goals after them; default 6 and 3.
    env_args: Keyword arguments, the same for all goals or one for each: `edge_fed.envs.gymnasium.goal_args`.
    seed: Of the family, for what is drawn per goal; default 0.
    reward_scale, reward_shift, obs_scale: Fixed normalisation; default 1, 0 and 1. obs_scale may be a list.
    bootstrap: ``none``, the default: J is what is paid until the end by either flag, or the H+1st step.
        ``value``: the local steps of training climb another J, with an estimate of what a cut episode would
        still have paid (`edge_fed.meta.bootstrap`); both of their batches hold it, also that of the inner
        step. Everything else counts what is paid, for it has learned no such estimate: adaptation, evaluation
        and onboarding. A newcomer's inner step hence climbs another J than those that its initialization was
        trained for, and returns compare with those of ``none``. Needs a discount below 1; no devices train.
        The estimate stays within what rewards seen so far could add up to.
    success: Whether there is a notion of success; default: whether a probe episode of goal 0 reports one.
"""

import contextlib
import functools
import importlib.util
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from edge_fed.arguments import read_args
from edge_fed.config import EnvironmentConfig
from edge_fed.envs.gymnasium.episodic import EpisodicEnvironment
from edge_fed.envs.gymnasium.goal_args import goal_args, insist
from edge_fed.envs.gymnasium.play import Play
from edge_fed.errors import UnknownGoal
from edge_fed.spaces import Spaces
from edge_fed.user_code import USER_FAULTS

__all__ = ["EpisodicEnvironment", "Gymnasium", "GymnasiumArgs", "bootstraps", "read_settings"]

Real = Annotated[float, Meta(ge=-1e9, le=1e9)]


class GymnasiumArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of the family, see the head of this file."""

    id: str
    goals: Annotated[int, Meta(ge=1, le=10_000)] = 6
    held_out: Annotated[int, Meta(ge=0, le=10_000)] = 3
    env_args: dict[str, Any] = {}
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    reward_scale: Real = 1.0
    reward_shift: Real = 0.0
    obs_scale: float | tuple[float, ...] = 1.0  # without bounds: see edge_fed.envs.drawn.Range
    bootstrap: Literal["none", "value"] = "none"
    success: bool | None = None


class Gymnasium:
    """The family of one environment's variants.

    Raises:
        ValueError: An argument is wrong, gymnasium is not installed, or goal 0 cannot be made or used.
    """

    name = "gymnasium"
    adapt_baseline: Literal["none", "loo"] = "loo"

    def __init__(self, horizon: int, discount: float, args: dict[str, Any]) -> None:
        self.horizon = horizon
        self.discount = discount
        self.args = dict(args)
        self.settings = read_settings(args)
        if self.settings.bootstrap == "value" and discount == 1:
            raise ValueError(
                "gymnasium argument 'bootstrap': 'value' needs a discount below 1, nothing else bounds what "
                "follows a cut; lower environment.discount, or leave it out"
            )
        self.num_train = self.settings.goals
        self.num_held_out = self.settings.held_out
        if importlib.util.find_spec("gymnasium") is None:
            raise ValueError("family 'gymnasium' needs gymnasium: pip install 'edge-fed[gym]'")
        self._insist_on_scale(_spaces(msgspec.json.encode(self.settings)))

    def make(self, goal: int, args: dict[str, Any] | None = None) -> EpisodicEnvironment:
        """One goal's environment; ``args`` go over the family's, those of ``env_args`` one by one."""
        if args:
            both = {**self.args, **args}
            if isinstance(args.get("env_args"), dict):
                both["env_args"] = {**self.settings.env_args, **args["env_args"]}
            return Gymnasium(self.horizon, self.discount, both).make(goal)
        count = self.num_train + self.num_held_out
        if not 0 <= goal < count:
            raise UnknownGoal(f"{self.name} has goals 0 to {count - 1}, not {goal}")
        return _environment(self.settings, goal, self.horizon, self.discount, self.reports_success)

    def model(self, goal: int, args: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """None: nobody knows its arrays."""
        return None

    def goal_args(self, goal: int) -> dict[str, Any]:
        """The keyword arguments of one goal's environment."""
        return goal_args(self.settings.env_args, goal, self.settings.seed)

    def reports_success(self) -> bool:
        """``success``, or else whether one episode of goal 0 under random actions mentions it."""
        if self.settings.success is not None:
            return self.settings.success
        return _mentions_success(msgspec.json.encode(self.settings), self.horizon)

    def _insist_on_scale(self, spaces: Spaces) -> None:
        scale, shape = self.settings.obs_scale, spaces.observation_shape
        if scale == 1.0:
            return
        if spaces.num_states is not None:
            raise ValueError("gymnasium argument 'obs_scale': observations are Discrete, leave it out")
        if isinstance(scale, tuple) and (len(scale),) != shape:
            raise ValueError(
                f"gymnasium argument 'obs_scale': {len(scale)} numbers, but observations have shape {shape}"
            )


def read_settings(args: dict[str, Any]) -> GymnasiumArgs:
    """The family's arguments; makes no environment.

    Raises:
        ValueError: One is wrong; the message names it.
    """
    settings = read_args(GymnasiumArgs, args, Gymnasium.name)
    insist(settings.env_args, settings.goals + settings.held_out)
    return settings


def bootstraps(environment: EnvironmentConfig, args: Mapping[str, Any]) -> bool:
    """Whether agents with these ``args`` over the run's train with ``bootstrap = "value"``."""
    both = {**environment.args, **args}
    return environment.family == Gymnasium.name and both.get("bootstrap") == "value"


def _environment(
    settings: GymnasiumArgs, goal: int, horizon: int, discount: float, reports_success: Any
) -> EpisodicEnvironment:
    kwargs = goal_args(settings.env_args, goal, settings.seed)

    def make() -> Any:
        from edge_fed.envs.gymnasium.instance import Instance, Scales
        from edge_fed.envs.gymnasium.making import make_env

        scale = None if settings.obs_scale == 1.0 else np.array(settings.obs_scale, dtype=np.float64)
        scales = Scales(settings.reward_scale, settings.reward_shift, scale)
        env = make_env(settings.id, kwargs)
        try:
            return Instance(env, scales)
        except ValueError as error:
            with contextlib.suppress(*USER_FAULTS):
                env.close()
            raise ValueError(f"gymnasium argument 'id': {settings.id}: {error}") from None

    name = f"agent {goal} ({settings.id}{''.join(f', {k}={v!r}' for k, v in kwargs.items())})"
    bootstrap = settings.bootstrap == "value"
    return EpisodicEnvironment(name, horizon, discount, make, reports_success, bootstrap)


# A server asks for the family whenever an agent registers: equal settings are tried out once.
@functools.lru_cache(maxsize=16)
def _spaces(settings: bytes) -> Spaces:
    environment = _probe(settings, horizon=1)
    try:
        return environment.spaces
    finally:
        environment.close()


@functools.lru_cache(maxsize=16)
def _mentions_success(settings: bytes, horizon: int) -> bool:
    environment = _probe(settings, horizon)
    try:
        with environment.instances(1) as (instance,):
            return Play(instance, 0, horizon).episode().success is not None
    finally:
        environment.close()


def _probe(settings: bytes, horizon: int) -> EpisodicEnvironment:
    """Goal 0's environment."""
    found = msgspec.json.decode(settings, type=GymnasiumArgs)
    return _environment(found, 0, horizon, 1.0, lambda: False)
