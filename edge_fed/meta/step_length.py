"""Whether an inner step leads to a policy that its gradient knows little of (methods.md 7).

A gradient tells what changes near theta. Two figures tell how near theta + alpha g still is: the divergence
of the two policies where the first one goes, and the length of the step beside that of theta.

The second is no yardstick where theta starts at 0, as the table of `softmax` does: every step from there is
longer than theta, and soon after most are. The divergence speaks for such policies alone.
"""

import math

import msgspec
import numpy as np

from edge_fed.envs.gymnasium import EpisodicEnvironment
from edge_fed.meta.base import Task
from edge_fed.meta.guard import norm
from edge_fed.params import F8
from edge_fed.policies.base import Policy
from edge_fed.policies.softmax import Softmax
from edge_fed.rollouts import Trajectories
from edge_fed.spaces import States

FAR = 0.5  # nats
LOOKED_AT = 32  # trajectories of a batch: they say enough, and cost little


class Step(msgspec.Struct, frozen=True):
    """One inner step.

    Attributes:
        kl: Mean of KL(pi(.|s; theta) || pi(.|s; theta + alpha g)) over visited states, in nats.
        length: ||alpha g||.
        yardstick: ||theta||; 0 where it is none.
    """

    kl: float
    length: float
    yardstick: float

    @property
    def longer(self) -> bool:
        """Whether it is longer than what it starts from."""
        return self.length > self.yardstick > 0

    @property
    def far(self) -> bool:
        """Whether a person should know; NaN is far, too."""
        return self.longer or not self.kl <= FAR


def step_between(policy: Policy, params: F8, adapted: F8, states: States, weights: F8) -> Step:
    """How far it is from ``params`` to ``adapted``, ``[d]`` each.

    Args:
        policy: Whose parameters they are.
        params: theta.
        adapted: theta + alpha g.
        states: Where theta goes, ``[H+1, m, *s]``.
        weights: How often, ``[H+1, m]``; 0 for what is no state.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # then the step is far, and that is all
        length = norm(adapted - params)
        yardstick = 0.0 if isinstance(policy, Softmax) else norm(params)
        if not math.isfinite(length):
            return Step(math.inf, length, yardstick)
        divergence, visited = policy.kl(params, adapted, states), weights > 0
        kl = float(np.average(divergence[visited], weights=weights[visited]))
    return Step(kl, length, yardstick)


def sampled_step(policy: Policy, params: F8, adapted: F8, batch: Trajectories) -> Step:
    """The same where the batch went of which the step was made, or the first of it."""
    states = batch.states[:, :LOOKED_AT]
    weights = np.ones(states.shape[:2]) if batch.mask is None else batch.mask[:, :LOOKED_AT]
    return step_between(policy, params, adapted, states, weights)


def warning(step: Step, task: Task, before: float, after: float) -> str:
    """What a person should know of a step that is far, and can do.

    Args:
        step: The first inner step of an adaptation.
        task: The agent's.
        before: Return without adaptation; NaN: unknown.
        after: Return with it.
    """
    beside = f" beside ||theta|| = {step.yardstick:.3g}" if step.longer else ""
    known = "" if math.isnan(before) else f"; return {before:.3g} before adaptation, {after:.3g} after it"
    shorter = ["inner_step_size"]
    if isinstance(task.environment, EpisodicEnvironment):
        shorter.append("reward_scale")
    centred = "" if task.settings.adapt_baseline == "loo" else ', or adapt_baseline = "loo"'
    return (
        f"the inner step leads far from the policy it is computed for: KL {step.kl:.3g} nats (limit "
        f"{FAR:g}), ||alpha g|| = {step.length:.3g}{beside}{known}. The paper takes it as it is: it may "
        f"help or hurt. To shorten it: a smaller {' or '.join(shorter)}{centred}; careful onboarding, the "
        "default, tries it first"
    )
