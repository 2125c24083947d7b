"""Control variates: a correction of local steps for runs in which few agents are asked per round.

    agent i:      theta_i <- theta_i + beta (direction + c - c_i)     tau times; c and c_i stay as they are
    after it:     c_i+ = c_i - c + delta_i / (tau beta)               delta_i = theta_i - theta
    the server:   c+   = c + (1/n) sum over the folded i of (c_i+ - c_i)

c_i is the mean direction that agent i found in its newest round, c the mean of all c_i: a round of few agents
moves about as all would, and local steps do not drift towards their agent. For descent, with the signs that
belong to it, this is SCAFFOLD (Karimireddy et al. 2020, algorithm 1, option II, server step size 1);
science.md 4 and mistake 31.

All start from zero, and n counts the agents that the run plans, whether or not they are there: one that has
not come yet has c_i = 0, one that is gone keeps its share of c. So after every round

    sum_i c_i = n c.

c_i+ - c_i = delta_i / (tau beta) - c: the server needs the updates alone. Both halves divide the same delta
by the same number, so that the invariant holds to rounding and the same bits come out in every runtime.

An agent that lost its state goes on with c_i = 0, but its old c_i would stay in c for good: a push in one
direction in every later round. Nobody has it any more, so after such a round all start from zero again.
"""

import msgspec
import numpy as np

from edge_fed.config import Algorithm, RunConfig, overrides_by_goal
from edge_fed.errors import NonFinite, ShapeError
from edge_fed.federated.aggregation import Fold
from edge_fed.meta.base import AgentState
from edge_fed.params import F8

OWN = "control_variate"
"""The name of c_i among the arrays of an agent's state."""


class ServerControl(msgspec.Struct, frozen=True):
    """The server's half.

    Attributes:
        value: c, ``[d]``, read-only.
        round_step: tau beta.
        agents: n.
    """

    value: F8
    round_step: float
    agents: int

    def after(self, fold: Fold) -> "ServerControl":
        """c+ after a folded round; ``fold`` is of the rule ``uniform``.

        Raises:
            NonFinite: It overflows; the round must be skipped.
        """
        with np.errstate(all="ignore"):  # refused by name below
            value = self.value + (fold.sum / self.round_step - fold.weight * self.value) / self.agents
        if not np.isfinite(value).all():
            raise NonFinite("the control variate of the run is not finite; a larger step size may help")
        return self.of(value)

    def restarted(self) -> "ServerControl":
        """With c = 0: what an agent lost is in this one."""
        return self.of(np.zeros_like(self.value))

    def of(self, value: F8) -> "ServerControl":
        """The same run's half with another c, which nobody may change from now on."""
        value.flags.writeable = False
        return msgspec.structs.replace(self, value=value)


def initial_control(config: RunConfig, dimension: int) -> ServerControl | None:
    """The half before round 1, with c = 0; None if the run has no correction."""
    if config.algorithm.correction == "none":
        return None
    zero = np.zeros(dimension)
    zero.flags.writeable = False
    return ServerControl(zero, round_step(config.algorithm), len(overrides_by_goal(config)))


def round_step(settings: Algorithm) -> float:
    """Tau beta: the step size of a whole round."""
    return settings.local_steps * settings.outer_step_size


def initial_own(settings: Algorithm, dimension: int) -> AgentState:
    """The part of an agent's state with c_i = 0; empty if the run has no correction."""
    return {} if settings.correction == "none" else {OWN: np.zeros(dimension)}


def reset_own(state: AgentState) -> AgentState:
    """The state with c_i = 0, and all else in it as it was."""
    return {**state, OWN: np.zeros_like(state[OWN])}


def correction(settings: Algorithm, state: AgentState, control: F8 | None, dimension: int) -> F8 | None:
    """What is added to every direction of a round: c - c_i, ``[d]``; None if the run has no correction.

    Raises:
        ShapeError: c or c_i is missing or not ``[dimension]``, or there is a c and no correction.
    """
    if settings.correction == "none":
        if control is not None:
            raise ShapeError("a control variate came, but the run has no correction")
        return None
    own = state.get(OWN)
    for name, array in (("c of the run", control), ("c_i of this agent", own)):
        if array is None or array.shape != (dimension,):
            found = None if array is None else array.shape
            raise ShapeError(f"the control variate {name} has shape {found}, needs ({dimension},)")
    assert control is not None and own is not None
    return control - own


def own_after(settings: Algorithm, delta: F8, shift: F8) -> F8:
    """c_i+ = c_i - c + delta / (tau beta), ``[d]``; not finite if that overflows.

    Args:
        settings: For tau and beta.
        delta: The agent's update, ``[d]``.
        shift: c - c_i, as `correction` gave it.
    """
    with np.errstate(all="ignore"):
        own: F8 = delta / round_step(settings) - shift
    return own
